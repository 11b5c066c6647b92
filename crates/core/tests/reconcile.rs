//! A server that several clients share, against what one of them concludes from its headers.
//!
//! The server is strict and keeps everything: every arrival with its owner. We see only what comes
//! back, late and out of order.

use std::time::Duration;

use outflow_core::{
    Correction, Dialects, Hint, Hints, Limit, Nanos, Ours, Rate, ResponseTime, WallTime,
};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

/// The server's window in milliseconds, and ours.
const WINDOW: u64 = 1_000;
const LIMIT: u64 = 1_000;

/// One of our requests: times in milliseconds.
#[derive(Clone, Copy, Debug)]
struct Sent {
    at: u64,
    arrives: u64,
    returns: u64,
}

fn sent() -> impl Strategy<Value = Sent> {
    (0..5_000_u64, 1..400_u64, 1..400_u64).prop_map(|(at, there, back)| Sent {
        at,
        arrives: at + there,
        returns: at + there + back,
    })
}

/// How many of `arrivals` a sliding window holds at `at`.
fn counted(arrivals: impl Iterator<Item = u64>, at: u64) -> u64 {
    let live = arrivals.filter(|arrival| *arrival <= at && at < arrival + WINDOW);
    u64::try_from(live.count()).expect("few")
}

/// What the server writes into the response of a request that arrived at `at`.
fn header(ours: &[Sent], theirs: &[u64], at: u64) -> Hint {
    let used =
        counted(ours.iter().map(|sent| sent.arrives), at) + counted(theirs.iter().copied(), at);
    let (limit, left) = (LIMIT.to_string(), LIMIT.saturating_sub(used).to_string());
    let headers = [
        ("RateLimit-Limit", limit.as_bytes()),
        ("RateLimit-Remaining", left.as_bytes()),
    ];
    let came = ResponseTime {
        date: None,
        wall: WallTime::EPOCH,
    };
    let hints = Hints::read(headers, Dialects::ALL, came);
    *hints.iter().next().expect("one hint")
}

/// What our own meter knows: entries count in flight and for one window after their response.
fn known(all: &[Sent], of: Sent) -> Ours {
    let at_send = |sent: &&Sent| sent.at <= of.at && of.at < sent.returns + WINDOW;
    let since = |sent: &&Sent| sent.at > of.at && sent.at <= of.returns;
    let count = |number: usize| u64::try_from(number).expect("few");
    Ours {
        limit: Limit::sliding(Rate::new(LIMIT, Duration::from_millis(WINDOW)).expect("valid")),
        counted_at_send: count(all.iter().filter(at_send).count()),
        taken_since: count(all.iter().filter(since).count()),
    }
}

fn conclude(ours: &[Sent], theirs: &[u64], of: Sent) -> u64 {
    let hint = header(ours, theirs, of.arrives);
    Correction::of(&hint, &known(ours, of), Nanos::from_millis(of.returns)).foreign
}

fn never_accused_beyond_truth(ours: &[Sent], theirs: &[u64]) -> Result<(), TestCaseError> {
    for of in ours {
        let truth = counted(theirs.iter().copied(), of.arrives);
        let foreign = conclude(ours, theirs, *of);
        prop_assert!(foreign <= truth, "{foreign} of {truth} at {}", of.arrives);
    }
    Ok(())
}

/// All of ours is over and forgotten; then one request asks.
fn found_exactly_when_quiet(ours: &[Sent], theirs: &[u64]) -> Result<(), TestCaseError> {
    let quiet = ours.iter().map(|sent| sent.returns).max().unwrap_or(0) + WINDOW;
    let probe = Sent {
        at: quiet,
        arrives: quiet + 20,
        returns: quiet + 40,
    };
    let later: Vec<u64> = theirs
        .iter()
        .map(|at| at % WINDOW + quiet - WINDOW / 2)
        .collect();
    let mut all = ours.to_vec();
    all.push(probe);
    let truth = counted(later.iter().copied(), probe.arrives);
    prop_assert_eq!(conclude(&all, &later, probe), truth);
    Ok(())
}

fn histories() -> impl Strategy<Value = (Vec<Sent>, Vec<u64>)> {
    let ours = prop::collection::vec(sent(), 1..40);
    let theirs = prop::collection::vec(0..6_000_u64, 0..40);
    (ours, theirs)
}

fn law_holds(cases: u32, law: fn(&[Sent], &[u64]) -> Result<(), TestCaseError>) {
    TestRunner::new(ProptestConfig::with_cases(cases))
        .run(&histories(), |(ours, theirs)| law(&ours, &theirs))
        .expect("the law holds");
}

#[test]
fn others_are_never_accused_beyond_the_truth() {
    law_holds(10_000, never_accused_beyond_truth);
}

#[test]
fn others_are_found_exactly_once_we_are_quiet() {
    law_holds(10_000, found_exactly_when_quiet);
}

#[test]
#[ignore = "long run: cargo xtask test --stress"]
fn stress_others_are_never_accused_beyond_the_truth() {
    law_holds(1_000_000, never_accused_beyond_truth);
}

#[test]
#[ignore = "long run: cargo xtask test --stress"]
fn stress_others_are_found_exactly_once_we_are_quiet() {
    law_holds(1_000_000, found_exactly_when_quiet);
}

// Ten of theirs, and our own burst of five in flight with the one that brings the header. Without
// what was taken since, four of our own would be taken for strangers.
#[test]
fn what_was_sent_since_is_not_taken_for_a_stranger() {
    let first = Sent {
        at: 0,
        arrives: 100,
        returns: 200,
    };
    let rest = (1..5).map(|n| Sent {
        at: n,
        arrives: 50 + n,
        returns: 150,
    });
    let ours: Vec<Sent> = std::iter::once(first).chain(rest).collect();
    assert_eq!(conclude(&ours, &[10; 10], first), 10);
}
