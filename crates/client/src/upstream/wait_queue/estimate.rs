//! Estimate of a call's start.
//!
//! The estimate is the earliest fit in all limits after the calls ahead. A real start may be later, if
//! calls in flight take long or higher priorities arrive. A deadline before the estimate is refused at
//! once, unless a rate that fell a moment ago could still serve it.
//!
//! It is computed, not simulated: a queue of ten thousand would be simulated for each call that joins.

use outflow_core::{Cost, Decision, Nanos};

use super::super::circuit::BlockReason;
use super::super::explain::LimitRates;
use super::super::limits::{EarliestFit, FitPace, FitTime};
use super::super::permit_pool::PermitPool;
use super::super::report::LimitScope;
use super::{AcquireRequest, NEWCOMER, QueueAhead, QueuePosition, WaitQueues, WaiterState};
use crate::rules::WhenAsleep;
use crate::upstream::{LoweredLimit, StateCause, UnansweredCalls, WaitEstimate, WaitReason};

/// Estimate of a start, and the deadline that is too early for it.
#[derive(Debug)]
pub(in crate::upstream) struct StartEstimate {
    pub(in crate::upstream) wait: WaitEstimate,
    /// Start at the rate that may be back soon; a deadline before it is hopeless.
    pub(in crate::upstream) if_recovered: Option<Nanos>,
}

impl From<WaitEstimate> for StartEstimate {
    fn from(wait: WaitEstimate) -> Self {
        let if_recovered = wait.eta;
        Self { wait, if_recovered }
    }
}

/// Reads queues and limits for one estimate. The circuits' due timers were served.
#[derive(Debug)]
pub(in crate::upstream) struct WaitEstimator<'a> {
    pub(in crate::upstream) pool: &'a mut PermitPool,
    pub(in crate::upstream) wait: &'a WaitQueues,
    pub(in crate::upstream) now: Nanos,
}

