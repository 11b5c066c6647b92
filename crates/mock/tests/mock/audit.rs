//! The audit's queries on histories made by hand.

use std::collections::BTreeMap;
use std::time::Duration;

use outflow_core::{Cost, Nanos};
use outflow_mock::{Arrival, ArrivalVerdict, Audit, Received, Scope, WaitAudit};
use proptest::prelude::*;

fn at(millis: u64) -> Arrival {
    Arrival::at(Nanos::from_millis(millis))
}

fn by(caller: &str, millis: u64) -> Arrival {
    Arrival {
        caller: caller.into(),
        ..at(millis)
    }
}

const SECOND: Duration = Duration::from_secs(1);

// The third is exactly one window behind the first, so no window holds all three.
#[test]
fn a_window_excludes_its_end() {
    let audit = Audit::from_arrivals(vec![at(0), at(999), at(1_000)]);
    assert_eq!(audit.most_in_any_window(SECOND), 2);
    assert_eq!(audit.most_in_any_window(SECOND + Duration::from_nanos(1)), 3);
    assert_eq!(Audit::from_arrivals(Vec::new()).most_in_any_window(SECOND), 0);
}

#[test]
fn windows_can_be_filtered_by_cost_caller_and_route() {
    let heavy = Arrival {
        cost: Cost::new(7),
        route: "orders".into(),
        ..by("b", 100)
    };
    let audit = Audit::from_arrivals(vec![by("a", 0), heavy, by("a", 1_500)]);
    assert_eq!(audit.most_in_any_window(SECOND), 2);
    assert_eq!(audit.most_cost_in_any_window(SECOND), 8);
    assert_eq!(audit.of_caller("a").most_in_any_window(SECOND), 1);
    assert_eq!(audit.on_route("orders").most_cost_in_any_window(SECOND), 7);
}

// Two of the greatest cost in one window exceed 64 bits: the result is capped, and later removals
// are exact.
#[test]
fn the_greatest_costs_are_added_without_overflow() {
    let costing = |units, millis| Arrival {
        cost: Cost::new(units),
        ..at(millis)
    };
    let most = |arrivals| Audit::from_arrivals(arrivals).most_cost_in_any_window(SECOND);
    let greatest = || vec![costing(u64::MAX, 0), costing(u64::MAX, 1)];
    assert_eq!(most(greatest()), u64::MAX);
    let mut then_few = greatest();
    then_few.extend([costing(3, 5_000), costing(4, 5_001)]);
    assert_eq!(most(then_few), u64::MAX);
    let one_less = vec![costing(u64::MAX - 1, 0), costing(1, 1), costing(1, 2_000)];
    assert_eq!(most(one_less), u64::MAX);
    let apart = vec![costing(u64::MAX, 0), costing(u64::MAX, 1_000)];
    assert_eq!(most(apart), u64::MAX, "one at a time");
}

proptest! {
    // Against every window that begins at an arrival, which is where the fullest one can begin.
    #[test]
    fn the_fullest_window_is_found(
        mut times in prop::collection::vec(0..200_u64, 0..60),
        window in 1..60_u64,
    ) {
        times.sort_unstable();
        let inside = |from: &u64| {
            let window = *from..from + window;
            times.iter().filter(|time| window.contains(time)).count()
        };
        let most = times.iter().map(inside).max().unwrap_or(0);
        let audit = Audit::from_arrivals(times.iter().map(|time| at(*time)).collect());
        let found = audit.most_in_any_window(Duration::from_millis(window));
        prop_assert_eq!(usize::try_from(found).unwrap(), most);
    }
}

fn sent_at(caller: Option<&str>, sent_at: u64, until: u64) -> WaitAudit {
    WaitAudit {
        scope: Scope {
            caller: caller.map(Into::into),
            route: None,
        },
        sent_at: Nanos::from_millis(sent_at),
        until: Nanos::from_millis(until),
        number: 1,
        on: Some(4),
    }
}

fn early(audit: &Audit) -> Vec<u64> {
    let times = audit.sent_before_retry_after();
    let millis = |early: &outflow_mock::EarlyRequest| early.arrival.at.as_nanos() / 1_000_000;
    times.iter().map(millis).collect()
}

// The wait starts at 100 and ends at 500. A request that crossed the response could not know it. A
// request that arrives at 500 may pass, even if it was sent before.
#[test]
fn only_informed_callers_count_as_early() {
    let sent = |sent, arrived| Arrival {
        received: Nanos::from_millis(sent),
        ..at(arrived)
    };
    let arrivals = vec![
        at(50),
        at(100),
        at(101),
        sent(90, 110),
        at(499),
        sent(450, 500),
        at(500),
    ];
    let audit = Audit::from_arrivals(arrivals).with_waits(vec![sent_at(None, 100, 500)]);
    assert_eq!(early(&audit), [101, 499]);
}

// In virtual time an immediate retry happens in the instant of the response.
#[test]
fn a_request_after_the_response_on_its_connection_is_informed() {
    let on = |connection, number| Arrival {
        connection,
        number,
        ..at(100)
    };
    let audit = Audit::from_arrivals(vec![on(4, 1), on(3, 2), on(4, 3)]).with_waits(vec![sent_at(None, 100, 500)]);
    let found = audit.sent_before_retry_after();
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].arrival.number, 3);
    assert_eq!(found[0].wait.until, Nanos::from_millis(500));
}

#[test]
fn a_wait_applies_to_informed_callers_only() {
    let audit = Audit::from_arrivals(vec![by("a", 200), by("b", 210), by("a", 600)]);
    let a_only = audit.clone().with_waits(vec![sent_at(Some("a"), 100, 500)]);
    assert_eq!(early(&a_only), [200]);
    let all = audit.with_waits(vec![sent_at(None, 100, 500), sent_at(Some("a"), 120, 900)]);
    assert_eq!(early(&all), [200, 210, 600]);
}

#[test]
fn counts_are_by_path_status_verdict_and_body() {
    let refused = Arrival {
        verdict: ArrivalVerdict::Refused("requests".into()),
        status: Some(429),
        path: "/a".into(),
        ..at(1)
    };
    let cut = Arrival {
        status: None,
        body: Received::Cut(3),
        path: "/a".into(),
        ..at(2)
    };
    let banned = Arrival {
        verdict: ArrivalVerdict::Banned,
        status: Some(418),
        ..at(3)
    };
    let audit = Audit::from_arrivals(vec![at(0), refused, cut, banned]);
    assert_eq!(audit.count(), 4);
    assert_eq!(audit.refused(), 2);
    assert_eq!(audit.attempts("/a"), 2);
    assert_eq!(audit.cut_bodies(), 1);
    assert_eq!(audit.by_status(), BTreeMap::from([(200, 1), (418, 1), (429, 1)]));
}
