//! A peer that is a program: it reads one command a line, and prints a line when each is done.
//!
//! The benchmark measures the time, never the peer. A peer that fails ends, which closes its output, so a
//! missing answer is reported as a failure with the peer's last output.

use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;
use std::process::{ChildStdin, ChildStdout, Command};
use std::time::Duration;

use outflow_testkit::Process;

use crate::proxies::installed;

/// A running peer; it ends when this is dropped.
pub(crate) struct Program {
    process: Process,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Program {
    /// Starts a script on Node, with the packages that `cargo xtask bench` installed.
    ///
    /// # Errors
    /// If Node or the packages are not installed.
    pub(crate) fn node(script: &str, words: &[&str]) -> io::Result<Self> {
        let packages = installed(PACKAGES);
        if !packages.is_dir() {
            return Err(io::Error::other("npm did not install its packages"));
        }
        let mut command = Command::new("node");
        command.env("NODE_PATH", packages);
        command.arg(Path::new(SCRIPTS).join(script)).args(words);
        Self::start(command)
    }

    /// Starts a program of the peers' crate, which is built next to this one.
    ///
    /// # Errors
    /// If it was not built.
    pub(crate) fn sibling(name: &str, words: &[&str]) -> io::Result<Self> {
        let mut command = Command::new(std::env::current_exe()?.with_file_name(name));
        command.args(words);
        Self::start(command)
    }

    fn start(command: Command) -> io::Result<Self> {
        let (process, orders, answers) = Process::start_talking(command)?;
        let mut program = Self {
            process,
            orders,
            answers: BufReader::new(answers),
        };
        program.read_line("ready")?;
        Ok(program)
    }

    /// Sends a command and waits for its answer; returns the words after `done`.
    ///
    /// # Errors
    /// If the program ended instead.
    pub(crate) fn run(&mut self, send: &str) -> io::Result<String> {
        self.send(send)?;
        self.wait_done()
    }

    /// Sends a command without waiting.
    ///
    /// # Errors
    /// If the program has ended.
    pub(crate) fn send(&mut self, send: &str) -> io::Result<()> {
        writeln!(self.orders, "{send}")?;
        self.orders.flush()
    }

    /// Waits for the answer to the last command; returns the words after `done`.
    ///
    /// # Errors
    /// If the program ended instead.
    pub(crate) fn wait_done(&mut self) -> io::Result<String> {
        self.read_line("done")
    }

    fn read_line(&mut self, word: &str) -> io::Result<String> {
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        match line.trim_end().strip_prefix(word) {
            Some(rest) => Ok(rest.trim_start().to_owned()),
            None => Err(self.last_words()),
        }
    }

    fn last_words(&mut self) -> io::Error {
        let lines = self.process.last_lines(WAIT_LIMIT);
        let mut words: Vec<_> = lines.iter().rev().take(3).map(|line| &*line.text).collect();
        words.reverse();
        io::Error::other(format!("it ended: {}", words.join(" / ")))
    }
}

/// Folder of the npm packages that `cargo xtask bench` installs.
const PACKAGES: &str = "peers-node/node_modules";

/// Folder of the scripts in the tree.
const SCRIPTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/peers/node");

/// Time to collect the last output of a program that has closed it.
const WAIT_LIMIT: Duration = Duration::from_secs(2);
