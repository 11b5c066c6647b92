//! Groups without calls.

use std::task::Waker;

use outflow_core::{Accounting, ClockPair, Cost, HealthOverride, HealthState, Limit, Nanos, Priority};

use super::endpoint::CallLabel;
use super::explain::OverrideNote;
use super::group::GroupState;
use super::state::AdmissionState;
use super::wait_queue::{AcquireRequest, AcquireResult, QueuePosition, WaitDeadline};
use crate::rules::{Group, Rules, WaitMode};

/// A state with one shared limit and groups with one limit each, and its rules.
fn state_with(groups: u64) -> (AdmissionState, Vec<Group>, Rules) {
    let group = |n: u64| Group::new(&format!("group-{n}"), vec![limit(&format!("{}/s", n + 1))]);
    let groups: Vec<_> = (0..groups).map(group).collect();
    let rules = Rules {
        limits: vec![limit("1000/h")],
        groups: groups.clone(),
        ..Rules::unlimited()
    };
    let state = AdmissionState::new(&groups, &rules, ClockPair::default());
    (state, groups, rules)
}

fn limit(rate: &str) -> Limit {
    Limit::sliding(rate.parse().expect("a rate")).counted(Accounting::Send)
}

fn acquire(state: &mut AdmissionState, group: u32, now: Nanos) -> AcquireResult {
    let request = AcquireRequest {
        group,
        label: CallLabel::default(),
        cost: Cost::ONE,
        class: Priority::Normal,
        deadline: WaitDeadline::At(now),
        mode: WaitMode::Reject,
        position: QueuePosition::New,
    };
    state.enqueue(request, now, Waker::noop())
}

fn metered(state: &mut AdmissionState) -> usize {
    let groups = &mut state.pool.limits.groups;
    groups.iter_mut().filter_map(GroupState::used_limits).count()
}

/// Returns the limit in effect of a group and its usage, by the report.
fn reported(state: &mut AdmissionState, group: usize, now: Nanos) -> (Limit, u64) {
    let report = state.report(now).groups.swap_remove(group).limits;
    (report[0].limit, report[0].usage.weight)
}

// Ten thousand groups are a hundred times those of real APIs. The meters and the state of one limit take
// a kilobyte.
#[test]
fn a_group_without_calls_has_no_meters() {
    let (mut state, ..) = state_with(10_000);
    let now = Nanos::from_secs(10);
    state.begin(true);
    state.prune(now);
    state.force_health(None, HealthOverride::Throttle, &OverrideNote::default(), now);
    state.release_health(None, now);
    let report = state.report(now);
    assert_eq!(report.groups.len(), 10_000);
    assert!(report.groups.iter().all(|group| group.limits.len() == 1));
    assert_eq!(metered(&mut state), 0);
    assert!(matches!(acquire(&mut state, 7, now), AcquireResult::Granted(_)));
    assert_eq!(metered(&mut state), 1);
    assert_eq!(reported(&mut state, 7, now).1, 1);
    assert!(size_of::<GroupState>() <= 224, "{}", size_of::<GroupState>());
}

// Equal rules, higher limits for every group, and the first rules again: continued limits carry nothing
// over.
#[test]
fn a_reconfiguration_creates_no_meters_for_groups_without_calls() {
    let (mut state, mut groups, mut rules) = state_with(50);
    let now = Nanos::from_secs(10);
    assert!(matches!(acquire(&mut state, 7, now), AcquireResult::Granted(_)));
    for factor in [1, 3, 1] {
        for (group, n) in groups.iter_mut().zip(1_u64..) {
            group.limits = [limit(&format!("{}/s", n * factor))].into();
        }
        rules.groups.clone_from(&groups);
        let moment = ClockPair {
            now,
            ..ClockPair::default()
        };
        state.reconfigure(&groups, &rules, moment);
        assert_eq!(metered(&mut state), 1);
        let (limit, used) = reported(&mut state, 7, now);
        assert_eq!((limit.capacity(), used), (8 * factor, 1));
        assert_eq!(reported(&mut state, 9, now).0.capacity(), 10 * factor);
    }
}

// A limit per minute is new to a group that had one per second. The API's limit covers an hour and counted
// two calls: of four, two are left, because the calls may have been of this group.
#[test]
fn a_new_limit_of_a_group_without_calls_counts_the_calls_of_the_api() {
    let (mut state, mut groups, rules) = state_with(3);
    let now = Nanos::from_secs(10);
    assert!(matches!(acquire(&mut state, 1, now), AcquireResult::Granted(_)));
    assert!(matches!(acquire(&mut state, 2, now), AcquireResult::Granted(_)));
    groups[0].limits = [limit("4/min")].into();
    let moment = ClockPair {
        now,
        ..ClockPair::default()
    };
    state.reconfigure(&groups, &rules, moment);
    assert_eq!(reported(&mut state, 0, now).1, 2);
    for left in [true, true, false] {
        assert_eq!(matches!(acquire(&mut state, 0, now), AcquireResult::Granted(_)), left);
    }
}

// Forced to THROTTLE, calls get a part of the limit: so do the report and the first call of a group.
#[test]
fn a_group_starts_with_the_health_of_its_api() {
    let (mut state, ..) = state_with(50);
    let now = Nanos::from_secs(10);
    let full = reported(&mut state, 39, now).0;
    state.force_health(None, HealthOverride::Throttle, &OverrideNote::default(), now);
    assert_eq!(state.health_state(39), HealthState::Throttle);
    let scaled = reported(&mut state, 39, now).0;
    assert!(scaled.rate().cmp_speed(full.rate()).is_lt(), "{scaled:?}");
    let slowest = state.pool.health_gauges(0, now).rate;
    assert_eq!(metered(&mut state), 0);
    assert!(matches!(acquire(&mut state, 39, now), AcquireResult::Granted(_)));
    assert_eq!(reported(&mut state, 39, now), (scaled, 1));
    assert!((state.pool.health_gauges(0, now).rate - slowest).abs() < 1e-9);
    state.release_health(None, now);
    state.force_health(None, HealthOverride::Normal, &OverrideNote::default(), now);
    assert_eq!(reported(&mut state, 39, now).0, full);
}
