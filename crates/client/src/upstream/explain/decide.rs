//! The decision about a call that is not made.
//!
//! It takes the steps of [`enqueue`](super::super::wait_queue) in their order and reads where they take. A test
//! compares the two in random situations.

use std::time::Duration;

use outflow_core::{Decision, Nanos};

use super::super::state::AdmissionState;
use super::super::wait_queue::{AcquireRequest, StartEstimate};
use super::{CallDecision, WaitEstimate, WaitReason};
use crate::refusal::{Refusal, RefusalReason};
use crate::rules::WaitMode;

impl AdmissionState {
    /// Returns what would happen to a call now.
    pub(in crate::upstream) fn decide(&mut self, mut request: AcquireRequest, now: Nanos) -> CallDecision {
        request.group = self.pool.limits.resolve(request.group);
        if let Some(reason) = self.refusal_of_all() {
            return refuse(reason, None, now);
        }
        if let Some(limit) = self.pool.limits.find_too_small(request.group, request.cost) {
            return refuse(RefusalReason::Never { limit }, None, now);
        }
        let circuit = self.pool.circuits.index_for(request.group);
        self.serve_timer(circuit, now);
        // A caller that does not wait ends the slow start; this one only asks.
        let slow_start = self.pool.circuits.get(circuit).slow_start;
        if request.mode == WaitMode::Reject {
            self.pool.circuits.get_mut(circuit).slow_start.end();
        }
        let decision = self.decide_open(request, now);
        let decision = self.add_unanswered(request, decision, now);
        self.pool.circuits.get_mut(circuit).slow_start = slow_start;
        decision
    }

    /// Asks the ledger for the units of a call that lacks no more than its answer, as the call itself does. Returns the
    /// time for which an answer is worth a wait.
    pub(in crate::upstream) fn ask_ledger(&mut self, mut request: AcquireRequest, now: Nanos) -> Option<Duration> {
        request.group = self.pool.limits.resolve(request.group);
        let patience = self.pool.patience(request.group, request.cost, now)?;
        let can_go = self.wait.is_empty()
            && self.pool.limits.find_too_small(request.group, request.cost).is_none()
            && self.find_start(request, now).is_some();
        if !can_go {
            return None;
        }
        self.pool.own(request.group, now).want_lease(now, request.cost);
        self.pool.limits.shared.want_lease(now, request.cost);
        self.pool.check_leases(request.group, now);
        Some(patience)
    }

    fn decide_open(&mut self, request: AcquireRequest, now: Nanos) -> CallDecision {
        if self.wait.is_empty()
            && let Some(from) = self.find_start(request, now)
        {
            return self.decide_paced(request, from, now);
        }
        let mut estimator = self.estimator(request.group, now);
        let estimate = estimator.estimate_start(request);
        if let Some(cause) = estimator.find_fast_failure(request.group) {
            let reason = RefusalReason::Blocked(Box::new(cause));
            return refuse(reason, estimate.wait.eta, now);
        }
        if estimator.check(request).is_allow() {
            return CallDecision::Go;
        }
        self.wait_or_refuse_estimate(request, estimate, now)
    }

    fn decide_paced(&self, request: AcquireRequest, from: Nanos, now: Nanos) -> CallDecision {
        if from <= now {
            return CallDecision::Go;
        }
        let estimate = WaitEstimate {
            reason: WaitReason::Turn,
            position: 0,
            eta: Some(from),
            unanswered: None,
        };
        self.wait_or_refuse_estimate(request, estimate.into(), now)
    }

    fn wait_or_refuse_estimate(&self, request: AcquireRequest, estimate: StartEstimate, now: Nanos) -> CallDecision {
        let waiting = self.wait.waiting().saturating_add(1);
        match self.find_refusal(request, &estimate, waiting, now) {
            Some(reason) => refuse(reason, estimate.wait.eta, now),
            None => CallDecision::Wait(estimate.wait),
        }
    }

    /// Adds the calls in flight that a waiting call waits for.
    fn add_unanswered(&mut self, request: AcquireRequest, decision: CallDecision, now: Nanos) -> CallDecision {
        match decision {
            CallDecision::Wait(wait) => CallDecision::Wait(WaitEstimate {
                unanswered: self.estimator(request.group, now).find_unanswered(request, &wait),
                ..wait
            }),
            decision => decision,
        }
    }

    /// Returns the instant at which a call without waiters ahead would be sent, if it may start now.
    fn find_start(&mut self, request: AcquireRequest, now: Nanos) -> Option<Nanos> {
        let circuit = self.pool.circuits.index_for(request.group);
        if self.pool.check_circuit(circuit, now).is_some() {
            return None;
        }
        let own = self.pool.own(request.group, now).check_start(now, request.cost);
        let shared = self.pool.limits.shared.check_start(now, request.cost);
        match (own, shared) {
            (Decision::Allow(own), Decision::Allow(shared)) => Some(own.max(shared)),
            _ => None,
        }
    }
}

fn refuse(reason: RefusalReason, eta: Option<Nanos>, now: Nanos) -> CallDecision {
    CallDecision::Refuse(Refusal {
        reason,
        retry_after: eta.map(|at| at.since(now)),
    })
}
