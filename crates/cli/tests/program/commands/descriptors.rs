//! The real program under a lowered limit of open files.

use std::io::Read;
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

// Of 300 files, 57 are for callers. Three hundred idle connections leave the program able to say so.
#[test]
fn a_full_program_answers_503_and_its_health_check() {
    let mock = MockProcess::start(&[]);
    // 57 are fewer than configured, and the banner says so.
    let program = LimitedProgram::start("ulimit -n 300", &mock.config("limits = [\"1000/s\"]"));
    let idle: Vec<_> = (0..57).map(|_| program.connect()).collect();
    let mut rejected = program.connect();
    let mut answer = String::new();
    rejected.read_to_string(&mut answer).expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
    assert!(answer.contains("urn:outflow:problem:too_many_connections"), "{answer}");
    let more: Vec<_> = (0..250).map(|_| program.connect()).collect();
    assert_eq!(fetch(&format!("{}/healthz", program.admin)).0, 200);
    drop((idle, more));
    // A rejection may arrive as a reset, until the program has noticed that the others are gone.
    let served = || try_fetch(&format!("{}/up/a", program.calls)).is_ok_and(|(status, _)| status == 200);
    assert!((0..200).any(|_| served()), "places are given back");
}
