//! Laws of every history: only legal edges, promised instants, and a return to Normal.

use core::time::Duration;
use std::collections::BTreeSet;

use outflow_core::{CooldownRule, HealthConfig, HealthOverride, HealthSettings, Outcome, Share};
use outflow_testkit::laws::{self, CASES, STRESS_CASES};
use proptest::prelude::*;

use super::history::{Event, World};

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
        Event::Answer(Outcome::THROTTLED.explained()),
        Event::Observe(Duration::from_secs(4)),
    ]
}

/// A profile with thresholds so low that a few events cross each.
fn tiny(profile: &HealthSettings) -> HealthSettings {
    HealthSettings {
        window_length: 4,
        min_samples: 2,
        min_failures: profile.min_failures.min(2),
        p_throttle: Share::percent(50),
        n_throttle: profile.n_throttle.map(|_| 2),
        n_failures: profile.n_failures.map(|_| 3),
        n_cacheonly: profile.n_cacheonly.map(|_| 2),
        s_recover: 1,
        p_sleep_held: Duration::from_secs(10),
        probe_success: 1,
        neutral_per_success: 2,
        cache_only_after: profile.cache_only_after.map(|_| 2),
        ..*profile
    }
}

const PROFILES: [HealthSettings; 3] = [
    HealthSettings::ADAPTIVE,
    HealthSettings::CAUTIOUS,
    HealthSettings::BREAKER,
];

/// The profiles, as they are and with low thresholds.
fn profiles() -> Vec<HealthSettings> {
    PROFILES.iter().flat_map(|profile| [*profile, tiny(profile)]).collect()
}

fn configs(first: &HealthSettings) -> [HealthConfig; 2] {
    let other = HealthSettings {
        n_throttle: Some(1),
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

// All 331 776 histories of four events, on thresholds of one to three.
#[test]
fn every_short_history_uses_legal_edges_and_can_recover() {
    every_history_moves_legally_and_heals(&HealthSettings::ADAPTIVE, 4);
}

#[test]
fn every_short_cautious_history_uses_legal_edges_and_can_recover() {
    every_history_moves_legally_and_heals(&HealthSettings::CAUTIOUS, 4);
}

#[test]
fn every_short_breaker_history_uses_legal_edges_and_can_recover() {
    every_history_moves_legally_and_heals(&HealthSettings::BREAKER, 4);
}

#[test]
#[ignore = "long run: cargo xtask test --stress"]
fn stress_every_short_history_uses_legal_edges_and_can_recover() {
    for profile in PROFILES {
        every_history_moves_legally_and_heals(&profile, 5);
    }
}

/// An hour, and the two quarters of an hour that `CacheOnly` rests while forgotten probes time out.
const HEALED_WITHIN: Duration = Duration::from_hours(2);

/// A minute that the server asked for, the patience with a forgotten probe, and the Sleep after it.
const ADAPTIVE_HEALED_WITHIN: Duration = Duration::from_secs(60 + 15 + 38);

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
    let profile = prop::sample::select(profiles());
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
        let within = match world.health.config().settings().cooldown {
            CooldownRule::Share => ADAPTIVE_HEALED_WITHIN,
            CooldownRule::Doubling => HEALED_WITHIN,
        };
        let took = world.heal();
        assert!(took <= within, "healed only after {took:?}");
        seen.extend(world.edges.iter().map(|(from, to, why)| format!("{from} {to} {why}")));
    });
    seen
}

// Every edge of the table is met, so that none is legal by accident: 22 by events and timers, 20 by
// force and 6 by release.
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
        (" success_window_ok", 2),
        (" late_response", 1),
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
