//! `outflow get`, `post`, `put`, `delete` and `request`: one call, governed as every call is.
//!
//! It goes through a client of this process, made from the same configuration as the sidecar's; nothing
//! has to run. What it knows of limits begins anew with each process: where many calls are made, let
//! the sidecar make them.

mod explain;
mod input;
mod outcome;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use clap::{Args, ValueEnum};
use http::Method;
use outflow::config::read_duration;
use outflow::{CacheDirective, Call, Config, Outflow};
use outflow_core::{Cost, Priority};

use self::explain::CallExplanation;
use self::outcome::CallOutcome;
use super::config_args::{ConfigArgs, quiet};
use crate::command_line::UsageError;
use crate::exit::Exit;
use crate::program::hold_asleep;
use crate::signals::ShutdownSignals;
use crate::terminal::{Terminal, show};

/// Makes a GET call to an API of the configuration.
#[derive(Args)]
pub(crate) struct Get {
    #[command(flatten)]
    wish: CallArgs,
}

/// Makes a POST call to an API of the configuration.
#[derive(Args)]
pub(crate) struct Post {
    #[command(flatten)]
    wish: CallArgs,
}

/// Makes a PUT call to an API of the configuration.
#[derive(Args)]
pub(crate) struct Put {
    #[command(flatten)]
    wish: CallArgs,
}

/// Makes a DELETE call to an API of the configuration.
#[derive(Args)]
pub(crate) struct Delete {
    #[command(flatten)]
    wish: CallArgs,
}

/// Makes a call of any method to an API of the configuration.
#[derive(Args)]
pub(crate) struct AnyMethod {
    /// The method.
    method: Method,
    #[command(flatten)]
    wish: CallArgs,
}

impl Get {
    pub(crate) fn run(self, terminal: Terminal) -> anyhow::Result<Exit> {
        self.wish.run(Method::GET, terminal)
    }
}

impl Post {
    pub(crate) fn run(self, terminal: Terminal) -> anyhow::Result<Exit> {
        self.wish.run(Method::POST, terminal)
    }
}

impl Put {
    pub(crate) fn run(self, terminal: Terminal) -> anyhow::Result<Exit> {
        self.wish.run(Method::PUT, terminal)
    }
}

impl Delete {
    pub(crate) fn run(self, terminal: Terminal) -> anyhow::Result<Exit> {
        self.wish.run(Method::DELETE, terminal)
    }
}

impl AnyMethod {
    pub(crate) fn run(self, terminal: Terminal) -> anyhow::Result<Exit> {
        self.wish.run(self.method, terminal)
    }
}

/// What is wanted of a call.
#[derive(Args)]
struct CallArgs {
    /// The API, by its name in the configuration.
    api: String,
    /// The path, with its query if it has one.
    path: String,
    #[command(flatten)]
    config: ConfigArgs,
    /// Add a header.
    #[arg(long, short = 'H', value_name = "NAME: VALUE")]
    header: Vec<String>,
    /// Send this text, the file after `@`, or what is typed or piped in for `-`.
    #[arg(long, short, value_name = "DATA", conflicts_with = "json_body")]
    data: Option<String>,
    /// The same as JSON: it is checked, and its type is sent with it.
    #[arg(long, value_name = "JSON")]
    json_body: Option<String>,
    /// What the call costs, over what its route says.
    #[arg(long, value_name = "UNITS")]
    cost: Option<u64>,
    /// Whom it goes before while it waits.
    #[arg(long, value_name = "WHOM", default_value = "normal")]
    priority: PriorityArg,
    /// The longest that all of it may take.
    #[arg(long, value_name = "TIME", value_parser = read_duration)]
    deadline: Option<Duration>,
    /// Which group it counts in, over what its route says.
    #[arg(long, value_name = "NAME")]
    group: Option<String>,
    /// A key by which the server knows a repetition; the call may then be repeated.
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
    /// What the cache has to do with it.
    #[arg(long, value_name = "USE", default_value = "configured")]
    cache: CacheArg,
    /// Send nothing: only the cache may answer.
    #[arg(long)]
    offline: bool,
    #[command(flatten)]
    shown: OutputArgs,
}

/// What is shown of a call.
#[derive(Args)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a flag of its own, and all of them go together"
)]
struct OutputArgs {
    /// Print the status and the headers before the body.
    #[arg(long, short)]
    include: bool,
    /// Write the body to this file.
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Say how long it waited, how many attempts were made and how long all of it took.
    #[arg(long)]
    timing: bool,
    /// Say which group and limits it counts in, and how they stand, before it is sent.
    #[arg(long)]
    explain: bool,
    /// End with 4 if the status is of the 400s, and with 5 if it is of the 500s.
    #[arg(long)]
    check_status: bool,
    /// Print one JSON document with all of it.
    #[arg(long)]
    json: bool,
}

