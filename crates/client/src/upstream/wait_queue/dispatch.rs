//! Dispatch: the choice of the next waiter, and its resumption.
//!
//! The dispatcher takes the permit for the next waiter and wakes it. Waking the first waiter to take its
//! own permit would let one future that is not polled block all others.

use std::task::Waker;
use std::time::Duration;

use outflow_core::{HealthState, Nanos};

use super::super::admission_check::{BlockedBy, StartRequest};
use super::super::circuit::{Circuits, circuit_index};
use super::super::effects::EffectQueue;
use super::super::endpoint::CallLabel;
use super::super::group_slot;
use super::super::in_flight::StampResult;
use super::super::limits::FreedBy;
use super::super::state::AdmissionState;
use super::{AcquireResult, PermitParts, PriorityClass, WaitQueues, WaiterState};
use crate::event::EventKind;
use crate::refusal::{Refusal, RefusalReason};
use crate::upstream::WaitReason;

/// Groups and circuits that allow no start in this round.
#[derive(Default)]
struct SkippedGroups {
    groups: Vec<u32>,
    circuits: Vec<usize>,
}

impl WaitQueues {
    /// Returns true if all waiters are in one queue, so that only its first can be next.
    fn is_one_queue(&self) -> bool {
        match *self.busy {
            [group] => self.group(group).is_one_queue(),
            _ => false,
        }
    }

    /// Returns true if a class has waiters in a group that may still start. A blocked waiter does not use
    /// up the turn of others of its class.
    fn waits_elsewhere(&self, class: PriorityClass, skipped: &SkippedGroups) -> bool {
        let mut groups = self.groups_left(skipped);
        groups.any(|group| !self.group(group).queue(class).is_empty())
    }

    fn groups_left(&self, skipped: &SkippedGroups) -> impl Iterator<Item = u32> {
        let left = move |group: &u32| {
            let circuit = circuit_index(self.scope, *group);
            !skipped.groups.contains(group) && !skipped.circuits.contains(&circuit)
        };
        self.busy.iter().copied().filter(left)
    }

    /// Returns the next waiter and its group. A probe is best made by a call without an attempt: one that
    /// failed before may fail at any API, and would keep a recovered one asleep.
    fn next_waiter(&self, skipped: &SkippedGroups, circuits: &Circuits) -> Option<(u32, usize)> {
        let heads = self.groups_left(skipped).filter_map(|group| {
            let queues = self.group(group);
            let is_probing = circuits.get(circuit_index(self.scope, group)).health.state() == HealthState::HalfOpen;
            let untried = is_probing
                .then(|| queues.first_untried(&self.waiters, self.aging))
                .flatten();
            let (rank, key) = untried.or_else(|| queues.head(self.aging))?;
            let is_tried = is_probing && untried.is_none();
            Some((is_tried, rank, self.waiters.get(key)?.number, group, key))
        });
        heads.min().map(|(_, _, _, group, key)| (group, key))
    }

    /// Takes a waiter out of its queue with an attempt and returns its waker.
    fn take_next(&mut self, key: usize, attempt: usize, from: Nanos) -> Option<Waker> {
        let waiter = self.waiters.get(key)?;
        let (group, class) = (waiter.group, waiter.class);
        let dispatched = WaiterState::Dispatched {
            attempt,
            from,
            waker: None,
        };
        let waker = self.leave(key, dispatched)?;
        self.group_mut(group).record_dispatch(class);
        let Self {
            busy, groups, aging, ..
        } = self;
        let waits = |class| {
            let groups = busy.iter().filter_map(|group| groups.get(group_slot(*group)));
            groups.into_iter().any(|one| !one.queue(class).is_empty())
        };
        aging.record_dispatch(class, waits);
        Some(waker)
    }

    /// Holds a waiter with its attempt until its paced instant.
    pub(super) fn pace(&mut self, key: usize, attempt: usize, from: Nanos, waker: Waker) {
        if let Some(waiter) = self.waiters.get_mut(key) {
            waiter.state = WaiterState::Dispatched {
                attempt,
                from,
                waker: Some(waker),
            };
        }
        self.paced.push(key);
    }

    /// Wakes the waiters whose paced instant has come, and returns the next such instant.
    fn wake_paced(&mut self, effects: &mut EffectQueue, now: Nanos) -> Nanos {
        let mut later = Nanos::MAX;
        let Self { paced, waiters, .. } = self;
        paced.retain(|key| {
            let state = waiters.get_mut(*key).map(|waiter| &mut waiter.state);
            let Some(WaiterState::Dispatched { from, waker, .. }) = state else {
                return false;
            };
            if *from > now {
                later = later.min(*from);
                return true;
            }
            effects.wake(waker.take());
            false
        });
        later
    }
}

