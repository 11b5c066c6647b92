//! The limits of all scopes of an API: the shared limits and the limits of each group.

use outflow_core::{Accounting, Cost, Limit, Nanos, Rate};

use super::super::group::GroupState;
use super::super::group_slot;
use super::ScopeLimits;
use crate::rules::{Group, Rules};

/// Shared limits and groups.
#[derive(Debug)]
pub(in crate::upstream) struct LimitScopes {
    pub(in crate::upstream) shared: ScopeLimits,
    pub(in crate::upstream) groups: Vec<GroupState>,
    pub(in crate::upstream) freed_by: FreedBy,
    /// No waiter fits before this instant, regardless of calls that end or are sent.
    pub(in crate::upstream) blocked_until: Nanos,
}

/// Events that free quota.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::upstream) enum FreedBy {
    /// Only time: all limits count from the sending.
    Time,
    /// Time and arrivals.
    Arrivals,
}

impl FreedBy {
    pub(in crate::upstream) fn from_limits(shared: &[Limit], groups: &[Group]) -> Self {
        let own = groups.iter().flat_map(|group| &*group.limits);
        let mut all = shared.iter().chain(own);
        if all.all(|limit| limit.accounting() == Accounting::Send) {
            return Self::Time;
        }
        Self::Arrivals
    }
}

impl LimitScopes {
    pub(in crate::upstream) fn new(shared: ScopeLimits, groups: &[Group], rules: &Rules) -> Self {
        let states = (0_u32..).zip(groups).map(|(number, group)| {
            let mut state = GroupState::new(&group.name, number, &group.limits);
            state.assign(group, number);
            state
        });
        Self {
            shared,
            groups: states.collect(),
            freed_by: FreedBy::from_limits(&rules.limits, groups),
            blocked_until: Nanos::ZERO,
        }
    }

    #[inline]
    #[expect(clippy::indexing_slicing, reason = "this state assigned the group's number")]
    pub(in crate::upstream) fn group(&self, group: u32) -> &GroupState {
        &self.groups[group_slot(group)]
    }

    #[inline]
    #[expect(clippy::indexing_slicing, reason = "this state assigned the group's number")]
    pub(in crate::upstream) fn group_mut(&mut self, group: u32) -> &mut GroupState {
        &mut self.groups[group_slot(group)]
    }

    /// Lets the next ended call dispatch waiters: a change may have freed quota.
    #[inline]
    pub(in crate::upstream) fn unblock(&mut self) {
        self.blocked_until = Nanos::ZERO;
    }

    /// Returns the group that takes a group's calls.
    #[inline]
    pub(in crate::upstream) fn resolve(&self, group: u32) -> u32 {
        self.group(group).successor
    }

    /// Returns a limit that is smaller than a cost: such a call never passes.
    pub(in crate::upstream) fn find_too_small(&self, group: u32, cost: Cost) -> Option<Rate> {
        let own = self.group(group).find_too_small(cost);
        own.or_else(|| self.shared.find_too_small(cost))
    }

    /// Returns true if calls of a group count from their sending, which then has to be reported.
    #[inline]
    pub(in crate::upstream) fn counts_sends(&self, group: u32) -> bool {
        self.group(group).counts_sends() || self.shared.counts_sends()
    }
}
