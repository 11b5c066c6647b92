//! `health_*`: admit, admit and record, reject.
//!
//! Each peer is compared with three of ours. The plain name reads the OS clock and takes the lock. `pure` takes
//! the lock and gets the time, as in a program that reads the clock once for its limits and its health.
//! `pure_bare` has no lock either, as inside the lock of the limits. The goals were set for a machine that gets
//! the time, and are shown for all three. The peers read no clock while closed.
//!
//! recloser and tower-resilience have no check without a call: their admit is a whole cycle.

use std::hint::black_box;

use outflow::SystemClock;
use outflow_core::{Clock as _, Health, Nanos};
use recloser::Recloser;

use super::REFUSED;
use crate::contenders::health::{SharedHealth, cycle, shut_out, ticket, well};
use crate::contenders::tower_resilience::Idle;
use crate::contenders::{breakers, throttle_net, tower_resilience};
use crate::figure::{Figure, Goal};
use crate::measure::{Contender, Plan, contest};

/// Measures admit, admit and record, and reject.
pub(crate) fn figures(plan: Plan) -> Vec<Figure> {
    [Question::Admit, Question::Cycle, Question::Reject]
        .into_iter()
        .flat_map(|question| ask(plan, question))
        .collect()
}

fn ask(plan: Plan, question: Question) -> Vec<Figure> {
    let ours = Way::ALL.map(|way| way.ours(question));
    let series = contest(plan, ours.into_iter().chain(question.peers()).collect());
    let Some((ours, peers)) = series.split_at_checked(Way::ALL.len()) else {
        return Vec::new();
    };
    let mut figures = Vec::new();
    for (way, ours) in Way::ALL.into_iter().zip(ours) {
        let name = format!("health_{}{}", question.name(), way.name());
        let goals = [Goal::Ratio(question.goal())]
            .into_iter()
            .chain(std::iter::repeat(Goal::Shown));
        let rows = peers.iter().zip(goals);
        figures.extend(rows.map(|(peer, goal)| Figure::against(&name, goal, ours, peer)));
    }
    if peers.len() < PEERS {
        let name = format!("health_{}", question.name());
        figures.push(Figure::missing(&name, tower_resilience::BREAKER, REFUSED));
    }
    figures
}

/// Measured operation.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Question {
    Admit,
    Cycle,
    Reject,
}

impl Question {
    fn name(self) -> &'static str {
        match self {
            Self::Admit => "admit",
            Self::Cycle => "cycle",
            Self::Reject => "reject",
        }
    }

    fn goal(self) -> f64 {
        match self {
            Self::Admit => 0.2,
            Self::Cycle => 0.65,
            Self::Reject => 0.3,
        }
    }

    fn machine(self, now: Nanos) -> Health {
        match self {
            Self::Admit | Self::Cycle => well(now),
            Self::Reject => shut_out(now),
        }
    }

    /// Returns the peers, the fastest first: its goal counts.
    fn peers(self) -> Vec<Contender<'static>> {
        let mut peers = vec![self.recloser(), self.failsafe(), self.throttle_net()];
        peers.extend(self.tower());
        peers
    }

    fn recloser(self) -> Contender<'static> {
        let breaker = breakers::recloser();
        if self == Self::Reject {
            while call(&breaker, Err(())) != Some(false) {}
        }
        let expected = self.expected();
        Contender::alone("recloser (whole call)", move || {
            call(&breaker, black_box(Ok(()))).is_none() == expected
        })
    }

    fn failsafe(self) -> Contender<'static> {
        let breaker = breakers::failsafe();
        while self == Self::Reject && breaker.is_call_permitted() {
            breaker.on_error();
        }
        let expected = self.expected();
        Contender::alone("failsafe", move || {
            let permitted = breaker.is_call_permitted();
            if self == Self::Cycle {
                breaker.on_success();
            }
            permitted == expected
        })
    }

    fn throttle_net(self) -> Contender<'static> {
        let breaker = throttle_net::breaker();
        while self == Self::Reject && breaker.try_acquire().is_ok() {
            breaker.record_failure();
        }
        let expected = self.expected();
        Contender::alone("throttle-net CircuitBreaker", move || {
            let permitted = match breaker.try_acquire() {
                Ok(Some(permit)) if self == Self::Cycle => {
                    permit.success();
                    true
                }
                // Refunded unused, as a request that was never sent.
                Ok(Some(permit)) => {
                    permit.cancel();
                    true
                }
                Ok(None) | Err(_) => false,
            };
            permitted == expected
        })
    }

    fn tower(self) -> Option<Contender<'static>> {
        let fails = self == Self::Reject;
        let mut service = tower_resilience::breaker(Idle { fails })?;
        for _ in 0..if fails { 1_000 } else { 0 } {
            tower_resilience::call(&mut service);
        }
        let expected = self.expected();
        let op = move || tower_resilience::call(&mut service) == expected;
        Some(Contender::alone(tower_resilience::BREAKER, op))
    }

    /// Returns true if the decision should be to allow.
    fn expected(self) -> bool {
        self != Self::Reject
    }
}

/// Variant of ours.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Clock,
    Pure,
    PureBare,
}

impl Way {
    const ALL: [Self; 3] = [Self::Clock, Self::Pure, Self::PureBare];

    fn name(self) -> &'static str {
        match self {
            Self::Clock => "",
            Self::Pure => "_pure",
            Self::PureBare => "_pure_bare",
        }
    }

    fn ours(self, question: Question) -> Contender<'static> {
        match self {
            Self::Clock => {
                let shared = SharedHealth::new(|now| question.machine(now));
                let clock = shared.clock;
                asked(question, shared, move || clock.now())
            }
            Self::Pure => {
                let shared = SharedHealth::new(|now| question.machine(now));
                let now = shared.clock.now();
                asked(question, shared, move || black_box(now))
            }
            Self::PureBare => bare(question),
        }
    }
}

fn asked(question: Question, shared: SharedHealth, clock: impl Fn() -> Nanos + 'static) -> Contender<'static> {
    match question {
        Question::Admit => Contender::alone("ours", move || shared.admits(clock())),
        Question::Cycle => Contender::alone("ours", move || shared.cycles(&clock)),
        Question::Reject => Contender::alone("ours", move || !shared.admits(clock())),
    }
}

fn bare(question: Question) -> Contender<'static> {
    let now = SystemClock::new().now();
    let mut health = question.machine(now);
    match question {
        Question::Admit => Contender::alone("ours", move || ticket(&mut health, black_box(now)).is_some()),
        Question::Cycle => Contender::alone("ours", move || cycle(&mut health, black_box(now), black_box(now))),
        Question::Reject => Contender::alone("ours", move || ticket(&mut health, black_box(now)).is_none()),
    }
}

/// Returns `None` if the call succeeded, else whether it was made at all.
fn call(breaker: &Recloser, answer: Result<(), ()>) -> Option<bool> {
    match breaker.call(|| answer) {
        Ok(()) => None,
        Err(recloser::Error::Inner(())) => Some(true),
        Err(recloser::Error::Rejected) => Some(false),
    }
}

/// recloser, failsafe, throttle-net and tower-resilience.
const PEERS: usize = 4;
