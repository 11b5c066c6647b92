//! `outflow status`, `limits`, `explain`, `health` and `reload`: looking at a running program and
//! changing it, over its admin API.
//!
//! The API's own answer is what `--json` prints; people get a table of what matters in it.

mod tables;

use std::fmt::Write as _;

use clap::{Args, Subcommand, ValueEnum};
use http::Method;
use serde_json::{Value, json};

use crate::admin_client::{encoded, path};
use crate::exit::Exit;
use crate::terminal::{answer, answer_json};

pub(super) use crate::admin_client::AdminApi;

/// Says how a running program is: the state of each API, and who waits.
#[derive(Args)]
pub(crate) struct StatusCommand {
    #[command(flatten)]
    asked: TargetArgs,
}

/// Says how the limits of a running program are used.
#[derive(Args)]
pub(crate) struct Limits {
    /// Only this API.
    api: Option<String>,
    #[command(flatten)]
    asked: TargetArgs,
}

/// Says what would become of a call that came now, and why.
#[derive(Args)]
pub(crate) struct Explain {
    /// The API.
    api: String,
    /// The path.
    path: String,
    /// The method.
    #[arg(long, short = 'X', value_name = "METHOD", default_value = "GET")]
    method: Method,
    /// What the call costs, over what its route says.
    #[arg(long, value_name = "UNITS")]
    cost: Option<u64>,
    #[command(flatten)]
    asked: TargetArgs,
}

/// Holds an API in a state, or lets it go.
#[derive(Subcommand)]
pub(crate) enum HealthCommand {
    Set(SetCommand),
    Release(ReleaseCommand),
}

/// Holds an API in a state until it is released; no timer leaves it.
#[derive(Args)]
pub(crate) struct SetCommand {
    /// The API.
    api: String,
    /// The state.
    state: HealthArg,
    /// Only this group, where each has a state of its own.
    #[arg(long, value_name = "NAME")]
    group: Option<String>,
    /// Why, for the audit log.
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    #[command(flatten)]
    asked: TargetArgs,
}

/// Lets an API go that was held.
#[derive(Args)]
pub(crate) struct ReleaseCommand {
    /// The API.
    api: String,
    /// Only this group, where each has a state of its own.
    #[arg(long, value_name = "NAME")]
    group: Option<String>,
    /// Why, for the audit log.
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    #[command(flatten)]
    asked: TargetArgs,
}

/// Has a running program read its configuration again: all of it, or nothing of it.
#[derive(Args)]
pub(crate) struct Reload {
    #[command(flatten)]
    asked: TargetArgs,
}

/// Whom to ask, and how to tell the answer.
#[derive(Args)]
struct TargetArgs {
    #[command(flatten)]
    admin: AdminApi,
    /// Print the answer as one JSON document.
    #[arg(long)]
    json: bool,
}

/// A state in which an API can be held.
#[derive(Clone, Copy, ValueEnum)]
enum HealthArg {
    /// Full speed, whatever happens.
    Normal,
    /// Reduced speed.
    Throttle,
    /// No calls.
    #[value(alias = "offline")]
    Sleep,
    /// No calls; the cache answers.
    CacheOnly,
}

impl StatusCommand {
    pub(crate) fn run(self) -> anyhow::Result<Exit> {
        let snapshot = self.asked.admin.get("/v1/snapshot")?;
        self.asked.print(&snapshot, tables::status)
    }
}

impl Limits {
    pub(crate) fn run(self) -> anyhow::Result<Exit> {
        let snapshot = self.asked.admin.get("/v1/snapshot")?;
        let Some(api) = self.api else {
            return self.asked.print(&snapshot, tables::limits);
        };
        // Asked for by name, so that one that there is not is told so by the program that knows.
        let limits = self.asked.admin.get(&path([&"v1", &"apis", &api]))?;
        self.asked
            .print(&json!({ "apis": [limits] }), tables::limits)
    }
}

impl Explain {
    pub(crate) fn run(self) -> anyhow::Result<Exit> {
        let mut query = format!(
            "/v1/explain?api={}&method={}&path={}",
            encoded(&self.api),
            self.method,
            encoded(&self.path)
        );
        if let Some(cost) = self.cost {
            // Writing to a string cannot fail.
            let _whole = write!(query, "&cost={cost}");
        }
        let outlook = self.asked.admin.get(&query)?;
        self.asked.print(&outlook, tables::outlook)
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
        let place = path([&"v1", &"apis", &self.api, &"health"]);
        let health = self.asked.admin.send(Method::POST, &place, Some(&body))?;
        self.asked.print(&health, tables::health)
    }
}

impl ReleaseCommand {
    fn run(self) -> anyhow::Result<Exit> {
        let mut place = path([&"v1", &"apis", &self.api, &"health"]);
        let said = [("group", &self.group), ("reason", &self.reason)];
        let said = said
            .iter()
            .filter_map(|(name, value)| Some((name, value.as_ref()?)));
        for (number, (name, value)) in said.enumerate() {
            let mark = if number == 0 { '?' } else { '&' };
            // Writing to a string cannot fail.
            let _whole = write!(place, "{mark}{name}={}", encoded(value));
        }
        let health = self.asked.admin.send(Method::DELETE, &place, None)?;
        self.asked.print(&health, tables::health)
    }
}

impl Reload {
    pub(crate) fn run(self) -> anyhow::Result<Exit> {
        let told = self
            .asked
            .admin
            .send(Method::POST, "/v1/reload", Some(&json!({})))?;
        self.asked.print(&told, tables::reload)
    }
}

impl TargetArgs {
    fn print(&self, document: &Value, table: impl Fn(&Value) -> String) -> anyhow::Result<Exit> {
        if self.json {
            answer_json(document)?;
        } else {
            answer(&table(document))?;
        }
        Ok(Exit::Done)
    }
}
