//! `bytes_*`: what one logged request weighs.
//!
//! Everything that the limiter holds after `n` requests, itself included, divided by `n`; nothing
//! has expired. With few requests the fixed part shows, so the sizes are told apart by name.

use std::time::Duration;

use outflow_core::{Cost, Nanos};

use crate::alloc::weigh;
use crate::contenders::ours::Ours;
use crate::contenders::{throttle_net, tower_resilience};
use crate::figure::{Figure, Goal};
use crate::measure::approx;

/// Unit and weighted logs of 100, 10,000 and 1,000,000 requests.
pub(crate) fn figures() -> Vec<Figure> {
    let sizes = [("_100", 100), ("_10k", 10_000), ("", 1_000_000)];
    let unit = sizes.into_iter().flat_map(|(suffix, n)| unit(&format!("bytes_unit{suffix}"), n));
    let weighted =
        sizes.into_iter().map(|(suffix, n)| weighted(&format!("bytes_weighted{suffix}"), n));
    unit.chain(weighted).collect()
}

fn unit(name: &str, n: u32) -> Vec<Figure> {
    let ours = ours(n, n, |_| 1);
    let (log, bytes) = weigh(|| {
        let log = Box::new(throttle_net::log(n, DAY));
        (0..n).for_each(|_| assert!(log.try_acquire(), "the whole limit is free"));
        log
    });
    drop(log);
    let theirs = per_request(bytes, n);
    let mut figures =
        vec![Figure::beside(name, Goal::Own(8.0), &[ours], (throttle_net::LOG, &[theirs]))];
    if let Some(tower) = tower(n) {
        let peer = (tower_resilience::LOG, [tower]);
        figures.push(Figure::beside(name, Goal::Shown, &[ours], (peer.0, &peer.1)));
    }
    figures
}

fn weighted(name: &str, n: u32) -> Figure {
    let cost = |at: u32| at % 10 + 1;
    let limit = n.saturating_mul(10);
    let ours = ours(limit, n, cost);
    let (log, bytes) = weigh(|| {
        let log = Box::new(throttle_net::log(limit, DAY));
        (0..n).for_each(|at| assert!(log.try_acquire_with_cost(cost(at)), "it is free"));
        log
    });
    drop(log);
    let theirs = per_request(bytes, n);
    Figure::beside(name, Goal::Own(12.0), &[ours], (throttle_net::LOG, &[theirs]))
}

fn ours(limit: u32, n: u32, cost: impl Fn(u32) -> u32) -> f64 {
    let (ours, bytes) = weigh(|| {
        let ours = Box::new(Ours::sliding(limit, DAY));
        for at in 0..n {
            let now = Nanos::from_nanos(NOON + u64::from(at) * APART);
            let taken = ours.take_at(now, Cost::new(u64::from(cost(at))));
            assert!(taken.is_some(), "the whole limit is free");
        }
        ours
    });
    drop(ours);
    per_request(bytes, n)
}

fn tower(n: u32) -> Option<f64> {
    let (service, bytes) = weigh(|| {
        let mut service = tower_resilience::log(n, DAY)?;
        (0..n).for_each(|_| assert!(tower_resilience::call(&mut service), "it is free"));
        Some(service)
    });
    service.map(|_| per_request(bytes, n))
}

fn per_request(bytes: i64, n: u32) -> f64 {
    approx(bytes) / f64::from(n)
}

const DAY: Duration = Duration::from_secs(86_400);
/// Long enough after the origin for a window to look back.
const NOON: u64 = 43_200_000_000_000;
/// Requests a hundred nanoseconds apart: as fast as a program can ask, and no two at once.
const APART: u64 = 100;
