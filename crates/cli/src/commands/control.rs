//! `outflow status`, `limits`, `explain`, `health` and `reload`: inspect and control a running program over
//! its admin API.
//!
//! `--json` prints the response of the API; otherwise the output is a table.

mod shared_accounts;
mod tables;

use std::fmt::Write as _;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use http::Method;
use outflow::config::read_duration;
use serde_json::json;

use self::shared_accounts::SharedAccounts;
use crate::admin_client::{AdminTarget, encoded, path};
use crate::exit::Exit;

/// Show the use of the limits of a running program.
#[derive(Args)]
pub(crate) struct LimitsCommand {
    /// Show only this API.
    api: Option<String>,
    /// Show the accounts that programs share, on this host or on a server, without asking a program.
    #[arg(long, conflicts_with = "api")]
    shared: bool,
    /// Forget what this account has counted, so that its limits are open at once.
    #[arg(long, value_name = "ACCOUNT", requires = "shared")]
    forget: Option<String>,
    #[command(flatten)]
    target: AdminTarget,
}

/// Show what the program would do with a call: go, wait, refuse it or serve it from the cache, and why.
#[derive(Args)]
pub(crate) struct ExplainCommand {
    /// Select this API.
    api: String,
    /// Use this path.
    path: String,
    /// Use this method.
    #[arg(long, short = 'X', value_name = "METHOD", default_value = "GET")]
    method: Method,
    /// Use this cost instead of the route's cost.
    #[arg(long, value_name = "UNITS")]
    cost: Option<u64>,
    /// Set the queue priority: low, normal or high.
    #[arg(long, value_name = "PRIORITY")]
    priority: Option<String>,
    /// Wait no longer than this time for a permit.
    #[arg(long, value_name = "TIME", value_parser = read_duration)]
    max_wait: Option<Duration>,
    /// End the call after this time.
    #[arg(long, value_name = "TIME", value_parser = read_duration)]
    deadline: Option<Duration>,
    /// Refuse the call instead of letting it wait.
    #[arg(long)]
    no_wait: bool,
    #[command(flatten)]
    target: AdminTarget,
}

/// Force the health state of an API, or release it.
#[derive(Subcommand)]
pub(crate) enum HealthCommand {
    Set(SetCommand),
    Release(ReleaseCommand),
}

/// Force the health state of an API until a release.
#[derive(Args)]
pub(crate) struct SetCommand {
    /// Select this API.
    api: String,
    /// Force this state.
    state: HealthArg,
    /// Select only this group, if each group has its own state.
    #[arg(long, value_name = "NAME")]
    group: Option<String>,
    /// Write this reason to the audit log.
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    #[command(flatten)]
    target: AdminTarget,
}

/// Release a forced health state.
#[derive(Args)]
pub(crate) struct ReleaseCommand {
    /// Select this API.
    api: String,
    /// Select only this group, if each group has its own state.
    #[arg(long, value_name = "NAME")]
    group: Option<String>,
    /// Write this reason to the audit log.
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    #[command(flatten)]
    target: AdminTarget,
}

/// Health state that an operator can force.
#[derive(Clone, Copy, ValueEnum)]
enum HealthArg {
    /// All calls, regardless of failures.
    Normal,
    /// A reduced rate.
    Throttle,
    /// No calls.
    #[value(alias = "offline")]
    Sleep,
    /// No calls; only cached responses.
    CacheOnly,
}

/// Prints the health of each API, and its waiting calls.
pub(super) fn status(target: &AdminTarget) -> anyhow::Result<Exit> {
    target.print(&target.get("/v1/snapshot")?, tables::status)
}

/// Reloads the configuration.
pub(super) fn reload(target: &AdminTarget) -> anyhow::Result<Exit> {
    target.print(&target.post("/v1/reload", &json!({}))?, tables::reload)
}

impl LimitsCommand {
    pub(crate) fn run(self) -> anyhow::Result<Exit> {
        if self.shared {
            let accounts = SharedAccounts::open(&self.target.admin.config.sources()?.read()?)?;
            if let Some(account) = &self.forget {
                accounts.forget(account)?;
            }
            return self.target.print(&accounts.list()?, tables::accounts);
        }
        let snapshot = self.target.get("/v1/snapshot")?;
        let Some(api) = self.api else {
            return self.target.print(&snapshot, tables::limits);
        };
        // The program itself reports an unknown name.
        let limits = self.target.get(&path(["v1", "apis", &api]))?;
        self.target.print(&json!({ "apis": [limits] }), tables::limits)
    }
}

impl ExplainCommand {
    pub(crate) fn run(self) -> anyhow::Result<Exit> {
        let mut query = format!(
            "/v1/explain?api={}&method={}&path={}",
            encoded(&self.api),
            self.method,
            encoded(&self.path)
        );
        let millis = |span: Duration| span.as_millis().to_string();
        for (name, value) in [
            ("cost", self.cost.map(|cost| cost.to_string())),
            ("priority", self.priority.as_deref().map(encoded)),
            ("max_wait_ms", self.max_wait.map(millis)),
            ("timeout_ms", self.deadline.map(millis)),
            ("wait", self.no_wait.then(|| "false".to_owned())),
        ] {
            if let Some(value) = value {
                // Writing to a string cannot fail.
                let _infallible = write!(query, "&{name}={value}");
            }
        }
        let estimate = self.target.get(&query)?;
        self.target.print(&estimate, tables::wait_estimate)
    }
}

impl HealthCommand {
    pub(crate) fn run(self) -> anyhow::Result<Exit> {
        match self {
            Self::Set(set) => set.run(),
            Self::Release(release) => release.run(),
        }
    }
}

impl SetCommand {
    fn run(self) -> anyhow::Result<Exit> {
        let state = match self.state {
            HealthArg::Normal => "normal",
            HealthArg::Throttle => "throttle",
            HealthArg::Sleep => "sleep",
            HealthArg::CacheOnly => "cache_only",
        };
        let body = json!({ "state": state, "group": self.group, "reason": self.reason });
        let path = path(["v1", "apis", &self.api, "health"]);
        let health = self.target.post(&path, &body)?;
        self.target.print(&health, tables::health)
    }
}

impl ReleaseCommand {
    fn run(self) -> anyhow::Result<Exit> {
        let mut path = path(["v1", "apis", &self.api, "health"]);
        let parameters = [("group", &self.group), ("reason", &self.reason)];
        let parameters = parameters
            .iter()
            .filter_map(|(name, value)| Some((name, value.as_ref()?)));
        for (number, (name, value)) in parameters.enumerate() {
            let mark = if number == 0 { '?' } else { '&' };
            // Writing to a string cannot fail.
            let _infallible = write!(path, "{mark}{name}={}", encoded(value));
        }
        let health = self.target.admin.send(Method::DELETE, &path, None)?;
        self.target.print(&health, tables::health)
    }
}
