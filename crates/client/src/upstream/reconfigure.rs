//! Other rules for a gate that is in use.
//!
//! Everything happens in one turn under the lock, so that no call sees half of it. Those who were called
//! and have not resumed go back to where they stood, the rules change, and whoever may now go is called:
//! a limit that grew lets them go at once.
//!
//! Lanes are not taken away, for calls that have not asked yet know them by number. One whose group
//! is gone leads to the lane that now takes its calls, which also takes over those who wait, what is in
//! flight and what was used. A group of the same name finds its lane again; only after many changes,
//! when nobody can know the number any more, another group may have it. Whether groups fall ill
//! together is the one rule that does not change: states would have to be split or merged.

use outflow_core::{ClockPair, Nanos};
use smol_str::SmolStr;

use super::super::circuit::Circuit;
use super::super::limits::{ArrivalCount, ForeignUsage, LimitTerms, NextLimits, Overdraft};
use super::super::routing::GroupIndex;
use super::{
    AdmissionSettings, AdmissionState, FreedBy, Group, GroupState, HealthScope, RefusalReason,
    Rules, WaiterState,
};
use crate::rules::DEFAULT_GROUP;

impl AdmissionState {
    /// Keeps to other rules from now on. Answers where the groups are. There are no more limits in
    /// any of them than a set can hold: that was looked at before.
    pub(in crate::upstream) fn reconfigure(
        &mut self,
        groups: &[Group],
        rules: &Rules,
        moment: ClockPair,
    ) -> GroupIndex {
        let now = moment.now;
        (self.wall_seen, self.wall_read) = (moment, now);
        for ward in 0..self.wards.len() {
            self.recall(ward, now);
        }
        let lanes = self.assign_groups(groups, rules, moment);
        self.change_limits(groups, &lanes, rules, moment);
        let scope = self.rules.scope;
        self.rules = AdmissionSettings {
            scope,
            ..AdmissionSettings::from_rules(rules)
        };
        self.retire_lanes(&lanes, moment);
        self.renew_grants(now);
        (self.held_until, self.freed) = (Nanos::ZERO, FreedBy::by(&rules.limits, groups));
        for ward in 0..self.wards.len() {
            self.circuit_mut(ward).configure(&rules.health, moment);
            self.retune(ward, now);
        }
        self.turn_away_the_impossible(now);
        self.call_those_who_may_go(now);
        let next = self.wards.iter().map(Circuit::next_wakeup).min();
        self.consider(next.unwrap_or(Nanos::MAX));
        GroupIndex {
            groups: lanes,
            leads: self.lanes.iter().map(|lane| lane.leads_to).collect(),
        }
    }

    pub(in crate::upstream) const fn health_scope(&self) -> HealthScope {
        self.rules.scope
    }

    /// Where calls of a lane go.
    #[inline]
    pub(super) fn current(&self, lane: u32) -> u32 {
        self.lane_ref(lane).leads_to
    }

    /// The lane of each group: the one that it had, under this name or another, or a new one.
    fn assign_groups(&mut self, groups: &[Group], rules: &Rules, moment: ClockPair) -> Vec<u32> {
        let mut seats: Vec<Option<u32>> = vec![None; groups.len()];
        for same in [by_name, by_alias, by_limits] {
            for (place, group) in groups.iter().enumerate() {
                let taken = |number: &u32| seats.contains(&Some(*number));
                let mut lanes = (0_u32..).zip(&self.lanes);
                let found = lanes
                    .find(|(number, lane)| !taken(number) && same(lane, *number, group, groups));
                let found = found.map(|(number, _)| number);
                if let Some(seat @ None) = seats.get_mut(place) {
                    *seat = found;
                }
            }
        }
        let seats = seats.into_iter().zip(groups);
        seats
            .map(|(seat, group)| {
                let lane = seat.unwrap_or_else(|| self.add_lane(group, rules, moment));
                let known = self.lane(lane);
                (known.name, known.aliases) = (group.name.clone(), group.aliases.clone());
                known.leads_to = lane;
                known.retired = 0;
                lane
            })
            .collect()
    }

