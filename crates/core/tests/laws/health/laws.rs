//! Laws of every history: only legal edges, promised instants, and a return to Normal.

use core::time::Duration;
use std::collections::{BTreeSet, VecDeque};

use outflow_core::{
    Escalation, Health, HealthConfig, HealthDecision, HealthOverride, HealthSettings, HealthState, HealthTicket,
    HealthTransition, Nanos, Outcome, Rate, Share, TransitionReason,
};
use outflow_testkit::laws::{self, CASES, STRESS_CASES};
use proptest::prelude::*;

use super::api::rate;

#[derive(Clone, Copy, Debug)]
enum Event {
    /// Acquires a ticket and keeps it.
    Send,
    /// Reports the outcome of the oldest ticket, acquiring one if there is none.
    Answer(Outcome),
    Abandon,
    /// Serves timers now.
    Wake,
    /// Serves timers when the next one is due.
    WakeWhenDue,
    Pass(Duration),
    StepBack(Duration),
    Force(HealthOverride),
    Release,
    /// Applies the other configuration of the two.
    Configure,
}

struct World {
    health: Health,
    now: Nanos,
    tickets: VecDeque<HealthTicket>,
    configs: [HealthConfig; 2],
    entropy: u64,
    /// Above and below every floor and ceiling of the machine, in several spans.
    rates: [Rate; 4],
    edges: Vec<(HealthState, HealthState, TransitionReason)>,
}

impl World {
    fn new(configs: &[HealthConfig; 2]) -> Self {
        let now = Nanos::from_secs(1_000_000);
        Self {
            health: Health::new(configs[0], now),
            now,
            tickets: VecDeque::new(),
            configs: *configs,
            entropy: 0,
            rates: ["35/s", "7/s", "1/100ms", "100/min"].map(rate),
            edges: Vec::new(),
        }
    }

    fn step(&mut self, event: Event) {
        self.happen(event);
        for rate in &self.rates {
            let left = self.health.effective(*rate);
            assert!(left.cmp_speed(*rate).is_le(), "{rate} raised to {left}");
        }
    }

    fn happen(&mut self, event: Event) {
        self.entropy = self.entropy.wrapping_add(0x9E37_79B9_7F4A_7C15);
        match event {
            Event::Send => {
                let sent = self.ask();
                self.tickets.extend(sent);
            }
            Event::Answer(outcome) => {
                let ticket = self.tickets.pop_front().or_else(|| self.ask());
                if let Some(ticket) = ticket {
                    let change = self.health.record(self.now, ticket, outcome, self.entropy);
                    self.note(change.transition());
                }
            }
            Event::Abandon => {
                if let Some(ticket) = self.tickets.pop_front() {
                    self.health.abandon(self.now, ticket);
                }
            }
            Event::Wake => self.wake(),
            Event::WakeWhenDue => {
                self.now = self.now.max(self.health.next_wakeup().unwrap_or(self.now));
                self.wake();
            }
            Event::Pass(span) => self.now = self.now.saturating_add(span),
            Event::StepBack(span) => self.now = self.now.saturating_sub(span),
            Event::Force(hold) => {
                let forced = self.health.force(self.now, hold);
                self.note(Some(forced));
            }
            Event::Release => {
                let released = self.health.release(self.now);
                self.note(released);
            }
            Event::Configure => {
                self.configs.swap(0, 1);
                self.health.configure(self.now, self.configs[0]);
            }
        }
    }

    fn wake(&mut self) {
        let woken = self.health.wake(self.now, self.entropy);
        self.note(woken);
    }

    /// Asks like a client, and checks every answer against its promise.
    fn ask(&mut self) -> Option<HealthTicket> {
        let latest = self.health.snapshot(self.now);
        match self.health.admission(self.now) {
            HealthDecision::Go(ticket) => {
                assert!(latest.cooling_until.is_none(), "sent during a cooldown");
                assert_eq!(ticket.is_probe(), latest.state == HealthState::HalfOpen);
                assert!(!matches!(latest.state, HealthState::Sleep | HealthState::CacheOnly));
                Some(ticket)
            }
            HealthDecision::Cooling { until } => {
                assert_eq!(Some(until), latest.cooling_until);
                assert!(until > self.now);
                None
            }
            HealthDecision::Blocked { state, until } => {
                assert_eq!(state, latest.state);
                assert!(until.is_none_or(|until| until > self.now));
                None
            }
            HealthDecision::Overdue => {
                self.wake();
                self.ask()
            }
        }
    }

    fn note(&mut self, transition: Option<HealthTransition>) {
        let Some(HealthTransition { from, to, reason, .. }) = transition else {
            return;
        };
        let escalation = self.configs[0].settings().escalation;
        assert!(
            legal(escalation, from, to, reason),
            "{from} to {to} by {reason} where trouble leads to {escalation:?}"
        );
        assert_eq!(self.health.state(), to);
        self.edges.push((from, to, reason));
    }

