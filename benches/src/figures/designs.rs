//! `designs`: ways to share an exact limiter between threads, compared with governor.
//!
//! These figures have no goal: they are the measurement behind the design of the core.

use std::sync::Mutex;
use std::time::Duration;

use outflow::SystemClock;
use outflow_core::Clock as _;

use super::{ALLOWING, GOVERNOR, REFUSING};
use crate::contenders::designs::{Design, FlagRing, LockFreeRing, Ring, ShyRing, Wait};
use crate::contenders::governor;
use crate::figure::{Figure, Goal};
use crate::measure::{Contender, Plan, contest};

/// Measures allows and refusals of every design with 1, 2 and 8 threads.
pub(crate) fn figures(plan: Plan) -> Vec<Figure> {
    let mut figures = Vec::new();
    for threads in [1, 2, 8] {
        figures.extend(race(plan, threads, "allow", ALLOWING));
        figures.extend(race(plan, threads, "deny", REFUSING));
    }
    figures
}

fn race(plan: Plan, threads: u64, what: &str, window: Duration) -> Vec<Figure> {
    let allows = window == ALLOWING;
    let nanos = u64::try_from(window.as_nanos()).unwrap_or(u64::MAX);
    let governor = governor::on_os_clock(governor::quota(100, window));
    while !allows && governor.check().is_ok() {}
    let contender = |name, design: Box<dyn Design>| prototype(name, threads, design, allows);
    let series = contest(
        plan,
        vec![
            governors(threads, || governor.check().is_ok() == allows),
            contender("std mutex", Box::new(Mutex::new(Ring::new(100, nanos)))),
            contender(
                "parking_lot mutex",
                Box::new(parking_lot::Mutex::new(Ring::new(100, nanos))),
            ),
            contender("flag, spins", Box::new(FlagRing::new(100, nanos, Wait::Spin))),
            contender(
                "flag, spins then yields",
                Box::new(FlagRing::new(100, nanos, Wait::Yield)),
            ),
            contender("shy flag, spins", Box::new(ShyRing::new(100, nanos, Wait::Spin))),
            contender(
                "shy flag, spins then yields",
                Box::new(ShyRing::new(100, nanos, Wait::Yield)),
            ),
            contender("lock-free ring", Box::new(LockFreeRing::new(100, nanos))),
        ],
    );
    let name = format!("designs_{what}_{threads}t");
    let Some((governor, designs)) = series.split_first() else {
        return Vec::new();
    };
    // The prototypes are ours: the peer of each is governor.
    designs
        .iter()
        .map(|design| Figure::against(&format!("{name}: {}", design.name), Goal::Shown, design, governor))
        .collect()
}

fn governors<'a>(threads: u64, op: impl Fn() -> bool + Sync + 'a) -> Contender<'a> {
    if threads == 1 {
        return Contender::alone(GOVERNOR, op);
    }
    Contender::on_threads(GOVERNOR, threads, op)
}

fn prototype(name: &'static str, threads: u64, design: Box<dyn Design>, allows: bool) -> Contender<'static> {
    let clock = SystemClock::new();
    while !allows && design.take(clock.now().as_nanos()) {}
    let op = move || design.take(clock.now().as_nanos()) == allows;
    if threads == 1 {
        return Contender::alone(name, op);
    }
    Contender::on_threads(name, threads, op)
}
