//! Limits that count different quantities of one request.

use outflow_core::{
    Accounting, ClockPair, Cost, CountBy, Decision, HintUnit, Limit, MeterSet, Pacing, ReceiptSet, RequestTiming,
};
use proptest::prelude::*;

use crate::support::sliding::SlidingOracle;
use crate::support::{Step, at, rate, sliding, steps};

const MEASURES: [CountBy; 5] = [
    CountBy::Cost,
    CountBy::Calls,
    CountBy::Tokens,
    CountBy::InputTokens,
    CountBy::OutputTokens,
];

/// Recomputes the units of one request.
fn counted(measure: CountBy, cost: u64) -> u64 {
    match measure {
        CountBy::Calls | CountBy::OutputTokens => 1,
        _ => cost,
    }
}

/// Set of limits, each with its own oracle.
struct Pair {
    set: MeterSet,
    oracles: Vec<(CountBy, SlidingOracle)>,
    held: Vec<(Vec<usize>, ReceiptSet)>,
}

impl Pair {
    fn new(shapes: &[(u64, u64, CountBy)]) -> Self {
        let limit = |(q, w, measure): &(u64, u64, CountBy)| sliding(*q, *w).measured_in(*measure);
        let limits: Vec<Limit> = shapes.iter().map(limit).collect();
        let oracle = |(q, w, m): &(u64, u64, CountBy)| (*m, SlidingOracle::new(*q, *w));
        Self {
            set: MeterSet::new(&limits, ClockPair::default()).expect("few"),
            oracles: shapes.iter().map(oracle).collect(),
            held: Vec::new(),
        }
    }

    fn take(&mut self, now: u64, cost: u64) -> Result<(), TestCaseError> {
        let each = self.oracles.iter_mut();
        let each: Vec<_> = each
            .map(|(measure, oracle)| oracle.decide(now, counted(*measure, cost)))
            .collect();
        let all = each
            .iter()
            .copied()
            .fold(Decision::Allow(()), |sum, one| sum.and(one).map(drop));
        let explained: Vec<_> = self.set.explain(at(now), Cost::new(cost)).collect();
        prop_assert_eq!(explained, each, "at {}", now);
        match self.set.take(at(now), Cost::new(cost)) {
            Decision::Allow(receipts) => {
                prop_assert!(all.is_allow(), "at {}", now);
                let taken = self.oracles.iter_mut();
                let taken = taken.map(|(measure, oracle)| oracle.take(counted(*measure, cost)));
                self.held.push((taken.collect(), receipts));
            }
            refusal => prop_assert_eq!(refusal.map(drop), all, "at {}", now),
        }
        Ok(())
    }

    fn refund(&mut self, now: u64, nth: usize) {
        if nth < self.held.len() {
            let (taken, receipts) = self.held.remove(self.held.len() - 1 - nth);
            for ((_, oracle), index) in self.oracles.iter_mut().zip(taken) {
                oracle.see(now);
                oracle.refund(index);
            }
            self.set.refund(at(now), receipts);
        }
    }

    fn agree(&mut self, now: u64) -> Result<(), TestCaseError> {
        let usages: Vec<_> = self.set.usage(at(now), 0).collect();
        for (usage, (measure, oracle)) in usages.iter().zip(&mut self.oracles) {
            oracle.see(now);
            let used = oracle.used(oracle.latest);
            prop_assert_eq!(u128::from(usage.weight), used, "{:?} at {}", measure, now);
        }
        Ok(())
    }
}

outflow_testkit::laws! {
    // Windows of a few ticks and costs from zero to more than most limits hold, so that each limit
    // refuses for a while or for good while others have quota.
    #[test]
    fn limits_of_any_unit_pass_together_or_not_at_all / fn stress_limits_of_any_unit_pass_together_or_not_at_all
        ((prop::collection::vec((1..8_u64, 1..25_u64, prop::sample::select(&MEASURES[..])), 1..5), steps(false))) = |(shapes, history)| {
            let mut pair = Pair::new(&shapes);
            let mut now = 50_u64;
            for step in history {
                match step {
                    Step::Take { after, cost } => {
                        now += after;
                        pair.take(now, cost)?;
                    }
                    Step::Refund { after, nth } => {
                        now += after;
                        pair.refund(now, nth);
                    }
                    Step::Back { .. } | Step::Reconfigure { .. } => {}
                }
                pair.agree(now)?;
            }
            Ok(())
        };
}

fn used(set: &mut MeterSet, now: u64) -> Vec<u128> {
    set.statuses(at(now)).map(|(_, s)| s.used).collect()
}

// Every kind in both ways of counting, next to a limit that counts the cost of 7: the units taken
// equal those refunded and settled.
#[test]
fn each_limit_refunds_and_settles_its_own_units() {
    let wide = rate(100, 1_000);
    let kinds = [
        Limit::sliding(wide),
        Limit::fixed(wide),
        Limit::bucket(wide, 100).expect("positive"),
    ];
    for (kind, accounting) in kinds
        .into_iter()
        .flat_map(|kind| [Accounting::Send, Accounting::Safe].map(|way| (kind, way)))
    {
        let kind = kind.counted(accounting);
        let limits = [kind, kind.measured_in(CountBy::Calls)];
        let mut set = MeterSet::new(&limits, ClockPair::default()).expect("two");
        let seven = |set: &mut MeterSet| set.take(at(10), Cost::new(7)).allowed().expect("room");
        let (first, second) = (seven(&mut set), seven(&mut set));
        assert_eq!(used(&mut set, 10), [14, 2], "{kind:?}");
        set.refund(at(10), first);
        assert_eq!(used(&mut set, 10), [7, 1], "{kind:?}");
        let timing = RequestTiming::Answered {
            sent: at(10),
            answered: at(10),
        };
        set.settle(at(10), second, timing, None);
        assert_eq!(used(&mut set, 10), [7, 1], "{kind:?}");
        let flying: Vec<u128> = set.statuses(at(10)).map(|(_, s)| s.in_flight).collect();
        assert_eq!(flying, [0, 0], "{kind:?}");
        assert_eq!(used(&mut set, 1_011), [0, 0], "{kind:?}");
    }
}