    /// The API succeeds from now on. Returns the time until Normal.
    fn heal(&mut self) -> Duration {
        let began = self.now;
        if self.health.snapshot(self.now).hold.is_some() {
            self.step(Event::Release);
        }
        for _ in 0..10_000 {
            if self.health.state() == HealthState::Normal && self.health.snapshot(self.now).hold.is_none() {
                return self.now.since(began);
            }
            self.entropy = self.entropy.wrapping_add(0x9E37_79B9_7F4A_7C15);
            match self.health.admission(self.now) {
                HealthDecision::Go(ticket) => {
                    self.now = self.now.saturating_add(Duration::from_millis(100));
                    let entropy = self.entropy;
                    let change = self.health.record(self.now, ticket, Outcome::SUCCESS, entropy);
                    self.note(change.transition());
                }
                HealthDecision::Cooling { until } | HealthDecision::Blocked { until: Some(until), .. } => {
                    assert!(until > self.now);
                    self.now = until;
                }
                HealthDecision::Overdue => self.wake(),
                HealthDecision::Blocked { until: None, state } => panic!("stuck in {state}"),
            }
        }
        panic!("stuck in {}", self.health.state());
    }
}

/// The edges that exist; any other is a defect.
fn legal(escalation: Escalation, from: HealthState, to: HealthState, reason: TransitionReason) -> bool {
    use HealthState::{CacheOnly, HalfOpen, Normal, Sleep, Throttle};
    let trouble = match escalation {
        Escalation::Throttle => Throttle,
        Escalation::Sleep => Sleep,
    };
    match reason {
        TransitionReason::ErrorRatio => (from, to) == (Normal, trouble),
        TransitionReason::Streak => [(Normal, trouble), (Throttle, Sleep)].contains(&(from, to)),
        TransitionReason::RetryAfter | TransitionReason::Banned => {
            matches!((from, to), (Normal | Throttle | HalfOpen, Sleep))
        }
        TransitionReason::ErrorRatioHeld => (from, to) == (Throttle, Sleep),
        TransitionReason::SuccessWindowOk => (from, to) == (Throttle, HalfOpen),
        TransitionReason::SleepOver => (from, to) == (Sleep, HalfOpen),
        TransitionReason::ProbesOk | TransitionReason::ProbesAnswered => (from, to) == (HalfOpen, Normal),
        TransitionReason::ProbeFailed | TransitionReason::ProbeTimedOut => (from, to) == (HalfOpen, Sleep),
        TransitionReason::RecoveriesExhausted => (from, to) == (HalfOpen, CacheOnly),
        TransitionReason::AutoRecover => (from, to) == (CacheOnly, Sleep),
        TransitionReason::Forced => to != HalfOpen,
        TransitionReason::Released => matches!(
            (from, to),
            (Normal, Normal) | (Throttle, Throttle) | (Sleep | CacheOnly, Sleep | HalfOpen)
        ),
    }
}

const LONG: Duration = Duration::from_mins(1);

fn alphabet() -> Vec<Event> {
    let asked = |outcome: Outcome, seconds| outcome.with_retry_after(Duration::from_secs(seconds));
    vec![
        Event::Send,
        Event::Answer(Outcome::SUCCESS),
        Event::Answer(Outcome::THROTTLED),
        Event::Answer(asked(Outcome::THROTTLED, 2)),
        Event::Answer(asked(Outcome::THROTTLED, 60)),
        Event::Answer(Outcome::SERVER_FAILED),
        Event::Answer(Outcome::NETWORK_FAILED),
        Event::Answer(Outcome::NEUTRAL),
        Event::Answer(Outcome::BANNED),
        Event::Abandon,
        Event::Wake,
        Event::WakeWhenDue,
        Event::Pass(Duration::from_millis(250)),
        Event::Pass(Duration::from_secs(20)),
        Event::StepBack(Duration::from_secs(1)),
        Event::Force(HealthOverride::Normal),
        Event::Force(HealthOverride::Throttle),
        Event::Force(HealthOverride::Sleep),
        Event::Force(HealthOverride::CacheOnly),
        Event::Release,
        Event::Configure,
        Event::Answer(Outcome::CANCELLED),
    ]
}

/// A profile with thresholds so low that a few events cross each.
fn tiny(profile: &HealthSettings) -> HealthSettings {
    HealthSettings {
        window_length: 4,
        min_samples: 2,
        p_throttle: Share::percent(50),
        n_throttle: 2,
        n_cacheonly: 2,
        s_recover: 1,
        p_sleep_held: Duration::from_secs(10),
        probe_success: 1,
        neutral_per_success: 2,
        cache_only_after: profile.cache_only_after.map(|_| 2),
        ..*profile
    }
}

/// Both profiles, as they are and with low thresholds.
fn profiles() -> [HealthSettings; 4] {
    let [adaptive, breaker] = [HealthSettings::CAUTIOUS, HealthSettings::BREAKER];
    [adaptive, tiny(&adaptive), breaker, tiny(&breaker)]
}

