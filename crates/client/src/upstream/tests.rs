//! What a gate keeps of groups that nobody called.

use std::task::Waker;

use outflow_core::{HealthOverride, HealthState};

use super::*;
use crate::rules::WaitMode;

/// A gate with one limit for the whole API and so many groups with one of their own, and its rules.
fn gate_with(groups: u64) -> (AdmissionState, Vec<Group>, Rules) {
    let group = |n: u64| Group::new(&format!("group-{n}"), vec![limit(&format!("{}/s", n + 1))]);
    let groups: Vec<_> = (0..groups).map(group).collect();
    let rules = Rules {
        limits: vec![limit("1000/h")],
        groups: groups.clone(),
        ..Rules::unlimited()
    };
    let gate = AdmissionState::new(&groups, &rules, ClockPair::default());
    (gate, groups, rules)
}

fn limit(rate: &str) -> Limit {
    Limit::sliding(rate.parse().expect("a rate")).counted(Accounting::Send)
}

fn ask(gate: &mut AdmissionState, lane: u32, now: Nanos) -> AcquireResult {
    let caller = AcquireRequest {
        lane,
        cost: Cost::ONE,
        class: PriorityClass::Normal,
        term: WaitDeadline::By(now),
        mode: WaitMode::Reject,
        standing: QueueStanding::New,
    };
    gate.enqueue(caller, now, Waker::noop())
}

fn kept(gate: &mut AdmissionState) -> usize {
    gate.lanes
        .iter_mut()
        .filter_map(GroupState::used_limits)
        .count()
}

/// How the limit of a lane's own is in effect, by the report.
fn reported(gate: &mut AdmissionState, lane: usize, now: Nanos) -> (Limit, u64) {
    let report = gate.report(now).groups.swap_remove(lane).limits;
    (report[0].limit, report[0].usage.weight)
}

// Ten thousand groups are a hundred times what APIs have: what looks at all of them would show. Meters
// and what is learned of one limit take a kilobyte.
#[test]
fn a_group_that_nobody_called_holds_no_meters() {
    let (mut gate, ..) = gate_with(10_000);
    let now = Nanos::from_secs(10);
    gate.begin(true);
    gate.tidy(now);
    gate.force(None, HealthOverride::Throttle, now);
    gate.release(None, now);
    let report = gate.report(now);
    assert_eq!(report.groups.len(), 10_000);
    assert!(report.groups.iter().all(|group| group.limits.len() == 1));
    assert_eq!(kept(&mut gate), 0);
    assert!(matches!(ask(&mut gate, 7, now), AcquireResult::Go(_)));
    assert_eq!(kept(&mut gate), 1);
    assert_eq!(reported(&mut gate, 7, now).1, 1);
    assert!(
        size_of::<GroupState>() <= 224,
        "{}",
        size_of::<GroupState>()
    );
}

// The same rules again, more for every group, and the same as before: limits that stay what they were
// have nothing to learn.
#[test]
fn rules_that_change_leave_a_group_untouched_that_nobody_called() {
    let (mut gate, mut groups, mut rules) = gate_with(50);
    let now = Nanos::from_secs(10);
    assert!(matches!(ask(&mut gate, 7, now), AcquireResult::Go(_)));
    for factor in [1, 3, 1] {
        for (group, n) in groups.iter_mut().zip(1_u64..) {
            group.limits = [limit(&format!("{}/s", n * factor))].into();
        }
        rules.groups.clone_from(&groups);
        let moment = ClockPair {
            now,
            ..ClockPair::default()
        };
        gate.reconfigure(&groups, &rules, moment);
        assert_eq!(kept(&mut gate), 1);
        let (limit, used) = reported(&mut gate, 7, now);
        assert_eq!((limit.capacity(), used), (8 * factor, 1));
        assert_eq!(reported(&mut gate, 9, now).0.capacity(), 10 * factor);
    }
}

// A limit over a minute is new to a group that had one over a second. The API looks back an hour and let
// two pass: of four, two are left, for nobody knows that they were of other groups.
#[test]
fn a_new_limit_of_an_untouched_group_counts_what_the_api_counted() {
    let (mut gate, mut groups, rules) = gate_with(3);
    let now = Nanos::from_secs(10);
    assert!(matches!(ask(&mut gate, 1, now), AcquireResult::Go(_)));
    assert!(matches!(ask(&mut gate, 2, now), AcquireResult::Go(_)));
    groups[0].limits = [limit("4/min")].into();
    let moment = ClockPair {
        now,
        ..ClockPair::default()
    };
    gate.reconfigure(&groups, &rules, moment);
    assert_eq!(reported(&mut gate, 0, now).1, 2);
    for left in [true, true, false] {
        assert_eq!(matches!(ask(&mut gate, 0, now), AcquireResult::Go(_)), left);
    }
}

// Held in THROTTLE, calls keep to a part of the limit: a group that nobody called is told to do so too,
// and does when somebody calls it.
#[test]
fn a_group_begins_as_the_health_of_its_api_leaves_it() {
    let (mut gate, ..) = gate_with(50);
    let now = Nanos::from_secs(10);
    let whole = reported(&mut gate, 39, now).0;
    gate.force(None, HealthOverride::Throttle, now);
    assert_eq!(gate.state(39), HealthState::Throttle);
    let told = reported(&mut gate, 39, now).0;
    assert!(told.rate().cmp_speed(whole.rate()).is_lt(), "{told:?}");
    let slowest = gate.vitals(0, now).rate;
    assert_eq!(kept(&mut gate), 0);
    assert!(matches!(ask(&mut gate, 39, now), AcquireResult::Go(_)));
    assert_eq!(reported(&mut gate, 39, now), (told, 1));
    assert!((gate.vitals(0, now).rate - slowest).abs() < 1e-9);
    gate.release(None, now);
    gate.force(None, HealthOverride::Normal, now);
    assert_eq!(reported(&mut gate, 39, now).0, whole);
}
