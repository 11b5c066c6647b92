//! One group of an API: its names, counters and live limits.
//!
//! Meters are created on first use. A group without calls has used nothing, and an API may have a
//! thousand groups of which a program calls three. Reports and pruning therefore leave unused groups
//! without meters.

use std::sync::Arc;

use outflow_core::{ClockPair, Cost, Health, Limit, MeterEvent, Nanos, Rate};
use smol_str::SmolStr;

use super::explain::LimitRates;
use super::limits::{self, ForeignUsage, LimitTerms, RetiredUsage, ScopeLimits};
use crate::rules::Group;

/// A group and its limits.
#[derive(Debug)]
pub(super) struct GroupState {
    pub(super) name: SmolStr,
    pub(super) aliases: Vec<SmolStr>,
    /// The group that takes its calls: itself, or another once the rules dropped it.
    pub(super) successor: u32,
    /// Number of reconfigurations since the rules dropped it.
    pub(super) retired: u32,
    pub(super) configured: Arc<[Limit]>,
    /// Live limits, once a call used them.
    limits: Option<Box<ScopeLimits>>,
    pub(super) admitted: u64,
    pub(super) refused: u64,
}

impl GroupState {
    pub(super) fn new(name: &SmolStr, number: u32, limits: &Arc<[Limit]>) -> Self {
        Self {
            name: name.clone(),
            aliases: Vec::new(),
            successor: number,
            retired: 0,
            configured: Arc::clone(limits),
            limits: None,
            admitted: 0,
            refused: 0,
        }
    }

    /// Takes the names of a group and its own calls.
    pub(super) fn assign(&mut self, group: &Group, number: u32) {
        (self.name, self.aliases) = (group.name.clone(), group.aliases.clone());
        self.successor = number;
        self.retired = 0;
    }

    /// Sends its calls to another group.
    pub(super) fn retire(&mut self, successor: u32) {
        self.successor = successor;
        self.retired = self.retired.saturating_add(1);
    }

    pub(super) fn is_called(&self, name: &str) -> bool {
        self.name == name || self.aliases.iter().any(|alias| alias == name)
    }

    /// Returns its limits, which `create` makes on first use.
    #[inline]
    pub(super) fn limits(&mut self, create: impl FnOnce(&[Limit]) -> ScopeLimits) -> &mut ScopeLimits {
        self.limits.get_or_insert_with(|| Box::new(create(&self.configured)))
    }

    /// Returns its limits if a call used them.
    pub(super) fn used_limits(&mut self) -> Option<&mut ScopeLimits> {
        self.limits.as_deref_mut()
    }

    /// Returns its limits, if a call used them, for reading.
    pub(super) fn known_limits(&self) -> Option<&ScopeLimits> {
        self.limits.as_deref()
    }

    /// Returns the limit that is smaller than a cost.
    #[inline]
    pub(super) fn find_too_small(&self, cost: Cost) -> Option<Rate> {
        match &self.limits {
            Some(limits) => limits.find_too_small(cost),
            None => limits::find_too_small(&self.configured, cost),
        }
    }

    /// Returns true if its calls count from their sending.
    #[inline]
    pub(super) fn counts_sends(&self) -> bool {
        let limits = self.limits.as_ref();
        limits.is_some_and(|limits| limits.counts_sends())
    }

    /// Returns the rates of its limits, which its first call would find if there was none yet.
    pub(super) fn rates(&mut self, now: Nanos, health: &Health) -> Vec<LimitRates> {
        if let Some(limits) = &mut self.limits {
            return limits.rates(now).collect();
        }
        let unused = |limit: &Limit| LimitRates {
            processes: 1,
            configured: limit.rate(),
            adapted: limit.rate(),
            effective: limit.with_rate(health.effective(limit.rate())).rate(),
            drifting: None,
        };
        self.configured.iter().map(unused).collect()
    }

    /// Returns the slowest rate in effect.
    pub(super) fn slowest_rate(&mut self, now: Nanos, health: &Health) -> Option<Rate> {
        if let Some(limits) = &mut self.limits {
            return limits.slowest_rate(now);
        }
        let limits = self.configured.iter();
        let effective = limits.map(|limit| limit.with_rate(health.effective(limit.rate())).rate());
        limits::slowest_rate(effective)
    }

    /// Returns true if new limits need no carried-over usage: this group counted nothing, and no other
    /// scope counted for it.
    pub(super) fn is_unaffected(&self, limits: &[Limit], past: &ForeignUsage) -> bool {
        let known = || limits::are_all_known(&self.configured, limits);
        self.limits.is_none() && (past.is_nothing() || known())
    }

    /// Drops all limits and returns their usage, if there was any.
    pub(super) fn drop_limits(&mut self, moment: ClockPair) -> Option<RetiredUsage> {
        self.configured = Arc::default();
        let used = self.limits.as_mut()?.drop_limits(moment);
        Some(used).filter(|used| !used.is_nothing())
    }

    pub(super) fn poll_event(&mut self) -> Option<(Rate, MeterEvent)> {
        self.limits.as_mut()?.poll_event()
    }
}

/// Creates limits without usage, scaled by health.
#[cold]
pub(super) fn unused_limits(limits: &[Limit], terms: LimitTerms, moment: ClockPair, health: &Health) -> ScopeLimits {
    let mut limits = ScopeLimits::new(limits, terms, moment);
    limits.retune(moment, Some(health));
    limits
}
