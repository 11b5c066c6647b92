//! A server shared by several clients, and the conclusions of one of them from its headers.
//!
//! The server is strict and keeps every arrival with its owner. The client sees only the responses,
//! late and out of order.

use std::cmp::Reverse;
use std::time::Duration;

use outflow_core::{
    Accounting, ClockPair, Cost, Dialects, Hint, Hints, Limit, LocalUsage, MeterSet, Nanos, Rate, ReceiptSet,
    RequestTiming, ResponseTime, UsageCorrection, UsageLedger, UsageMark, WallTime,
};
use proptest::prelude::*;

/// The server's window in milliseconds, and ours.
const WINDOW: u64 = 1_000;
const LIMIT: u64 = 1_000;

/// Own request, with times in milliseconds.
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

fn limit() -> Limit {
    let rate = Rate::new(LIMIT, Duration::from_millis(WINDOW)).expect("valid");
    Limit::sliding(rate).counted(Accounting::Safe)
}

/// Returns the number of `arrivals` in a sliding window at `at`.
fn counted(arrivals: impl Iterator<Item = u64>, at: u64) -> u64 {
    let live = arrivals.filter(|arrival| *arrival <= at && at < arrival + WINDOW);
    u64::try_from(live.count()).expect("few")
}

/// Returns the header in the response of a request that arrived at `at`.
fn header(ours: &[Sent], theirs: &[u64], at: u64) -> Hint {
    let used = counted(ours.iter().map(|sent| sent.arrives), at) + counted(theirs.iter().copied(), at);
    let (limit, left) = (LIMIT.to_string(), LIMIT.saturating_sub(used).to_string());
    let headers = [
        ("RateLimit-Limit", limit.as_bytes()),
        ("RateLimit-Remaining", left.as_bytes()),
    ];
    let response_time = ResponseTime {
        date: None,
        wall: WallTime::EPOCH,
    };
    let hints = Hints::read(headers, Dialects::ALL, response_time);
    *hints.iter().next().expect("one hint")
}

/// Returns our own meter's knowledge: entries count in flight and for one window after their
/// response.
fn known(all: &[Sent], of: Sent) -> LocalUsage {
    let at_send = |sent: &&Sent| sent.at <= of.at && of.at < sent.returns + WINDOW;
    let since = |sent: &&Sent| sent.at > of.at && sent.at <= of.returns;
    let count = |number: usize| u64::try_from(number).expect("few");
    LocalUsage {
        limit: limit(),
        counted_at_send: count(all.iter().filter(at_send).count()),
        added_since: count(all.iter().filter(since).count()),
    }
}

fn conclude(ours: &[Sent], theirs: &[u64], of: Sent) -> u64 {
    let hint = header(ours, theirs, of.arrives);
    UsageCorrection::new(&hint, &known(ours, of), Nanos::from_millis(of.returns)).foreign
}

fn never_accused_beyond_truth(ours: &[Sent], theirs: &[u64]) -> Result<(), TestCaseError> {
    for of in ours {
        let truth = counted(theirs.iter().copied(), of.arrives);
        let foreign = conclude(ours, theirs, *of);
        prop_assert!(foreign <= truth, "{foreign} of {truth} at {}", of.arrives);
    }
    Ok(())
}

/// All own requests are over and expired; then one request asks.
fn found_exactly_when_quiet(ours: &[Sent], theirs: &[u64]) -> Result<(), TestCaseError> {
    let quiet = ours.iter().map(|sent| sent.returns).max().unwrap_or(0) + WINDOW;
    let probe = Sent {
        at: quiet,
        arrives: quiet + 20,
        returns: quiet + 40,
    };
    let later: Vec<u64> = theirs.iter().map(|at| at % WINDOW + quiet - WINDOW / 2).collect();
    let mut all = ours.to_vec();
    all.push(probe);
    let truth = counted(later.iter().copied(), probe.arrives);
    prop_assert_eq!(conclude(&all, &later, probe), truth);
    Ok(())
}

/// Request in flight, with the data for its response.
struct Waiting {
    sent: Sent,
    receipts: ReceiptSet,
    mark: UsageMark,
}

/// Client with a real meter that charges every conclusion.
struct Client {
    set: MeterSet,
    ledger: UsageLedger,
    charged: u64,
}

