//! Entry of a call: it starts, waits in its queue, or is refused at once.

use std::task::Waker;
use std::time::Duration;

use outflow_core::{HealthState, Nanos};

use super::super::admission_check::StartRequest;
use super::super::endpoint::CallSubject;
use super::super::group_slot;
use super::super::state::AdmissionState;
use super::{
    AcquireRequest, AcquireResult, QueuePosition, StartEstimate, WaitDeadline, WaitQueues, Waiter, WaiterState,
};
use crate::event::EventKind;
use crate::refusal::{Refusal, RefusalReason};
use crate::rules::WaitMode;
use crate::upstream::{WaitEstimate, WaitReason};

impl WaitQueues {
    fn arrive(&mut self, request: AcquireRequest, now: Nanos) -> usize {
        let next = match request.position {
            QueuePosition::New | QueuePosition::Retrying => &mut self.next_number,
            QueuePosition::Returning => &mut self.next_return,
        };
        let number = *next;
        *next += 1;
        self.waiters.insert(Waiter {
            state: WaiterState::Detached,
            group: request.group,
            label: request.label,
            class: request.class,
            cost: request.cost,
            number,
            since: now,
            deadline: request.deadline(now),
            tracked: false,
            is_untried: request.position == QueuePosition::New,
            ends_call: matches!(request.deadline, WaitDeadline::BeforeEnd(_)),
        })
    }

    fn join(&mut self, request: AcquireRequest, now: Nanos, waker: Waker) -> usize {
        let key = self.arrive(request, now);
        self.mark_busy(request.group);
        let Self { groups, waiters, .. } = self;
        if let Some(queues) = groups.get_mut(group_slot(request.group)) {
            let queue = queues.queue_mut(request.class);
            match request.position {
                QueuePosition::New | QueuePosition::Retrying => queue.push_back(waiters, key, waker),
                QueuePosition::Returning => queue.insert_by_number(waiters, key, waker),
            }
        }
        key
    }

    /// Lets a waiter wait for an answer of the ledger, and no longer than this.
    fn become_impatient(&mut self, key: usize, end: Nanos) {
        if let Some(waiter) = self.waiters.get_mut(key) {
            waiter.deadline = end;
            // The end of its patience is not the end of the call.
            waiter.ends_call = false;
            self.impatient.push((key, waiter.number));
        }
    }

    /// Returns true if a waiter waits for no more than an answer of the ledger: its caller does not wait.
    fn is_impatient(&self, key: usize) -> bool {
        let number = self.waiters.get(key).map(|waiter| waiter.number);
        self.impatient
            .iter()
            .any(|(known, of)| *known == key && Some(*of) == number)
    }

    /// Takes the waiters that only wait for an answer of the ledger.
    fn take_impatient(&mut self) -> Vec<usize> {
        let Self { impatient, waiters, .. } = self;
        let known = impatient.drain(..).filter(|(key, number)| {
            let waiter = waiters.get(*key).filter(|waiter| waiter.number == *number);
            waiter.is_some_and(|waiter| matches!(waiter.state, WaiterState::Queued { .. }))
        });
        known.map(|(key, _)| key).collect()
    }

    /// Returns the request of a waiter.
    pub(super) fn request(&self, key: usize) -> Option<AcquireRequest> {
        let waiter = self.waiters.get(key)?;
        Some(AcquireRequest {
            group: waiter.group,
            label: waiter.label,
            cost: waiter.cost,
            class: waiter.class,
            deadline: WaitDeadline::At(waiter.deadline),
            mode: WaitMode::Wait,
            position: QueuePosition::New,
        })
    }
}

