//! `storm`: a thousand calls, a hundred at once, to an API that allows fifty a second.
//!
//! Every contender has its own mock API on a real socket, so they run concurrently: fifty calls a second leave
//! the machine idle, and one after another would take minutes. Gateways of language models do not leave it
//! idle, so they run after the others, with a request that they accept. The ideal is that of any client without
//! a throttle: fifty at once, then fifty each second, so the last leave after nineteen seconds. `unknown_limit`
//! configures the sidecar for two hundred a second.

mod caller;

use std::time::Duration;

use outflow_mock::{Audit, MockApi, MockResponse, Quota, Server};
use tokio::runtime::Runtime;

use crate::clock;
use crate::figure::{Figure, Goal};
use crate::measure::{Plan, approx, quantile};
use crate::proxies::{self, ANSWER, Job, Limits, Peer, Proxy, RequestForm};
use crate::tasks::Flavour;
use caller::{Call, ThrottleReaction};

/// Measures the sidecar under a storm.
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
    to_figures(&storms)
}

/// Every storm so far, and the contenders that could not run.
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
    /// Runs one storm of each contender.
    fn add(&mut self, runtime: &Runtime, plan: Plan) -> std::io::Result<()> {
        let mut stands = vec![
            Entrant::behind(runtime, OURS, |up| proxies::ours(up, Limits::PerSecond(50)))?,
            Entrant::behind(runtime, OURS_WRONG_LIMIT, |up| {
                proxies::ours(up, Limits::PerSecond(200))
            })?,
            Entrant::alone(runtime, "retry with full jitter")?,
        ];
        stands.extend(self.peers(runtime, &[Peer::Nginx, Peer::Envoy]));
        self.blow(runtime, &stands);
        if plan.is_thorough() {
            let mut gateways = self.peers(runtime, &Peer::GATEWAYS);
            for stand in &mut gateways {
                stand.ask = RequestForm::Chat;
            }
            self.blow(runtime, &gateways);
        }
        Ok(())
    }

    /// Returns the contenders that run here.
    fn peers(&mut self, runtime: &Runtime, wanted: &[Peer]) -> Vec<Entrant> {
        let mut stands = Vec::new();
        for peer in wanted {
            let started = |up| peer.start(up, Job::Spare);
            match Entrant::behind(runtime, peer.name(), started) {
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

    /// Runs all of these at once.
    fn blow(&mut self, runtime: &Runtime, stands: &[Entrant]) {
        let calls: Vec<_> = stands.iter().map(Entrant::call).collect();
        let spans = runtime.block_on(caller::all(calls));
        let runs = stands.iter().zip(spans);
        self.runs.extend(runs.map(|(stand, span)| stand.judged(&span)));
    }

    /// Returns this value of each storm of one contender.
    fn values_of(&self, name: &str, part: fn(&Run) -> f64) -> Vec<f64> {
        let named = self.runs.iter().filter(|run| run.name == name);
        named.map(part).collect()
    }

    /// Returns the contenders that are not ours, in the order of their first storms.
    fn peer_names(&self) -> Vec<&'static str> {
        let mut names = Vec::new();
        for run in &self.runs {
            if ![OURS, OURS_WRONG_LIMIT].contains(&run.name) && !names.contains(&run.name) {
                names.push(run.name);
            }
        }
        names
    }
}

/// A contender and the API that it calls.
struct Entrant {
    name: &'static str,
    api: MockApi,
    server: Server,
    proxy: Option<Proxy>,
    reaction: ThrottleReaction,
    ask: RequestForm,
}

impl Entrant {
    fn behind(
        runtime: &Runtime,
        name: &'static str,
        start: impl FnOnce(std::net::SocketAddr) -> std::io::Result<Proxy>,
    ) -> std::io::Result<Self> {
        let mut stand = Self::alone(runtime, name)?;
        stand.proxy = Some(start(stand.server.address())?);
        stand.reaction = ThrottleReaction::None;
        Ok(stand)
    }

    fn alone(runtime: &Runtime, name: &'static str) -> std::io::Result<Self> {
        let rate = LIMIT.parse().map_err(std::io::Error::other)?;
        let api = MockApi::builder()
            .limit(Quota::sliding(rate))
            .answer(RequestForm::Chat.path(), MockResponse::ok(ANSWER))
            .build();
        let api = api.map_err(std::io::Error::other)?;
        let server = runtime.block_on(api.listen())?;
        Ok(Self {
            name,
            api,
            server,
            proxy: None,
            reaction: ThrottleReaction::FullJitter,
            ask: RequestForm::Plain,
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
            reaction: self.reaction,
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

/// A figure's name, its maximum, and its value of a run.
type FigureGoal = (&'static str, f64, fn(&Run) -> f64);

fn to_figures(storms: &Storms) -> Vec<Figure> {
    let names = storms.peer_names();
    let mut figures = Vec::new();
    for (name, goal, part) in GOALS {
        let theirs: Vec<_> = names.iter().map(|peer| (*peer, storms.values_of(peer, part))).collect();
        let theirs: Vec<_> = theirs.iter().map(|(peer, all)| (*peer, &all[..])).collect();
        let ours = storms.values_of(OURS, part);
        figures.extend(Figure::with_peers(name, Goal::Own(goal), &ours, &theirs));
    }
    figures.extend(
        WRONG_LIMIT_GOALS
            .map(|(name, goal, part)| Figure::alone(name, Goal::Own(goal), &storms.values_of(OURS_WRONG_LIMIT, part))),
    );
    figures.extend(
        storms
            .missing
            .iter()
            .map(|peer| Figure::missing("makespan", peer.name(), "missing: it does not run here")),
    );
    figures
}

const GOALS: [FigureGoal; 4] = [
    ("makespan", 1.02, |run| run.makespan),
    ("refused_upstream", 0.0, |run| run.refused),
    ("failed_to_client", 0.0, |run| run.failed),
    ("wait_p99_to_p50", 1.05, |run| run.spread),
];

const WRONG_LIMIT_GOALS: [FigureGoal; 3] = [
    ("unknown_limit_makespan", 1.15, |run| run.makespan),
    ("unknown_limit_refused_share", 0.05, |run| run.refused / 1000.0),
    ("unknown_limit_failed", 0.0, |run| run.failed),
];

/// Ours with the true limit, and with four times the limit.
const OURS: &str = "Outflow";
const OURS_WRONG_LIMIT: &str = "Outflow, configured for 200/s";

/// Limit of the API.
const LIMIT: &str = "50/s";

/// The goal is stated against twenty seconds: nineteen windows and the latency of the last calls.
const IDEAL: f64 = 20.0;
