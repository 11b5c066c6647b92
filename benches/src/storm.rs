//! `storm`: a thousand calls, a hundred at once, to an API that allows fifty a second.
//!
//! Every contender has a strict API of its own on a real socket, so they run at the same time without
//! meeting: fifty calls a second leave the machine idle, and one after another would take minutes.
//! Gateways of language models do not leave it idle, so they have their storm after the others', and are
//! asked for what they understand. The ideal is that of any client without a refusal: fifty at once, then
//! fifty each second, so that the last leave after nineteen seconds. `unknown_limit` tells the sidecar two
//! hundred a second.

mod caller;

use std::time::Duration;

use outflow_mock::{MockResponse, Audit, Quota, Server, MockApi};
use tokio::runtime::Runtime;

use crate::clock;
use crate::figure::{Figure, Goal};
use crate::measure::{Plan, approx, quantile};
use crate::proxies::{self, ANSWER, Ask, Job, Limits, Peer, Proxy};
use crate::tasks::Flavour;
use caller::{Call, Patience};

/// Everything that the sidecar promises in a storm.
pub(crate) fn figures(plan: Plan) -> Vec<Figure> {
    clock::since_begin();
    let Ok(runtime) = Flavour::Multi.runtime() else {
        return vec![Figure::missing("storm", "", "missing: no runtime")];
    };
    let repeats = if plan.is_thorough() { 3 } else { 1 };
    let mut storms = Storms::default();
    for _ in 0..repeats {
        if let Err(why) = storms.add(&runtime, plan) {
            return vec![Figure::missing("storm", "", &format!("missing: {why}"))];
        }
    }
    told(&storms)
}

/// Every storm so far, and who could not have one.
#[derive(Default)]
struct Storms {
    runs: Vec<Run>,
    missing: Vec<Peer>,
}

/// One contender's storm.
struct Run {
    name: &'static str,
    makespan: f64,
    refused: f64,
    failed: f64,
    spread: f64,
}

impl Storms {
    /// One of each contender's.
    fn add(&mut self, runtime: &Runtime, plan: Plan) -> std::io::Result<()> {
        let mut stands = vec![
            Stand::behind(runtime, OURS, |up| proxies::ours(up, Limits::PerSecond(50)))?,
            Stand::behind(runtime, UNTOLD, |up| {
                proxies::ours(up, Limits::PerSecond(200))
            })?,
            Stand::alone(runtime, "retry with full jitter")?,
        ];
        stands.extend(self.peers(runtime, &[Peer::Nginx, Peer::Envoy]));
        self.blow(runtime, &stands);
        if plan.is_thorough() {
            let mut gateways = self.peers(runtime, &Peer::GATEWAYS);
            for stand in &mut gateways {
                stand.ask = Ask::Chat;
            }
            self.blow(runtime, &gateways);
        }
        Ok(())
    }

    /// The stands of those that run here.
    fn peers(&mut self, runtime: &Runtime, wanted: &[Peer]) -> Vec<Stand> {
        let mut stands = Vec::new();
        for peer in wanted {
            let started = |up| peer.start(up, Job::Spare);
            match Stand::behind(runtime, peer.name(), started) {
                Ok(stand) => stands.push(stand),
                Err(_) if self.missing.contains(peer) => {}
                Err(why) => {
                    peer.say_missing(&why);
                    self.missing.push(*peer);
                }
            }
        }
        stands
    }

    /// All of these at once.
    fn blow(&mut self, runtime: &Runtime, stands: &[Stand]) {
        let calls: Vec<_> = stands.iter().map(Stand::call).collect();
        let spans = runtime.block_on(caller::all(calls));
        let runs = stands.iter().zip(spans);
        self.runs
            .extend(runs.map(|(stand, span)| stand.judged(&span)));
    }

    /// This part of each storm of one contender.
    fn of(&self, name: &str, part: fn(&Run) -> f64) -> Vec<f64> {
        let named = self.runs.iter().filter(|run| run.name == name);
        named.map(part).collect()
    }

    /// Whoever is not ours, in the order of their first storms.
    fn peer_names(&self) -> Vec<&'static str> {
        let mut names = Vec::new();
        for run in &self.runs {
            if ![OURS, UNTOLD].contains(&run.name) && !names.contains(&run.name) {
                names.push(run.name);
            }
        }
        names
    }
}

/// A contender and the API that judges it.
struct Stand {
    name: &'static str,
    api: MockApi,
    server: Server,
    proxy: Option<Proxy>,
    patience: Patience,
    ask: Ask,
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
        let api = MockApi::builder()
            .limit(Quota::sliding(rate))
            .answer(Ask::Chat.path(), MockResponse::ok(ANSWER))
            .build();
        let api = api.map_err(std::io::Error::other)?;
        let server = runtime.block_on(api.listen())?;
        Ok(Self {
            name,
            api,
            server,
            proxy: None,
            patience: Patience::FullJitter,
            ask: Ask::Plain,
        })
    }

    fn call(&self) -> Call {
        let path = self.ask.path();
        let (url, headers) = match &self.proxy {
            Some(proxy) => (proxy.url(path), proxy.headers.clone()),
            None => (format!("{}{path}", self.server.url()), Vec::new()),
        };
        Call {
            url,
            headers,
            ask: self.ask,
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

fn told(storms: &Storms) -> Vec<Figure> {
    let names = storms.peer_names();
    let mut figures = Vec::new();
    for (name, goal, part) in PROMISES {
        let theirs: Vec<_> = names
            .iter()
            .map(|peer| (*peer, storms.of(peer, part)))
            .collect();
        let theirs: Vec<_> = theirs.iter().map(|(peer, all)| (*peer, &all[..])).collect();
        let ours = storms.of(OURS, part);
        figures.extend(Figure::beside(name, Goal::Own(goal), &ours, &theirs));
    }
    figures.extend(
        UNTOLD_PROMISES.map(|(name, goal, part)| {
            Figure::alone(name, Goal::Own(goal), &storms.of(UNTOLD, part))
        }),
    );
    figures.extend(
        storms
            .missing
            .iter()
            .map(|peer| Figure::missing("makespan", peer.name(), "missing: it does not run here")),
    );
    figures
}

const PROMISES: [Promise; 4] = [
    ("makespan", 1.02, |run| run.makespan),
    ("refused_upstream", 0.0, |run| run.refused),
    ("failed_to_client", 0.0, |run| run.failed),
    ("wait_p99_to_p50", 1.05, |run| run.spread),
];

const UNTOLD_PROMISES: [Promise; 3] = [
    ("unknown_limit_makespan", 1.15, |run| run.makespan),
    ("unknown_limit_refused_share", 0.05, |run| {
        run.refused / 1000.0
    }),
    ("unknown_limit_failed", 0.0, |run| run.failed),
];

/// Ours, told the truth, and told four times as much.
const OURS: &str = "Outflow";
const UNTOLD: &str = "Outflow, told 200/s";

/// What the API allows.
const LIMIT: &str = "50/s";

/// The goal is stated against twenty seconds: nineteen windows and the way of the last calls.
const IDEAL: f64 = 20.0;