impl AdmissionState {
    /// Starts a call, queues it or refuses it.
    pub(in crate::upstream) fn enqueue(
        &mut self,
        mut request: AcquireRequest,
        now: Nanos,
        waker: &Waker,
    ) -> AcquireResult {
        request.group = self.pool.limits.resolve(request.group);
        if let Some(reason) = self.refusal_of_all() {
            return self.refuse(request.subject(), reason, None);
        }
        if let Some(limit) = self.pool.limits.find_too_small(request.group, request.cost) {
            let reason = RefusalReason::Never { limit };
            return self.refuse(request.subject(), reason, None);
        }
        // A state that ends takes its dispatched waiters back, and they come first.
        let circuit = self.pool.circuits.index_for(request.group);
        self.serve_timer(circuit, now);
        if request.mode == WaitMode::Reject {
            self.pool.circuits.get_mut(circuit).slow_start.end();
        }
        let start = StartRequest {
            group: request.group,
            label: request.label,
            cost: request.cost,
            is_behind: !self.wait.is_empty(),
        };
        match self.start(start, now) {
            Ok(attempt) => self.grant_or_pace(request, attempt, now, waker),
            Err(_) => self.wait_or_refuse(request, now, waker),
        }
    }

    /// Queues a call and dispatches whichever waiters may start. If it still waits, there may be a
    /// reason to refuse it.
    fn wait_or_refuse(&mut self, request: AcquireRequest, now: Nanos, waker: &Waker) -> AcquireResult {
        let mut estimator = self.estimator(request.group, now);
        let estimate = estimator.estimate_start(request);
        if let Some(cause) = estimator.find_fast_failure(request.group) {
            let wait = estimate.wait.eta.map(|at| at.since(now));
            let reason = RefusalReason::Blocked(Box::new(cause));
            return self.refuse(request.subject(), reason, wait);
        }
        let request = self.with_ledger_time(request, &estimate, now);
        let key = self.wait.join(request, now, waker.clone());
        self.dispatch(now);
        match self.poll(key, now, waker) {
            AcquireResult::Wait(key) => self.stay_or_refuse(request, key, estimate, now),
            result => result,
        }
    }

    /// Returns the shortest time in which a response can come. While the API is down, the first in the
    /// queue are those with the least time left: without this, each of them would be a probe that is cut
    /// off by its own deadline, and none would show that the API is back.
    pub(super) fn expected_latency(&self, group: u32) -> Duration {
        let circuit = self.pool.circuits.index_for(group);
        let lowest = self.pool.in_flight.latency.lowest();
        match self.pool.circuits.get(circuit).health.state() {
            HealthState::Normal => lowest.unwrap_or_default(),
            // A probe with hardly enough time says nothing.
            _ => lowest.map_or(UNKNOWN_LATENCY, |lowest| lowest.saturating_mul(2)),
        }
    }

    /// Grants a started call its permit. A paced one waits for its instant like a dispatched waiter.
    fn grant_or_pace(&mut self, request: AcquireRequest, attempt: usize, now: Nanos, waker: &Waker) -> AcquireResult {
        let from = self.pool.in_flight.send_at(attempt, now);
        if from <= now {
            return AcquireResult::Granted(self.grant(attempt, Duration::ZERO, now));
        }
        let key = self.wait.arrive(request, now);
        self.wait.pace(key, attempt, from, waker.clone());
        self.pool.effects.arm_timer(from);
        let estimate = WaitEstimate {
            reason: WaitReason::Turn,
            position: 0,
            eta: Some(from),
            unanswered: None,
        };
        self.stay_or_refuse(request, key, estimate.into(), now)
    }

    /// Lets a new waiter stay unless its wait is in vain or not wanted.
    fn stay_or_refuse(
        &mut self,
        request: AcquireRequest,
        key: usize,
        estimate: StartEstimate,
        now: Nanos,
    ) -> AcquireResult {
        let refusal = match self.ledger_patience(request, &estimate, now) {
            Some(end) => {
                self.wait.become_impatient(key, end);
                None
            }
            None => self.find_refusal(request, &estimate, self.wait.waiting(), now),
        };
        let Some(reason) = refusal else {
            let deadline = self.wait.track_deadline(key);
            self.pool.effects.arm_timer(deadline.unwrap_or(Nanos::MAX));
            self.emit_waiting(request, estimate.wait);
            return AcquireResult::Wait(key);
        };
        self.forget(key, now);
        let wait = estimate.wait.eta.map(|at| at.since(now));
        self.refuse(request.subject(), reason, wait)
    }