    /// A lane without limits yet, with a number that nobody knows.
    fn add_lane(&mut self, group: &Group, rules: &Rules, moment: ClockPair) -> u32 {
        let new = u32::try_from(self.lanes.len()).unwrap_or(u32::MAX);
        let number = self.forgotten().unwrap_or(new);
        let ward = match self.rules.scope {
            HealthScope::Api => 0,
            HealthScope::Group => {
                put(&mut self.wards, number, Circuit::new(rules, moment));
                super::place(number)
            }
        };
        let bare = Group::new(&group.name, Vec::new());
        put(
            &mut self.lanes,
            number,
            GroupState::new(&bare, (number, ward)),
        );
        number
    }

    /// A lane that has led elsewhere for so long that no call can still be on its way to it.
    fn forgotten(&self) -> Option<u32> {
        let in_flight = |number: u32| {
            let mut flights = self.flights.iter();
            flights.any(|(_, flight)| flight.origin == number || flight.lane == number)
        };
        let mut lanes = (0_u32..).zip(&self.lanes);
        let found = lanes.find(|(number, lane)| lane.retired >= FORGOTTEN && !in_flight(*number));
        found.map(|(number, _)| number)
    }

    fn change_limits(&mut self, groups: &[Group], lanes: &[u32], rules: &Rules, moment: ClockPair) {
        let next = NextLimits {
            limits: &rules.limits,
            terms: LimitTerms::from_rules(rules),
            before: self.rules.terms(),
            moment,
        };
        let each = self.lanes.iter_mut().filter_map(GroupState::used_limits);
        let each = each.map(|limits| limits.landed(moment.now));
        let sum = each.fold(Overdraft::default(), Overdraft::and);
        let shared = self.shared.past(moment.now);
        self.shared.change(next, &ForeignUsage::landed(sum));
        for (group, lane) in groups.iter().zip(lanes) {
            let limits = &group.limits;
            if !self.lane(*lane).is_unaffected(limits, &shared) {
                let own = self.own(*lane, moment.now);
                own.change(NextLimits { limits, ..next }, &shared);
            }
            self.lane(*lane).configure(limits);
        }
    }

    /// Has lanes without a group lead to those that take their calls.
    fn retire_lanes(&mut self, seats: &[u32], moment: ClockPair) {
        for lane in (0_u32..).take(self.lanes.len()) {
            if seats.contains(&lane) {
                continue;
            }
            let name = self.lane_ref(lane).name.clone();
            let to = self
                .named(&name, seats)
                .or_else(|| self.named(DEFAULT_GROUP, seats));
            let to = to.unwrap_or(lane);
            let retired = self.lane(lane);
            retired.leads_to = to;
            retired.retired = retired.retired.saturating_add(1);
            self.merge(lane, to, moment);
        }
    }

    fn named(&self, name: &str, seats: &[u32]) -> Option<u32> {
        let is =
            |lane: &GroupState| lane.name == name || lane.aliases.iter().any(|alias| alias == name);
        seats.iter().copied().find(|seat| is(self.lane_ref(*seat)))
    }

    /// Lets one lane take over all of another.
    fn merge(&mut self, from: u32, to: u32, moment: ClockPair) {
        let now = moment.now;
        if let Some(used) = self.lane(from).give_up(moment) {
            self.own(to, now).take_over(now, used);
        }
        let waiters = self
            .waiters
            .iter()
            .filter(|(_, waiter)| waiter.lane == from);
        let waiters: Vec<usize> = waiters.map(|(key, _)| key).collect();
        for key in waiters {
            self.move_waiter(key, to);
        }
    }

    /// Lets one who waits stand in another line, among those who came when it did.
    fn move_waiter(&mut self, key: usize, to: u32) {
        let stepped_out = self.step_out(key, WaiterState::Arriving);
        let Some(waiter) = self.waiters.get_mut(key) else {
            return;
        };
        waiter.lane = to;
        waiter.expected = false;
        let Some((_, waker)) = stepped_out else {
            return;
        };
        let class = waiter.class;
        self.mark_busy(to);
        let Self { lanes, waiters, .. } = self;
        if let Some(lane) = lanes.get_mut(super::place(to)) {
            lane.line_mut(class).return_to(waiters, key, waker);
        }
        self.circuit_for(to).waiting += 1;
        self.expect(key);
    }