/// Whom a call goes before.
#[derive(Clone, Copy, ValueEnum)]
enum PriorityArg {
    Low,
    Normal,
    High,
}

/// What the cache has to do with a call.
#[derive(Clone, Copy, ValueEnum)]
enum CacheArg {
    /// What the API's configuration says.
    Configured,
    /// Nothing.
    Bypass,
    /// Everything: no packet leaves.
    Only,
}

impl CallArgs {
    fn run(self, method: Method, terminal: Terminal) -> anyhow::Result<Exit> {
        let config = self.config.sources()?.read()?.client;
        if config.api(&self.api).is_none() {
            return Err(unknown(&self.api, &config).into());
        }
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        let runtime = runtime.context("no runtime can be started")?;
        runtime.block_on(async {
            let mut interrupt = ShutdownSignals::listen()?;
            tokio::select! {
                ended = self.make(method, quiet(config), terminal) => ended,
                () = interrupt.wait() => Ok(Exit::Interrupted),
            }
        })
    }

    async fn make(
        self,
        method: Method,
        config: Config,
        terminal: Terminal,
    ) -> anyhow::Result<Exit> {
        let client = Outflow::init(config)?;
        if self.offline {
            hold_asleep(client.upstreams());
        }
        let explained = self.explained(&client, &method)?;
        if let Some(explained) = explained.as_ref().filter(|_| !self.shown.json) {
            show(&explained);
        }
        let call = self.call(&client, method)?;
        terminal.progress("waiting for the answer ...");
        let outcome = CallOutcome::new(&client, call).await;
        terminal.progress("");
        let exit = outcome.exit(&self.shown);
        outcome.show(&self.shown, explained.as_ref())?;
        // What was kept goes to the disk before the process ends.
        client.close(LAST_WRITES).await;
        Ok(exit)
    }

    fn explained(
        &self,
        client: &Outflow,
        method: &Method,
    ) -> anyhow::Result<Option<CallExplanation>> {
        let Some(door) = client.upstream(&self.api).filter(|_| self.shown.explain) else {
            return Ok(None);
        };
        let target = match &self.group {
            Some(group) => door.group(group).ok_or_else(|| {
                UsageError(format!("the API `{}` has no group `{group}`", self.api))
            })?,
            None => door.route(method, without_query(&self.path)),
        };
        let target = self
            .cost
            .map_or(target, |cost| target.with_cost(Cost::new(cost)));
        Ok(Some(CallExplanation::from_upstream(&door, target)))
    }

    fn call(&self, client: &Outflow, method: Method) -> anyhow::Result<Call> {
        let mut call = client
            .request(method, &self.api, &self.path)
            .priority(self.priority.into())
            .cache(self.cache.into());
        for header in &self.header {
            let (name, value) = input::header(header)?;
            call = call.header(name, value);
        }
        if let Some(body) = input::body(self.data.as_deref(), self.json_body.as_deref())? {
            call = body.on(call);
        }
        if let Some(cost) = self.cost {
            call = call.cost(Cost::new(cost));
        }
        if let Some(group) = &self.group {
            call = call.group(group);
        }
        if let Some(deadline) = self.deadline {
            call = call.timeout(deadline);
        }
        if let Some(key) = &self.idempotency_key {
            call = call.idempotency_key(key);
        }
        Ok(call)
    }
}

fn unknown(name: &str, config: &Config) -> UsageError {
    let names: Vec<_> = config.apis.iter().map(|api| api.name.as_str()).collect();
    UsageError(match names.as_slice() {
        [] => format!("there is no API `{name}`: the configuration has none"),
        names => format!("there is no API `{name}`: there are {}", names.join(", ")),
    })
}

fn without_query(path: &str) -> &str {
    path.split(['?', '#']).next().unwrap_or(path)
}

impl From<PriorityArg> for Priority {
    fn from(urgency: PriorityArg) -> Self {
        match urgency {
            PriorityArg::Low => Self::Low,
            PriorityArg::Normal => Self::Normal,
            PriorityArg::High => Self::High,
        }
    }
}

impl From<CacheArg> for CacheDirective {
    fn from(kept: CacheArg) -> Self {
        match kept {
            CacheArg::Configured => Self::Configured,
            CacheArg::Bypass => Self::Bypass,
            CacheArg::Only => Self::Only,
        }
    }
}

/// One answer is on the disk long before that.
const LAST_WRITES: Duration = Duration::from_secs(2);
