//! Who calls: one type for each way to make a governed request.

use std::future::Future;
use std::net::SocketAddr;
use std::time::Duration;

use outflow::{Api, Outflow, Rules};
use outflow_core::{HealthConfig, HealthSettings, Rate};
use tokio::runtime::Runtime;

use super::bare::{Bare, Governed};
use super::peers::{Middlewares, Reqwest, Tower};
use super::{Turn, turn};

/// Makes one call and reads its answer; tells whether all went well.
pub(crate) trait Caller: Clone + 'static {
    fn call(&self) -> impl Future<Output = bool>;
}

/// One contender, whatever its type.
pub(crate) struct Entrant {
    pub(crate) name: &'static str,
    pub(crate) turn: Box<Run>,
}

/// Makes so many calls.
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

/// Bare hyper, ours, the door by hand, and the peers; then the names of those that could not be made.
pub(crate) fn all(address: SocketAddr) -> (Vec<Entrant>, Vec<&'static str>) {
    let client = ours(address);
    let door = client.as_ref().and_then(|client| client.upstream(NAME));
    let governed = door.and_then(|door| Governed::new(address, door.clone()));
    let made = [
        Entrant::new("bare hyper", Bare::new(address)),
        Entrant::new("ours", client.clone()),
        Entrant::new("the door around hyper", governed),
        Entrant::new(
            "reqwest + middleware + retry + governor",
            Middlewares::new(address),
        ),
        Entrant::new("tower-resilience stack over hyper", Tower::new(address)),
        Entrant::new("bare reqwest", Reqwest::new(address)),
    ];
    let mut missing = Vec::new();
    let made = made
        .into_iter()
        .filter_map(|entrant| entrant.map_err(|name| missing.push(name)).ok());
    (made.collect(), missing)
}

/// The whole client with a limit that nobody reaches.
fn ours(address: SocketAddr) -> Option<Outflow> {
    let settings = HealthSettings {
        concurrency: IN_FLIGHT,
        ..HealthSettings::ADAPTIVE
    };
    let mut api = Api::new(NAME, format!("http://{address}").parse().ok()?);
    api.rules = Rules {
        health: HealthConfig::new(settings).ok()?,
        ..Rules::limited_to(Rate::new(u64::from(LIMIT), WINDOW).ok()?)
    };
    Outflow::init([api]).ok()
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

const NAME: &str = "bench";
/// More than a machine sends in a window.
pub(crate) const LIMIT: u32 = 10_000;
pub(crate) const WINDOW: Duration = Duration::from_millis(10);
/// More than are ever at it.
pub(crate) const IN_FLIGHT: u32 = 64;