    /// Returns the instant until which a call that does not wait waits for an answer of the ledger, if it could start
    /// with it.
    fn ledger_patience(&self, request: AcquireRequest, estimate: &StartEstimate, now: Nanos) -> Option<Nanos> {
        // A ledger changes nothing about a state or the calls in flight.
        let is_quota = matches!(
            estimate.wait.reason,
            WaitReason::Limit { .. } | WaitReason::Ledger | WaitReason::Turn
        );
        if request.mode != WaitMode::Reject || !is_quota {
            return None;
        }
        let patience = self.pool.patience(request.group, request.cost, now)?;
        let end = request.deadline(now).min(now.saturating_add(patience));
        estimate.if_recovered.is_none_or(|at| at <= end).then_some(end)
    }

    /// Gives a call that only an answer of the ledger keeps from starting the time for it, since a call that can start
    /// at once does: however little time it has, for its wait or for the response.
    fn with_ledger_time(&self, request: AcquireRequest, estimate: &StartEstimate, now: Nanos) -> AcquireRequest {
        let patience = self.pool.patience(request.group, request.cost, now);
        let is_first = matches!(estimate.wait.reason, WaitReason::Ledger | WaitReason::Turn)
            && (estimate.wait.position, estimate.wait.eta) == (0, None);
        let Some(patience) = patience.filter(|_| is_first) else {
            return request;
        };
        let least = now.saturating_add(patience);
        let deadline = match request.deadline {
            WaitDeadline::BeforeEnd(end) if end < least.saturating_add(self.expected_latency(request.group)) => {
                end.max(least)
            }
            WaitDeadline::At(_) | WaitDeadline::Within(_) if request.deadline(now) < least => least,
            _ => return request,
        };
        AcquireRequest {
            deadline: WaitDeadline::At(deadline),
            ..request
        }
    }

    /// Returns the reason to refuse a call with this estimate, where `waiting` calls wait with it.
    pub(in crate::upstream) fn find_refusal(
        &self,
        request: AcquireRequest,
        estimate: &StartEstimate,
        waiting: usize,
        now: Nanos,
    ) -> Option<RefusalReason> {
        let deadline = match request.deadline {
            WaitDeadline::BeforeEnd(end) => end.saturating_sub(self.expected_latency(request.group)),
            _ => request.deadline(now),
        };
        let is_late = deadline <= now || estimate.if_recovered.is_some_and(|at| at > deadline);
        let reason = &estimate.wait.reason;
        let is_new = request.position != QueuePosition::Returning;
        // A call whose time is over is late in any mode, as it is for the dispatcher.
        if deadline >= now && request.mode == WaitMode::Reject {
            Some(RefusalReason::Busy(reason.clone()))
        } else if is_late {
            Some(RefusalReason::TooLate(reason.clone()))
        } else if is_new && waiting > self.pool.settings.queue {
            Some(RefusalReason::QueueFull)
        } else {
            None
        }
    }

    /// Refuses the waiters that wait for no more than an answer of the ledger, once it came without units.
    pub(in crate::upstream) fn refuse_impatient(&mut self, now: Nanos) {
        for key in self.wait.take_impatient() {
            let Some(request) = self.wait.request(key) else {
                continue;
            };
            if self.pool.awaits_ledger(request.group, request.cost, now) {
                self.wait.become_impatient(key, request.deadline(now));
                continue;
            }
            let estimate = self.estimator(request.group, now).estimate(request);
            let wait = estimate.eta.map(|at| at.since(now));
            self.refuse_waiter(key, RefusalReason::Busy(estimate.reason), wait, now);
        }
    }

    /// Removes a waiter whose future was dropped.
    pub(in crate::upstream) fn forget(&mut self, key: usize, now: Nanos) {
        let waker = self.wait.leave(key, WaiterState::Detached);
        self.pool.effects.retire(waker);
        let Some(waiter) = self.wait.waiters.try_remove(key) else {
            return;
        };
        if let WaiterState::Dispatched { attempt, waker, .. } = waiter.state {
            self.wait.paced.retain(|paced| *paced != key);
            self.pool.refund(attempt, now);
            self.pool.effects.retire(waker);
        }
        self.dispatch(now);
    }

    /// Refuses the waiters under a circuit whose deadline is before `end`.
    pub(in crate::upstream) fn refuse_late_waiters(&mut self, circuit: usize, end: Nanos, now: Nanos) {
        while let Some(key) = self.wait.pop_late(circuit, end) {
            self.refuse_late_waiter(key, now);
        }
    }

