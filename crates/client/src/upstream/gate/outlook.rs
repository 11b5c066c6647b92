//! Foreseeing: when a call would go, and what it waits for until then.
//!
//! The slot that the limits leave, with all who are ahead gone first. It can come later, when those in
//! flight take long or others come who go before. A deadline before it is refused at once.
//!
//! Worked out, not played through: a line of ten thousand would be played through for each who joins
//! it. What that costs is said where it is done.

use outflow_core::{Rate, State};

use super::super::lane::{Ahead, NEWCOMER};
use super::super::limits::{Slot, When};
use super::ask::{Caller, Standing, Term};
use super::{Closed, Cost, Gate, Nanos, Place, WhenAsleep};
use crate::refusal::{Explanation, Why};
use crate::rules::Mode;

impl Gate {
    pub(in crate::upstream) fn impossible(&self, lane: u32, cost: Cost) -> Option<Rate> {
        let own = self.lane_ref(lane).impossible(cost);
        own.or_else(|| self.shared.impossible(cost))
    }

    /// The state that is answered at once instead of waited for.
    pub(super) fn fails_fast(&mut self, lane: u32, now: Nanos) -> Option<State> {
        let refuse = self.rules.when_asleep == WhenAsleep::Refuse;
        let ward = self.lane(lane).ward;
        match self.closed(ward, now) {
            Some(Closed::Asleep { state, until }) if refuse || until.is_none() => Some(state),
            _ => None,
        }
    }

    /// When one of this number would go, and what it waits for.
    pub(super) fn outlook(&mut self, caller: Caller, number: u64, now: Nanos) -> Explanation {
        let ward = self.lane(caller.lane).ward;
        let closed = self.closed(ward, now);
        let opens = closed.and_then(Closed::opens);
        let when = When {
            now,
            from: opens.unwrap_or(now),
        };
        let lane = self.lane_ref(caller.lane);
        let ahead = lane.ahead(&self.waiters, caller.class, number);
        let slot = self.slot(caller, number, ahead, when);
        let without_end = matches!(closed, Some(Closed::Asleep { until: None, .. }));
        Explanation {
            why: why(closed, slot.rate),
            position: usize::try_from(ahead.count).unwrap_or(usize::MAX),
            eta: (slot.at > now && !without_end).then_some(slot.at),
        }
    }

    /// The later of the slots that its group's limits and those of the API leave.
    fn slot(&mut self, caller: Caller, number: u64, ahead: Ahead, when: When) -> Slot {
        let limits = self.own(caller.lane, when.now);
        let own = limits.slot(when, ahead, caller.cost);
        let mut slot = self.shared.slot(when, ahead, caller.cost);
        // Each round lets those of other lanes go first who can have gone by then; the slot only moves
        // back, and stands still as soon as that brings nobody new.
        for _ in 0..ROUNDS {
            let others = self.others_by(slot.at.max(own.at), caller, number, when);
            let next = self.shared.slot(when, ahead.and(others), caller.cost);
            if next.at <= slot.at {
                break;
            }
            slot = next;
        }
        if slot.at > own.at { slot } else { own }
    }

    /// Those of other lanes who go before it and can have gone by `until`.
    fn others_by(&mut self, until: Nanos, caller: Caller, number: u64, when: When) -> Ahead {
        let ward = self.lane(caller.lane).ward;
        let mut sum = Ahead::default();
        for place in 0..self.busy.len() {
            let Some(lane) = self.busy.get(place).copied() else {
                continue;
            };
            let theirs = self.lane_ref(lane).ward;
            let stuck = theirs != ward && self.closed(theirs, when.now).is_some();
            if lane == caller.lane || stuck {
                continue;
            }
            let ahead = self
                .lane_ref(lane)
                .ahead(&self.waiters, caller.class, number);
            let limits = self.own(lane, when.now);
            sum = sum.and(limits.passing_by(until, when, ahead));
        }
        sum
    }

    pub(super) fn closed(&mut self, ward: usize, now: Nanos) -> Option<Closed> {
        match self.ticket(ward, now) {
            Ok(ticket) => {
                self.ward(ward).health.abandon(now, ticket);
                None
            }
            Err(closed) => Some(closed),
        }
    }

    /// Where one who waits stands now.
    pub(in crate::upstream) fn explain(&mut self, key: usize, now: Nanos) -> Option<Explanation> {
        let waiter = self.waiters.get(key)?;
        match waiter.place {
            Place::InLine { .. } => {
                let number = waiter.number;
                let caller = self.caller(key)?;
                Some(self.outlook(caller, number, now))
            }
            Place::Called { from, .. } if from > now => Some(Explanation {
                why: Why::Turn,
                position: 0,
                eta: Some(from),
            }),
            Place::Arriving | Place::Called { .. } | Place::TurnedAway(_) => None,
        }
    }

    /// When a newcomer would go, and what it would wait for.
    pub(super) fn forecast(&mut self, caller: Caller, now: Nanos) -> Explanation {
        let number = match caller.standing {
            Standing::New => NEWCOMER,
            Standing::Returning => self.next_return,
        };
        self.outlook(caller, number, now)
    }

    /// What one who waits asked for.
    pub(super) fn caller(&self, key: usize) -> Option<Caller> {
        let waiter = self.waiters.get(key)?;
        Some(Caller {
            lane: waiter.lane,
            cost: waiter.cost,
            class: waiter.class,
            term: Term::By(waiter.deadline),
            mode: Mode::Wait,
            standing: Standing::New,
        })
    }
}

fn why(closed: Option<Closed>, rate: Option<Rate>) -> Why {
    match (closed, rate) {
        (Some(Closed::Asleep { state, .. }), _) => Why::State(state),
        (Some(Closed::Cooling { .. }), _) => Why::Cooldown,
        (Some(Closed::Probing { .. }), _) => Why::State(State::HalfOpen),
        (_, Some(rate)) => Why::Limit { rate },
        (Some(Closed::Full { most, .. }), None) => Why::Concurrency { most },
        (Some(Closed::Overdue) | None, None) => Why::Turn,
    }
}

/// With limits in each group and one beside them two rounds are the rule; a third finds the few who
/// come in by the second.
const ROUNDS: u32 = 4;
