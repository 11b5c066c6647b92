//! `bytes_*`: size of one logged request.
//!
//! The bytes that the limiter allocated and still holds after `n` requests, divided by `n`; no entry has
//! expired. The limiter value itself is not counted.
//!
//! Ours has two logs. The shared limiter keeps a slot for every unit: best for unit costs. The meter keeps one
//! entry for every request of any cost, so it suits weighted requests. Both are shown.

use std::time::Duration;

use crate::alloc::weigh;
use crate::contenders::ours::{Ours, OursTogether};
use crate::contenders::{throttle_net, tower_resilience};
use crate::figure::{Figure, Goal};
use crate::measure::approx;

/// Measures unit and weighted logs of 100, 10,000 and 1,000,000 requests.
pub(crate) fn figures() -> Vec<Figure> {
    let sizes = [("_100", 100), ("_10k", 10_000), ("", 1_000_000)];
    let unit = sizes
        .into_iter()
        .flat_map(|(suffix, n)| unit(&format!("bytes_unit{suffix}"), n));
    let weighted = sizes
        .into_iter()
        .flat_map(|(suffix, n)| weighted(&format!("bytes_weighted{suffix}"), n));
    unit.chain(weighted).collect()
}

fn unit(name: &str, n: u32) -> Vec<Figure> {
    let one = |_| 1;
    let ours = shared(n, n, one);
    let theirs = [throttle_log(n, n, one)];
    let meter = [meter(n, n, one)];
    let tower = tower_log(n).map(|bytes| [bytes]);
    let mut peers: Vec<(&str, &[f64])> = vec![(METER, &meter), (throttle_net::LOG, &theirs)];
    if let Some(tower) = &tower {
        peers.push((tower_resilience::LOG, tower));
    }
    Figure::with_peers(name, Goal::Own(8.0), &[ours], &peers)
}

fn weighted(name: &str, n: u32) -> Vec<Figure> {
    let cost = |at| at % 10 + 1;
    // Just enough for all of them.
    let limit = (0..n).map(cost).sum();
    Figure::with_peers(
        name,
        Goal::Own(12.0),
        &[meter(limit, n, cost)],
        &[
            ("ours, shared limiter", &[shared(limit, n, cost)]),
            (throttle_net::LOG, &[throttle_log(limit, n, cost)]),
        ],
    )
}

fn shared(limit: u32, n: u32, cost: impl Fn(u32) -> u32) -> f64 {
    per_request(n, || {
        let ours = Ours::sliding(limit, DAY);
        (0..n).for_each(|at| assert!(ours.logs(at, cost(at)), "the limit has quota"));
        ours
    })
}

fn meter(limit: u32, n: u32, cost: impl Fn(u32) -> u32) -> f64 {
    per_request(n, || {
        let ours = OursTogether::sliding(&[(limit, DAY)]);
        (0..n).for_each(|at| assert!(ours.logs(at, cost(at)), "the limit has quota"));
        ours
    })
}

fn throttle_log(limit: u32, n: u32, cost: impl Fn(u32) -> u32) -> f64 {
    per_request(n, || {
        let log = throttle_net::log(limit, DAY);
        (0..n).for_each(|at| assert!(log.try_acquire_with_cost(cost(at)), "the limit has quota"));
        log
    })
}

fn tower_log(n: u32) -> Option<f64> {
    let (log, bytes) = weigh(|| tower_resilience::log(n, DAY));
    let mut log = log?;
    let ((), more) = weigh(|| {
        (0..n).for_each(|_| assert!(tower_resilience::call(&mut log), "the limit has quota"));
    });
    Some(approx(bytes + more) / f64::from(n))
}

fn per_request<T>(n: u32, log: impl FnOnce() -> T) -> f64 {
    let (held, bytes) = weigh(log);
    drop(held);
    approx(bytes) / f64::from(n)
}

const METER: &str = "ours, meter";
const DAY: Duration = Duration::from_hours(24);