impl Client {
    fn new() -> Self {
        Self {
            set: MeterSet::new(&[limit()], ClockPair::default()).expect("one limit"),
            ledger: UsageLedger::default(),
            charged: 0,
        }
    }

    /// `None` if the meter, with the foreign usage charged to it, has no quota.
    fn send(&mut self, sent: Sent) -> Option<Waiting> {
        let now = Nanos::from_millis(sent.at);
        let receipts = self.set.take(now, Cost::ONE).allowed()?;
        self.ledger.taken(Cost::ONE);
        let (_, status) = self.set.statuses(now).next().expect("one limit");
        let mark = self.ledger.mark(&status);
        Some(Waiting { sent, receipts, mark })
    }

    fn receive(&mut self, waiting: Waiting, hint: &Hint) {
        let Waiting { sent, receipts, mark } = waiting;
        let now = Nanos::from_millis(sent.returns);
        let foreign = self.ledger.correct(hint, &limit(), mark, now).foreign;
        self.set.charge(now, 0, foreign);
        self.charged += foreign;
        let timing = RequestTiming::Answered {
            sent: receipts.at(),
            answered: now,
        };
        self.set.settle(now, receipts, timing, None);
    }
}

/// All own requests in the order of time, so that many are in flight when a response comes.
fn charged_by_then(ours: &[Sent], theirs: &[u64]) -> Result<u64, TestCaseError> {
    let mut client = Client::new();
    let mut to_send = ours.to_vec();
    to_send.sort_by_key(|sent| Reverse(sent.at));
    let (mut waiting, mut went): (Vec<Waiting>, Vec<Sent>) = Default::default();
    let mut seen = 0;
    loop {
        waiting.sort_by_key(|waiting| Reverse(waiting.sent.returns));
        let next = to_send.last().map(|sent| sent.at);
        match waiting.pop_if(|waiting| next.is_none_or(|at| waiting.sent.returns <= at)) {
            Some(back) => {
                let at = back.sent.arrives;
                client.receive(back, &header(&went, theirs, at));
                seen = seen.max(at);
                let truth = theirs.iter().filter(|used| **used <= seen).count();
                let truth = u64::try_from(truth).expect("few");
                prop_assert!(client.charged <= truth, "{} of {truth}", client.charged);
            }
            None => match to_send.pop().map(|sent| (sent, client.send(sent))) {
                Some((sent, Some(sending))) => {
                    went.push(sent);
                    waiting.push(sending);
                }
                Some((_, None)) => {}
                None => return Ok(client.charged),
            },
        }
    }
}

fn strangers_are_charged_once(ours: &[Sent], theirs: &[u64]) -> Result<(), TestCaseError> {
    charged_by_then(ours, theirs).map(drop)
}

fn histories() -> impl Strategy<Value = (Vec<Sent>, Vec<u64>)> {
    let ours = prop::collection::vec(sent(), 1..40);
    let theirs = prop::collection::vec(0..6_000_u64, 0..40);
    (ours, theirs)
}

outflow_testkit::laws! {
    #[test]
    fn foreign_usage_is_never_overestimated / fn stress_foreign_usage_is_never_overestimated
        (histories()) = |(ours, theirs)| never_accused_beyond_truth(&ours, &theirs);

    #[test]
    fn foreign_usage_is_exact_without_own_traffic / fn stress_foreign_usage_is_exact_without_own_traffic
        (histories()) = |(ours, theirs)| found_exactly_when_quiet(&ours, &theirs);

    #[test]
    fn charges_never_exceed_foreign_usage / fn stress_charges_never_exceed_foreign_usage
        (histories()) = |(ours, theirs)| strangers_are_charged_once(&ours, &theirs);
}

// Four own requests in flight at once, and ten foreign ones that all four responses report.
#[test]
fn several_responses_charge_foreign_usage_once() {
    let ours = [(); 4].map(|()| Sent {
        at: 0,
        arrives: 100,
        returns: 200,
    });
    assert_eq!(charged_by_then(&ours, &[10; 10]).ok(), Some(10));
}

// Ten foreign requests, and our own burst of five in flight with the one that brings the header.
// Without the later takes, four of our own would count as foreign.
#[test]
fn own_later_sends_are_not_foreign_usage() {
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
