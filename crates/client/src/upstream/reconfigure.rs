//! Reconfiguration of a state in use.
//!
//! It runs in one turn under the lock, so that no call sees a part of it. Dispatched waiters that have
//! not resumed return to their queues, the rules change, and a raised limit dispatches waiters at once.
//!
//! Groups are not removed, because calls on their way know them by number. A dropped group names a
//! successor, which takes its waiters, attempts and usage. A group of the same name gets its number
//! back; other groups reuse a number only after many reconfigurations, when no call can hold it. The
//! health scope never changes: states would have to be split or merged.

use std::sync::Arc;

use outflow_core::{ClockPair, Nanos};
use smol_str::SmolStr;

use super::group::GroupState;
use super::group_slot;
use super::limits::{ArrivalCount, ForeignUsage, FreedBy, LimitTerms, NextLimits, Overdraft};
use super::permit_pool::{AdmissionSettings, PermitPool};
use super::routing::GroupIndex;
use super::state::AdmissionState;
use crate::refusal::RefusalReason;
use crate::rules::{DEFAULT_GROUP, Group, Rules};

/// One change of the rules.
pub(super) struct Reconfiguration<'a> {
    pub(super) state: &'a mut AdmissionState,
    /// All groups, the default group included, with no more limits than a set can hold.
    pub(super) groups: &'a [Group],
    pub(super) rules: &'a Rules,
    pub(super) moment: ClockPair,
}