// A heavy call has enough quota among calls; only the limit that counts its cost can say never.
#[test]
fn a_cost_is_too_large_only_where_costs_are_counted() {
    let calls = sliding(1, 10).measured_in(CountBy::Calls);
    let mut set = MeterSet::new(&[calls], ClockPair::default()).expect("one");
    assert!(set.take(at(0), Cost::new(u64::MAX)).is_allow());
    assert_eq!(set.check(at(0), Cost::ONE), Decision::WaitUntil(at(10)));
    let both = [calls, sliding(1_000, 10).measured_in(CountBy::Tokens)];
    let mut set = MeterSet::new(&both, ClockPair::default()).expect("two");
    assert_eq!(set.take(at(0), Cost::new(1_001)), Decision::Never);
    assert_eq!(used(&mut set, 0), [0, 0]);
    assert!(set.take(at(0), Cost::new(1_000)).is_allow());
}

// Nothing is left of either. A free call passes the tokens, and waits for a call.
#[test]
fn a_call_without_cost_counts_as_a_call() {
    let calls = sliding(1, 10).measured_in(CountBy::Calls);
    let tokens = sliding(1, 20).measured_in(CountBy::Tokens);
    let mut set = MeterSet::new(&[calls, tokens], ClockPair::default()).expect("two");
    assert!(set.take(at(0), Cost::ONE).is_allow());
    assert_eq!(set.take(at(5), Cost::ZERO), Decision::WaitUntil(at(10)));
    let free = set.take(at(10), Cost::ZERO).allowed().expect("one call");
    assert_eq!(used(&mut set, 10), [1, 1]);
    set.refund(at(10), free);
    assert_eq!(used(&mut set, 10), [0, 1]);
}

// 10 calls a window with one used: the next keeps a distance of a ninth of it, at any cost.
#[test]
fn calls_are_paced_as_calls() {
    let cap = Pacing::Soft {
        max_delay: std::time::Duration::from_secs(1),
    };
    let limit = sliding(10, 900).paced(cap).measured_in(CountBy::Calls);
    let sent = |cost| {
        let mut set = MeterSet::new(&[limit], ClockPair::default()).expect("one");
        let _ = set.take(at(0), Cost::new(cost));
        let second = set.take(at(0), Cost::new(cost));
        second.allowed().expect("room").send_at()
    };
    assert_eq!(sent(1), at(100));
    assert_eq!(sent(500), at(100));
}

// Four used tokens do not limit calls, and an earlier receipt set belongs to neither.
#[test]
fn a_limit_with_another_unit_starts_unused() {
    let tokens = sliding(5, 1_000).measured_in(CountBy::Tokens);
    let mut set = MeterSet::new(&[tokens, tokens], ClockPair::default()).expect("two");
    let old = set.take(at(10), Cost::new(4)).allowed().expect("room");
    let moment = ClockPair {
        now: at(20),
        ..ClockPair::default()
    };
    let changed = [tokens, tokens.measured_in(CountBy::Calls)];
    set.reconfigure(moment, &changed).expect("two");
    assert_eq!(used(&mut set, 20), [4, 0]);
    assert!(set.take(at(20), Cost::ONE).is_allow());
    set.refund(at(30), old);
    assert_eq!(used(&mut set, 30), [1, 1]);
}

#[test]
fn check_units_uses_the_limits_own_unit() {
    let calls = sliding(3, 10).measured_in(CountBy::Calls);
    let mut set = MeterSet::new(&[calls], ClockPair::default()).expect("one");
    assert!(set.take(at(0), Cost::new(9)).is_allow());
    assert!(set.check_units(at(0), 0, 2).is_allow());
    assert_eq!(set.check_units(at(0), 0, 3), Decision::WaitUntil(at(10)));
    assert_eq!(set.check_units(at(0), 0, 4), Decision::Never);
    assert!(set.check_units(at(0), 1, u64::MAX).is_allow(), "no such limit");
}

#[test]
fn a_header_applies_to_its_unit() {
    let reported = |unit| MEASURES.map(|measure| measure.is_reported_in(unit));
    assert_eq!(reported(HintUnit::Requests), [true, true, false, false, false]);
    assert_eq!(reported(HintUnit::Weight), [true, false, false, false, false]);
    assert_eq!(reported(HintUnit::Tokens), [false, false, true, false, false]);
    assert_eq!(reported(HintUnit::InputTokens), [false, false, false, true, false]);
    assert_eq!(reported(HintUnit::OutputTokens), [false, false, false, false, true]);
    for unit in [HintUnit::Orders, HintUnit::Bytes, HintUnit::Concurrent] {
        assert_eq!(reported(unit), [false; 5], "{unit:?}");
    }
}
