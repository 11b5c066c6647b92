//! Command lines of other programs, run from the root of the repository with visible output.
//!
//! Each line is printed before it runs, so that a reader can copy it and run one step by hand.
//! An error names the command line that failed.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// Program, arguments and extra environment of one process.
#[derive(Clone)]
pub(crate) struct CommandLine {
    program: String,
    args: Vec<String>,
    env: Vec<(String, String)>,
}

impl CommandLine {
    /// Builds a call of `program` with `args`.
    pub(crate) fn new<W: AsRef<str>>(program: &str, args: impl IntoIterator<Item = W>) -> Self {
        Self {
            program: program.to_owned(),
            args: Vec::new(),
            env: Vec::new(),
        }
        .args(args)
    }

    /// Splits `line` at single spaces; the first word is the program.
    pub(crate) fn parse(line: &str) -> Self {
        let mut words = line.split(' ');
        let program = words.next().unwrap_or_default();
        Self::new(program, words)
    }

    /// Builds a call of cargo; single spaces separate the arguments.
    pub(crate) fn cargo(args: &str) -> Self {
        Self::new("cargo", args.split(' '))
    }

    /// Appends arguments.
    pub(crate) fn args<W: AsRef<str>>(mut self, args: impl IntoIterator<Item = W>) -> Self {
        self.args.extend(args.into_iter().map(|arg| arg.as_ref().to_owned()));
        self
    }

    /// Sets one environment variable.
    pub(crate) fn env(mut self, key: &str, value: impl Into<String>) -> Self {
        self.env.push((key.to_owned(), value.into()));
        self
    }

    /// Prints the command line, runs it and returns an error if it fails.
    pub(crate) fn run(&self) -> Result<()> {
        eprintln!("$ {self}");
        let status = self.to_command().status().with_context(|| self.start_error())?;
        if !status.success() {
            bail!("`{self}` failed ({status}): its messages are above");
        }
        Ok(())
    }

    /// Runs the command line silently and returns its standard output.
    pub(crate) fn output(&self) -> Result<String> {
        let output = self.to_command().output().with_context(|| self.start_error())?;
        if !output.status.success() {
            let messages = String::from_utf8_lossy(&output.stderr);
            bail!("`{self}` failed: {}", messages.trim());
        }
        String::from_utf8(output.stdout).with_context(|| format!("`{self}` printed invalid UTF-8"))
    }

    /// Runs the command line silently; returns true if it starts and succeeds.
    pub(crate) fn succeeds(&self) -> bool {
        self.to_command()
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|status| status.success())
    }

    fn start_error(&self) -> String {
        format!("cannot start `{}`: is it installed?", self.program)
    }

    fn to_command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command
            .args(&self.args)
            .envs(self.env.iter().map(|(key, value)| (key, value)))
            .current_dir(repository_root())
            .stdin(Stdio::null());
        command
    }
}

impl fmt::Display for CommandLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (key, value) in &self.env {
            write!(f, "{key}={value:?} ")?;
        }
        f.write_str(&self.program)?;
        self.args.iter().try_for_each(|arg| write!(f, " {arg}"))
    }
}

/// Returns the root of the repository that this program was built from.
pub(crate) fn repository_root() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.parent().unwrap_or(manifest).to_owned()
}

/// Returns true on a CI machine (`CI=true`), where a skipped check is an error.
pub(crate) fn is_ci() -> bool {
    std::env::var_os("CI").is_some_and(|value| value == "true")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_the_failed_command_line() {
        let command = CommandLine::cargo("no-such-command --flag").env("KEY", "v");
        let error = command.output().expect_err("cargo has no such command");
        let shown = error.to_string();
        assert!(
            shown.starts_with("`KEY=\"v\" cargo no-such-command --flag` failed"),
            "{shown}"
        );
    }

    #[test]
    fn a_missing_program_does_not_succeed() {
        assert!(!CommandLine::parse("outflow-no-such-program --version").succeeds());
    }
}
