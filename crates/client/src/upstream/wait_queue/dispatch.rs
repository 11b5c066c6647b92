//! Being called: whose turn it is, and what the one who was called finds when it resumes.

use std::task::Waker;
use std::time::Duration;

use super::enqueue::{AcquireResult, CountsFrom, PermitParts};
use super::take::StampResult;
use super::{
    AdmissionState, BlockedBy, EventKind, FreedBy, Nanos, PriorityClass, Refusal, RefusalReason,
    WaiterState,
};
use crate::refusal::WaitReason;

impl AdmissionState {
    /// A call that waits asks what became of it.
    pub(in crate::upstream) fn poll(
        &mut self,
        key: usize,
        now: Nanos,
        waker: &Waker,
    ) -> AcquireResult {
        self.serve_timers_before(key, now);
        let Some(waiter) = self.waiters.get_mut(key) else {
            return AcquireResult::No(NOT_YET);
        };
        match &mut waiter.place {
            WaiterState::InLine { waker: kept, .. } => {
                if !kept.will_wake(waker) {
                    self.after
                        .retired
                        .push(std::mem::replace(kept, waker.clone()));
                }
                AcquireResult::Wait(key)
            }
            WaiterState::Called {
                from, waker: kept, ..
            } if *from > now => {
                let retired = kept.replace(waker.clone());
                self.after.retired.extend(retired);
                AcquireResult::Wait(key)
            }
            WaiterState::Called { flight, .. } => {
                let flight = *flight;
                self.resume(key, flight, now, waker)
            }
            WaiterState::Arriving | WaiterState::TurnedAway(_) => {
                match self.waiters.remove(key).place {
                    WaiterState::TurnedAway(refusal) => AcquireResult::No(*refusal),
                    _ => AcquireResult::No(NOT_YET),
                }
            }
        }
    }

    /// A state may have ended under which it was called, and nobody rung yet to say so.
    #[inline]
    fn serve_timers_before(&mut self, key: usize, now: Nanos) {
        let Some(lane) = self.waiters.get(key).map(|waiter| waiter.lane) else {
            return;
        };
        let ward = self.lane(lane).ward;
        let due = self.ward_ref(ward).health.next_wakeup();
        if due.is_some_and(|due| due <= now) {
            self.wake_circuit(ward, now);
            self.call_those_who_may_go(now);
        }
    }

    /// The one who was called is here. If its entry has expired in the meantime and there is no room
    /// for another, it goes back to where it stood.
    fn resume(&mut self, key: usize, flight: usize, now: Nanos, waker: &Waker) -> AcquireResult {
        let stamp = self.restamp(flight, now);
        if stamp == StampResult::Expired {
            return self.resume_in_vain(key, now, waker);
        }
        let waiter = self.waiters.remove(key);
        self.paced.retain(|paced| *paced != key);
        self.retire(waiter.place);
        let pass = self.pass(flight, now.since(waiter.since), now);
        // Entries that count from now may hold up another head than before.
        if stamp == StampResult::Renewed {
            self.call_if_freed(now);
        }
        AcquireResult::Go(pass)
    }

    fn resume_in_vain(&mut self, key: usize, now: Nanos, waker: &Waker) -> AcquireResult {
        self.return_to_line(key, Some(waker), now);
        if self
            .waiters
            .get(key)
            .is_some_and(|waiter| waiter.deadline < now)
        {
            self.turn_away_late(key, now);
        }
        self.call_those_who_may_go(now);
        match self.waiters.get(key).map(|waiter| &waiter.place) {
            Some(WaiterState::InLine { .. }) => AcquireResult::Wait(key),
            _ => self.poll(key, now, waker),
        }
    }

    /// The same where a call ended or was stamped anew. If time alone makes room, that made none, and
    /// the timer will call: whoever is woken from here stands in the queue of this very thread and
    /// would resume before those whom the timer has woken. A timer that is late is not waited for.
    pub(super) fn call_if_freed(&mut self, now: Nanos) {
        if now >= self.held_until.saturating_add(LATE) || self.held_until == Nanos::ZERO {
            self.call_those_who_may_go(now);
        }
    }

    /// Calls everybody who may go, in order.
    pub(in crate::upstream) fn call_those_who_may_go(&mut self, now: Nanos) {
        self.held_until = Nanos::ZERO;
        if self.busy.is_empty() {
            return;
        }
        self.wake_circuits(now);
        let mut next = Nanos::MAX;
        let mut skipped = SkippedGroups::default();
        while let Some((lane, key)) = self.whose_turn(&skipped) {
            let Err(obstacle) = self.call_next(lane, key, now) else {
                continue;
            };
            next = next.min(obstacle.until());
            match obstacle {
                BlockedBy::Own(_) => skipped.lanes.push(lane),
                BlockedBy::Ward(_) => skipped.wards.push(self.lane(lane).ward),
                BlockedBy::Shared(_) => break,
            }
            let class = self.class_of(key);
            if !self.waits_elsewhere(class, &skipped) {
                self.patience.tried(class);
            }
        }
        let by_time = self.freed == FreedBy::ByTime && skipped.wards.is_empty();
        if by_time && next < Nanos::MAX && self.is_one_line() {
            self.held_until = next;
        }
        self.consider(next);
    }

