//! Limits that change while requests are in flight.

use std::time::Duration;

use outflow_core::{
    Accounting, ClockPair, Cost, Decision, Limit, Meter, MeterSet, ReceiptSet, RequestTiming, WallTime,
};
use proptest::prelude::*;

use crate::support::{at, rate, sliding};

/// Event of a set whose limits change during requests.
#[derive(Debug, Clone)]
enum Turn {
    Take { after: u64, cost: u64 },
    Settle { after: u64, nth: usize, gone_for: u64 },
    Refund { after: u64, nth: usize },
    HealthChange { after: u64, limits: Vec<u8> },
}

fn turns() -> impl Strategy<Value = Vec<Turn>> {
    let turn = prop_oneof![
        6 => (0..8_u64, 0..4_u64).prop_map(|(after, cost)| Turn::Take { after, cost }),
        3 => (0..8_u64, 0..4_usize, 0..30_u64)
            .prop_map(|(after, nth, gone_for)| Turn::Settle { after, nth, gone_for }),
        1 => (0..8_u64, 0..4_usize).prop_map(|(after, nth)| Turn::Refund { after, nth }),
        1 => (0..8_u64, prop::collection::vec(0..4_u8, 1..4))
            .prop_map(|(after, limits)| Turn::HealthChange { after, limits }),
    ];
    prop::collection::vec(turn, 1..60)
}

/// Returns a limit of each kind, wide enough to pass most requests.
fn of_kind(kind: u8) -> Limit {
    match kind {
        0 => Limit::sliding(rate(9, 20)).counted(Accounting::Safe),
        1 => Limit::aligned(rate(9, 20)).expect("even").counted(Accounting::Safe),
        2 => Limit::bucket(rate(9, 20), 9)
            .expect("positive")
            .counted(Accounting::Safe),
        _ => Limit::sliding(rate(5, 10)).counted(Accounting::Tight),
    }
}

outflow_testkit::laws! {
    // Limits come, go and change while requests are in flight, some of which are given up. The
    // first limit, which always exists in some form, has exactly the outstanding ones in flight.
    // The last one has none from before it was made.
    #[test]
    fn requests_in_flight_survive_every_change / fn stress_requests_in_flight_survive_every_change
        (turns()) = |turns| {
            let mut set = MeterSet::new(&[of_kind(0)], ClockPair::default()).expect("one");
            let (mut now, mut made) = (50_u64, vec![0_u64]);
            let mut held: Vec<(ReceiptSet, u64)> = Vec::new();
            let mut lost: Vec<(u64, u64, u64)> = Vec::new();
            for turn in turns {
                match turn {
                    Turn::Take { after, cost } => {
                        now += after;
                        if let Decision::Allow(receipts) = set.take(at(now), Cost::new(cost)) {
                            held.push((receipts, now));
                        }
                    }
                    Turn::Settle { after, nth, gone_for } if nth < held.len() => {
                        now += after;
                        let (receipts, left) = held.remove(nth);
                        lost.push((now + gone_for, receipts.cost().units(), left));
                        set.settle(at(now), receipts, RequestTiming::Lost { until: at(now + gone_for) }, None);
                    }
                    Turn::Refund { after, nth } if nth < held.len() => {
                        now += after;
                        set.refund(at(now), held.remove(nth).0);
                    }
                    Turn::HealthChange { after, limits } => {
                        now += after;
                        let next: Vec<Limit> = limits.iter().map(|kind| of_kind(*kind)).collect();
                        let moment = ClockPair { now: at(now), ..ClockPair::default() };
                        set.reconfigure(moment, &next).expect("few");
                        made.resize(next.len(), now);
                    }
                    Turn::Settle { .. } | Turn::Refund { .. } => {}
                }
                for ((_, status), since) in set.statuses(at(now)).zip(&made) {
                    // Taken at the instant of the change: before or after it, both are right.
                    let clear = held.iter().all(|(_, sent)| sent != since) && lost.iter().all(|l| l.2 != *since);
                    let ours = held.iter().filter(|(_, sent)| sent > since).map(|(g, _)| g.cost().units());
                    let gone = lost.iter().filter(|(by, _, sent)| *by > now && sent > since).map(|l| l.1);
                    let outstanding: u64 = ours.chain(gone).sum();
                    prop_assert!(!clear || status.in_flight == u128::from(outstanding), "at {}", now);
                }
            }
            Ok(())
        };
}

