//! `storm`: a thousand calls, a hundred at once, to an API that allows fifty a second.
//!
//! Every contender has a strict API of its own on a real socket, so they run at the same time without
//! meeting: fifty calls a second leave the machine idle, and one after another would take minutes. The
//! ideal is that of any client without a refusal: fifty at once, then fifty each second, so that the
//! last leave after nineteen seconds. `unknown_limit` tells the sidecar two hundred a second.

mod caller;

use std::time::Duration;

use outflow_upstream::{Audit, Quota, Server, StrictApi};
use tokio::runtime::Runtime;

use crate::clock;
use crate::figure::{Figure, Goal};
use crate::measure::{Plan, approx, quantile};
use crate::proxies::{self, Job, Limits, Proxy};
use crate::tasks::Flavour;
use caller::{Call, Patience};

/// Everything that the sidecar promises in a storm.
pub(crate) fn figures(plan: Plan) -> Vec<Figure> {
    clock::since_begin();
    let Ok(runtime) = Flavour::Multi.runtime() else {
        return vec![Figure::missing("storm", "", "missing: no runtime")];
    };
    let repeats = if plan.is_thorough() { 3 } else { 1 };
    let mut runs = Vec::new();
    for _ in 0..repeats {
        match storm(&runtime) {
            Ok(run) => runs.push(run),
            Err(why) => return vec![Figure::missing("storm", "", &format!("missing: {why}"))],
        }
    }
    told(&runs)
}

/// One contender's storm.
struct Run {
    name: &'static str,
    makespan: f64,
    refused: f64,
    failed: f64,
    spread: f64,
}

/// All contenders at once; the first two are ours.
fn storm(runtime: &Runtime) -> std::io::Result<Vec<Run>> {
    let mut stands = vec![
        Stand::behind(runtime, "Outflow", |up| {
            proxies::ours(up, Limits::PerSecond(50))
        })?,
        Stand::behind(runtime, "Outflow, told 200/s", |up| {
            proxies::ours(up, Limits::PerSecond(200))
        })?,
        Stand::alone(runtime, "retry with full jitter")?,
    ];
    for name in ["nginx", "Envoy"] {
        let stand = Stand::behind(runtime, name, |up| {
            let (peers, _) = proxies::peers(up, Job::Spare);
            let found = peers.into_iter().find(|peer| peer.name == name);
            found.ok_or_else(|| std::io::Error::other("not installed"))
        });
        match stand {
            Ok(stand) => stands.push(stand),
            Err(_) => eprintln!("SKIPPED without {name}: install it to have it in the table"),
        }
    }
    let calls: Vec<_> = stands.iter().map(Stand::call).collect();
    let spans = runtime.block_on(caller::all(calls));
    let runs = stands.iter().zip(spans);
    Ok(runs.map(|(stand, span)| stand.judged(&span)).collect())
}

/// A contender and the API that judges it.
struct Stand {
    name: &'static str,
    api: StrictApi,
    server: Server,
    proxy: Option<Proxy>,
    patience: Patience,
}

impl Stand {
    fn behind(
        runtime: &Runtime,
        name: &'static str,
        start: impl FnOnce(std::net::SocketAddr) -> std::io::Result<Proxy>,
    ) -> std::io::Result<Self> {
        let mut stand = Self::alone(runtime, name)?;
        stand.proxy = Some(start(stand.server.address())?);
        stand.patience = Patience::None;
        Ok(stand)
    }

    fn alone(runtime: &Runtime, name: &'static str) -> std::io::Result<Self> {
        let rate = LIMIT.parse().map_err(std::io::Error::other)?;
        let api = StrictApi::builder().limit(Quota::sliding(rate)).build();
        let api = api.map_err(std::io::Error::other)?;
        let server = runtime.block_on(api.listen())?;
        Ok(Self {
            name,
            api,
            server,
            proxy: None,
            patience: Patience::FullJitter,
        })
    }

    fn call(&self) -> Call {
        let url = match &self.proxy {
            Some(proxy) => proxy.url("/storm"),
            None => format!("{}/storm", self.server.url()),
        };
        Call {
            url,
            patience: self.patience,
        }
    }

    fn judged(&self, seen: &caller::Seen) -> Run {
        let audit: Audit = self.api.audit();
        let waits: Vec<f64> = seen.waits.iter().map(Duration::as_secs_f64).collect();
        Run {
            name: self.name,
            makespan: seen.makespan.as_secs_f64() / IDEAL,
            refused: approx(audit.refused()),
            failed: approx(seen.failed),
            spread: quantile(&waits, 0.99) / quantile(&waits, 0.5),
        }
    }
}

/// A figure's name, the most it may be, and which part of a run it is.
type Promise = (&'static str, f64, fn(&Run) -> f64);

fn told(runs: &[Vec<Run>]) -> Vec<Figure> {
    let of = |name: &str, part: fn(&Run) -> f64| -> Vec<f64> {
        let all = runs.iter().flatten();
        all.filter(|run| run.name == name).map(part).collect()
    };
    let names: Vec<&str> = runs
        .first()
        .map(|run| run.iter().skip(2).map(|run| run.name).collect())
        .unwrap_or_default();
    let mut figures = Vec::new();
    let goals: [Promise; 4] = [
        ("makespan", 1.02, |run| run.makespan),
        ("refused_upstream", 0.0, |run| run.refused),
        ("failed_to_client", 0.0, |run| run.failed),
        ("wait_p99_to_p50", 1.05, |run| run.spread),
    ];
    for (name, goal, part) in goals {
        let theirs: Vec<_> = names.iter().map(|peer| (*peer, of(peer, part))).collect();
        let theirs: Vec<_> = theirs.iter().map(|(peer, all)| (*peer, &all[..])).collect();
        figures.extend(Figure::beside(
            name,
            Goal::Own(goal),
            &of("Outflow", part),
            &theirs,
        ));
    }
    let unknown: [Promise; 3] = [
        ("unknown_limit_makespan", 1.15, |run| run.makespan),
        ("unknown_limit_refused_share", 0.05, |run| {
            run.refused / 1000.0
        }),
        ("unknown_limit_failed", 0.0, |run| run.failed),
    ];
    figures.extend(unknown.map(|(name, goal, part)| {
        Figure::alone(name, Goal::Own(goal), &of("Outflow, told 200/s", part))
    }));
    figures
}

/// What the API allows.
const LIMIT: &str = "50/s";

/// The goal is stated against twenty seconds: nineteen windows and the way of the last calls.
const IDEAL: f64 = 20.0;
