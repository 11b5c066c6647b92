//! Foreseeing: when a call would go, and what it waits for until then.
//!
//! The earliest slot that the limits allow, with all who are ahead gone first. It can come later, when
//! those in flight take long; it cannot come sooner. So a deadline before it is refused at once.

use outflow_core::{Rate, State};

use super::ask::Caller;
use super::{CLASSES, Closed, Cost, Gate, Nanos, Obstacle, WhenAsleep};
use crate::refusal::{Explanation, Why};
use crate::rules::Mode;

impl Gate {
    pub(in crate::upstream) fn impossible(&self, lane: u32, cost: Cost) -> Option<Rate> {
        let own = self.lane_ref(lane).limits.impossible(cost);
        own.or_else(|| self.shared.impossible(cost))
    }

    /// The state that is answered at once instead of waited for.
    pub(super) fn fails_fast(&mut self, lane: u32, now: Nanos) -> Option<State> {
        let refuse = self.rules.when_asleep == WhenAsleep::Refuse;
        let ward = self.lane(lane).ward;
        match self.ticket(ward, now) {
            Err(Closed::Asleep { state, until }) if refuse || until.is_none() => Some(state),
            Ok(ticket) => {
                self.ward(ward).health.abandon(now, ticket);
                None
            }
            Err(_) => None,
        }
    }

    /// When a newcomer would go, and what it waits for.
    pub(in crate::upstream) fn forecast(
        &mut self,
        caller: Caller,
        blocked: Option<Obstacle>,
        now: Nanos,
    ) -> Explanation {
        let (position, ahead) = self.lane(caller.lane).ahead(caller.class);
        self.outlook(caller, (position, ahead), blocked, now)
    }

    pub(super) fn outlook(
        &mut self,
        caller: Caller,
        (position, ahead): (usize, u64),
        blocked: Option<Obstacle>,
        now: Nanos,
    ) -> Explanation {
        let everybody: u64 = self
            .lanes
            .iter()
            .map(|lane| lane.ahead(caller.class).1)
            .sum();
        let own = self.lane(caller.lane).limits.slot(now, ahead, caller.cost);
        let shared = self.shared.slot(now, everybody.max(ahead), caller.cost);
        let slot = if shared.at > own.at { shared } else { own };
        let ward = self.lane(caller.lane).ward;
        let closed = match blocked {
            Some(Obstacle::Ward(closed)) => Some(closed),
            _ => self.closed(ward, now),
        };
        let why = match (closed, slot.rate) {
            (Some(Closed::Asleep { state, .. }), _) => Why::State(state),
            (Some(Closed::Cooling { .. }), _) => Why::Cooldown,
            (Some(Closed::Probing { .. }), _) => Why::State(State::HalfOpen),
            (_, Some(rate)) => Why::Limit { rate },
            (Some(Closed::Full { most }), None) => Why::Concurrency { most },
            (Some(Closed::Overdue) | None, None) => Why::Turn,
        };
        let opens = closed.map_or(now, |closed| match Obstacle::Ward(closed).until() {
            Nanos::MAX => now,
            at => at,
        });
        let known = slot.at.max(opens);
        Explanation {
            why,
            position,
            eta: (known > now).then_some(known),
        }
    }

    /// Whether nothing goes for a reason that no time ends.
    pub(in crate::upstream) fn blocked_without_end(&mut self, lane: u32, now: Nanos) -> bool {
        let ward = self.lane(lane).ward;
        self.closed(ward, now).is_some()
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
        let caller = Caller {
            lane: waiter.lane,
            cost: waiter.cost,
            class: waiter.class,
            deadline: Some(waiter.deadline),
            max_wait: std::time::Duration::ZERO,
            mode: Mode::Wait,
        };
        let lane = self.lane_ref(caller.lane);
        let better = CLASSES.iter().filter(|class| **class > caller.class);
        let (mut position, mut ahead) = better.fold((0, 0), |(length, cost), class| {
            let others = lane.line(*class);
            (
                length + usize::try_from(others.length()).unwrap_or(0),
                cost + others.cost(),
            )
        });
        let before = lane.line(caller.class).before(&self.waiters, key);
        position += before;
        ahead += u64::try_from(before).unwrap_or(u64::MAX);
        Some(self.outlook(caller, (position, ahead), None, now))
    }
}
