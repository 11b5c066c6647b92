//! Foreseeing: when a call would go, and what it waits for until then.
//!
//! The slot that the limits leave, with all who are ahead gone first. It can come later, when those in
//! flight take long or others come who go before. A deadline before it is refused at once.
//!
//! Worked out, not played through: a line of ten thousand would be played through for each who joins
//! it. What that costs is said where it is done.

use outflow_core::{HealthState, Rate};

use super::super::group::{NEWCOMER, QueueAhead};
use super::super::limits::{EarliestFit, FitTime};
use super::enqueue::{AcquireRequest, QueueStanding, WaitDeadline};
use super::{AdmissionState, BlockReason, Cost, Nanos, WaiterState, WhenAsleep};
use crate::refusal::{WaitEstimate, WaitReason};
use crate::rules::WaitMode;

impl AdmissionState {
    pub(in crate::upstream) fn impossible(&self, lane: u32, cost: Cost) -> Option<Rate> {
        let own = self.lane_ref(lane).impossible(cost);
        own.or_else(|| self.shared.impossible(cost))
    }

    /// The state that is answered at once instead of waited for.
    pub(super) fn fails_fast(&mut self, lane: u32, now: Nanos) -> Option<HealthState> {
        let refuse = self.rules.when_asleep == WhenAsleep::Refuse;
        let ward = self.lane(lane).ward;
        match self.closed(ward, now) {
            Some(BlockReason::Asleep { state, until }) if refuse || until.is_none() => Some(state),
            _ => None,
        }
    }

    /// When one of this number would go, and what it waits for.
    pub(super) fn outlook(
        &mut self,
        caller: AcquireRequest,
        number: u64,
        now: Nanos,
    ) -> WaitEstimate {
        let ward = self.lane(caller.lane).ward;
        let closed = self.closed(ward, now);
        let opens = closed.and_then(BlockReason::opens);
        let when = FitTime {
            now,
            from: opens.unwrap_or(now),
        };
        let lane = self.lane_ref(caller.lane);
        let ahead = lane.ahead(&self.waiters, caller.class, number);
        let slot = self.slot(caller, number, ahead, when);
        let without_end = matches!(closed, Some(BlockReason::Asleep { until: None, .. }));
        WaitEstimate {
            why: why(closed, slot.rate),
            position: usize::try_from(ahead.count).unwrap_or(usize::MAX),
            eta: (slot.at > now && !without_end).then_some(slot.at),
        }
    }

    /// The later of the slots that its group's limits and those of the API leave.
    fn slot(
        &mut self,
        caller: AcquireRequest,
        number: u64,
        ahead: QueueAhead,
        when: FitTime,
    ) -> EarliestFit {
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
    fn others_by(
        &mut self,
        until: Nanos,
        caller: AcquireRequest,
        number: u64,
        when: FitTime,
    ) -> QueueAhead {
        let ward = self.lane(caller.lane).ward;
        let mut sum = QueueAhead::default();
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

    pub(super) fn closed(&mut self, ward: usize, now: Nanos) -> Option<BlockReason> {
        match self.ticket(ward, now) {
            Ok(ticket) => {
                self.circuit_mut(ward).health.abandon(now, ticket);
                None
            }
            Err(closed) => Some(closed),
        }
    }

    /// Where one who waits stands now.
    pub(in crate::upstream) fn explain(&mut self, key: usize, now: Nanos) -> Option<WaitEstimate> {
        let waiter = self.waiters.get(key)?;
        match waiter.place {
            WaiterState::InLine { .. } => {
                let number = waiter.number;
                let caller = self.caller(key)?;
                Some(self.outlook(caller, number, now))
            }
            WaiterState::Called { from, .. } if from > now => Some(WaitEstimate {
                why: WaitReason::Turn,
                position: 0,
                eta: Some(from),
            }),
            WaiterState::Arriving | WaiterState::Called { .. } | WaiterState::TurnedAway(_) => None,
        }
    }

    /// When a newcomer would go, and what it would wait for.
    pub(super) fn forecast(&mut self, caller: AcquireRequest, now: Nanos) -> WaitEstimate {
        let number = match caller.standing {
            QueueStanding::New => NEWCOMER,
            QueueStanding::Returning => self.next_return,
        };
        self.outlook(caller, number, now)
    }

    /// What one who waits asked for.
    pub(super) fn caller(&self, key: usize) -> Option<AcquireRequest> {
        let waiter = self.waiters.get(key)?;
        Some(AcquireRequest {
            lane: waiter.lane,
            cost: waiter.cost,
            class: waiter.class,
            term: WaitDeadline::By(waiter.deadline),
            mode: WaitMode::Wait,
            standing: QueueStanding::New,
        })
    }
}

fn why(closed: Option<BlockReason>, rate: Option<Rate>) -> WaitReason {
    match (closed, rate) {
        (Some(BlockReason::Asleep { state, .. }), _) => WaitReason::State(state),
        (Some(BlockReason::Cooling { .. }), _) => WaitReason::Cooldown,
        (Some(BlockReason::Probing { .. }), _) => WaitReason::State(HealthState::HalfOpen),
        (_, Some(rate)) => WaitReason::Limit { rate },
        (Some(BlockReason::Full { most, .. }), None) => WaitReason::Concurrency { most },
        (Some(BlockReason::Overdue) | None, None) => WaitReason::Turn,
    }
}

/// With limits in each group and one beside them two rounds are the rule; a third finds the few who
/// come in by the second.
const ROUNDS: u32 = 4;
