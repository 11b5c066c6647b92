//! `outflow get`, `post`, `put`, `delete` and `request`: make one call under all limits.
//!
//! The call goes through a client of this process with the configuration of the sidecar; no other program has
//! to run. Each process starts without knowledge of used limits: for many calls, use the sidecar.

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
use self::outcome::CallResult;
use super::config_args::{ConfigArgs, without_log};
use crate::command_line::UsageError;
use crate::exit::Exit;
use crate::program::force_sleep;
use crate::shared_ledger;
use crate::signals::ShutdownSignals;
use crate::terminal::{Terminal, show};

/// Make a call of any method to a configured API.
#[derive(Args)]
pub(crate) struct RequestCommand {
    /// Use this method.
    pub(super) method: Method,
    #[command(flatten)]
    pub(super) arguments: CallArgs,
}

/// Arguments of a call.
#[derive(Args)]
pub(crate) struct CallArgs {
    /// Call the API of this name in the configuration.
    api: String,
    /// Call this path, which may have a query.
    path: String,
    #[command(flatten)]
    config: ConfigArgs,
    /// Add a header; repeat for several.
    #[arg(long, short = 'H', value_name = "NAME: VALUE")]
    header: Vec<String>,
    /// Send this text, the content of a file for `@FILE`, or the standard input for `-`.
    #[arg(long, short, value_name = "DATA", conflicts_with = "json_body")]
    data: Option<String>,
    /// Send JSON with its content type, after a check; `@FILE` and `-` work as in `--data`.
    #[arg(long, value_name = "JSON")]
    json_body: Option<String>,
    /// Use this cost instead of the route's cost.
    #[arg(long, value_name = "UNITS")]
    cost: Option<u64>,
    /// Set the queue priority: high, normal or low.
    #[arg(long, value_name = "PRIORITY", default_value = "normal")]
    priority: PriorityArg,
    /// Fail the call after this time.
    #[arg(long, value_name = "TIME", value_parser = read_duration)]
    deadline: Option<Duration>,
    /// Use this group instead of the route's group.
    #[arg(long, value_name = "NAME")]
    group: Option<String>,
    /// Send this idempotency key, which makes the call retryable.
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
    /// Set the use of the cache: configured, bypass or only.
    #[arg(long, value_name = "MODE", default_value = "configured")]
    cache: CacheArg,
    /// Send nothing: only the cache may answer.
    #[arg(long)]
    offline: bool,
    #[command(flatten)]
    output: OutputArgs,
}

/// Output of a call.
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
    /// Print the wait, the attempts and the total time.
    #[arg(long)]
    timing: bool,
    /// Print the group and the state of its limits before the call.
    #[arg(long)]
    explain: bool,
    /// Exit with 4 for a 4xx status, and with 5 for a 5xx status.
    #[arg(long)]
    check_status: bool,
    /// Print one JSON document with all details.
    #[arg(long)]
    json: bool,
}

/// Priority in the wait queue.
#[derive(Clone, Copy, ValueEnum)]
enum PriorityArg {
    Low,
    Normal,
    High,
}

/// Use of the cache.
#[derive(Clone, Copy, ValueEnum)]
enum CacheArg {
    /// As configured for the API.
    Configured,
    /// No cache.
    Bypass,
    /// Only the cache; no packet leaves.
    Only,
}

impl CallArgs {
    pub(super) fn run(self, method: Method, terminal: Terminal) -> anyhow::Result<Exit> {
        let config = shared_ledger::client_config(&self.config.sources()?.read()?)?;
        if config.api(&self.api).is_none() {
            return Err(unknown_api(&self.api, &config).into());
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.context("cannot start the runtime")?;
        runtime.block_on(async {
            let mut signals = ShutdownSignals::listen()?;
            tokio::select! {
                ended = self.make(method, without_log(config), terminal) => ended,
                () = signals.wait() => Ok(Exit::Interrupted),
            }
        })
    }

    async fn make(self, method: Method, config: Config, terminal: Terminal) -> anyhow::Result<Exit> {
        let client = Outflow::init(config)?;
        if self.offline {
            force_sleep(client.upstreams());
        }
        let explanation = self.explanation(&client, &method).await?;
        if let Some(explanation) = explanation.as_ref().filter(|_| !self.output.json) {
            show(&explanation);
        }
        let call = self.call(&client, method)?;
        terminal.progress("waiting for the response ...");
        let result = CallResult::new(&client, call).await;
        terminal.progress("");
        let exit = result.exit(&self.output);
        result.print(&self.output, explanation.as_ref())?;
        // The cache writes to the disk before the process ends.
        client.close(LAST_WRITES).await;
        Ok(exit)
    }

    async fn explanation(&self, client: &Outflow, method: &Method) -> anyhow::Result<Option<CallExplanation>> {
        let Some(upstream) = client.upstream(&self.api).filter(|_| self.output.explain) else {
            return Ok(None);
        };
        let target = match &self.group {
            Some(group) => upstream
                .group(group)
                .ok_or_else(|| UsageError(format!("the API `{}` has no group `{group}`", self.api)))?,
            None => upstream.route(method, without_query(&self.path)),
        };
        let target = self.cost.map_or(target, |cost| target.with_cost(Cost::new(cost)));
        let decision = self.bare_call(client, method.clone()).explain().await?;
        Ok(Some(CallExplanation::new(&upstream, target, &decision)))
    }

    /// Returns the call without headers and body.
    fn bare_call(&self, client: &Outflow, method: Method) -> Call {
        let mut call = client
            .request(method, &self.api, &self.path)
            .priority(self.priority.into())
            .cache(self.cache.into());
        if let Some(cost) = self.cost {
            call = call.cost(Cost::new(cost));
        }
        if let Some(group) = &self.group {
            call = call.group(group);
        }
        if let Some(deadline) = self.deadline {
            call = call.timeout(deadline);
        }
        call
    }

    fn call(&self, client: &Outflow, method: Method) -> anyhow::Result<Call> {
        let mut call = self.bare_call(client, method);
        for header in &self.header {
            let (name, value) = input::header(header)?;
            call = call.header(name, value);
        }
        if let Some(body) = input::body(self.data.as_deref(), self.json_body.as_deref())? {
            call = body.add_to(call);
        }
        if let Some(key) = &self.idempotency_key {
            call = call.idempotency_key(key);
        }
        Ok(call)
    }
}

fn unknown_api(name: &str, config: &Config) -> UsageError {
    let names: Vec<_> = config.apis.iter().map(|api| api.name.as_str()).collect();
    UsageError(match names.as_slice() {
        [] => format!("unknown API `{name}`: the configuration has no APIs"),
        names => format!("unknown API `{name}`: use one of {}", names.join(", ")),
    })
}

fn without_query(path: &str) -> &str {
    path.split(['?', '#']).next().unwrap_or(path)
}

impl From<PriorityArg> for Priority {
    fn from(priority: PriorityArg) -> Self {
        match priority {
            PriorityArg::Low => Self::Low,
            PriorityArg::Normal => Self::Normal,
            PriorityArg::High => Self::High,
        }
    }
}

impl From<CacheArg> for CacheDirective {
    fn from(mode: CacheArg) -> Self {
        match mode {
            CacheArg::Configured => Self::Configured,
            CacheArg::Bypass => Self::Bypass,
            CacheArg::Only => Self::Only,
        }
    }
}

/// Far longer than one response needs.
const LAST_WRITES: Duration = Duration::from_secs(2);
