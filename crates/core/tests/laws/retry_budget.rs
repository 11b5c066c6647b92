//! The retry budget against an oracle that keeps every call and every retry.

use core::time::Duration;

use outflow_core::{Nanos, RetryBudget, RetryBudgetSettings, Share};
use proptest::prelude::*;

#[derive(Clone, Copy, Debug)]
enum Event {
    Call,
    Retryability,
    /// Forwards, in milliseconds.
    Pass(u64),
    /// Backwards, in milliseconds.
    StepBack(u64),
}

const MILLI: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MILLI;
const START: u64 = 100 * SECOND;
/// A retry in parts per million.
const RETRY: u64 = 1_000_000;

/// Keeps the history, and computes the balance by replaying it from the beginning.
struct Oracle {
    settings: RetryBudgetSettings,
    history: Vec<(u64, Event)>,
}

impl Oracle {
    fn receipt_sets(&self, now: u64) -> bool {
        let (allowance, earned) = self.balance(now);
        allowance >= self.each() || earned.iter().map(|(_, left)| left).sum::<u64>() >= RETRY
    }

    fn each(&self) -> u64 {
        SECOND.div_ceil(u64::from(self.settings.per_second))
    }

    /// Returns nanoseconds of allowance, and the rest of each call's share with its slot.
    fn balance(&self, now: u64) -> (u64, Vec<(u64, u64)>) {
        let slot = u64::try_from(self.settings.ttl.as_nanos()).expect("small") / 10;
        let whole = self.each() * u64::from(self.settings.per_second);
        let (mut allowance, mut at) = (whole, START);
        let mut earned: Vec<(u64, u64)> = Vec::new();
        for (then, event) in self.history.iter().chain(&[(now, Event::Pass(0))]) {
            allowance = (allowance + then - at).min(whole);
            at = *then;
            let current = (at - START) / slot;
            earned.retain(|(number, _)| number + 10 > current);
            match event {
                Event::Call => {
                    let share = self.settings.share.as_parts_per_million();
                    earned.push((current, u64::from(share)));
                }
                Event::Retryability if allowance >= self.each() => allowance -= self.each(),
                Event::Retryability => {
                    let mut due = RETRY;
                    for (_, left) in &mut earned {
                        let taken = due.min(*left);
                        *left -= taken;
                        due -= taken;
                    }
                }
                Event::Pass(_) | Event::StepBack(_) => {}
            }
        }
        (allowance, earned)
    }

    /// The promise, over every span that begins and ends at an event.
    fn keeps_its_promise(&self) {
        let ttl = u64::try_from(self.settings.ttl.as_nanos()).expect("small");
        let share = u64::from(self.settings.share.as_parts_per_million());
        let per_second = u64::from(self.settings.per_second);
        for (first, (from, _)) in self.history.iter().enumerate() {
            let mut retries = 0;
            for (last, (to, event)) in self.history.iter().enumerate().skip(first) {
                retries += u64::from(matches!(event, Event::Retryability));
                let calls = self.history.iter().take(last + 1);
                let calls = calls.filter(|(at, event)| matches!(event, Event::Call) && at + ttl >= *from);
                let calls = u64::try_from(calls.count()).expect("few");
                let bound = calls * share * 1_000 + (to - from + SECOND) * per_second;
                assert!(retries * SECOND <= bound, "{retries} from {from} to {to}");
            }
        }
    }
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        8 => Just(Event::Call),
        12 => Just(Event::Retryability),
        4 => (0_u64..400).prop_map(Event::Pass),
        1 => (0_u64..15_000).prop_map(Event::Pass),
        1 => (0_u64..3_000).prop_map(Event::StepBack),
    ];
    prop::collection::vec(event, 0..60)
}

fn budget_equals_a_replay(events: &[Event], settings: RetryBudgetSettings) {
    let (mut now, mut latest) = (START, START);
    let mut budget = RetryBudget::new(settings, Nanos::from_nanos(now)).expect("valid");
    let mut oracle = Oracle {
        settings,
        history: Vec::new(),
    };
    for event in events {
        let at = Nanos::from_nanos(now);
        if matches!(event, Event::Call | Event::Retryability) {
            latest = latest.max(now);
        }
        match event {
            Event::Call => {
                budget.deposit(at);
                oracle.history.push((latest, Event::Call));
            }
            Event::Retryability => {
                let receipt_sets = oracle.receipt_sets(latest);
                assert_eq!(budget.balance(at) > 0, receipt_sets, "balance at {latest}");
                assert_eq!(budget.withdraw(at), receipt_sets, "at {latest}");
                if receipt_sets {
                    oracle.history.push((latest, Event::Retryability));
                }
            }
            Event::Pass(millis) => now += millis * MILLI,
            Event::StepBack(millis) => now = now.saturating_sub(millis * MILLI).max(START / 2),
        }
    }
    oracle.keeps_its_promise();
}

/// Few enough a second that the share decides about equally often.
fn settings() -> impl Strategy<Value = RetryBudgetSettings> {
    (1_u32..=100, 1_u32..8, 1_u64..12).prop_map(|(percent, per_second, ttl)| RetryBudgetSettings {
        share: Share::percent(percent),
        per_second,
        ttl: Duration::from_secs(ttl),
    })
}

outflow_testkit::laws! {
    #[test]
    fn retries_are_granted_exactly_as_earned / fn stress_retries_are_granted_exactly_as_earned
        ((events(), settings())) = |(events, settings)| {
            budget_equals_a_replay(&events, settings);
            Ok(())
        };
}
