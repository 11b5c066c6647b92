//! `p999_saturated_us`: the slowest calls when eight threads use one limit.

use std::sync::Barrier;
use std::time::Instant;

use outflow_core::Cost;

use super::{ALLOWING, GOVERNOR};
use crate::clock;
use crate::contenders::ours::Ours;
use crate::contenders::{governor, throttle_net};
use crate::figure::{Figure, Goal};
use crate::measure::{Plan, quantile};

/// Measures the 99.9th percentile of one allow, in microseconds.
pub(crate) fn figures(plan: Plan) -> Vec<Figure> {
    let ours = Ours::sliding(100, ALLOWING);
    let governor = governor::on_os_clock(governor::quota(100, ALLOWING));
    let log = throttle_net::log(100, ALLOWING);
    let (mut mine, mut governors, mut logs) = (Vec::new(), Vec::new(), Vec::new());
    for _ in plan.turns() {
        mine.push(p999_us(&|| ours.take(Cost::ONE).is_some()));
        governors.push(p999_us(&|| governor.check().is_ok()));
        logs.push(p999_us(&|| log.try_acquire()));
    }
    let peers: [(&str, &[f64]); 2] = [(GOVERNOR, &governors), (throttle_net::LOG, &logs)];
    Figure::with_peers("p999_saturated_us", Goal::Own(5.0), &mine, &peers)
}

fn p999_us(op: &(impl Fn() -> bool + Sync)) -> f64 {
    let barrier = Barrier::new(THREADS);
    let waits: Vec<f64> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..THREADS)
            .map(|_| {
                scope.spawn(|| {
                    barrier.wait();
                    waits(op)
                })
            })
            .collect();
        workers
            .into_iter()
            .filter_map(|worker| worker.join().ok())
            .flatten()
            .collect()
    });
    quantile(&waits, 0.999)
}

/// Measures from one decision to the next, so that the threads do nothing else.
fn waits(op: &impl Fn() -> bool) -> Vec<f64> {
    let mut waits = Vec::with_capacity(OPS);
    let mut last: Instant = clock::read();
    for _ in 0..OPS {
        std::hint::black_box(op());
        let now = clock::read();
        waits.push(now.duration_since(last).as_secs_f64() * 1e6);
        last = now;
    }
    waits
}

const THREADS: usize = 8;
/// Some milliseconds per thread: longer than a time slice of the scheduler, so that slices end under the lock.
const OPS: usize = 50_000;