// A zero cost taken, charged, settled or refunded leaves no trace in any kind of meter.
#[test]
fn a_zero_cost_leaves_no_trace() {
    let send = |limit: Limit| limit.counted(Accounting::Send);
    let bucket = Limit::bucket(rate(9, 20), 9).expect("positive");
    let fixed = Limit::fixed(rate(9, 20));
    for limit in [
        of_kind(0),
        of_kind(1),
        of_kind(2),
        send(of_kind(0)),
        send(fixed),
        send(bucket),
    ] {
        let mut meter = Meter::new(&limit, ClockPair::default());
        let mut nothing = || meter.take(at(5), Cost::ZERO).allowed().expect("always");
        let (first, second) = (nothing(), nothing());
        assert!(!meter.refund(at(6), first));
        meter.settle(at(6), second, at(6));
        meter.charge(at(6), 0);
        assert!(!meter.refund_at(at(6), at(5), Cost::ZERO));
        let status = meter.status(at(6));
        assert_eq!((status.used, status.requests, status.peak), (0, 0, 0), "{limit:?}");
        assert_eq!((status.memory, meter.recovery(at(6))), (0, None), "{limit:?}");
    }
}

// One has landed and two are in flight when the limit becomes another kind, and another: three
// count all along, and two of them are in flight.
#[test]
fn a_change_of_kind_keeps_landed_and_open_usage() {
    let mut set = MeterSet::new(&[of_kind(0)], ClockPair::default()).expect("one");
    let landed = set.take(at(0), Cost::ONE).allowed().expect("untouched");
    assert!(set.take(at(0), Cost::new(2)).is_allow());
    set.settle(
        at(5),
        landed,
        RequestTiming::Answered {
            sent: at(0),
            answered: at(5),
        },
        None,
    );
    for kind in [2, 1, 0] {
        set.reconfigure(
            ClockPair {
                now: at(6),
                ..ClockPair::default()
            },
            &[of_kind(kind)],
        )
        .expect("one");
        let (_, status) = set.statuses(at(6)).next().expect("one");
        assert_eq!((status.used, status.in_flight, status.peak), (3, 2, 3), "kind {kind}");
    }
}

// The receipts were taken before the second limit existed or changed: they refund nothing of later
// takes.
#[test]
fn a_receipt_set_refunds_only_to_its_own_limits() {
    let first = sliding(100, 1_000);
    let bucket = Limit::bucket(rate(1, 1_000), 1)
        .expect("positive")
        .counted(Accounting::Send);
    let moment = |now| ClockPair {
        now: at(now),
        ..ClockPair::default()
    };
    let mut set = MeterSet::new(&[first], ClockPair::default()).expect("one");
    let before = set.take(at(0), Cost::ONE).allowed().expect("untouched");
    set.reconfigure(moment(10), &[first, bucket]).expect("two");
    assert!(set.take(at(20), Cost::ONE).is_allow());
    set.refund(at(30), before);
    assert!(!set.check(at(30), Cost::ONE).is_allow(), "the token is gone");

    let strict = Limit::sliding(rate(1, 1_000)).counted(Accounting::Safe);
    let mut set = MeterSet::new(&[first, strict], ClockPair::default()).expect("two");
    let before = set.take(at(0), Cost::ONE).allowed().expect("untouched");
    set.reconfigure(moment(10), &[first]).expect("one");
    set.reconfigure(moment(10), &[first, strict]).expect("two");
    assert!(set.take(at(20), Cost::ONE).is_allow());
    set.refund(at(30), before);
    assert!(!set.check(at(30), Cost::ONE).is_allow(), "another one is in flight");
}

