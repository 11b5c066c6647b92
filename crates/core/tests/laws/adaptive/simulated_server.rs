//! A simulated client with calls in flight finds the limit of a strict server.
//!
//! The server is strict: a sliding window by arrival, throttled calls not counted. The client keeps
//! a few calls in flight and counts each until one window after its response. So every throttle has
//! the rate as its cause, not the network.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::time::Duration;

use outflow_core::{AdaptiveLimit, AdaptiveMode, Evidence, Nanos, PassedUnits};
use proptest::prelude::*;

use super::{passed, per_second, throttled};

const WINDOW: Duration = Duration::from_secs(1);

/// Next event, in the order of instants.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Arrives { sent: Nanos },
    Returns { sent: Nanos, accepted: bool },
    Forgotten,
}

struct World {
    real: u64,
    in_flight_most: usize,
    noise: u64,
    now: Nanos,
    events: BinaryHeap<Reverse<(Nanos, Event)>>,
    in_flight: usize,
    /// Calls that our meter counts: in flight, or answered less than a window ago.
    counted: u64,
    arrivals: VecDeque<Nanos>,
    /// Calls sent in the last window.
    sent: VecDeque<Nanos>,
    admitted: VecDeque<Nanos>,
    accepted: u64,
    refused: u64,
}

impl World {
    fn new(real: u64, in_flight_most: usize, noise: u64) -> Self {
        Self {
            real,
            in_flight_most,
            noise,
            now: Nanos::ZERO,
            events: BinaryHeap::new(),
            in_flight: 0,
            counted: 0,
            arrivals: VecDeque::new(),
            sent: VecDeque::new(),
            admitted: VecDeque::new(),
            accepted: 0,
            refused: 0,
        }
    }

    /// One way through the network: 5 to 25 ms.
    fn latency(&mut self) -> Duration {
        self.noise = self
            .noise
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        Duration::from_micros(5_000 + (self.noise >> 33) % 20_000)
    }

    fn at(&mut self, after: Duration, event: Event) {
        self.events.push(Reverse((self.now.saturating_add(after), event)));
    }

    fn send_what_may_go(&mut self, learned: &AdaptiveLimit) {
        let rate = learned.effective();
        let limit = if rate.per() == WINDOW { rate.quantity() } else { 1 };
        while self.in_flight < self.in_flight_most && self.counted < limit {
            self.in_flight += 1;
            self.counted += 1;
            self.sent.push_back(self.now);
            let there = self.latency();
            self.at(there, Event::Arrives { sent: self.now });
        }
    }

    fn step(&mut self, learned: &mut AdaptiveLimit) {
        let Some(Reverse((at, event))) = self.events.pop() else {
            return;
        };
        self.now = at;
        match event {
            Event::Arrives { sent } => {
                let accepted = live(&mut self.arrivals, at, WINDOW) < self.real;
                if accepted {
                    self.arrivals.push_back(at);
                }
                let back = self.latency();
                self.at(back, Event::Returns { sent, accepted });
            }
            Event::Returns { sent, accepted } => self.returned(learned, sent, accepted),
            Event::Forgotten => self.counted -= 1,
        }
    }

    fn returned(&mut self, learned: &mut AdaptiveLimit, sent: Nanos, accepted: bool) {
        self.in_flight -= 1;
        self.at(WINDOW, Event::Forgotten);
        if accepted {
            self.accepted += 1;
            self.admitted.push_back(self.now);
            let passed = PassedUnits {
                sent,
                possibly: live(&mut self.admitted, self.now, WINDOW * 17 / 16),
                surely: within(&self.admitted, self.now, WINDOW * 15 / 16),
            };
            learned.clean(self.now, passed);
        } else {
            self.refused += 1;
            let admitted = live(&mut self.admitted, self.now, WINDOW * 17 / 16);
            let used = live(&mut self.sent, self.now, WINDOW);
            learned.evidence(self.now, Evidence::Throttled { sent, admitted, used });
        }
    }

    fn run(&mut self, learned: &mut AdaptiveLimit, calls: u64) {
        let goal = self.accepted + calls;
        while self.accepted < goal {
            self.send_what_may_go(learned);
            self.step(learned);
        }
    }
}

/// Drops entries that are older than `span` and returns the number of the others.
fn live(log: &mut VecDeque<Nanos>, now: Nanos, span: Duration) -> u64 {
    while log.front().is_some_and(|at| now.since(*at) >= span) {
        log.pop_front();
    }
    within(log, now, span)
}

