//! `growth_n`, `after_idle_us`: cost of a limit of a million compared with a limit of a hundred.
//!
//! Time is counted here, not read: one nanosecond per request and a window of `limit` nanoseconds keep the log
//! exactly full. One entry expires for each new one. The OS clock is still read and its value discarded, except
//! where the name says `pure`.

use std::hint::black_box;
use std::time::Duration;

use outflow_core::{Cost, Nanos};

use crate::clock;
use crate::contenders::ours::Ours;
use crate::contenders::throttle_net;
use crate::figure::{Figure, Goal};
use crate::measure::{Contender, Plan, Series, contest};

/// Measures the growth with the size of the log, and the first request after all entries expired.
pub(crate) fn figures(plan: Plan) -> Vec<Figure> {
    let series = contest(
        plan,
        vec![
            full_log("ours at 100", SMALL, Reading::Clock),
            full_log("ours at 1,000,000", LARGE, Reading::Clock),
            full_log("ours at 100, pure", SMALL, Reading::Pure),
            full_log("ours at 1,000,000, pure", LARGE, Reading::Pure),
            peer_log("throttle-net at 100", SMALL),
            peer_log("throttle-net at 1,000,000", LARGE),
        ],
    );
    let [small, large, pure_small, pure_large, peer_small, peer_large] = series.as_slice() else {
        return Vec::new();
    };
    let growth = ratios(large, small);
    let pure = ratios(pure_large, pure_small);
    let peers = ratios(peer_large, peer_small);
    let peer: [(&str, &[f64]); 1] = [(throttle_net::LOG, &peers)];
    let mut figures = Figure::with_peers("growth_n", Goal::Own(1.2), &growth, &peer);
    figures.extend(Figure::with_peers("growth_n_pure", Goal::Shown, &pure, &[]));
    figures.extend(after_idle(plan));
    figures
}

/// Use of the OS clock in addition to the counted time.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reading {
    Clock,
    Pure,
}

fn full_log(name: &'static str, limit: u32, reading: Reading) -> Contender<'static> {
    let ours = Ours::sliding(limit, Duration::from_nanos(u64::from(limit)));
    let mut now = START;
    let mut take = move || {
        now += 1;
        ours.take_at(Nanos::from_nanos(now), Cost::ONE).is_some()
    };
    for _ in 0..limit {
        take();
    }
    Contender::alone(name, move || {
        if reading == Reading::Clock {
            black_box(clock::read());
        }
        take()
    })
}

fn peer_log(name: &'static str, limit: u32) -> Contender<'static> {
    let (log, clock) = throttle_net::log_at(limit, Duration::from_nanos(u64::from(limit)));
    let take = move || {
        clock.advance(Duration::from_nanos(1));
        log.try_acquire()
    };
    for _ in 0..limit {
        take();
    }
    Contender::alone(name, move || {
        black_box(clock::read());
        take()
    })
}

fn after_idle(plan: Plan) -> Vec<Figure> {
    let (mut mine, mut theirs) = (Vec::new(), Vec::new());
    for _ in plan.turns() {
        mine.push(idle_ours());
        theirs.push(idle_peer());
    }
    Figure::with_peers("after_idle_us", Goal::Own(2.0), &mine, &[(throttle_net::LOG, &theirs)])
}

fn idle_ours() -> f64 {
    let ours = Ours::sliding(LARGE, WINDOW);
    for tick in 0..u64::from(LARGE) {
        black_box(ours.take_at(Nanos::from_nanos(START + tick), Cost::ONE).is_some());
    }
    let later = Nanos::from_nanos(START).saturating_add(WINDOW * 3);
    micros(|| ours.take_at(later, Cost::ONE).is_some())
}

fn idle_peer() -> f64 {
    let (log, clock) = throttle_net::log_at(LARGE, WINDOW);
    for _ in 0..LARGE {
        black_box(log.try_acquire());
    }
    clock.advance(WINDOW * 3);
    micros(|| log.try_acquire())
}

fn micros(op: impl FnOnce() -> bool) -> f64 {
    let start = clock::read();
    black_box(op());
    clock::read().duration_since(start).as_secs_f64() * 1e6
}

fn ratios(large: &Series, small: &Series) -> Vec<f64> {
    large
        .nanos
        .iter()
        .zip(&small.nanos)
        .map(|(large, small)| large / small)
        .collect()
}

const SMALL: u32 = 100;
const LARGE: u32 = 1_000_000;
const WINDOW: Duration = Duration::from_mins(1);
/// An hour after the origin: no window starts before the beginning of time.
const START: u64 = 3_600_000_000_000;