impl Reconfiguration<'_> {
    /// Applies the rules and returns the numbers of their groups.
    pub(super) fn apply(mut self) -> GroupIndex {
        let now = self.moment.now;
        self.pool().clock = super::wall_clock::WallClock::new(self.moment);
        for circuit in self.state.pool.circuits.indexes() {
            self.state.recall(circuit, now);
        }
        let numbers = self.assign_groups();
        self.change_limits(&numbers);
        self.pool().settings = AdmissionSettings::from_rules(self.rules);
        self.retire_groups(&numbers);
        self.renew_receipts();
        let freed_by = FreedBy::from_limits(&self.rules.limits, self.groups);
        self.pool().limits.freed_by = freed_by;
        self.pool().limits.unblock();
        for circuit in self.state.pool.circuits.indexes() {
            let (rules, moment) = (self.rules, self.moment);
            let pool = self.pool();
            pool.circuits.get_mut(circuit).reconfigure(rules, moment);
            pool.retune(circuit, now);
        }
        self.refuse_impossible();
        self.state.dispatch(now);
        self.state.arm_next_wakeup();
        let groups = &self.state.pool.limits.groups;
        GroupIndex {
            groups: numbers,
            successors: groups.iter().map(|group| group.successor).collect(),
        }
    }

    fn pool(&mut self) -> &mut PermitPool {
        &mut self.state.pool
    }

    /// Returns the number of each group: the one that it had under any of its names, or a new one.
    fn assign_groups(&mut self) -> Vec<u32> {
        let mut numbers: Vec<Option<u32>> = vec![None; self.groups.len()];
        for matches in [has_name, has_alias, has_limits] {
            for (index, group) in self.groups.iter().enumerate() {
                let taken = |number: &u32| numbers.contains(&Some(*number));
                let mut known = (0_u32..).zip(&self.state.pool.limits.groups);
                let found = known.find(|(number, state)| !taken(number) && matches(state, *number, group, self.groups));
                let found = found.map(|(number, _)| number);
                if let Some(number @ None) = numbers.get_mut(index) {
                    *number = found;
                }
            }
        }
        let numbers = numbers.into_iter().zip(self.groups);
        numbers
            .map(|(number, group)| {
                let number = number.unwrap_or_else(|| self.add_group(&group.name));
                self.pool().limits.group_mut(number).assign(group, number);
                number
            })
            .collect()
    }

    /// Adds a group without limits under a number that no call holds.
    fn add_group(&mut self, name: &SmolStr) -> u32 {
        let (rules, moment) = (self.rules, self.moment);
        let groups = &self.state.pool.limits.groups;
        let next = u32::try_from(groups.len()).unwrap_or(u32::MAX);
        let number = self.find_reusable().unwrap_or(next);
        self.pool().circuits.add_group(number, rules, moment);
        self.state.wait.add_group(number);
        let state = GroupState::new(name, number, &Arc::default());
        let groups = &mut self.pool().limits.groups;
        match groups.get_mut(group_slot(number)) {
            Some(slot) => *slot = state,
            None => groups.push(state),
        }
        number
    }

    /// Returns a group that was dropped so long ago that no call can hold its number.
    fn find_reusable(&self) -> Option<u32> {
        let pool = &self.state.pool;
        let mut groups = (0_u32..).zip(&pool.limits.groups);
        let found =
            groups.find(|(number, group)| group.retired >= REUSABLE_AFTER && !pool.in_flight.uses_group(*number));
        found.map(|(number, _)| number)
    }

    fn change_limits(&mut self, numbers: &[u32]) {
        let (groups, moment) = (self.groups, self.moment);
        let next = NextLimits {
            limits: &self.rules.limits,
            terms: LimitTerms::from_rules(self.rules),
            before: self.state.pool.settings.terms,
            moment,
        };
        let pool = self.pool();
        let used = pool.limits.groups.iter_mut();
        let used = used.filter_map(GroupState::used_limits);
        let used = used.map(|limits| limits.landed(moment.now));
        let sum = used.fold(Overdraft::default(), Overdraft::and);
        let shared = pool.limits.shared.foreign_usage(moment.now);
        let past = ForeignUsage::from_landed(sum);
        pool.limits.shared.reconfigure(next, &past);
        for (group, number) in groups.iter().zip(numbers) {
            let limits = &group.limits;
            let state = pool.limits.group(*number);
            if !state.is_unaffected(limits, &shared) {
                let own = pool.own(*number, moment.now);
                own.reconfigure(NextLimits { limits, ..next }, &shared);
            }
            pool.limits.group_mut(*number).configured = Arc::clone(limits);
        }
    }

    /// Merges groups that the rules dropped into the groups that take their calls.
    fn retire_groups(&mut self, numbers: &[u32]) {
        for group in (0_u32..).take(self.state.pool.limits.groups.len()) {
            if numbers.contains(&group) {
                continue;
            }
            let name = self.state.pool.limits.group(group).name.clone();
            let successor = self.find_named(&name, numbers);
            let successor = successor.or_else(|| self.find_named(DEFAULT_GROUP, numbers));
            let successor = successor.unwrap_or(group);
            self.pool().limits.group_mut(group).retire(successor);
            self.merge(group, successor);
        }
    }

    fn find_named(&self, name: &str, numbers: &[u32]) -> Option<u32> {
        let limits = &self.state.pool.limits;
        let mut numbers = numbers.iter().copied();
        numbers.find(|number| limits.group(*number).is_called(name))
    }

    /// Moves the usage and the waiters of a group to another.
    fn merge(&mut self, from: u32, to: u32) {
        let (now, moment) = (self.moment.now, self.moment);
        let pool = self.pool();
        if let Some(usage) = pool.limits.group_mut(from).drop_limits(moment) {
            pool.own(to, now).add_usage(now, usage);
        }
        let waiters = self.state.wait.find_waiters(|group, _| (group == from).then_some(()));
        for (key, ()) in waiters {
            let deadline = self.state.wait.move_waiter(key, to);
            self.pool().effects.arm_timer(deadline.unwrap_or(Nanos::MAX));
        }
    }

    /// Exchanges the receipts of attempts in flight for receipts of the new limits. Their usage marks
    /// are no longer comparable.
    fn renew_receipts(&mut self) {
        let now = self.moment.now;
        for key in self.state.pool.in_flight.keys() {
            self.follow_group(key);
            let pool = self.pool();
            let Some(attempt) = pool.in_flight.get_mut(key) else {
                continue;
            };
            attempt.marks = None;
            let (group, cost) = (attempt.group, attempt.cost);
            let old = std::mem::take(&mut attempt.receipts);
            let shared = pool.limits.shared.renew(now, old.shared, cost);
            let own = pool.own(group, now).renew(now, old.own, cost);
            if let Some(attempt) = pool.in_flight.get_mut(key) {
                (attempt.receipts.own, attempt.receipts.shared) = (own, shared);
            }
        }
    }

    /// Counts an attempt in the group that takes the calls of its origin: another one when that was
    /// dropped, and the origin again when it is back.
    fn follow_group(&mut self, key: usize) {
        let now = self.moment.now;
        let pool = self.pool();
        let Some(attempt) = pool.in_flight.get_mut(key) else {
            return;
        };
        let (from, excess) = (attempt.group, attempt.excess.own);
        let to = pool.limits.resolve(attempt.origin);
        if to == from {
            return;
        }
        attempt.group = to;
        let own = attempt.receipts.own.take();
        let before = pool.own(from, now);
        before.refund(now, own);
        before.settle_overdraft(now, excess, ArrivalCount::Never);
        pool.own(to, now).add_overdraft(now, excess);
    }

    /// Refuses waiters that cost more than a limit now allows: they would wait for ever.
    fn refuse_impossible(&mut self) {
        let limits = &self.state.pool.limits;
        let find = |group, cost| limits.find_too_small(group, cost);
        for (key, limit) in self.state.wait.find_waiters(find) {
            let reason = RefusalReason::Never { limit };
            let now = self.moment.now;
            self.state.refuse_waiter(key, reason, None, now);
        }
    }
}

