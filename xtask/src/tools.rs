//! Tools outside the Rust toolchain: how to detect and install them.
//!
//! A missing tool is installed. If that fails, a developer's run prints `SKIPPED` and goes on without
//! the tool; in CI it is an error, so that a green run never hides a skipped check.

mod cargo_tools;
mod proxies;
mod queues;
mod test_tools;

use std::fmt;

use anyhow::{Result, bail};

use crate::command::{CommandLine, is_ci};

pub(crate) use cargo_tools::{CARGO_DENY, CARGO_FUZZ, CARGO_MUTANTS, NEXTEST};
pub(crate) use proxies::{FULL_RUN_PROXIES, PROXIES};
pub(crate) use queues::QUEUES;
pub(crate) use test_tools::{CLIENT_TOOLS, SERVER_TOOLS};

/// A program or package that a command needs.
#[derive(Clone, Copy)]
pub(crate) struct ToolRequirement {
    /// Name in messages.
    name: &'static str,
    /// Command lines of which one succeeds if the tool is installed.
    probes: StaticLines,
    /// Source of the tool.
    install: InstallMethod,
    /// Tool that the installation itself needs.
    installer: Option<&'static ToolRequirement>,
    /// Loss without the tool.
    reason: &'static str,
}

type StaticLines = &'static [&'static str];

/// Source of an installation.
#[derive(Clone, Copy)]
enum InstallMethod {
    /// A package of Debian or Ubuntu.
    AptPackage(&'static str),
    /// Command lines in order, each of which must succeed.
    Commands(StaticLines),
}

impl ToolRequirement {
    /// Declares a tool in a package of Debian or Ubuntu.
    const fn apt(name: &'static str, probes: StaticLines, package: &'static str, reason: &'static str) -> Self {
        Self {
            install: InstallMethod::AptPackage(package),
            ..Self::commands(name, probes, &[], reason)
        }
    }

    /// Declares a tool that command lines install.
    const fn commands(name: &'static str, probes: StaticLines, lines: StaticLines, reason: &'static str) -> Self {
        Self {
            name,
            probes,
            install: InstallMethod::Commands(lines),
            installer: None,
            reason,
        }
    }

    const fn installed_by(self, installer: &'static ToolRequirement) -> Self {
        Self {
            installer: Some(installer),
            ..self
        }
    }

    /// Installs the tool if it is missing. Returns false if it stays missing, which is an error in CI.
    pub(crate) fn ensure_installed(&self) -> Result<bool> {
        self.ensure_installed_in(RunContext::current())
    }

    fn ensure_installed_in(&self, context: RunContext) -> Result<bool> {
        if self.is_installed() {
            return Ok(true);
        }
        if let Some(installer) = self.installer {
            installer.ensure_installed_in(context)?;
        }
        eprintln!("installing {}: {}", self.name, self.reason);
        let problem = match self.install_now() {
            Ok(()) if self.is_installed() => return Ok(true),
            Ok(()) => "the installation succeeded, and the tool still does not run".to_owned(),
            Err(error) => format!("{error:#}"),
        };
        let name = self.name;
        let advice = format!("install it by hand with `{}`", self.install);
        match context {
            RunContext::Ci => bail!("{name} is missing: {problem}; {advice}"),
            RunContext::Developer => eprintln!("SKIPPED without {name}: {problem}; {advice}"),
        }
        Ok(false)
    }

    fn is_installed(&self) -> bool {
        let mut probes = self.probes.iter();
        probes.any(|line| CommandLine::parse(line).succeeds())
    }

    fn install_now(&self) -> Result<()> {
        let lines = self.install.command_lines();
        lines.iter().try_for_each(CommandLine::run)
    }
}

impl InstallMethod {
    fn command_lines(&self) -> Vec<CommandLine> {
        match self {
            Self::AptPackage(package) => vec![
                CommandLine::parse("apt-get update"),
                CommandLine::parse("apt-get install --yes --no-install-recommends").args([package]),
            ],
            Self::Commands(lines) => lines.iter().map(|line| CommandLine::parse(line)).collect(),
        }
    }
}

impl fmt::Display for InstallMethod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines = self.command_lines();
        let shown: Vec<_> = lines.iter().map(ToString::to_string).collect();
        f.write_str(&shown.join(" && "))
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum RunContext {
    Ci,
    Developer,
}

impl RunContext {
    fn current() -> Self {
        if is_ci() { Self::Ci } else { Self::Developer }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // The installation succeeds and installs nothing.
    const UNAVAILABLE: ToolRequirement = ToolRequirement::commands(
        "nothing",
        &["outflow-no-such-program --version"],
        &["cargo --version"],
        "a test needs a tool that does not exist",
    );

    fn ci_error(tool: &ToolRequirement) -> String {
        let result = tool.ensure_installed_in(RunContext::Ci);
        result.expect_err("CI must not skip").to_string()
    }

    #[test]
    fn a_missing_tool_is_skipped_by_hand_and_fails_in_ci() {
        let skipped = UNAVAILABLE.ensure_installed_in(RunContext::Developer);
        assert_eq!(skipped.ok(), Some(false));
        let shown = ci_error(&UNAVAILABLE);
        assert!(shown.contains("install it by hand"), "{shown}");
    }

    #[test]
    fn a_failed_installation_is_reported_with_its_cause() {
        let shown = ci_error(&ToolRequirement {
            install: InstallMethod::Commands(&["outflow-no-such-installer"]),
            ..UNAVAILABLE
        });
        assert!(shown.contains("cannot start"), "{shown}");
    }

    #[test]
    fn an_installed_tool_is_not_installed_again() {
        let cargo = ToolRequirement {
            probes: &["cargo --version"],
            install: InstallMethod::Commands(&["outflow-no-such-program"]),
            installer: Some(&UNAVAILABLE),
            ..UNAVAILABLE
        };
        assert_eq!(cargo.ensure_installed_in(RunContext::Ci).ok(), Some(true));
    }

    #[test]
    fn a_missing_installer_fails_in_ci_before_its_tool() {
        const INSTALLER: ToolRequirement = ToolRequirement {
            name: "installer",
            ..UNAVAILABLE
        };
        let shown = ci_error(&ToolRequirement {
            installer: Some(&INSTALLER),
            ..UNAVAILABLE
        });
        assert!(shown.starts_with("installer is missing"), "{shown}");
    }

    #[test]
    fn an_apt_package_is_installed_after_an_update() {
        assert_eq!(
            InstallMethod::AptPackage("strace").to_string(),
            "apt-get update && apt-get install --yes --no-install-recommends strace"
        );
    }
}
