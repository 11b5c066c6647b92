//! The error window against an oracle that keeps every outcome and recounts them.

use core::time::Duration;

use outflow_core::{ErrorWindow, Nanos, OutcomeClass, OutcomeCounts, Share};
use proptest::prelude::*;

#[derive(Clone, Copy, Debug)]
enum Event {
    Record(OutcomeClass),
    /// Forwards, in milliseconds.
    Pass(u64),
    /// Backwards, in milliseconds.
    StepBack(u64),
    Clear,
    Resize(u64, u16),
}

struct Oracle {
    all: Vec<(u64, OutcomeClass)>,
    latest: u64,
    span: u64,
    length: usize,
}

impl Oracle {
    /// Counts the last `length` outcomes that are young enough.
    fn counts(&mut self, now: u64) -> OutcomeCounts {
        self.latest = self.latest.max(now);
        let now = self.latest;
        let mut counts = OutcomeCounts::default();
        let old = self.all.len().saturating_sub(self.length);
        for (at, effect) in self.all.iter().skip(old) {
            if now - at > self.span {
                continue;
            }
            match effect {
                OutcomeClass::Success => counts.success += 1,
                OutcomeClass::Throttled | OutcomeClass::Banned => counts.throttled += 1,
                OutcomeClass::ServerFailed => counts.server += 1,
                OutcomeClass::NetworkFailed => counts.network += 1,
                OutcomeClass::OtherFailed => counts.other += 1,
                OutcomeClass::Neutral | OutcomeClass::Cancelled => unreachable!("never kept"),
            }
        }
        counts
    }

    fn record(&mut self, now: u64, effect: OutcomeClass) {
        if !matches!(effect, OutcomeClass::Neutral | OutcomeClass::Cancelled) {
            self.latest = self.latest.max(now);
            self.all.push((self.latest, effect));
        }
    }

    /// A shorter window forgets for good: dropped outcomes do not return when it grows again.
    fn resize(&mut self, now: u64, span: u64, length: u16) {
        (self.span, self.length) = (span, usize::from(length));
        self.latest = self.latest.max(now);
        let now = self.latest;
        let old = self.all.len().saturating_sub(self.length);
        self.all.drain(..old);
        self.all.retain(|(at, _)| now - at <= span);
    }
}

fn effects() -> impl Strategy<Value = OutcomeClass> {
    prop_oneof![
        4 => Just(OutcomeClass::Success),
        2 => Just(OutcomeClass::Throttled),
        1 => Just(OutcomeClass::Banned),
        1 => Just(OutcomeClass::ServerFailed),
        1 => Just(OutcomeClass::NetworkFailed),
        1 => Just(OutcomeClass::OtherFailed),
        2 => Just(OutcomeClass::Neutral),
        1 => Just(OutcomeClass::Cancelled),
    ]
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        20 => effects().prop_map(Event::Record),
        8 => (0_u64..5_000).prop_map(Event::Pass),
        1 => (0_u64..60_000).prop_map(Event::Pass),
        2 => (0_u64..2_000).prop_map(Event::StepBack),
        1 => Just(Event::Clear),
        1 => (1_000_u64..40_000, 1_u16..30).prop_map(|(span, length)| Event::Resize(span, length)),
    ];
    prop::collection::vec(event, 0..120)
}

fn window_equals_a_recount(events: &[Event], length: u16) {
    const MILLI: u64 = 1_000_000;
    let mut now = 1_000_000 * MILLI;
    let span = Duration::from_secs(30);
    let mut window = ErrorWindow::new(span, length, Nanos::from_nanos(now));
    let mut oracle = Oracle {
        all: Vec::new(),
        latest: now,
        span: 30_000 * MILLI,
        length: usize::from(length),
    };
    for event in events {
        let at = Nanos::from_nanos(now);
        match *event {
            Event::Record(effect) => {
                window.record(at, effect);
                oracle.record(now, effect);
            }
            Event::Pass(millis) => now += millis * MILLI,
            Event::StepBack(millis) => now -= millis * MILLI,
            Event::Clear => {
                window.clear(at);
                oracle.all.clear();
                oracle.latest = now;
            }
            Event::Resize(millis, length) => {
                window.resize(Duration::from_millis(millis), length, at);
                oracle.resize(now, millis * MILLI, length);
            }
        }
        window.refresh(Nanos::from_nanos(now));
        let expected = oracle.counts(now);
        // An outcome that expired at a later instant stays expired when the clock steps back.
        oracle.resize(now, oracle.span, u16::try_from(oracle.length).expect("small"));
        assert_eq!(window.counts(), expected, "at {now} after {event:?}");
        let failures = expected.throttled + expected.server + expected.network + expected.other;
        assert_eq!(window.failures(), failures);
        assert_eq!(window.total(), failures + expected.success);
        for percent in [10, 20, 60] {
            let reached = failures * 100 >= percent * window.total() && window.total() > 0;
            assert_eq!(window.at_least(Share::percent(percent)), reached);
        }
    }
}

outflow_testkit::laws! {
    #[test]
    fn the_window_always_equals_a_recount / fn stress_the_window_always_equals_a_recount
        ((events(), 1_u16..40)) = |(events, length)| {
            window_equals_a_recount(&events, length);
            Ok(())
        };
}