fn within(log: &VecDeque<Nanos>, now: Nanos, span: Duration) -> u64 {
    let young = log.iter().rev().take_while(|at| now.since(**at) < span);
    u64::try_from(young.count()).expect("few")
}

/// The two cases of operators: a limit far below the configured one, and one just below.
#[test]
fn the_real_limit_is_found_with_few_throttles() {
    for (configured, real) in [(200, 50), (50, 42)] {
        finds(configured, real, 8, 1).expect("found");
    }
}

// A whole window is sent at once, and the first throttle overtakes most successes.
#[test]
fn a_burst_is_recounted_when_it_has_finished() {
    for noise in 0..100 {
        finds(50, 42, 50, noise).expect("found");
    }
    let mut learned = AdaptiveLimit::new(AdaptiveMode::Guard, per_second(50), Nanos::ZERO);
    learned.evidence(Nanos::from_millis(30), throttled(0, 5));
    assert_eq!(learned.effective(), per_second(25));
    learned.clean(Nanos::from_millis(40), passed(0, 42));
    assert_eq!(learned.effective(), per_second(42));
    learned.clean(Nanos::from_millis(50), passed(0, 50));
    assert_eq!(learned.effective(), per_second(47), "it was refused at 50");
}

/// 1,000 calls, at most 50 of which are throttled, lead to within 10 % of the real limit.
fn finds(configured: u64, real: u64, in_flight: usize, noise: u64) -> Result<(), TestCaseError> {
    let mut learned = AdaptiveLimit::new(AdaptiveMode::Guard, per_second(configured), Nanos::ZERO);
    let mut world = World::new(real, in_flight, noise);
    world.run(&mut learned, 1_000);
    prop_assert!(world.refused <= 50, "{} refused of 1000 at {real}/s", world.refused);
    // The first burst is free; the rest runs at the real rate, with one window to learn it, and one
    // more to grow back after a second step.
    let ideal = Duration::from_millis((1_000 - real) * 1_000 / real);
    let took = world.now.since(Nanos::ZERO);
    prop_assert!(took <= ideal * 115 / 100 + WINDOW * 2, "{took:?} instead of {ideal:?}");
    let is_found = |found: u64| found * 10 >= real * 9 && found * 10 <= real * 11;
    // A second step takes a quarter, of which two clean windows return all but a tenth.
    for _ in 0..2 {
        if !is_found(learned.effective().quantity()) {
            world.run(&mut learned, real);
        }
    }
    let found = learned.effective().quantity();
    prop_assert!(is_found(found), "found {found}/s instead of {real}/s");
    Ok(())
}

// With 8 in flight the demand is about 270/s, above every real limit here. Below 40/s, 16 in flight
// are so large a part of the limit that a single burst shows little.
fn finding() -> impl Strategy<Value = (u64, u64, usize, u64)> {
    (40..=200_u64, 100..=400_u64, 8..=16_usize, any::<u64>())
        .prop_map(|(real, percent, in_flight, noise)| (real * percent / 100, real, in_flight, noise))
}

outflow_testkit::laws! {
    #[test]
    fn any_lower_limit_is_found_with_few_throttles / fn stress_any_lower_limit_is_found_with_few_throttles
        (finding()) = |(configured, real, in_flight, noise)| finds(configured, real, in_flight, noise);
}

// 25 % a window from 50/s to 200/s is 7 windows, after a rest of 20 and careful steps.
#[test]
fn the_configured_rate_returns_after_the_server_recovers() {
    for (configured, real) in [(200, 50), (50, 42)] {
        let mut learned = AdaptiveLimit::new(AdaptiveMode::Guard, per_second(configured), Nanos::ZERO);
        let mut world = World::new(real, 8, 7);
        world.run(&mut learned, 1_000);
        assert!(learned.drift(world.now).is_some());
        world.real = configured;
        let healed = world.now;
        while learned.drift(world.now).is_some() {
            world.run(&mut learned, 10);
            assert!(world.now.since(healed) < WINDOW * 40, "{configured}/s at {real}/s");
        }
        assert_eq!(learned.effective(), per_second(configured));
    }
}

// Only a first guess of 2/s is known; the server takes 150/s.
#[test]
fn an_unknown_limit_is_found_from_below() {
    let mut learned = AdaptiveLimit::new(AdaptiveMode::Learn, per_second(2), Nanos::ZERO);
    let mut world = World::new(150, 8, 3);
    world.run(&mut learned, 3_000);
    let found = learned.effective().quantity();
    assert!((135..=165).contains(&found), "found {found}/s");
    assert!(world.refused <= 150, "{} refused", world.refused);
    assert_eq!(learned.drift(world.now), None, "nothing was configured to differ from");
}
