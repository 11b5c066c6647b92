//! A limit that is not what was configured, found out by being refused.
//!
//! The server is strict: a sliding window by arrival, refused calls not counted. The client keeps a
//! few calls in flight and counts each until one window after its response, so that whatever is
//! refused is refused because of the rate and not because of the network.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::time::Duration;

use outflow_core::{Adaptive, Evidence, Learned, Nanos, Rate, Reaction};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

const WINDOW: Duration = Duration::from_secs(1);

fn per_second(quantity: u64) -> Rate {
    Rate::per_second(quantity).expect("valid")
}

/// What happens next, in the order of its instants.
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
        self.events
            .push(Reverse((self.now.saturating_add(after), event)));
    }

    fn send_what_may_go(&mut self, learned: &Learned) {
        let rate = learned.effective();
        let limit = if rate.per() == WINDOW {
            rate.quantity()
        } else {
            1
        };
        while self.in_flight < self.in_flight_most && self.counted < limit {
            self.in_flight += 1;
            self.counted += 1;
            let there = self.latency();
            self.at(there, Event::Arrives { sent: self.now });
        }
    }

    fn step(&mut self, learned: &mut Learned) {
        let Some(Reverse((at, event))) = self.events.pop() else {
            return;
        };
        self.now = at;
        match event {
            Event::Arrives { sent } => {
                let accepted = live(&mut self.arrivals, at) < self.real;
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

    fn returned(&mut self, learned: &mut Learned, sent: Nanos, accepted: bool) {
        self.in_flight -= 1;
        self.at(WINDOW, Event::Forgotten);
        if accepted {
            self.accepted += 1;
            self.admitted.push_back(self.now);
            learned.clean(self.now, live(&mut self.admitted, self.now));
        } else {
            self.refused += 1;
            let admitted = live(&mut self.admitted, self.now);
            learned.evidence(self.now, Evidence::Throttled { sent, admitted });
        }
    }

    fn run(&mut self, learned: &mut Learned, calls: u64) {
        let goal = self.accepted + calls;
        while self.accepted < goal {
            self.send_what_may_go(learned);
            self.step(learned);
        }
    }
}

/// How many of these are less than a window old.
fn live(log: &mut VecDeque<Nanos>, now: Nanos) -> u64 {
    while log.front().is_some_and(|at| now.since(*at) >= WINDOW) {
        log.pop_front();
    }
    u64::try_from(log.len()).expect("few")
}

/// The two cases that operators meet: a limit far below what was configured, and one just below.
#[test]
fn the_real_limit_is_found_with_few_refusals() {
    for (configured, real) in [(200, 50), (50, 42)] {
        finds(configured, real, 8, 1).expect("found");
    }
}

// All of a window goes out at once, and the first refusal overtakes most of what got through.
#[test]
fn a_burst_is_recounted_when_all_of_it_is_back() {
    for noise in 0..100 {
        finds(50, 42, 50, noise).expect("found");
    }
    let mut learned = Learned::new(Adaptive::Guard, per_second(50), Nanos::ZERO);
    learned.evidence(Nanos::from_millis(30), throttled(0, 5));
    assert_eq!(learned.effective(), per_second(12));
    learned.clean(Nanos::from_millis(40), 42);
    assert_eq!(learned.effective(), per_second(42));
    learned.clean(Nanos::from_millis(50), 50);
    assert_eq!(learned.effective(), per_second(47), "it was refused at 50");
}

/// Within 10 % of the real limit after 1,000 calls, at most 50 of which were refused.
fn finds(configured: u64, real: u64, in_flight: usize, noise: u64) -> Result<(), TestCaseError> {
    let mut learned = Learned::new(Adaptive::Guard, per_second(configured), Nanos::ZERO);
    let mut world = World::new(real, in_flight, noise);
    world.run(&mut learned, 1_000);
    let found = learned.effective().quantity();
    prop_assert!(
        world.refused <= 50,
        "{} refused of 1000 at {real}/s",
        world.refused
    );
    prop_assert!(
        found * 10 >= real * 9 && found * 10 <= real * 11,
        "found {found}/s instead of {real}/s"
    );
    // The first burst is free; the rest takes its time at the real rate, and one window to learn it.
    let ideal = Duration::from_millis((1_000 - real) * 1_000 / real);
    let took = world.now.since(Nanos::ZERO);
    prop_assert!(
        took <= ideal * 115 / 100 + WINDOW,
        "{took:?} instead of {ideal:?}"
    );
    Ok(())
}

// With 8 in flight the demand is about 270/s, above every real limit here. Below 40/s, 16 in flight
// are so much of the limit that a single wave says little about it.
fn finding() -> impl Strategy<Value = (u64, u64, usize, u64)> {
    (40..=200_u64, 100..=400_u64, 8..=16_usize, any::<u64>()).prop_map(
        |(real, percent, in_flight, noise)| (real * percent / 100, real, in_flight, noise),
    )
}

fn finding_holds(cases: u32) {
    TestRunner::new(ProptestConfig::with_cases(cases))
        .run(&finding(), |(configured, real, in_flight, noise)| {
            finds(configured, real, in_flight, noise)
        })
        .expect("the law holds");
}

#[test]
fn any_lower_limit_is_found_with_few_refusals() {
    finding_holds(10_000);
}

#[test]
#[ignore = "long run: cargo xtask test --stress"]
fn stress_any_lower_limit_is_found_with_few_refusals() {
    finding_holds(1_000_000);
}

// 3 % a window from 50/s to 200/s is 47 windows; at most twice that, with the careful stretch.
#[test]
fn the_configured_rate_returns_after_the_server_heals() {
    for (configured, real) in [(200, 50), (50, 42)] {
        let mut learned = Learned::new(Adaptive::Guard, per_second(configured), Nanos::ZERO);
        let mut world = World::new(real, 8, 7);
        world.run(&mut learned, 1_000);
        assert!(learned.drift(world.now).is_some());
        world.real = configured;
        let healed = world.now;
        while learned.drift(world.now).is_some() {
            world.run(&mut learned, 10);
            assert!(
                world.now.since(healed) < WINDOW * 100,
                "{configured}/s at {real}/s"
            );
        }
        assert_eq!(learned.effective(), per_second(configured));
    }
}

// Nothing is known but a first guess of 2/s; the server takes 150/s.
#[test]
fn an_unknown_limit_is_found_from_below() {
    let mut learned = Learned::new(Adaptive::Learn, per_second(2), Nanos::ZERO);
    let mut world = World::new(150, 8, 3);
    world.run(&mut learned, 3_000);
    let found = learned.effective().quantity();
    assert!((135..=165).contains(&found), "found {found}/s");
    assert!(world.refused <= 150, "{} refused", world.refused);
    assert_eq!(
        learned.drift(world.now),
        None,
        "nothing was configured to differ from"
    );
}

/// One thing that happens to a learned limit.
#[derive(Clone, Debug)]
enum Step {
    Throttled { ago: u64, admitted: u64 },
    Limit(Rate),
    Quota { ahead: u64 },
    Ban { ago: u64, ahead: u64 },
    Clean { admitted: u64 },
    Restart,
}

fn number() -> impl Strategy<Value = u64> {
    prop_oneof![0..300_u64, Just(u64::MAX), any::<u64>()]
}

fn any_rate() -> impl Strategy<Value = Rate> {
    let span = prop_oneof![Just(1_000_000_000_u64), 1..=u64::MAX];
    (number(), span).prop_map(|(quantity, nanos)| {
        Rate::new(quantity.max(1), Duration::from_nanos(nanos)).expect("positive")
    })
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (number(), number()).prop_map(|(ago, admitted)| Step::Throttled { ago, admitted }),
        any_rate().prop_map(Step::Limit),
        number().prop_map(|ahead| Step::Quota { ahead }),
        (number(), number()).prop_map(|(ago, ahead)| Step::Ban { ago, ahead }),
        number().prop_map(|admitted| Step::Clean { admitted }),
        Just(Step::Restart),
    ]
}

/// Steps at instants that mostly go forward by up to three windows, and sometimes anywhere.
fn history() -> impl Strategy<Value = Vec<(Nanos, Step)>> {
    let jump = prop_oneof![9 => 0..3_000_000_000_u64, 1 => any::<u64>()];
    prop::collection::vec((jump, step()), 1..60).prop_map(|steps| {
        let mut now = 0_u64;
        let place = |(jump, step): (u64, Step)| {
            now = now.wrapping_add(jump);
            (Nanos::from_nanos(now), step)
        };
        steps.into_iter().map(place).collect()
    })
}

/// Evidence never raises a rate, clean windows never lower it, nothing goes above the configured
/// rate, no step grows by more than a few per cent, and a restart changes nothing.
fn keeps_its_laws(
    mode: Adaptive,
    configured: Rate,
    history: Vec<(Nanos, Step)>,
) -> Result<(), TestCaseError> {
    let mut learned = Learned::new(mode, configured, Nanos::ZERO);
    for (now, step) in history {
        let before = learned.effective();
        take(&mut learned, mode, now, &step);
        let after = learned.effective();
        let moved = after.cmp_speed(before);
        match &step {
            Step::Clean { admitted } => {
                prop_assert!(moved.is_ge(), "{before} fell to {after} after {step:?}");
                grew_slowly(mode, before, after, *admitted)?;
            }
            Step::Restart => prop_assert!(moved.is_eq(), "{before} became {after}"),
            _ => prop_assert!(moved.is_le(), "{before} rose to {after} after {step:?}"),
        }
        if mode != Adaptive::Learn {
            prop_assert!(
                after.cmp_speed(configured).is_le(),
                "{after} over {configured}"
            );
        }
        let drifts = learned.drift(now).is_some();
        prop_assert!(!drifts || mode == Adaptive::Guard);
        if mode == Adaptive::Guard {
            prop_assert!(drifts || after == configured, "{after} without a drift");
        }
        if mode == Adaptive::Off {
            prop_assert_eq!(after, configured);
        }
    }
    Ok(())
}

fn grew_slowly(
    mode: Adaptive,
    before: Rate,
    after: Rate,
    admitted: u64,
) -> Result<(), TestCaseError> {
    if after.cmp_speed(before).is_eq() || after.per() != before.per() {
        return Ok(());
    }
    prop_assert!(
        after.quantity() <= admitted.saturating_mul(2),
        "untried {after}"
    );
    if mode == Adaptive::Guard && after.quantity() > admitted {
        // Rounding down may have hidden almost one unit before.
        let most = (u128::from(before.quantity()) + 1) * 103 / 100;
        prop_assert!(u128::from(after.quantity()) <= most, "{before} to {after}");
    }
    Ok(())
}

fn take(learned: &mut Learned, mode: Adaptive, now: Nanos, step: &Step) {
    let before = |ago| now.saturating_sub(Duration::from_nanos(ago));
    let after = |ahead| now.saturating_add(Duration::from_nanos(ahead));
    let evidence = match *step {
        Step::Throttled { ago, admitted } => Evidence::Throttled {
            sent: before(ago),
            admitted,
        },
        Step::Limit(rate) => Evidence::Limit(rate),
        Step::Quota { ahead } => Evidence::QuotaUntil(after(ahead)),
        Step::Ban { ago, ahead } => Evidence::Ban {
            sent: before(ago),
            until: after(ahead),
        },
        Step::Clean { admitted } => return learned.clean(now, admitted),
        Step::Restart => return restart(learned, mode, now),
    };
    learned.evidence(now, evidence);
}

/// Kept, restored and kept again is the same.
fn restart(learned: &mut Learned, mode: Adaptive, now: Nanos) {
    let kept = learned.snapshot(now);
    let restored = Learned::restore(mode, kept.configured, &kept, now);
    if mode != Adaptive::Off {
        assert_eq!(restored.snapshot(now).level, kept.level);
        assert_eq!(restored.snapshot(now).ceiling, kept.ceiling);
        assert_eq!(restored.snapshot(now).told, kept.told);
    }
    assert_eq!(restored.effective(), learned.effective());
    *learned = restored;
}

fn laws_hold(cases: u32) {
    let mode = prop_oneof![
        1 => Just(Adaptive::Off),
        4 => Just(Adaptive::Guard),
        2 => Just(Adaptive::Learn),
    ];
    TestRunner::new(ProptestConfig::with_cases(cases))
        .run(
            &(mode, any_rate(), history()),
            |(mode, configured, history)| keeps_its_laws(mode, configured, history),
        )
        .expect("the laws hold");
}

#[test]
fn evidence_lowers_and_only_clean_windows_raise() {
    laws_hold(10_000);
}

#[test]
#[ignore = "long run: cargo xtask test --stress"]
fn stress_evidence_lowers_and_only_clean_windows_raise() {
    laws_hold(1_000_000);
}

fn throttled(sent: u64, admitted: u64) -> Evidence {
    Evidence::Throttled {
        sent: Nanos::from_millis(sent),
        admitted,
    }
}

// Ten calls in flight are refused together; the eleventh was sent after the shrink.
#[test]
fn one_wave_shrinks_once() {
    let mut learned = Learned::new(Adaptive::Guard, per_second(100), Nanos::ZERO);
    let at = |millis| Nanos::from_millis(millis);
    assert_eq!(
        learned.evidence(at(1_000), throttled(900, 70)),
        Reaction::Shrunk
    );
    for millis in 1_001..1_010 {
        let late = throttled(millis - 50, 10);
        assert_eq!(learned.evidence(at(millis), late), Reaction::SameWave);
    }
    assert_eq!(learned.effective(), per_second(70));
    assert_eq!(
        learned.evidence(at(1_100), throttled(1_050, 69)),
        Reaction::Shrunk
    );
    assert_eq!(learned.effective(), per_second(66), "a twentieth of 70");
}

#[test]
fn each_kind_of_refusal_teaches_its_own_lesson() {
    let now = Nanos::from_secs(10);
    let until = Nanos::from_secs(3_610);
    let new = || Learned::new(Adaptive::Guard, per_second(100), Nanos::ZERO);
    let mut quota = new();
    assert_eq!(
        quota.evidence(now, Evidence::QuotaUntil(until)),
        Reaction::Unmoved
    );
    assert_eq!(quota.effective(), per_second(100), "the rate was right");
    let mut banned = new();
    let ban = Evidence::Ban { sent: now, until };
    assert_eq!(banned.evidence(now, ban), Reaction::Shrunk);
    assert_eq!(banned.effective(), per_second(50), "we were far too fast");
    banned.clean(until.saturating_sub(Duration::from_nanos(1)), 1_000);
    assert_eq!(
        banned.effective(),
        per_second(50),
        "nothing is learned while banned"
    );
    banned.clean(until, 1_000);
    assert_eq!(banned.effective(), per_second(51));
}

// The header comes with every response: being told the same again must not stop the growth.
#[test]
fn a_told_limit_holds_until_another_is_told() {
    let mut learned = Learned::new(Adaptive::Guard, per_second(50), Nanos::ZERO);
    let tell = |learned: &mut Learned, secs, rate| {
        learned.evidence(Nanos::from_secs(secs), Evidence::Limit(per_second(rate)));
        learned.clean(Nanos::from_secs(secs), 1_000);
        learned.effective().quantity()
    };
    assert_eq!(tell(&mut learned, 1, 42), 42);
    assert_eq!(
        tell(&mut learned, 2, 42),
        42,
        "growth ends at what was told"
    );
    assert_eq!(
        tell(&mut learned, 3, 90),
        43,
        "and goes on when more is told"
    );
    for secs in 4..20 {
        tell(&mut learned, secs, 90);
    }
    assert_eq!(
        learned.effective(),
        per_second(50),
        "but never above the configured"
    );
}

#[test]
fn a_rate_that_nobody_used_does_not_grow() {
    let mut learned = Learned::new(Adaptive::Guard, per_second(100), Nanos::ZERO);
    learned.evidence(Nanos::from_secs(1), throttled(900, 60));
    for secs in 2..100 {
        learned.clean(Nanos::from_secs(secs), 30);
    }
    assert_eq!(
        learned.effective(),
        per_second(60),
        "30 a window never tried 60"
    );
    learned.clean(Nanos::from_secs(100), 31);
    assert_eq!(learned.effective(), per_second(61));
}

// Refused a hundred times over, each time with nothing let through.
#[test]
fn refusals_alone_never_stop_everything() {
    let mut learned = Learned::new(Adaptive::Guard, per_second(200), Nanos::ZERO);
    for secs in 1..100 {
        learned.evidence(Nanos::from_secs(secs), throttled(secs * 1_000, 0));
    }
    assert_eq!(learned.effective(), per_second(2), "one per cent is left");
}

// Two hours of drift, a snapshot, an hour on disk, and a lower limit in the configuration.
#[test]
fn what_was_learned_is_a_speed_and_outlives_a_restart() {
    let hours = |hours| Nanos::ZERO.saturating_add(Duration::from_hours(hours));
    let mut learned = Learned::new(Adaptive::Guard, per_second(50), Nanos::ZERO);
    learned.evidence(
        hours(1),
        Evidence::Throttled {
            sent: hours(1),
            admitted: 39,
        },
    );
    learned.evidence(hours(1), Evidence::QuotaUntil(hours(5)));
    let kept = learned.snapshot(hours(3)).aged(Duration::from_hours(1));
    assert_eq!(kept.held_for, Duration::from_hours(1));
    let per_minute: Rate = "3600/min".parse().expect("valid");
    let restored = Learned::restore(Adaptive::Guard, per_minute, &kept, Nanos::from_secs(5));
    let drift = restored.drift(Nanos::from_secs(5)).expect("still there");
    assert_eq!(
        drift.to_string(),
        "configured 3600/min, evidence says 2340/min"
    );
    assert_eq!(drift.lasting, Duration::from_hours(3));
    let lower = Learned::restore(Adaptive::Guard, per_second(30), &kept, Nanos::ZERO);
    assert_eq!(lower.effective(), per_second(30));
    assert_eq!(lower.drift(Nanos::ZERO), None);
    let off = Learned::restore(Adaptive::Off, per_second(50), &kept, Nanos::ZERO);
    assert_eq!(off.effective(), per_second(50));
}

// One misleading answer, with nothing let through before it, as after an idle hour.
#[test]
fn one_refusal_takes_three_quarters_at_most() {
    let mut learned = Learned::new(Adaptive::Guard, per_second(200), Nanos::ZERO);
    learned.evidence(Nanos::from_secs(1), throttled(900, 0));
    assert_eq!(learned.effective(), per_second(50));
}

// From 95 it is one step to the neighbourhood of 100, and then 11 careful ones to 103; in strides
// of 3 % the second window would be refused again.
#[test]
fn growth_is_careful_where_the_last_refusal_came() {
    let mut learned = Learned::new(Adaptive::Learn, per_second(100), Nanos::ZERO);
    learned.evidence(Nanos::from_secs(1), throttled(900, 100));
    assert_eq!(learned.effective(), per_second(95));
    let mut windows = 0;
    while learned.effective().quantity() < 103 {
        windows += 1;
        learned.clean(Nanos::from_secs(1 + windows), 1_000);
    }
    assert_eq!(windows, 12);
}

// Ten windows of 100 ms make one step, for they fit into one round trip to a far server.
#[test]
fn windows_shorter_than_a_second_grow_by_the_second() {
    let configured: Rate = "1000/100ms".parse().expect("valid");
    let mut learned = Learned::new(Adaptive::Guard, configured, Nanos::ZERO);
    learned.evidence(Nanos::ZERO, throttled(0, 500));
    for tenth in 1..10 {
        learned.clean(Nanos::from_millis(tenth * 100), 500);
    }
    assert_eq!(learned.effective().quantity(), 500);
    learned.clean(Nanos::from_secs(1), 500);
    assert_eq!(learned.effective().quantity(), 515);
}

// The clock steps back eight seconds around a refusal: half a second later no window has passed.
#[test]
fn a_backward_clock_does_not_make_a_window_pass() {
    let mut learned = Learned::new(Adaptive::Guard, per_second(100), Nanos::ZERO);
    learned.clean(Nanos::from_secs(10), 100);
    learned.evidence(Nanos::from_secs(2), throttled(9_900, 50));
    learned.clean(Nanos::from_millis(10_500), 50);
    assert_eq!(learned.effective(), per_second(50));
    learned.clean(Nanos::from_secs(11), 50);
    assert_eq!(learned.effective(), per_second(51));
}
