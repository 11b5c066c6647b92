//! The limits of the server, all or nothing, by arrival time.
//!
//! The plainest code that is right: every limit is asked, then every limit is charged or none is.
//! It shares nothing with the meters it is used to judge. A refused request costs nothing.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use outflow_core::{ClockPair, Cost, Nanos};

use crate::quota::{Counts, Quota, Whose};

mod counter;
#[cfg(test)]
mod tests;

use counter::{Counter, Fits};

/// All limits and what has been used of them.
#[derive(Debug)]
pub(crate) struct Enforcer {
    gates: Vec<Gate>,
}

/// Who asks for what.
#[derive(Clone, Debug)]
pub(crate) struct Ask {
    pub(crate) caller: Arc<str>,
    pub(crate) route: Arc<str>,
    pub(crate) cost: Cost,
}

/// What becomes of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Judgement {
    Allowed,
    Refused(Refused),
}

/// Why it does not pass.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Refused {
    pub(crate) quota: Arc<str>,
    /// The first instant at which it would pass; `None` if it never will.
    pub(crate) until: Option<Nanos>,
    pub(crate) scope: Scope,
}

/// Whom a wait is about; `None` means all.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Scope {
    /// The caller that has to wait.
    pub caller: Option<Arc<str>>,
    /// The route on which it has to wait.
    pub route: Option<Arc<str>>,
}

impl Scope {
    /// Whether a request of this caller on this route is meant.
    pub fn covers(&self, caller: &str, route: &str) -> bool {
        self.caller.as_deref().is_none_or(|meant| meant == caller)
            && self.route.as_deref().is_none_or(|meant| meant == route)
    }
}

/// How one limit stands for one caller.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Standing {
    pub(crate) name: Arc<str>,
    pub(crate) limit: u64,
    pub(crate) used: u64,
    pub(crate) window: Duration,
    pub(crate) resets_in: Duration,
}

impl Standing {
    pub(crate) fn remaining(&self) -> u64 {
        self.limit.saturating_sub(self.used)
    }
}

impl Enforcer {
    pub(crate) fn new(quotas: Vec<Quota>) -> Self {
        let gates = quotas.into_iter().enumerate().map(|(index, quota)| Gate {
            name: quota.name.clone().unwrap_or_else(|| usual_name(index)),
            quota,
            counters: HashMap::new(),
        });
        Self {
            gates: gates.collect(),
        }
    }

    /// Lets a request pass through all limits, or through none. Of several that refuse, the one
    /// with the longest wait is told.
    pub(crate) fn judge(&mut self, ask: &Ask, moment: ClockPair) -> Judgement {
        let concerned = self.gates.iter_mut().filter(|gate| gate.concerns(ask));
        let worst = concerned
            .map(|gate| (gate.fits(ask, moment), gate))
            .max_by_key(|(fits, _)| *fits);
        match worst {
            None | Some((Fits::Now, _)) => {
                self.charge(ask, moment);
                Judgement::Allowed
            }
            Some((Fits::At(at), gate)) => Judgement::Refused(gate.refusal(ask, Some(at))),
            Some((Fits::Never, gate)) => Judgement::Refused(gate.refusal(ask, None)),
        }
    }

    /// How the limits that concern a caller stand.
    pub(crate) fn standings(&mut self, ask: &Ask, moment: ClockPair) -> Vec<Standing> {
        let concerned = self.gates.iter_mut().filter(|gate| gate.concerns(ask));
        concerned.map(|gate| gate.standing(ask, moment)).collect()
    }

    fn charge(&mut self, ask: &Ask, moment: ClockPair) {
        for gate in self.gates.iter_mut().filter(|gate| gate.concerns(ask)) {
            let units = gate.units(ask);
            gate.with_counter(ask, moment, |counter, quota| {
                counter.charge(quota, moment, units);
            });
        }
    }
}

/// What the first limit without a name is called, and the others after it.
fn usual_name(index: usize) -> Arc<str> {
    match index {
        0 => "requests".into(),
        _ => format!("requests-{}", index + 1).into(),
    }
}

/// One limit and what each caller has used of it.
#[derive(Debug)]
struct Gate {
    name: Arc<str>,
    quota: Quota,
    counters: HashMap<Arc<str>, Counter>,
}

impl Gate {
    fn concerns(&self, ask: &Ask) -> bool {
        let route = self.quota.route.as_deref();
        route.is_none_or(|meant| meant == &*ask.route)
    }

    fn units(&self, ask: &Ask) -> u64 {
        match self.quota.counts {
            Counts::Cost => ask.cost.units(),
            Counts::Calls => 1,
        }
    }

    fn fits(&mut self, ask: &Ask, moment: ClockPair) -> Fits {
        let units = self.units(ask);
        self.with_counter(ask, moment, |counter, quota| {
            counter.fits(quota, moment, units)
        })
    }

    fn standing(&mut self, ask: &Ask, moment: ClockPair) -> Standing {
        let level = self.with_counter(ask, moment, |counter, quota| counter.level(quota, moment));
        Standing {
            name: Arc::clone(&self.name),
            limit: self.quota.capacity(),
            used: level.used,
            window: self.quota.window(),
            resets_in: level.resets_in,
        }
    }

    fn refusal(&self, ask: &Ask, until: Option<Nanos>) -> Refused {
        let caller = match self.quota.whose {
            Whose::EachCaller => Some(Arc::clone(&ask.caller)),
            Whose::Everyone => None,
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
        ask: &Ask,
        moment: ClockPair,
        then: impl FnOnce(&mut Counter, &Quota) -> T,
    ) -> T {
        let whose: &str = match self.quota.whose {
            Whose::EachCaller => &ask.caller,
            Whose::Everyone => "",
        };
        if let Some(counter) = self.counters.get_mut(whose) {
            return then(counter, &self.quota);
        }
        let fresh = Counter::new(&self.quota, moment.now);
        then(
            self.counters.entry(whose.into()).or_insert(fresh),
            &self.quota,
        )
    }
}
