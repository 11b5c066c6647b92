//! `multi3_1t`: three limits at once, all or nothing.
//!
//! Ours decides under one lock and the peers cannot be called from two threads at a disadvantage:
//! all three can be shared. governor has no all-or-nothing: three checks in a row lose what the first
//! took when the last refuses, and are shown as the price to beat.

use std::time::Duration;

use super::versus;
use crate::contenders::ours::OursTogether;
use crate::contenders::{governor, throttle_net};
use crate::figure::{Figure, Goal};
use crate::measure::{Contender, Plan};

/// Three exact limits against three governors and a composite of three exact logs.
pub(crate) fn figures(plan: Plan) -> Vec<Figure> {
    let ours = OursTogether::sliding(&RULES);
    let [a, b, c] =
        RULES.map(|(limit, window)| governor::on_os_clock(governor::quota(limit, window)));
    let hybrid = throttle_net::hybrid(&RULES);
    versus(
        plan,
        "multi3_1t",
        Contender::alone("ours", move || ours.take()),
        vec![
            (
                Goal::Ratio(0.7),
                Contender::alone("governor, three checks, OS clock", move || {
                    a.check().is_ok() && b.check().is_ok() && c.check().is_ok()
                }),
            ),
            (
                Goal::Ratio(0.7),
                Contender::alone("throttle-net Hybrid of three logs", move || {
                    hybrid.try_acquire()
                }),
            ),
        ],
    )
}

/// The same pace over three windows, faster than a machine asks: all are allowed.
const RULES: [(u32, Duration); 3] = [
    (100, Duration::from_micros(1)),
    (1_000, Duration::from_micros(10)),
    (10_000, Duration::from_micros(100)),
];