// A change with an earlier time than a meter has seen happens at the latest one, from any kind:
// recent usage is not a window old.
#[test]
fn no_change_of_kind_happens_in_the_past() {
    for (from, to) in [(1, 0), (2, 0), (0, 2)] {
        let mut meter = Meter::new(&of_kind(from), ClockPair::default());
        meter.charge(at(100_000), 9);
        meter.reconfigure(ClockPair::default(), &of_kind(to));
        let next = meter.check(at(100_001), Cost::new(9));
        assert_eq!(next, Decision::WaitUntil(at(100_020)), "from kind {from} to {to}");
    }
}

// The civil clock is set back while ten are used: the set's aligned limit waits for the new edge.
#[test]
fn a_set_realigns_its_windows() {
    let limit = Limit::aligned(rate(9, 100)).expect("even").counted(Accounting::Send);
    let mut set = MeterSet::new(&[limit], ClockPair::default()).expect("one");
    assert!(set.take(at(50), Cost::new(9)).is_allow());
    assert_eq!(set.check(at(60), Cost::ONE), Decision::WaitUntil(at(100)));
    let wall = WallTime::since_epoch(Duration::from_nanos(30));
    set.realign(ClockPair { now: at(60), wall });
    assert_eq!(set.check(at(60), Cost::ONE), Decision::WaitUntil(at(130)));
}

// A moment ties the two clocks together, however old it is: windows of a limit that is added with
// one have their usual edges.
#[test]
fn a_limit_added_with_an_old_moment_has_correct_edges() {
    let aligned = Limit::aligned(rate(1, 100)).expect("even").counted(Accounting::Send);
    let mut set = MeterSet::new(&[of_kind(0)], ClockPair::default()).expect("one");
    assert!(set.check(at(500), Cost::ONE).is_allow());
    let wall = WallTime::since_epoch(Duration::from_nanos(20));
    set.reconfigure(ClockPair { now: at(450), wall }, &[of_kind(0), aligned])
        .expect("two");
    assert!(set.take(at(510), Cost::ONE).is_allow());
    let next = set.explain(at(510), Cost::ONE).last();
    assert_eq!(next, Some(Decision::WaitUntil(at(530))), "100 on the civil clock");
}

// Where sendings count there is nothing to settle: the response neither refunds nor adds.
#[test]
fn a_response_changes_nothing_where_sendings_count() {
    let fixed = Limit::fixed(rate(9, 20));
    for limit in [of_kind(0), fixed, of_kind(2)].map(|limit| limit.counted(Accounting::Send)) {
        let mut meter = Meter::new(&limit, ClockPair::default());
        let sent = meter.take(at(5), Cost::new(9)).allowed().expect("untouched");
        let before = meter.check(at(10), Cost::ONE);
        meter.settle(at(10), sent, at(10));
        assert_eq!(meter.check(at(10), Cost::ONE), before, "{limit:?}");
    }
}

#[test]
fn a_set_releases_unused_memory() {
    let mut set = MeterSet::new(&[sliding(9, 10), sliding(99, 10)], ClockPair::default()).expect("two");
    assert!(set.take(at(0), Cost::new(9)).is_allow());
    set.prune(at(50));
    assert!(set.usage(at(50), 0).all(|usage| usage.memory_bytes == 0));
}

// Nine lost requests have all arrived: nothing of them is stored.
#[test]
fn lost_requests_leave_no_memory() {
    for kind in 0..3 {
        let mut meter = Meter::new(&of_kind(kind), ClockPair::default());
        for n in 0..9 {
            let receipts = meter.take(at(n), Cost::ONE).allowed().expect("room for nine");
            meter.settle(at(n), receipts, at(1_000 - n));
        }
        let status = meter.status(at(10));
        assert_eq!((status.used, status.in_flight, status.requests), (9, 9, 9));
        assert!(status.memory >= 9 * 16);
        meter.prune(at(5_000));
        let status = meter.status(at(5_000));
        assert_eq!((status.used, status.memory), (0, 0), "kind {kind}");
    }
}
