//! `upstream`: one call with limit, health and a bound on calls in flight, from acquire to settle.
//!
//! There are no observers and no waiters. Ours reads the clock three times, at acquire, send and settle,
//! because it counts arrivals; the others read theirs once or twice.

use super::{ALLOWING, REFUSED};
use crate::contenders::upstream::OursUpstream;
use crate::contenders::{throttle_net, tower_resilience};
use crate::figure::{Figure, Goal};
use crate::measure::{Contender, Plan, contest};

/// Measures `try_acquire` and a polled `acquire` against each stack of the peers.
pub(crate) fn figures(plan: Plan) -> Vec<Figure> {
    let (Some(direct), Some(polled)) = (open(), open()) else {
        return vec![Figure::missing("upstream", "", REFUSED)];
    };
    let stack = throttle_net::Stack::new(LIMIT, ALLOWING, IN_FLIGHT);
    let mut contenders = vec![
        Contender::alone("ours", move || OursUpstream::settle(direct.try_acquire())),
        Contender::alone("ours", move || OursUpstream::settle(polled.acquire_polled())),
        Contender::alone("throttle-net log + breaker + bulkhead", move || stack.call()),
    ];
    let tower = tower_resilience::stack(LIMIT, ALLOWING, IN_FLIGHT);
    let is_missing = tower.is_none();
    contenders.extend(tower.map(|mut stack| {
        Contender::alone("tower-resilience stack (service)", move || {
            tower_resilience::call(&mut stack)
        })
    }));
    let series = contest(plan, contenders);
    let Some((ours, peers)) = series.split_at_checked(NAMES.len()) else {
        return Vec::new();
    };
    let mut figures = Vec::new();
    for (name, ours) in NAMES.into_iter().zip(ours) {
        let rows = peers.iter();
        figures.extend(rows.map(|peer| Figure::against(name, Goal::Ratio(0.5), ours, peer)));
    }
    if is_missing {
        figures.push(Figure::missing("upstream", "tower-resilience stack", REFUSED));
    }
    figures
}

fn open() -> Option<OursUpstream> {
    OursUpstream::new(LIMIT, ALLOWING, IN_FLIGHT)
}

const NAMES: [&str; 2] = ["upstream", "upstream_polled"];
const LIMIT: u32 = 100;
/// More than one thread ever has.
const IN_FLIGHT: u32 = 64;