fn has_name(state: &GroupState, _: u32, group: &Group, _: &[Group]) -> bool {
    state.name == group.name
}

/// Returns true if a free group had one of the group's names.
fn has_alias(state: &GroupState, number: u32, group: &Group, groups: &[Group]) -> bool {
    let known = |name: &SmolStr| state.is_called(name);
    is_free(state, number, groups) && (known(&group.name) || group.aliases.iter().any(known))
}

/// Returns true if a free group has the group's limits: it was renamed.
fn has_limits(state: &GroupState, number: u32, group: &Group, groups: &[Group]) -> bool {
    is_free(state, number, groups) && !group.limits.is_empty() && state.configured == group.limits
}

/// Returns true if a group was in use and no new group has its name.
fn is_free(state: &GroupState, number: u32, groups: &[Group]) -> bool {
    state.successor == number && groups.iter().all(|group| group.name != state.name)
}

/// Number of reconfigurations after which a dropped group's number is reused. A call asks right after
/// routing, so none holds a number that long; as many dropped groups take a few hundred kilobytes.
const REUSABLE_AFTER: u32 = 256;

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use crate::{Events, Group, HealthScope, Rules, SystemClock, Upstream};

    fn rules(turn: u64, scope: HealthScope) -> Rules {
        let rate = format!("{}/s", turn + 1).parse().expect("a rate");
        let group = Group::new(&format!("group {turn}"), vec![outflow_core::Limit::sliding(rate)]);
        Rules {
            groups: vec![group],
            health_scope: scope,
            ..Rules::unlimited()
        }
    }

    // Every reconfiguration brings a group of another name with other limits: two are in use, and 256
    // reconfigurations are remembered.
    #[test]
    fn numbers_of_dropped_groups_are_reused() {
        for scope in [HealthScope::Api, HealthScope::Group] {
            let timer = Arc::new(SystemClock::new());
            let upstream = Upstream::new("api", rules(0, scope), timer, Events::new());
            let upstream = upstream.expect("valid");
            for turn in 1..2_000 {
                upstream.reconfigure(&rules(turn, scope)).expect("valid");
                let groups = upstream.shared.with(|state, _| state.pool.limits.groups.len());
                assert!(groups <= 2 + 257, "{groups} after {turn}");
                let name = format!("group {turn}");
                let target = upstream.group(&name).expect("it is new");
                assert_eq!(upstream.group_name(target), name);
            }
        }
    }
}