impl AdmissionState {
    /// Answers a waiter that polls.
    pub(in crate::upstream) fn poll(&mut self, key: usize, now: Nanos, waker: &Waker) -> AcquireResult {
        self.serve_timer_of(key, now);
        let Some(waiter) = self.wait.waiters.get_mut(key) else {
            return AcquireResult::Refused(UNKNOWN_WAITER);
        };
        match &mut waiter.state {
            WaiterState::Queued { waker: stored, .. } => {
                if !stored.will_wake(waker) {
                    let old = std::mem::replace(stored, waker.clone());
                    self.pool.effects.retire([old]);
                }
                AcquireResult::Wait(key)
            }
            WaiterState::Dispatched {
                from, waker: stored, ..
            } if *from > now => {
                let old = stored.replace(waker.clone());
                self.pool.effects.retire(old);
                AcquireResult::Wait(key)
            }
            WaiterState::Dispatched { attempt, .. } => {
                let attempt = *attempt;
                self.resume(key, attempt, now, waker)
            }
            WaiterState::Detached | WaiterState::Refused(_) => match self.wait.waiters.remove(key).state {
                WaiterState::Refused(refusal) => AcquireResult::Refused(*refusal),
                _ => AcquireResult::Refused(UNKNOWN_WAITER),
            },
        }
    }

    /// Serves the timer of a waiter's circuit: the state it was dispatched in may have ended.
    #[inline]
    fn serve_timer_of(&mut self, key: usize, now: Nanos) {
        let Some(waiter) = self.wait.waiters.get(key) else {
            return;
        };
        let circuit = self.pool.circuits.index_for(waiter.group);
        if self.pool.circuits.is_due(circuit, now) {
            self.serve_timer(circuit, now);
            self.dispatch(now);
        }
    }

    /// Grants a dispatched waiter its permit. If its receipts expired meanwhile and the quota is used
    /// up, it returns to its queue.
    fn resume(&mut self, key: usize, attempt: usize, now: Nanos, waker: &Waker) -> AcquireResult {
        let stamp = self.pool.restamp(attempt, now);
        if stamp == StampResult::Expired {
            return self.resume_expired(key, now, waker);
        }
        let waiter = self.wait.waiters.remove(key);
        self.wait.paced.retain(|paced| *paced != key);
        if let WaiterState::Dispatched { waker, .. } = waiter.state {
            self.pool.effects.retire(waker);
        }
        let permit = self.grant(attempt, now.since(waiter.since), now);
        // Receipts that count from now may block another head than before.
        if stamp == StampResult::Renewed {
            self.dispatch_if_freed(now);
        }
        AcquireResult::Granted(permit)
    }

    fn resume_expired(&mut self, key: usize, now: Nanos, waker: &Waker) -> AcquireResult {
        self.undo_dispatch(key, Some(waker), now);
        let waiter = self.wait.waiters.get(key);
        if waiter.is_some_and(|waiter| waiter.deadline < now) {
            self.refuse_late_waiter(key, now);
        }
        self.dispatch(now);
        match self.wait.waiters.get(key).map(|waiter| &waiter.state) {
            Some(WaiterState::Queued { .. }) => AcquireResult::Wait(key),
            _ => self.poll(key, now, waker),
        }
    }

    /// Takes back all dispatched waiters of a circuit that have not resumed: the conditions of their
    /// dispatch changed. Their pending polls find them queued again.
    pub(in crate::upstream) fn recall(&mut self, circuit: usize, now: Nanos) {
        let is_dispatched = |state: &WaiterState| matches!(state, WaiterState::Dispatched { .. });
        for key in self.wait.find_under(circuit, is_dispatched) {
            self.undo_dispatch(key, None, now);
        }
    }

    /// Refunds the attempt of a dispatched waiter and puts it back to its position.
    fn undo_dispatch(&mut self, key: usize, waker: Option<&Waker>, now: Nanos) {
        let Some(waiter) = self.wait.waiters.get_mut(key) else {
            return;
        };
        let WaiterState::Dispatched {
            attempt, waker: stored, ..
        } = &mut waiter.state
        else {
            return;
        };
        let (attempt, stored) = (*attempt, stored.take());
        waiter.state = WaiterState::Detached;
        self.wait.paced.retain(|paced| *paced != key);
        self.pool.refund(attempt, now);
        // A woken waiter that has not polled yet needs no waker until it does.
        let waker = waker.cloned().or_else(|| stored.clone());
        let waker = waker.unwrap_or_else(|| Waker::noop().clone());
        self.pool.effects.retire(stored);
        let deadline = self.wait.requeue(key, waker);
        self.pool.effects.arm_timer(deadline.unwrap_or(Nanos::MAX));
    }

    /// Dispatches waiters after a call ended or was stamped again. If only time frees quota, the timer
    /// dispatches instead: a waiter woken here would resume on this thread before those of the timer.
    /// A late timer is not awaited.
    pub(in crate::upstream) fn dispatch_if_freed(&mut self, now: Nanos) {
        let blocked_until = self.pool.limits.blocked_until;
        if now >= blocked_until.saturating_add(TIMER_TOLERANCE) || blocked_until == Nanos::ZERO {
            self.dispatch(now);
        }
    }

