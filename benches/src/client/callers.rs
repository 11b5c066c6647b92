//! Contenders: one type for each way to make a governed request.

use std::future::Future;
use std::net::SocketAddr;
use std::time::Duration;

use outflow::{Api, Outflow, Rules};
use outflow_core::{HealthConfig, HealthSettings, Rate};
use tokio::runtime::Runtime;

use super::bare::{Bare, Governed};
use super::peers::{Middlewares, Reqwest, Tower};
use super::{Turn, turn};

/// A way to make one call and read its response; true if both succeeded.
pub(crate) trait Caller: Clone + 'static {
    fn call(&self) -> impl Future<Output = bool>;
}

/// One contender of any type.
pub(crate) struct Entrant {
    pub(crate) name: &'static str,
    pub(crate) turn: Box<Run>,
}

/// A function that makes this many calls.
type Run = dyn Fn(&Runtime, u32) -> Turn;

impl Entrant {
    fn new(name: &'static str, caller: Option<impl Caller>) -> Result<Self, &'static str> {
        let caller = caller.ok_or(name)?;
        Ok(Self {
            name,
            turn: Box::new(move |runtime, calls| turn(runtime, &caller, calls)),
        })
    }
}

/// Returns the contenders that could be built, and the names of the others. Must be called inside a runtime.
pub(crate) fn all(address: SocketAddr) -> (Vec<Entrant>, Vec<&'static str>) {
    let client = api(address).and_then(|api| Outflow::builder().api(api).build().ok());
    let kept = api(address).and_then(|api| Outflow::init([api]).ok());
    let upstream = client.as_ref().and_then(|client| client.upstream(NAME));
    let governed = upstream.and_then(|upstream| Governed::new(address, upstream));
    let [middlewares, tower, reqwest] = PEERS;
    let made = [
        Entrant::new(BARE, Bare::new(address)),
        Entrant::new(OURS, client.clone()),
        Entrant::new(OURS_WITH_METRICS, kept),
        Entrant::new(UPSTREAM, governed),
        Entrant::new(middlewares, Middlewares::new(address)),
        Entrant::new(tower, Tower::new(address)),
        Entrant::new(reqwest, Reqwest::new(address)),
    ];
    let mut missing = Vec::new();
    let made = made
        .into_iter()
        .filter_map(|entrant| entrant.map_err(|name| missing.push(name)).ok());
    (made.collect(), missing)
}

/// Returns the server as an API with an unreachable limit.
fn api(address: SocketAddr) -> Option<Api> {
    let settings = HealthSettings {
        concurrency: Some(IN_FLIGHT),
        ..HealthSettings::ADAPTIVE
    };
    let mut api = Api::new(NAME, format!("http://{address}").parse().ok()?);
    api.rules = Rules {
        health: HealthConfig::new(settings).ok()?,
        ..Rules::with_limit(Rate::new(u64::from(LIMIT), WINDOW).ok()?)
    };
    Some(api)
}

impl Caller for Outflow {
    async fn call(&self) -> bool {
        let answer = self.get(NAME, "/").send().await;
        match answer {
            Ok(answer) => answer.bytes().await.is_ok(),
            Err(_) => false,
        }
    }
}

pub(crate) const BARE: &str = "bare hyper";
pub(crate) const OURS: &str = "ours";
pub(crate) const OURS_WITH_METRICS: &str = "ours, as init makes it";
pub(crate) const UPSTREAM: &str = "Upstream around hyper";
pub(crate) const PEERS: [&str; 3] = [
    "reqwest + middleware + retry + governor",
    "tower-resilience stack over hyper",
    "bare reqwest",
];

const NAME: &str = "bench";
/// More than a machine sends in a window.
pub(crate) const LIMIT: u32 = 10_000;
pub(crate) const WINDOW: Duration = Duration::from_millis(10);
/// More than the calls in flight.
pub(crate) const IN_FLIGHT: u32 = 64;