fn configs(first: &HealthSettings) -> [HealthConfig; 2] {
    let other = HealthSettings {
        n_throttle: 1,
        probe_concurrency: 2,
        confirm_after: Duration::ZERO,
        sleep_max: first.sleep_min + Duration::from_secs(1),
        auto_recover: Some(Duration::from_secs(30)),
        ..*first
    };
    [*first, other].map(|settings| HealthConfig::new(settings).expect("valid"))
}

fn every_history_moves_legally_and_heals(profile: &HealthSettings, length: u32) {
    let alphabet = alphabet();
    let count = alphabet.len();
    let configs = configs(&tiny(profile));
    for number in 0..count.pow(length) {
        let mut world = World::new(&configs);
        let mut rest = number;
        for _ in 0..length {
            world.step(alphabet[rest % count]);
            rest /= count;
        }
        world.heal();
    }
}

// All 234 256 histories of four events, on thresholds of one or two.
#[test]
fn every_short_history_uses_legal_edges_and_can_recover() {
    every_history_moves_legally_and_heals(&HealthSettings::CAUTIOUS, 4);
}

#[test]
fn every_short_breaker_history_uses_legal_edges_and_can_recover() {
    every_history_moves_legally_and_heals(&HealthSettings::BREAKER, 4);
}

#[test]
#[ignore = "long run: cargo xtask test --stress"]
fn stress_every_short_history_uses_legal_edges_and_can_recover() {
    for profile in [HealthSettings::CAUTIOUS, HealthSettings::BREAKER] {
        every_history_moves_legally_and_heals(&profile, 5);
    }
}

/// An hour, and the two quarters of an hour that `CacheOnly` rests while forgotten probes time out.
const HEALED_WITHIN: Duration = Duration::from_hours(2);

fn run(cases: u32, mut law: impl FnMut(World, Vec<Event>)) {
    let alphabet = alphabet();
    let usual = alphabet.len();
    // A failing streak, so that deep states are reached like shallow ones.
    let weighted = prop_oneof![
        3 => 0..usual,
        1 => Just(1),
        1 => Just(2),
        1 => Just(5),
        2 => Just(11),
    ];
    let profile = prop::sample::select(profiles().to_vec());
    let strategy = (prop::collection::vec(weighted, 0..80), profile);
    let law = std::cell::RefCell::new(&mut law);
    laws::law(cases, strategy, |(history, settings)| {
        let events = history.iter().map(|at| alphabet[*at]).collect();
        law.borrow_mut()(World::new(&configs(&settings)), events);
        Ok(())
    });
}

fn histories_move_legally_and_heal(cases: u32) -> BTreeSet<String> {
    let mut seen = BTreeSet::new();
    run(cases, |mut world, events| {
        for event in events {
            world.step(event);
        }
        let took = world.heal();
        assert!(took <= HEALED_WITHIN, "healed only after {took:?}");
        seen.extend(world.edges.iter().map(|(from, to, why)| format!("{from} {to} {why}")));
    });
    seen
}

// Every edge of the table is met, so that none is legal by accident: 18 by events and timers where
// failures lead to Throttle, 2 more where they lead to Sleep, 20 by force and 6 by release.
#[test]
fn random_histories_use_legal_edges_and_can_recover() {
    let seen = histories_move_legally_and_heal(CASES);
    let count = |reason: &str| seen.iter().filter(|edge| edge.ends_with(reason)).count();
    let expected = [
        (" error_ratio", 2),
        (" streak", 3),
        (" retry_after", 3),
        (" banned", 3),
        (" error_ratio_held", 1),
        (" success_window_ok", 1),
        (" sleep_over", 1),
        (" probes_ok", 1),
        (" probes_answered", 1),
        (" probe_failed", 1),
        (" probe_timed_out", 1),
        (" recoveries_exhausted", 1),
        (" auto_recover", 1),
        (" forced", 20),
        (" released", 6),
    ];
    for (reason, edges) in expected {
        assert_eq!(count(reason), edges, "{reason}: {seen:#?}");
    }
}

#[test]
#[ignore = "long run: cargo xtask test --stress"]
fn stress_random_histories_use_legal_edges_and_can_recover() {
    histories_move_legally_and_heal(STRESS_CASES);
}

// In any history, no request goes while a ban of a minute lasts.
fn no_history_cuts_a_ban_short(cases: u32) {
    run(cases, |mut world, events| {
        let ban = Outcome::BANNED.with_retry_after(LONG);
        world.step(Event::Answer(ban));
        let until = world.now.saturating_add(LONG);
        for event in events {
            world.step(event);
            // Steps back are undone: the machine uses the latest time it has seen.
            let latest = world.health.snapshot(world.now).since.max(world.now);
            if latest < until && !matches!(event, Event::Pass(_) | Event::StepBack(_)) {
                assert!(world.tickets.is_empty(), "sent at {latest:?} before {until:?}");
            } else if latest >= until {
                break;
            }
        }
    });
}

#[test]
fn no_history_sends_during_a_ban() {
    no_history_cuts_a_ban_short(CASES);
}

#[test]
#[ignore = "long run: cargo xtask test --stress"]
fn stress_no_history_sends_during_a_ban() {
    no_history_cuts_a_ban_short(STRESS_CASES);
}
