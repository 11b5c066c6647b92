//! `multi3_1t`: three limits at once, all or nothing.
//!
//! Ours is the shared limiter, which decides under one lock. `multi3_set_1t` is the meter set, which also
//! counts arrivals, behind the lock that a program would put around it. Threads can share all of them. governor
//! has no all-or-nothing: three checks in a row lose the units of the first when the last refuses, and are
//! shown as the cost to beat.

use std::time::Duration;

use outflow_core::Cost;

use super::versus;
use crate::contenders::ours::{Ours, OursTogether};
use crate::contenders::{governor, throttle_net};
use crate::figure::{Figure, Goal};
use crate::measure::{Contender, Plan};

/// Measures three exact limits against three governors and a composite of three exact logs.
pub(crate) fn figures(plan: Plan) -> Vec<Figure> {
    let shared = Ours::all_of(&RULES);
    let set = OursTogether::sliding(&RULES);
    let take = move || shared.take(Cost::ONE).is_some();
    let mut figures = versus(
        plan,
        "multi3_1t",
        Contender::alone("ours", take),
        peers(Goal::Ratio(0.7)),
    );
    figures.extend(versus(
        plan,
        "multi3_set_1t",
        Contender::alone("ours", move || set.take()),
        peers(Goal::Shown),
    ));
    figures
}

fn peers(goal: Goal) -> Vec<(Goal, Contender<'static>)> {
    let [a, b, c] = RULES.map(|(limit, window)| governor::on_os_clock(governor::quota(limit, window)));
    let hybrid = throttle_net::hybrid(&RULES);
    vec![
        (
            goal,
            Contender::alone("governor, three checks, OS clock", move || {
                a.check().is_ok() && b.check().is_ok() && c.check().is_ok()
            }),
        ),
        (
            goal,
            Contender::alone("throttle-net Hybrid of three logs", move || hybrid.try_acquire()),
        ),
    ]
}

/// One pace over three windows, faster than a machine sends: all are allowed.
const RULES: [(u32, Duration); 3] = [
    (100, Duration::from_micros(1)),
    (1_000, Duration::from_micros(10)),
    (10_000, Duration::from_micros(100)),
];