    /// Dispatches all waiters that may start, in order.
    pub(in crate::upstream) fn dispatch(&mut self, now: Nanos) {
        self.pool.limits.unblock();
        if self.wait.is_empty() {
            return;
        }
        self.serve_timers(now);
        let mut next = Nanos::MAX;
        let mut skipped = SkippedGroups::default();
        while let Some((group, key)) = self.wait.next_waiter(&skipped, &self.pool.circuits) {
            let Err(blocked_by) = self.dispatch_next(group, key, now) else {
                continue;
            };
            next = next.min(blocked_by.until());
            match blocked_by {
                BlockedBy::OwnLimit(_) => skipped.groups.push(group),
                BlockedBy::Circuit(_) => {
                    let circuit = self.pool.circuits.index_for(group);
                    skipped.circuits.push(circuit);
                }
                BlockedBy::SharedLimit(_) | BlockedBy::Queue => break,
            }
            let class = self.wait.class_of(key);
            if !self.wait.waits_elsewhere(class, &skipped) {
                self.wait.aging.reset(class);
            }
        }
        let by_time = self.pool.limits.freed_by == FreedBy::Time && skipped.circuits.is_empty();
        if by_time && next < Nanos::MAX && self.wait.is_one_queue() {
            self.pool.limits.blocked_until = next;
        }
        self.pool.effects.arm_timer(next);
    }

    /// Dispatches the next waiter, or refuses it if it cannot start in time.
    fn dispatch_next(&mut self, group: u32, key: usize, now: Nanos) -> Result<(), BlockedBy> {
        let Some(waiter) = self.wait.waiters.get(key) else {
            return Ok(());
        };
        let (label, cost, deadline) = (waiter.label, waiter.cost, waiter.deadline);
        let is_hopeless = waiter.ends_call && deadline < now.saturating_add(self.expected_latency(group));
        if deadline < now || is_hopeless {
            self.refuse_late_waiter(key, now);
            return Ok(());
        }
        let start = StartRequest {
            group,
            label,
            cost,
            is_behind: false,
        };
        let attempt = self.start(start, now)?;
        let from = self.pool.in_flight.send_at(attempt, now);
        if from > deadline {
            self.pool.refund(attempt, now);
            let reason = RefusalReason::TooLate(WaitReason::Turn);
            self.refuse_waiter(key, reason, Some(from.since(now)), now);
            return Ok(());
        }
        match self.wait.take_next(key, attempt, from) {
            None => self.pool.refund(attempt, now),
            Some(waker) if from > now => {
                self.wait.pace(key, attempt, from, waker);
                self.pool.effects.arm_timer(from);
            }
            Some(waker) => self.pool.effects.wake([waker]),
        }
        Ok(())
    }

    /// Takes an attempt for a call, and spaces the next start if the circuit recovers from a cooldown.
    #[inline]
    pub(super) fn start(&mut self, request: StartRequest, now: Nanos) -> Result<usize, BlockedBy> {
        let attempt = self.pool.take(request, now)?;
        let circuit = self.pool.circuits.index_for(request.group);
        let waiting = self.wait.waiting_under(circuit);
        self.pool.circuits.space_starts(circuit, waiting, now);
        Ok(attempt)
    }

    /// Wakes the waiters whose paced instant has come.
    pub(in crate::upstream) fn wake_paced(&mut self, now: Nanos) {
        let later = self.wait.wake_paced(&mut self.pool.effects, now);
        self.pool.effects.arm_timer(later);
    }

    /// Turns an attempt into a permit.
    pub(super) fn grant(&mut self, attempt: usize, waited: Duration, now: Nanos) -> PermitParts {
        self.pool.charge_excess(attempt, now);
        let Some(known) = self.pool.in_flight.get(attempt) else {
            return PermitParts {
                attempt,
                id: 0,
                label: CallLabel::default(),
                waited,
                counts_sends: true,
                valid_until: Nanos::MAX,
            };
        };
        let (id, cost, subject) = (known.id, known.cost, known.subject());
        let valid_until = self.pool.lease_end(subject.group, &known.receipts);
        self.pool.limits.group_mut(subject.group).admitted += 1;
        if self.pool.effects.has_observers() {
            let (group, endpoint) = self.pool.subject_names(subject);
            let admitted = EventKind::Admitted {
                group,
                endpoint,
                permit: id,
                cost,
                waited,
            };
            self.pool.effects.emit_call(subject.label.trace, admitted);
        }
        PermitParts {
            attempt,
            id,
            label: subject.label,
            waited,
            counts_sends: self.pool.limits.counts_sends(subject.group),
            valid_until,
        }
    }
}

/// Later than a timer thread that gets to run at all, and a twentieth of the shortest window in use.
const TIMER_TOLERANCE: Duration = Duration::from_micros(500);

/// Answer to a waiter that the state does not know; no caller gets it.
const UNKNOWN_WAITER: Refusal = Refusal {
    reason: RefusalReason::ShuttingDown,
    retry_after: None,
};
