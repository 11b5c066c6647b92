//! Running the program, and talking to what it serves.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use outflow_testkit::Process;
use serde_json::Value;
use tempfile::TempDir;

use crate::support::PATIENCE;

/// The program with nothing of the environment but what a test gives it.
pub(crate) fn command(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_outflow"));
    command
        .args(arguments)
        .current_dir(folder)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default());
    command
}

/// Runs it to its end in a folder.
pub(crate) fn run_in(folder: &Path, arguments: &[&str]) -> Ran {
    let output = command(folder, arguments).output();
    Ran::of(output.expect("the program starts"))
}

/// Runs it to its end where there are no files.
pub(crate) fn run(arguments: &[&str]) -> Ran {
    run_in(folder().path(), arguments)
}

/// A folder that goes with the test.
pub(crate) fn folder() -> TempDir {
    tempfile::tempdir().expect("a folder")
}

/// A folder with a configuration in it.
pub(crate) fn configured(text: &str) -> TempDir {
    let folder = folder();
    std::fs::write(folder.path().join("outflow.toml"), text).expect("writable");
    folder
}

/// What a run left behind.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) talk: String,
}

impl Ran {
    pub(crate) fn of(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).expect("text");
        Self {
            code: output.status.code(),
            out: text(output.stdout),
            talk: text(output.stderr),
        }
    }

    /// The document that it printed, if it ended so.
    pub(crate) fn json(&self, code: i32) -> Value {
        assert_eq!(self.code, Some(code), "{self:?}");
        serde_json::from_str(&self.out).expect("one document")
    }
}

/// A strict API of its own, and where it is.
pub(crate) struct Upstream {
    pub(crate) process: Process,
    pub(crate) url: String,
}

impl Upstream {
    pub(crate) fn start(flags: &[&str]) -> Self {
        let mut arguments = vec!["mock", "--port", "0", "--json"];
        arguments.extend_from_slice(flags);
        let mut process =
            Process::start(command(Path::new("/"), &arguments)).expect("the program starts");
        let line = process.wait_for_line("mock API at", PATIENCE);
        let line = line.expect("it says where it is");
        let url = line.split(' ').find(|word| word.starts_with("http"));
        let url = url.expect("a URL").to_owned();
        Self { process, url }
    }

    /// A configuration for it.
    pub(crate) fn config(&self, more: &str) -> String {
        format!("[apis.up]\nbase_url = \"{}\"\n{more}\n", self.url)
    }

    /// Ends it; what it saw.
    pub(crate) fn end(mut self) -> Value {
        self.process.terminate().expect("a signal");
        let ended = self.process.wait(PATIENCE).expect("it ends");
        assert_eq!(ended.code(), Some(0));
        document(&mut self.process)
    }
}

/// The document that a process printed.
pub(crate) fn document(process: &mut Process) -> Value {
    use outflow_testkit::Output::Out;
    process
        .wait_for_line("\u{0}", Duration::from_millis(100))
        .expect_err("no line holds that, but all lines are read on the way");
    let lines = process.lines().iter().filter(|line| line.to == Out);
    let text: Vec<_> = lines.map(|line| line.text.as_str()).collect();
    serde_json::from_str(&text.join("\n")).expect("one document")
}

/// A GET over a connection of its own: the status and all that came.
pub(crate) fn fetch(url: &str) -> (u16, String) {
    let rest = url.strip_prefix("http://").expect("plain");
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    let mut stream = TcpStream::connect(host).expect("somebody listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("settable");
    let request = format!("GET /{path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("answered");
    let status = answer.get(9..12).and_then(|code| code.parse().ok());
    (status.expect("a status"), answer)
}