    /// Refuses the waiters of a group whose deadline is before `end`.
    pub(in crate::upstream) fn refuse_late_group(&mut self, group: u32, end: Nanos, now: Nanos) {
        for key in self.wait.find_late(group, end) {
            self.refuse_late_waiter(key, now);
        }
    }

    /// Refuses a waiter that cannot start in time, with the wait that a new call would have.
    pub(super) fn refuse_late_waiter(&mut self, key: usize, now: Nanos) {
        let Some(request) = self.wait.request(key) else {
            return;
        };
        let is_impatient = self.wait.is_impatient(key);
        let Some(waker) = self.wait.leave(key, WaiterState::Detached) else {
            return;
        };
        let estimate = self.estimator(request.group, now).estimate(request);
        let wait = estimate.eta.map(|at| at.since(now));
        self.pool.effects.wake([waker]);
        let awaits_ledger = estimate.position == 0 && self.pool.awaits_ledger(request.group, request.cost, now);
        let why = match estimate.reason {
            WaitReason::Turn if awaits_ledger => WaitReason::Ledger,
            reason => reason,
        };
        let reason = if is_impatient {
            RefusalReason::Busy(why)
        } else {
            RefusalReason::TooLate(why)
        };
        self.store_refusal(key, reason, wait, now);
    }

    /// Refuses all queued waiters under a circuit.
    pub(in crate::upstream) fn refuse_waiters(
        &mut self,
        circuit: usize,
        reason: &RefusalReason,
        retry_after: Option<Duration>,
        now: Nanos,
    ) {
        let is_queued = |state: &WaiterState| matches!(state, WaiterState::Queued { .. });
        for key in self.wait.find_under(circuit, is_queued) {
            self.refuse_waiter(key, reason.clone(), retry_after, now);
        }
    }

    /// Refuses a queued waiter.
    pub(in crate::upstream) fn refuse_waiter(
        &mut self,
        key: usize,
        reason: RefusalReason,
        retry_after: Option<Duration>,
        now: Nanos,
    ) {
        if let Some(waker) = self.wait.leave(key, WaiterState::Detached) {
            self.pool.effects.wake([waker]);
            self.store_refusal(key, reason, retry_after, now);
        }
    }

    fn store_refusal(&mut self, key: usize, reason: RefusalReason, retry_after: Option<Duration>, now: Nanos) {
        let Some(waiter) = self.wait.waiters.get(key) else {
            return;
        };
        let span = now.since(waiter.since);
        let subject = CallSubject {
            group: waiter.group,
            label: waiter.label,
        };
        let refusal = self.count_refusal(subject, reason, retry_after, span);
        if let Some(waiter) = self.wait.waiters.get_mut(key) {
            waiter.state = WaiterState::Refused(Box::new(refusal));
        }
    }

    fn refuse(&mut self, subject: CallSubject, reason: RefusalReason, retry_after: Option<Duration>) -> AcquireResult {
        AcquireResult::Refused(self.count_refusal(subject, reason, retry_after, Duration::ZERO))
    }

    fn count_refusal(
        &mut self,
        subject: CallSubject,
        reason: RefusalReason,
        retry_after: Option<Duration>,
        waited: Duration,
    ) -> Refusal {
        self.pool.limits.group_mut(subject.group).refused += 1;
        let refusal = Refusal { reason, retry_after };
        if self.pool.effects.has_observers() {
            let (group, endpoint) = self.pool.subject_names(subject);
            let refused = EventKind::Refused {
                group,
                endpoint,
                refusal: refusal.clone(),
                waited,
            };
            self.pool.effects.emit_call(subject.label.trace, refused);
        }
        refusal
    }

    fn emit_waiting(&mut self, request: AcquireRequest, explanation: WaitEstimate) {
        if self.pool.effects.has_observers() {
            let (group, endpoint) = self.pool.subject_names(request.subject());
            let waiting = EventKind::Waiting {
                group,
                endpoint,
                cost: request.cost,
                explanation,
            };
            self.pool.effects.emit_call(request.label.trace, waiting);
        }
    }
}

/// Latency of an API that is down and has never answered.
const UNKNOWN_LATENCY: Duration = Duration::from_millis(200);
