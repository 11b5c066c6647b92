//! A peer that is a program: it obeys orders, one a line, and says when each is done.
//!
//! The watch stays here: what a peer says of its own speed is not believed. A peer that fails ends, which
//! closes its output, so that a missing answer is told as a failure with the peer's own last words.

use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;
use std::process::{ChildStdin, ChildStdout, Command};
use std::time::Duration;

use outflow_testkit::Process;

use crate::proxies::installed;

/// A peer while it runs; it ends when this is dropped.
pub(crate) struct Program {
    process: Process,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Program {
    /// A script for Node, with the packages that `cargo xtask bench` installed.
    ///
    /// # Errors
    /// If Node or the packages are not installed.
    pub(crate) fn node(script: &str, words: &[&str]) -> io::Result<Self> {
        let packages = installed(PACKAGES);
        if !packages.is_dir() {
            return Err(io::Error::other("its packages were not installed by npm"));
        }
        let mut command = Command::new("node");
        command.env("NODE_PATH", packages);
        command.arg(Path::new(SCRIPTS).join(script)).args(words);
        Self::start(command)
    }

    /// A program of the peers' own crate, which lies beside this one.
    ///
    /// # Errors
    /// If it was not built.
    pub(crate) fn beside(name: &str, words: &[&str]) -> io::Result<Self> {
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
        program.hear("ready")?;
        Ok(program)
    }

    /// Gives an order and waits until it is obeyed; the words behind the answer.
    ///
    /// # Errors
    /// If the program ended instead.
    pub(crate) fn obey(&mut self, order: &str) -> io::Result<String> {
        self.order(order)?;
        self.obeyed()
    }

    /// Gives an order without waiting.
    ///
    /// # Errors
    /// If the program has ended.
    pub(crate) fn order(&mut self, order: &str) -> io::Result<()> {
        writeln!(self.orders, "{order}")?;
        self.orders.flush()
    }

    /// Waits until the last order is obeyed; the words behind the answer.
    ///
    /// # Errors
    /// If the program ended instead.
    pub(crate) fn obeyed(&mut self) -> io::Result<String> {
        self.hear("done")
    }

    fn hear(&mut self, word: &str) -> io::Result<String> {
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        match line.trim_end().strip_prefix(word) {
            Some(rest) => Ok(rest.trim_start().to_owned()),
            None => Err(self.last_words()),
        }
    }

    fn last_words(&mut self) -> io::Error {
        let lines = self.process.last_lines(PATIENCE);
        let mut words: Vec<_> = lines.iter().rev().take(3).map(|line| &*line.text).collect();
        words.reverse();
        io::Error::other(format!("it ended: {}", words.join(" / ")))
    }
}

/// Where `cargo xtask bench` has npm install what the scripts need.
const PACKAGES: &str = "peers-node/node_modules";

/// The scripts, as they lie in the tree.
const SCRIPTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/peers/node");

/// For the last words of a program that has closed its output already.
const PATIENCE: Duration = Duration::from_secs(2);
