//! Configuration as a user writes it.

use std::fmt::Write as _;
use std::time::Duration;

use outflow::config::{Environment, Source};
use outflow::{Api, Config};
use outflow_core::Rate;

/// An address and limits, and every other setting with the reason for it.
///
/// ```
/// use outflow_testkit::recovery::UserConfig;
///
/// let config = UserConfig::with_limits(&["35/s"]);
/// assert_eq!(config.text("http://api.test"), "[apis.x]\nbase_url = \"http://api.test\"\nlimits = [\"35/s\"]\n");
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UserConfig {
    limits: Vec<&'static str>,
    changes: Vec<ChangedSetting>,
}

/// Setting that differs from the default.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ChangedSetting {
    /// Line of the configuration.
    pub line: &'static str,
    /// Reason for it.
    pub reason: &'static str,
}

impl UserConfig {
    /// Builds the configuration of an API with these limits.
    pub fn with_limits(limits: &[&'static str]) -> Self {
        Self {
            limits: limits.to_vec(),
            changes: Vec::new(),
        }
    }

    /// Changes a setting, and says why.
    #[must_use]
    pub fn changed(mut self, line: &'static str, reason: &'static str) -> Self {
        self.changes.push(ChangedSetting { line, reason });
        self
    }

    /// Returns the settings that differ from the defaults.
    pub fn changes(&self) -> &[ChangedSetting] {
        &self.changes
    }

    /// Returns the text of the file.
    pub fn text(&self, base_url: &str) -> String {
        let limits: Vec<_> = self.limits.iter().map(|limit| format!("{limit:?}")).collect();
        let limits = limits.join(", ");
        let mut text = format!("[apis.{API}]\nbase_url = {base_url:?}\nlimits = [{limits}]\n");
        for change in &self.changes {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{} # {}", change.line, change.reason);
        }
        text
    }

    /// Returns the API as the client reads it from the text.
    ///
    /// # Panics
    /// If the text is not a valid configuration.
    #[expect(clippy::panic, reason = "a scenario with a wrong setting must end at once")]
    pub(super) fn read(&self, base_url: &str) -> Vec<Api> {
        let sources = [Source::new("outflow.toml", self.text(base_url))];
        match Config::read(&sources, &Environment::empty()) {
            Ok(config) => config.apis,
            Err(problems) => panic!("{problems:?}"),
        }
    }

    /// Returns the rates of the limits.
    ///
    /// # Panics
    /// If a limit is not a rate.
    #[expect(clippy::panic, reason = "a scenario with a wrong limit must end at once")]
    pub fn rates(&self) -> Vec<Rate> {
        let rates = self.limits.iter().map(|limit| match limit.parse() {
            Ok(rate) => rate,
            Err(why) => panic!("{limit}: {why}"),
        });
        rates.collect()
    }

    /// Returns the longest window.
    pub fn longest_window(&self) -> Duration {
        let windows = self.rates().into_iter().map(Rate::per);
        windows.max().unwrap_or_default()
    }

    /// Returns the limits and the changed settings for a table.
    pub fn label(&self) -> String {
        let mut label = self.limits.join("+");
        for change in &self.changes {
            // Writing to a string cannot fail.
            let _ = write!(label, " [{}: {}]", change.line, change.reason);
        }
        label
    }
}

/// Name of the API in the configuration.
pub(super) const API: &str = "x";