    /// Lets those in flight hold of the new limits what they held of the old ones. Where things stood
    /// when they were sent is no longer comparable.
    fn renew_grants(&mut self, now: Nanos) {
        let keys: Vec<usize> = self.flights.iter().map(|(key, _)| key).collect();
        for key in keys {
            self.follow_its_lane(key, now);
            let Some(flight) = self.flights.get_mut(key) else {
                continue;
            };
            flight.marks = None;
            let (lane, cost) = (flight.lane, flight.cost);
            let (own, shared) = (flight.own.take(), flight.shared.take());
            let shared = self.shared.renew(now, shared, cost);
            let own = self.own(lane, now).renew(now, own, cost);
            if let Some(flight) = self.flights.get_mut(key) {
                (flight.own, flight.shared) = (own, shared);
            }
        }
    }

    /// A call in flight counts in the lane that takes the calls of the one it left from: another one
    /// when that is gone, and that one again when it is back.
    fn follow_its_lane(&mut self, key: usize, now: Nanos) {
        let Some(flight) = self.flights.get_mut(key) else {
            return;
        };
        let (from, origin, rest) = (flight.lane, flight.origin, flight.rest.own);
        let own = flight.own.take();
        let to = self.current(origin);
        if let Some(flight) = self.flights.get_mut(key) {
            flight.lane = to;
            if to == from {
                flight.own = own;
                return;
            }
        }
        let before = self.own(from, now);
        before.refund(now, own);
        before.overhang_landed(now, rest, ArrivalCount::Never);
        self.own(to, now).overhang(now, rest);
    }

    /// Whoever costs more than a limit now ever allows would wait for ever.
    fn turn_away_the_impossible(&mut self, now: Nanos) {
        let waiters = self.waiters.iter().filter_map(|(key, waiter)| {
            let limit = self.impossible(waiter.lane, waiter.cost)?;
            Some((key, limit))
        });
        let waiters: Vec<_> = waiters.collect();
        for (key, limit) in waiters {
            self.turn_away(key, RefusalReason::Never { limit }, None, now);
        }
    }
}

/// In this place, or behind the last one.
fn put<T>(all: &mut Vec<T>, number: u32, one: T) {
    match all.get_mut(super::place(number)) {
        Some(place) => *place = one,
        None => all.push(one),
    }
}

fn by_name(lane: &GroupState, _: u32, group: &Group, _: &[Group]) -> bool {
    lane.name == group.name
}

/// The group was known by one of its other names, or by the name that is now another name of it.
fn by_alias(lane: &GroupState, number: u32, group: &Group, groups: &[Group]) -> bool {
    let known = |name: &SmolStr| lane.name == *name || lane.aliases.contains(name);
    is_free(lane, number, groups) && (known(&group.name) || group.aliases.iter().any(known))
}

/// The group was called something else: its limits are those of one that is gone.
fn by_limits(lane: &GroupState, number: u32, group: &Group, groups: &[Group]) -> bool {
    is_free(lane, number, groups) && !group.limits.is_empty() && lane.has(&group.limits)
}

/// Whether a lane was in use, and no group is called as it was.
fn is_free(lane: &GroupState, number: u32, groups: &[Group]) -> bool {
    lane.leads_to == number && groups.iter().all(|group| group.name != lane.name)
}

/// A call asks right after it was told its group's number. Through so many changes nobody holds one, and
/// so many lanes that lead elsewhere take a few hundred kilobytes.
const FORGOTTEN: u32 = 256;

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use crate::{Events, Group, HealthScope, Rules, SystemClock, Upstream};

    fn rules(turn: u64, scope: HealthScope) -> Rules {
        let rate = format!("{}/s", turn + 1).parse().expect("a rate");
        let group = Group::new(
            &format!("group {turn}"),
            vec![outflow_core::Limit::sliding(rate)],
        );
        Rules {
            groups: vec![group],
            health_scope: scope,
            ..Rules::unlimited()
        }
    }

    // Every change brings a group of another name with other limits: two are in use, and 256 changes
    // are remembered.
    #[test]
    fn groups_that_come_and_go_take_no_more_room_than_the_last_of_them() {
        for scope in [HealthScope::Api, HealthScope::Group] {
            let timer = Arc::new(SystemClock::new());
            let door = Upstream::new("api", rules(0, scope), timer, Events::new());
            let door = door.expect("valid");
            for turn in 1..2_000 {
                door.reconfigure(&rules(turn, scope)).expect("valid");
                let lanes = door.door.with(|gate, _| gate.lanes.len());
                assert!(lanes <= 2 + 257, "{lanes} after {turn}");
                let name = format!("group {turn}");
                let target = door.group(&name).expect("it is new");
                assert_eq!(door.group_name(target), name);
            }
        }
    }
}
