//! The real program under a lowered limit of open files.

use std::net::TcpStream;
use std::process::Command;

use outflow_testkit::Process;
use tempfile::TempDir;

use super::support::{MockProcess, configured, fetch, try_fetch};
use crate::support::PATIENCE;

/// Program under these limits.
struct LimitedProgram {
    _process: Process,
    _folder: TempDir,
    calls: String,
    admin: String,
}

impl LimitedProgram {
    fn start(limits: &str, config: &str) -> Self {
        let folder = configured(config);
        let program = env!("CARGO_BIN_EXE_outflow");
        let line = format!("{limits} && exec '{program}' serve --listen :0 --admin :0");
        let mut command = Command::new("sh");
        command.args(["-c", &line]).current_dir(folder.path());
        let mut process = Process::start(command).expect("it starts");
        let mut find_url = |what: &str| {
            let line = process.wait_for_line(what, PATIENCE).expect("a banner");
            let url = line.split_whitespace().nth(1).expect("a URL");
            url.trim_end_matches("/NAME/PATH").trim_end_matches('/').to_owned()
        };
        let (calls, admin) = (find_url("calls "), find_url("operation "));
        Self {
            _process: process,
            _folder: folder,
            calls,
            admin,
        }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.calls.trim_start_matches("http://")).expect("it listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
        stream
    }
}

// The soft limit of 64 files would be full after 50 idle connections; the hard one allows 576.
#[test]
fn the_program_raises_its_limit_of_open_files() {
    let mock = MockProcess::start(&[]);
    let program = LimitedProgram::start(
        "ulimit -Sn 64 && ulimit -Hn 1024",
        &mock.config("limits = [\"1000/s\"]"),
    );
    let idle: Vec<_> = (0..300).map(|_| program.connect()).collect();
    assert_eq!(fetch(&format!("{}/up/a", program.calls)).0, 200);
    assert_eq!(fetch(&format!("{}/healthz", program.admin)).0, 200);
    drop(idle);
}

// Of 300 files, 57 are for callers. Three hundred idle connections leave the program able to serve calls.
#[test]
fn a_full_program_makes_room_and_answers_its_health_check() {
    let mock = MockProcess::start(&[]);
    // 57 are fewer than configured, and the banner says so. The timeout for heads would free places, too.
    let config = mock.config("limits = [\"1000/s\"]") + "\n[server]\nheader_timeout = \"5m\"\n";
    let program = LimitedProgram::start("ulimit -n 300", &config);
    let idle: Vec<_> = (0..300).map(|_| program.connect()).collect();
    assert_eq!(fetch(&format!("{}/healthz", program.admin)).0, 200);
    // A connection is idle after a moment. Until then a rejection may arrive as a reset.
    let served = || try_fetch(&format!("{}/up/a", program.calls)).is_ok_and(|(status, _)| status == 200);
    assert!((0..5_000).any(|_| served()), "idle connections make room");
    drop(idle);
}
