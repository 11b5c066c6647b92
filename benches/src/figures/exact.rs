//! `exact_*`, `gcra_*`: one limit, shared or not, compared with governor and the exact logs.

use std::num::NonZeroU32;
use std::time::Duration;

use outflow_core::Cost;

use super::{ALLOWING, GOVERNOR, GOVERNOR_TSC, REFUSED, REFUSING, versus};
use crate::contenders::ours::Ours;
use crate::contenders::{governor, throttle_net, tower_resilience};
use crate::figure::{Figure, Goal};
use crate::measure::{Contender, Plan};

/// Measures all of them.
pub(crate) fn figures(plan: Plan) -> Vec<Figure> {
    let mut figures = Vec::new();
    for threads in [1, 2, 8] {
        figures.extend(unit(plan, threads, Decision::Allow));
        figures.extend(unit(plan, threads, Decision::Deny));
    }
    figures.extend(refund(plan));
    figures.extend(weighted(plan));
    figures.extend(gcra(plan, 1));
    figures.extend(gcra(plan, 2));
    figures
}

/// Decision that a figure measures.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Decision {
    Allow,
    Deny,
}

impl Decision {
    fn window(self) -> Duration {
        match self {
            Self::Allow => ALLOWING,
            Self::Deny => REFUSING,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Deny => "deny",
        }
    }

    /// Returns a contender that always gives this decision: a refusing one is used up first.
    fn on_threads<'a>(self, name: &'static str, threads: u64, take: impl Fn() -> bool + Sync + 'a) -> Contender<'a> {
        while self == Self::Deny && take() {}
        let allows = self == Self::Allow;
        if threads == 1 {
            return Contender::alone(name, move || take() == allows);
        }
        Contender::on_threads(name, threads, move || take() == allows)
    }
}

fn unit(plan: Plan, threads: u64, decision: Decision) -> Vec<Figure> {
    let window = decision.window();
    let ours = Ours::sliding(100, window);
    let governor = governor::on_os_clock(governor::quota(100, window));
    let tsc = governor::on_default_clock(governor::quota(100, window));
    let log = throttle_net::log(100, window);
    let (goal, default_goal) = if threads == 1 {
        (Goal::Ratio(0.85), Goal::Shown)
    } else {
        (Goal::Ratio(0.75), Goal::Ratio(0.95))
    };
    let mut peers = vec![
        (
            goal,
            decision.on_threads(GOVERNOR, threads, move || governor.check().is_ok()),
        ),
        (
            default_goal,
            decision.on_threads(GOVERNOR_TSC, threads, move || tsc.check().is_ok()),
        ),
        (
            Goal::Shown,
            decision.on_threads(throttle_net::LOG, threads, move || log.try_acquire()),
        ),
    ];
    let tower = tower_log(window, decision);
    let name = format!("exact_unit_{}_{threads}t", decision.name());
    let mut missing = Vec::new();
    match tower {
        // One caller owns the service, so it is compared with single threads only.
        _ if threads > 1 => {}
        Some(tower) => peers.push((Goal::Shown, tower)),
        None => missing.push(Figure::missing(&name, tower_resilience::LOG, REFUSED)),
    }
    let ours = decision.on_threads("ours", threads, move || ours.take(Cost::ONE).is_some());
    let mut figures = versus(plan, &name, ours, peers);
    figures.append(&mut missing);
    figures
}

fn tower_log(window: Duration, decision: Decision) -> Option<Contender<'static>> {
    let mut service = tower_resilience::log(100, window)?;
    while decision == Decision::Deny && tower_resilience::call(&mut service) {}
    let allows = decision == Decision::Allow;
    let op = move || tower_resilience::call(&mut service) == allows;
    Some(Contender::alone(tower_resilience::LOG, op))
}

fn refund(plan: Plan) -> Vec<Figure> {
    let ours = Ours::sliding(100, ALLOWING);
    let governor = governor::on_os_clock(governor::quota(100, ALLOWING));
    let log = throttle_net::log(100, ALLOWING);
    let give_back = move || {
        let taken = log.try_acquire();
        log.refund(1);
        taken
    };
    versus(
        plan,
        "exact_refund_1t",
        Contender::alone("ours", move || ours.take_and_refund()),
        vec![
            (
                Goal::Ratio(1.2),
                Contender::alone("governor, one check, OS clock", move || governor.check().is_ok()),
            ),
            (Goal::Shown, Contender::alone("throttle-net log + refund", give_back)),
        ],
    )
}

/// Measures weighted costs. The limit is a thousand in a microsecond: 180 requests of the mean cost of 5.5, so
/// that all are allowed.
fn weighted(plan: Plan) -> Vec<Figure> {
    let ours = Ours::sliding(1_000, ALLOWING);
    let governor = governor::on_os_clock(governor::quota(1_000, ALLOWING));
    let log = throttle_net::log(1_000, ALLOWING);
    let (mut a, mut b, mut c) = (Costs::default(), Costs::default(), Costs::default());
    versus(
        plan,
        "exact_weighted_1t",
        Contender::alone("ours", move || {
            ours.take(Cost::new(u64::from(a.next().get()))).is_some()
        }),
        vec![
            (
                Goal::Ratio(1.2),
                Contender::alone("governor check_n, OS clock", move || {
                    matches!(governor.check_n(b.next()), Ok(Ok(())))
                }),
            ),
            (
                Goal::Shown,
                Contender::alone(throttle_net::LOG, move || log.try_acquire_with_cost(c.next().get())),
            ),
        ],
    )
}

fn gcra(plan: Plan, threads: u64) -> Vec<Figure> {
    let ours = Ours::bucket(100, ALLOWING);
    let governor = governor::on_os_clock(governor::quota(100, ALLOWING));
    let bucket = throttle_net::bucket(100, ALLOWING);
    let allow = Decision::Allow;
    versus(
        plan,
        &format!("gcra_{threads}t"),
        allow.on_threads("ours", threads, move || ours.take(Cost::ONE).is_some()),
        vec![
            (
                Goal::Ratio(1.0),
                allow.on_threads(GOVERNOR, threads, move || governor.check().is_ok()),
            ),
            (
                Goal::Shown,
                allow.on_threads("throttle-net Throttle", threads, move || bucket.try_acquire()),
            ),
        ],
    )
}

/// Costs from 1 to 10, in a cycle.
#[derive(Default)]
struct Costs(u32);

impl Costs {
    #[inline]
    fn next(&mut self) -> NonZeroU32 {
        self.0 = if self.0 >= 10 { 1 } else { self.0 + 1 };
        NonZeroU32::new(self.0).unwrap_or(NonZeroU32::MIN)
    }
}