    /// Whether all who wait stand in one line, so that only its first can be next.
    fn is_one_line(&self) -> bool {
        match *self.busy {
            [lane] => self.lane_ref(lane).is_one_line(),
            _ => false,
        }
    }

    /// Whether one of this class waits where somebody may yet go. One that cannot go does not use up
    /// the turn of those of its class who can.
    fn waits_elsewhere(&self, class: PriorityClass, skipped: &SkippedGroups) -> bool {
        let mut lanes = self.lanes_left(skipped);
        lanes.any(|lane| !self.lane_ref(lane).line(class).is_empty())
    }

    fn lanes_left(&self, skipped: &SkippedGroups) -> impl Iterator<Item = u32> {
        let left = move |lane: &u32| {
            !skipped.lanes.contains(lane) && !skipped.wards.contains(&self.lane_ref(*lane).ward)
        };
        self.busy.iter().copied().filter(left)
    }

    fn whose_turn(&self, skipped: &SkippedGroups) -> Option<(u32, usize)> {
        let heads = self.lanes_left(skipped).filter_map(|lane| {
            let (rank, key) = self.lane_ref(lane).head(self.patience)?;
            Some((rank, self.waiters.get(key)?.number, lane, key))
        });
        heads.min().map(|(_, _, lane, key)| (lane, key))
    }

    /// Calls the one whose turn it is, or turns it away if it can no longer go in time.
    fn call_next(&mut self, lane: u32, key: usize, now: Nanos) -> Result<(), BlockedBy> {
        let Some(waiter) = self.waiters.get(key) else {
            return Ok(());
        };
        let (cost, deadline) = (waiter.cost, waiter.deadline);
        if deadline < now {
            self.turn_away_late(key, now);
            return Ok(());
        }
        let flight = self.take(lane, cost, now)?;
        let from = self
            .flights
            .get(flight)
            .map_or(now, super::InFlightAttempt::send_at);
        if from > deadline {
            self.hand_back(flight, now);
            self.turn_away(
                key,
                RefusalReason::TooLate(WaitReason::Turn),
                Some(from.since(now)),
                now,
            );
            return Ok(());
        }
        self.call(key, flight, from, now);
        Ok(())
    }

    fn call(&mut self, key: usize, flight: usize, from: Nanos, now: Nanos) {
        let called = WaiterState::Called {
            flight,
            from,
            waker: None,
        };
        let class = self.class_of(key);
        let Some((lane, waker)) = self.step_out(key, called) else {
            return self.hand_back(flight, now);
        };
        self.lane(lane).called(class);
        self.count_passed_over(class);
        if from > now {
            self.pace(key, from, waker);
        } else {
            self.after.wakes.push(waker);
        }
    }

    fn count_passed_over(&mut self, called: PriorityClass) {
        let Self {
            busy,
            lanes,
            patience,
            ..
        } = self;
        let waits = |class| {
            let mut lanes = busy
                .iter()
                .filter_map(|lane| lanes.get(super::place(*lane)));
            lanes.any(|lane| !lane.line(class).is_empty())
        };
        patience.called(called, waits);
    }

    pub(super) fn pace(&mut self, key: usize, from: Nanos, waker: Waker) {
        if let Some(WaiterState::Called { waker: kept, .. }) =
            self.waiters.get_mut(key).map(|waiter| &mut waiter.place)
        {
            *kept = Some(waker);
        }
        self.paced.push(key);
        self.consider(from);
    }

    /// Wakes those whose paced instant has come.
    pub(super) fn call_paced(&mut self, now: Nanos) {
        let mut later = Nanos::MAX;
        let Self {
            paced,
            waiters,
            after,
            ..
        } = self;
        paced.retain(|key| {
            let place = waiters.get_mut(*key).map(|waiter| &mut waiter.place);
            let Some(WaiterState::Called { from, waker, .. }) = place else {
                return false;
            };
            if *from > now {
                later = later.min(*from);
                return true;
            }
            after.wakes.extend(waker.take());
            false
        });
        self.consider(later);
    }

    pub(super) fn pass(&mut self, flight: usize, waited: Duration, now: Nanos) -> PermitParts {
        self.count_the_rest(flight, now);
        let Some(known) = self.flights.get(flight) else {
            return PermitParts {
                flight,
                id: 0,
                waited,
                stamped: CountsFrom::AtSending,
            };
        };
        let (id, cost, lane) = (known.id, known.cost, known.lane);
        self.lane(lane).admitted += 1;
        if self.after.heard {
            let group = self.lane(lane).name.clone();
            self.emit(EventKind::Admitted {
                group,
                permit: id,
                cost,
                waited,
            });
        }
        PermitParts {
            flight,
            id,
            waited,
            stamped: self.stamped(lane),
        }
    }
}

/// Lanes and wards that let nobody go in this round.
#[derive(Default)]
struct SkippedGroups {
    lanes: Vec<u32>,
    wards: Vec<usize>,
}

/// Later than the timer is where its thread gets to run at all, and a twentieth of the shortest window
/// in use.
const LATE: Duration = Duration::from_micros(500);

/// Stands where a waiter's answer will be; nobody ever sees it.
const NOT_YET: Refusal = Refusal {
    cause: RefusalReason::ShuttingDown,
    retry_after: None,
};
