//! The limits of the server, all or nothing, by arrival time.
//!
//! The simplest correct code: every limit is checked, then every limit is charged or none is. It
//! shares nothing with the meters it judges. A refused request costs nothing.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use outflow_core::{ClockPair, Cost, Nanos};

use crate::quota::{CallerScope, CountMode, Quota};

mod counter;
#[cfg(test)]
mod tests;

use counter::{Counter, FitTime};

/// All limits and their usage.
#[derive(Debug)]
pub(crate) struct Enforcer {
    quotas: Vec<QuotaState>,
}

/// Caller, route and cost of a request.
#[derive(Clone, Debug)]
pub(crate) struct QuotaRequest {
    pub(crate) caller: Arc<str>,
    pub(crate) route: Arc<str>,
    pub(crate) cost: Cost,
}

/// Result of a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum LimitVerdict {
    Allowed,
    Refused(Refused),
}

/// Reason of a refusal.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Refused {
    pub(crate) quota: Arc<str>,
    /// The first instant at which it would pass; `None` if it never will.
    pub(crate) until: Option<Nanos>,
    pub(crate) scope: Scope,
}

/// Target of a wait; `None` means all.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Scope {
    /// Caller that has to wait.
    pub caller: Option<Arc<str>>,
    /// Route on which it has to wait.
    pub route: Option<Arc<str>>,
}

impl Scope {
    /// Returns true if a request of this caller on this route must wait.
    pub fn covers(&self, caller: &str, route: &str) -> bool {
        self.caller.as_deref().is_none_or(|meant| meant == caller)
            && self.route.as_deref().is_none_or(|meant| meant == route)
    }
}

/// Status of one limit for one caller.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct QuotaStatus {
    pub(crate) name: Arc<str>,
    pub(crate) limit: u64,
    pub(crate) used: u64,
    pub(crate) window: Duration,
    pub(crate) resets_in: Duration,
}

impl QuotaStatus {
    pub(crate) fn remaining(&self) -> u64 {
        self.limit.saturating_sub(self.used)
    }
}

impl Enforcer {
    pub(crate) fn new(quotas: Vec<Quota>) -> Self {
        let quotas = quotas.into_iter().enumerate().map(|(index, quota)| QuotaState {
            name: quota.name.clone().unwrap_or_else(|| default_name(index)),
            quota,
            counters: HashMap::new(),
        });
        Self {
            quotas: quotas.collect(),
        }
    }

    /// Passes a request through all limits, or through none. Of several refusals, the one with the
    /// longest wait is reported.
    pub(crate) fn judge(&mut self, ask: &QuotaRequest, moment: ClockPair) -> LimitVerdict {
        let concerned = self.quotas.iter_mut().filter(|quota_state| quota_state.applies_to(ask));
        let worst = concerned
            .map(|quota_state| (quota_state.fits(ask, moment), quota_state))
            .max_by_key(|(fits, _)| *fits);
        match worst {
            None | Some((FitTime::Now, _)) => {
                self.charge(ask, moment);
                LimitVerdict::Allowed
            }
            Some((FitTime::At(at), quota_state)) => LimitVerdict::Refused(quota_state.refusal(ask, Some(at))),
            Some((FitTime::Never, quota_state)) => LimitVerdict::Refused(quota_state.refusal(ask, None)),
        }
    }

    /// Returns the status of all limits that apply to a caller.
    pub(crate) fn statuses(&mut self, ask: &QuotaRequest, moment: ClockPair) -> Vec<QuotaStatus> {
        let concerned = self.quotas.iter_mut().filter(|quota_state| quota_state.applies_to(ask));
        concerned.map(|quota_state| quota_state.status(ask, moment)).collect()
    }

    fn charge(&mut self, ask: &QuotaRequest, moment: ClockPair) {
        for quota_state in self.quotas.iter_mut().filter(|quota_state| quota_state.applies_to(ask)) {
            let units = quota_state.units(ask);
            quota_state.with_counter(ask, moment, |counter, quota| {
                counter.charge(quota, moment, units);
            });
        }
    }
}

/// Returns the name of a limit without one, by its index.
fn default_name(index: usize) -> Arc<str> {
    match index {
        0 => "requests".into(),
        _ => format!("requests-{}", index + 1).into(),
    }
}

/// One limit and each caller's usage of it.
#[derive(Debug)]
struct QuotaState {
    name: Arc<str>,
    quota: Quota,
    counters: HashMap<Arc<str>, Counter>,
}

impl QuotaState {
    fn applies_to(&self, ask: &QuotaRequest) -> bool {
        let route = self.quota.route.as_deref();
        route.is_none_or(|meant| meant == &*ask.route)
    }

    fn units(&self, ask: &QuotaRequest) -> u64 {
        match self.quota.counts {
            CountMode::Cost => ask.cost.units(),
            CountMode::Calls => 1,
        }
    }

    fn fits(&mut self, ask: &QuotaRequest, moment: ClockPair) -> FitTime {
        let units = self.units(ask);
        self.with_counter(ask, moment, |counter, quota| counter.fits(quota, moment, units))
    }

    fn status(&mut self, ask: &QuotaRequest, moment: ClockPair) -> QuotaStatus {
        let level = self.with_counter(ask, moment, |counter, quota| counter.level(quota, moment));
        QuotaStatus {
            name: Arc::clone(&self.name),
            limit: self.quota.capacity(),
            used: level.used,
            window: self.quota.window(),
            resets_in: level.resets_in,
        }
    }

    fn refusal(&self, ask: &QuotaRequest, until: Option<Nanos>) -> Refused {
        let caller = match self.quota.caller_scope {
            CallerScope::EachCaller => Some(Arc::clone(&ask.caller)),
            CallerScope::Everyone => None,
        };
        Refused {
            quota: Arc::clone(&self.name),
            until,
            scope: Scope {
                caller,
                route: self.quota.route.clone(),
            },
        }
    }

    fn with_counter<T>(
        &mut self,
        ask: &QuotaRequest,
        moment: ClockPair,
        then: impl FnOnce(&mut Counter, &Quota) -> T,
    ) -> T {
        let caller_scope: &str = match self.quota.caller_scope {
            CallerScope::EachCaller => &ask.caller,
            CallerScope::Everyone => "",
        };
        if let Some(counter) = self.counters.get_mut(caller_scope) {
            return then(counter, &self.quota);
        }
        let fresh = Counter::new(&self.quota, moment.now);
        then(self.counters.entry(caller_scope.into()).or_insert(fresh), &self.quota)
    }
}
