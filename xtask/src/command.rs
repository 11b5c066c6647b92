//! Other programs, run from the root of the tree with their output in view.
//!
//! Each is shown before it runs, so that whoever wants to run one step by hand can copy the line.
//! A failure names the line that failed and is never swallowed.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// One call of another program.
pub(crate) struct Program {
    name: String,
    args: Vec<String>,
    env: Vec<(String, String)>,
}

impl Program {
    /// A call of `name` with these words behind it.
    pub(crate) fn new<W: AsRef<str>>(name: &str, words: impl IntoIterator<Item = W>) -> Self {
        Self {
            name: name.to_owned(),
            args: Vec::new(),
            env: Vec::new(),
        }
        .args(words)
    }

    /// A call of cargo, its arguments separated by single spaces.
    pub(crate) fn cargo(line: &str) -> Self {
        Self::new("cargo", line.split(' '))
    }

    /// The same call with more words behind it.
    pub(crate) fn args<W: AsRef<str>>(mut self, words: impl IntoIterator<Item = W>) -> Self {
        self.args
            .extend(words.into_iter().map(|word| word.as_ref().to_owned()));
        self
    }

    /// The same call with a variable in its environment.
    pub(crate) fn env(mut self, key: &str, value: impl Into<String>) -> Self {
        self.env.push((key.to_owned(), value.into()));
        self
    }

    /// Shows the line, runs it and fails if it fails.
    pub(crate) fn run(&self) -> Result<()> {
        eprintln!("$ {self}");
        let status = self
            .prepared()
            .status()
            .with_context(|| format!("cannot start `{}`: is it installed?", self.name))?;
        if !status.success() {
            bail!("`{self}` failed ({status}): its own messages are above");
        }
        Ok(())
    }

    /// What it prints, without showing it.
    pub(crate) fn output(&self) -> Result<String> {
        let output = self
            .prepared()
            .output()
            .with_context(|| format!("cannot start `{}`: is it installed?", self.name))?;
        if !output.status.success() {
            let words = String::from_utf8_lossy(&output.stderr);
            bail!("`{self}` failed: {}", words.trim());
        }
        String::from_utf8(output.stdout).with_context(|| format!("`{self}` printed no text"))
    }

    /// True if it can be started and succeeds; all output is dropped.
    pub(crate) fn succeeds(&self) -> bool {
        self.prepared()
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|status| status.success())
    }

    fn prepared(&self) -> Command {
        let mut command = Command::new(&self.name);
        command
            .args(&self.args)
            .envs(self.env.iter().map(|(key, value)| (key, value)))
            .current_dir(root())
            .stdin(Stdio::null());
        command
    }
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (key, value) in &self.env {
            write!(f, "{key}={value:?} ")?;
        }
        f.write_str(&self.name)?;
        self.args.iter().try_for_each(|word| write!(f, " {word}"))
    }
}

/// The root of the tree that this program was built from.
pub(crate) fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_owned()
}

/// True where a machine checks the change rather than a person.
pub(crate) fn is_ci() -> bool {
    std::env::var_os("CI").is_some_and(|value| value == "true")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_names_the_line_that_failed() {
        let program = Program::cargo("no-such-command --flag").env("KEY", "v");
        let error = program.output().expect_err("cargo knows no such command");
        let shown = error.to_string();
        assert!(
            shown.starts_with("`KEY=\"v\" cargo no-such-command --flag` failed"),
            "{shown}"
        );
    }

    #[test]
    fn a_program_that_is_not_there_does_not_succeed() {
        assert!(!Program::new("outflow-no-such-program", ["--version"]).succeeds());
    }
}