impl WaitEstimator<'_> {
    /// Decides whether a call could start now, or when. A block without a known end waits for ever.
    pub(in crate::upstream) fn check(&mut self, request: AcquireRequest) -> Decision {
        let limits = &self.pool.limits;
        if limits.find_too_small(request.group, request.cost).is_some() {
            return Decision::Never;
        }
        match self.estimate(request).eta {
            Some(at) => Decision::WaitUntil(at),
            None if self.check_circuit(request.group).is_some() => Decision::WaitUntil(Nanos::MAX),
            None => Decision::Allow(()),
        }
    }

    /// Estimates the wait of a call that joins its queue now.
    pub(in crate::upstream) fn estimate(&mut self, request: AcquireRequest) -> WaitEstimate {
        self.estimate_at(request, self.number(request), FitPace::Current)
    }

    /// Estimates the wait of a call that joins its queue now, with the rate that may be back soon.
    pub(in crate::upstream) fn estimate_start(&mut self, request: AcquireRequest) -> StartEstimate {
        let wait = self.estimate(request);
        let circuit = self.pool.circuits.index_for(request.group);
        let is_ramping = self.pool.circuits.get(circuit).is_ramping(self.now);
        let may_recover = self.pool.own(request.group, self.now).may_recover(self.now)
            || self.pool.limits.shared.may_recover(self.now);
        if wait.eta.is_none() || !(is_ramping || may_recover) {
            return StartEstimate::from(wait);
        }
        let if_recovered = self.estimate_at(request, self.number(request), FitPace::Recovered { is_ramping });
        StartEstimate {
            wait,
            if_recovered: if_recovered.eta,
        }
    }

    const fn number(&self, request: AcquireRequest) -> u64 {
        match request.position {
            QueuePosition::New | QueuePosition::Retrying => NEWCOMER,
            QueuePosition::Returning => self.wait.next_return,
        }
    }

    /// Estimates the remaining wait of a waiter.
    pub(in crate::upstream) fn explain_waiter(&mut self, key: usize) -> Option<WaitEstimate> {
        let wait = self.wait;
        let waiter = wait.waiters.get(key)?;
        match waiter.state {
            WaiterState::Queued { .. } => Some(self.estimate_at(wait.request(key)?, waiter.number, FitPace::Current)),
            WaiterState::Dispatched { from, .. } if from > self.now => Some(WaitEstimate {
                reason: WaitReason::Turn,
                position: 0,
                eta: Some(from),
                unanswered: None,
            }),
            WaiterState::Detached | WaiterState::Dispatched { .. } | WaiterState::Refused(_) => None,
        }
    }

    /// Returns the state for which a call is refused at once instead of queued.
    pub(in crate::upstream) fn find_fast_failure(&mut self, group: u32) -> Option<StateCause> {
        let refuse = self.pool.settings.when_asleep == WhenAsleep::Refuse;
        match self.check_circuit(group) {
            Some(BlockReason::Asleep { until, .. }) if refuse || until.is_none() => {
                let circuit = self.pool.circuits.index_for(group);
                Some(self.pool.state_cause(circuit, self.now))
            }
            _ => None,
        }
    }

    fn check_circuit(&mut self, group: u32) -> Option<BlockReason> {
        let circuit = self.pool.circuits.index_for(group);
        self.pool.check_circuit(circuit, self.now)
    }

    fn estimate_at(&mut self, request: AcquireRequest, number: u64, pace: FitPace) -> WaitEstimate {
        let blocked = self.check_circuit(request.group);
        let time = FitTime {
            now: self.now,
            from: blocked.and_then(BlockReason::opens_at).unwrap_or(self.now),
            pace,
        };
        let ahead = self.ahead(request.group, request, number);
        let fit = self.find_fit(request, number, ahead, time);
        let eta = fit.0.at;
        let endless = matches!(blocked, Some(BlockReason::Asleep { until: None, .. }));
        WaitEstimate {
            reason: self.reason(request.group, blocked, fit),
            position: usize::try_from(ahead.count).unwrap_or(usize::MAX),
            eta: (eta > self.now && !endless).then_some(eta),
            unanswered: None,
        }
    }

    /// Returns the calls in flight whose responses a waiting call needs for its start at the estimated instant.
    pub(in crate::upstream) fn find_unanswered(
        &mut self,
        request: AcquireRequest,
        wait: &WaitEstimate,
    ) -> Option<UnansweredCalls> {
        let eta = wait.eta.filter(|_| matches!(wait.reason, WaitReason::Limit { .. }))?;
        let ahead = self.ahead(request.group, request, self.number(request));
        let calls = self.unanswered(request.group, ahead, request.cost)?;
        (calls.start > eta).then_some(calls)
    }

    /// Returns the calls in flight that hold units of a group's limits, and the start without their responses.
    pub(in crate::upstream) fn unanswered(
        &mut self,
        group: u32,
        ahead: QueueAhead,
        cost: Cost,
    ) -> Option<UnansweredCalls> {
        let now = self.now;
        let time = FitTime {
            now,
            from: now,
            pace: FitPace::Current,
        };
        let (own, all) = (self.pool.unanswered(Some(group)), self.pool.unanswered(None));
        let fit = self.pool.own(group, now).find_fit_if_lost(time, ahead, cost, &own);
        let shared = self.pool.limits.shared.find_fit_if_lost(time, ahead, cost, &all);
        let held = if shared.at > fit.at { all } else { own };
        let oldest = held.iter().map(|attempt| attempt.sent).min()?;
        Some(UnansweredCalls {
            count: held.len(),
            oldest: now.since(oldest),
            start: shared.at.max(fit.at),
        })
    }

    /// Returns the first cause in the order of [`explain`](super::super::explain).
    fn reason(&mut self, group: u32, blocked: Option<BlockReason>, fit: (EarliestFit, LimitScope)) -> WaitReason {
        let circuit = self.pool.circuits.index_for(group);
        match (blocked, self.delaying_limit(group, fit)) {
            // An override is a health state that an operator forced.
            (Some(BlockReason::Asleep { .. } | BlockReason::Probing { .. }), _) => {
                WaitReason::State(Box::new(self.pool.state_cause(circuit, self.now)))
            }
            (Some(BlockReason::Cooling { .. }), _) => WaitReason::Cooldown,
            _ if self.pool.is_cut_off(group, Cost::ONE, self.now) => WaitReason::Ledger,
            (_, Some(rates)) => WaitReason::Limit {
                rate: rates.effective,
                processes: rates.processes,
                lowered: self.lowered(circuit, &rates),
            },
            (Some(BlockReason::Full { max, rule, .. }), None) => WaitReason::Concurrency { most: max, rule },
            (Some(BlockReason::Overdue) | None, None) => WaitReason::Turn,
        }
    }

    /// Returns the lowered limit, if it is one. Most calls wait for a limit as configured, without a snapshot.
    fn lowered(&mut self, circuit: usize, rates: &LimitRates) -> Option<LoweredLimit> {
        if !rates.are_lowered() {
            return None;
        }
        let health = self.pool.circuits.get_mut(circuit).health.snapshot(self.now);
        rates.lowered(Some(&health), self.now)
    }

    /// Returns the rates of the limit that allows the call last.
    fn delaying_limit(&mut self, group: u32, (fit, scope): (EarliestFit, LimitScope)) -> Option<LimitRates> {
        let limits = match scope {
            LimitScope::Group => self.pool.own(group, self.now),
            LimitScope::Api => &mut self.pool.limits.shared,
        };
        limits.rates_of(fit.limit?, self.now)
    }

    /// Returns the wait of the first waiter of a group.
    pub(in crate::upstream) fn first_wait(&mut self, group: u32) -> Option<WaitEstimate> {
        let (_, key) = self.wait.group(group).head(self.wait.aging)?;
        let wait = self.explain_waiter(key)?;
        let unanswered = self.find_unanswered(self.wait.request(key)?, &wait);
        Some(WaitEstimate { unanswered, ..wait })
    }

    fn ahead(&self, group: u32, request: AcquireRequest, number: u64) -> QueueAhead {
        let queues = self.wait.group(group);
        queues.ahead(&self.wait.waiters, request.class, number)
    }

    /// Returns the later of the earliest fits in the group's limits and in the shared ones.
    fn find_fit(
        &mut self,
        request: AcquireRequest,
        number: u64,
        ahead: QueueAhead,
        time: FitTime,
    ) -> (EarliestFit, LimitScope) {
        let limits = self.pool.own(request.group, time.now);
        let own = limits.find_fit(time, ahead, request.cost);
        let mut fit = self.pool.limits.shared.find_fit(time, ahead, request.cost);
        // Each round adds the calls of other groups that start before the last fit. The fit only moves
        // back, and stays when a round adds none.
        for _ in 0..ROUNDS {
            let others = self.others_before(fit.at.max(own.at), request, number, time);
            let shared = &mut self.pool.limits.shared;
            let next = shared.find_fit(time, ahead.and(others), request.cost);
            if next.at <= fit.at {
                break;
            }
            fit = next;
        }
        if fit.at > own.at {
            (fit, LimitScope::Api)
        } else {
            (own, LimitScope::Group)
        }
    }

    /// Returns the waiters of other groups that go before a call and can start by `until`.
    fn others_before(&mut self, until: Nanos, request: AcquireRequest, number: u64, time: FitTime) -> QueueAhead {
        let circuit = self.pool.circuits.index_for(request.group);
        let wait = self.wait;
        let mut sum = QueueAhead::default();
        for group in wait.busy.iter().copied() {
            let other = self.pool.circuits.index_for(group);
            let is_blocked = other != circuit && self.check_circuit(group).is_some();
            if group == request.group || is_blocked {
                continue;
            }
            let ahead = self.ahead(group, request, number);
            let limits = self.pool.own(group, time.now);
            sum = sum.and(limits.count_fitting(until, time, ahead));
        }
        sum
    }
}

/// With limits in each group and shared ones two rounds are common; a third finds the few calls that
/// the second adds.
const ROUNDS: u32 = 4;
