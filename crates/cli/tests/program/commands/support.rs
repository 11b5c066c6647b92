//! Helpers that run the program and send requests to its ports.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use outflow_testkit::Process;
use serde_json::Value;
use tempfile::TempDir;

use crate::support::PATIENCE;

/// Builds a command whose environment holds only `PATH` and the variables of the test.
pub(crate) fn command(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_outflow"));
    command
        .args(arguments)
        .current_dir(folder)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default());
    command
}

/// Runs the program to its end in a folder.
pub(crate) fn run_in(folder: &Path, arguments: &[&str]) -> RunOutput {
    let output = command(folder, arguments).output();
    RunOutput::new(output.expect("the program starts"))
}

/// Runs the program to its end in an empty folder.
pub(crate) fn run(arguments: &[&str]) -> RunOutput {
    run_in(folder().path(), arguments)
}

/// Creates a folder that is removed with the test.
pub(crate) fn folder() -> TempDir {
    tempfile::tempdir().expect("a folder")
}

/// Creates a folder with a configuration.
pub(crate) fn configured(text: &str) -> TempDir {
    let folder = folder();
    std::fs::write(folder.path().join("outflow.toml"), text).expect("writable");
    folder
}

/// Result of a finished run.
#[derive(Debug)]
pub(crate) struct RunOutput {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) talk: String,
}

impl RunOutput {
    pub(crate) fn new(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).expect("text");
        Self {
            code: output.status.code(),
            out: text(output.stdout),
            talk: text(output.stderr),
        }
    }

    /// Returns the printed document after a check of the exit code.
    pub(crate) fn json(&self, code: i32) -> Value {
        assert_eq!(self.code, Some(code), "{self:?}");
        serde_json::from_str(&self.out).expect("one document")
    }
}

/// A mock API in its own process, and its URL.
pub(crate) struct MockProcess {
    pub(crate) process: Process,
    pub(crate) url: String,
}

impl MockProcess {
    pub(crate) fn start(flags: &[&str]) -> Self {
        let mut arguments = vec!["mock", "--port", "0", "--json"];
        arguments.extend_from_slice(flags);
        let mut process = Process::start(command(Path::new("/"), &arguments)).expect("the program starts");
        let line = process.wait_for_line("mock API at", PATIENCE);
        let line = line.expect("it says where it is");
        let url = line.split(' ').find(|word| word.starts_with("http"));
        let url = url.expect("a URL").to_owned();
        Self { process, url }
    }

    /// Renders a configuration for it.
    pub(crate) fn config(&self, more: &str) -> String {
        format!("[apis.up]\nbase_url = \"{}\"\n{more}\n", self.url)
    }

    /// Terminates it and returns its report.
    pub(crate) fn end(mut self) -> Value {
        self.process.terminate().expect("a signal");
        let ended = self.process.wait(PATIENCE).expect("it ends");
        assert_eq!(ended.code(), Some(0));
        document(&mut self.process)
    }
}

/// Returns the document that a process printed.
pub(crate) fn document(process: &mut Process) -> Value {
    use outflow_testkit::Output::Out;
    process
        .wait_for_line("\u{0}", Duration::from_millis(100))
        .expect_err("no line holds that, but all lines are read on the way");
    let lines = process.lines().iter().filter(|line| line.to == Out);
    let text: Vec<_> = lines.map(|line| line.text.as_str()).collect();
    serde_json::from_str(&text.join("\n")).expect("one document")
}

/// Sends a GET on its own connection and returns the status and the whole response.
pub(crate) fn fetch(url: &str) -> (u16, String) {
    try_fetch(url).expect("answered")
}

/// Sends a GET to a program that may close the connection without a response.
pub(crate) fn try_fetch(url: &str) -> io::Result<(u16, String)> {
    let rest = url.strip_prefix("http://").expect("plain");
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    let mut stream = TcpStream::connect(host)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let request = format!("GET /{path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let status = answer.get(9..12).and_then(|code| code.parse().ok());
    let status = status.ok_or(io::ErrorKind::UnexpectedEof)?;
    Ok((status, answer))
}
