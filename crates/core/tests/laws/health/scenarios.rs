//! Scenarios: test vectors, bursts, hanging probes, ramps and long outages.

use core::time::Duration;

use outflow_core::{
    AttemptReport, Fault, Health, HealthChange, HealthConfig, HealthDecision, HealthOverride, HealthSettings,
    HealthState, Nanos, Outcome, Policy, Share, TransitionReason, WaitBounds,
};

use super::api::{Api, SECOND, moved, rate};

#[test]
fn a_short_wait_is_waited_out_in_the_same_state() {
    let mut api = Api::usual();
    let until = api.now.saturating_add(SECOND * 2);
    let refused = Policy::default().classify(&AttemptReport::status(429).with_retry_after(SECOND * 2));
    assert_eq!(api.call(refused.outcome), HealthChange::Cooling { until });
    assert_eq!(api.state(), HealthState::Normal);
    api.now = until.saturating_sub(Duration::from_nanos(1));
    assert_eq!(api.health.admission(api.now), HealthDecision::Cooling { until });
    api.now = until;
    assert_eq!(api.call(Outcome::SUCCESS), HealthChange::None);
}

// Nine of 48 are 18.75 % and change nothing; eleven of fifty are 22 %.
#[test]
fn eleven_failures_of_fifty_throttle() {
    let mut api = Api::usual();
    api.calls(39, Outcome::SUCCESS);
    assert_eq!(api.calls(9, Outcome::SERVER_FAILED), HealthChange::None);
    assert_eq!(api.health.next_wakeup(), None);
    api.calls(2, Outcome::SERVER_FAILED);
    let throttled = api.wake_when_due().map(|t| (t.to, t.reason));
    assert_eq!(throttled, Some((HealthState::Throttle, TransitionReason::ErrorRatio)));
}

// A quarter of the calls fail on the network; an equal share of 404s does nothing.
#[test]
fn network_faults_count_and_404s_do_not() {
    let landed = |attempt: AttemptReport| {
        let mut api = Api::usual();
        let outcome = Policy::default().classify(&attempt).outcome;
        for call in 0..100 {
            api.pass_millis(50);
            api.wake();
            api.call(if call % 4 == 0 { outcome } else { Outcome::SUCCESS });
            if api.state() != HealthState::Normal {
                break;
            }
        }
        api.state()
    };
    assert_eq!(landed(AttemptReport::fault(Fault::Dns)), HealthState::Throttle);
    assert_eq!(
        landed(AttemptReport::fault(Fault::ConnectTimeout)),
        HealthState::Throttle
    );
    assert_eq!(landed(AttemptReport::status(404)), HealthState::Normal);
    assert_eq!(landed(AttemptReport::status(401)), HealthState::Normal);
}

// Three successes and a ban. The Sleep counts nothing, and was shown with 0 % of failures.
#[test]
fn a_state_keeps_the_figures_that_led_to_it() {
    let mut api = Api::usual();
    api.calls(3, Outcome::SUCCESS);
    let slept = api.call(Outcome::BANNED).transition().expect("it sleeps");
    assert_eq!((slept.figures.streak, slept.figures.failures), (1, 1));
    assert_eq!((slept.figures.counts.success, slept.figures.counts.throttled), (3, 1));
    let asleep = api.health.snapshot(api.now);
    assert_eq!((asleep.counts.failure_ppm(), asleep.error_ppm()), (0, 250_000));
    let probing = api.wake_when_due().expect("the Sleep ends");
    assert_eq!(probing.figures, slept.figures, "it counted none of its own");
}

#[test]
fn a_flood_of_404s_hides_no_throttles() {
    let mut api = Api::usual();
    for call in 0..40 {
        api.pass_millis(50);
        api.wake();
        if api.state() == HealthState::Throttle {
            return;
        }
        api.calls(100, Outcome::NEUTRAL);
        api.call(if call % 10 < 3 && call % 2 == 0 || call % 10 == 5 {
            Outcome::THROTTLED
        } else {
            Outcome::SUCCESS
        });
    }
    panic!("still {} with 30 % refused", api.state());
}

// A hundred were in flight when the limit was hit; all of them are throttled.
#[test]
fn one_burst_of_throttles_is_one_step() {
    let mut api = Api::usual();
    let wave: Vec<_> = (0..100).map(|_| api.send()).collect();
    let mut moves = Vec::new();
    for ticket in wave {
        api.pass_millis(10);
        moves.extend(moved(api.answer(ticket, Outcome::THROTTLED)));
    }
    assert_eq!(moves, [(HealthState::Throttle, TransitionReason::Streak)]);
}

// The first throttle lowers a limit; the other ninety-nine were sent before that and are no news.
// Later requests count again, and three more in a row throttle.
#[test]
fn a_burst_that_lowered_a_limit_pushes_no_further() {
    let mut api = Api::usual();
    let wave: Vec<_> = (0..100).map(|_| api.send()).collect();
    for (n, ticket) in wave.into_iter().enumerate() {
        assert_eq!(moved(api.answer(ticket, Outcome::THROTTLED)), None);
        if n == 0 {
            api.health.begin_generation(api.now);
        }
    }
    let mut moves = Vec::new();
    for _ in 0..3 {
        let ticket = api.send();
        moves.extend(moved(api.answer(ticket, Outcome::THROTTLED)));
    }
    assert_eq!(moves, [(HealthState::Throttle, TransitionReason::Streak)]);
}

// One generation starts by hand, one by the transition to Throttle; while probes are in flight none
// starts.
#[test]
fn the_generation_counts_bursts() {
    let mut api = Api::usual();
    let generation = |api: &mut Api| api.health.snapshot(api.now).generation;
    api.health.begin_generation(api.now);
    assert_eq!((generation(&mut api), api.state()), (1, HealthState::Normal));
    api.calls(3, Outcome::THROTTLED);
    assert_eq!((generation(&mut api), api.state()), (2, HealthState::Throttle));
    api.health.begin_generation(api.now);
    assert_eq!(generation(&mut api), 3);
    let mut api = Api::half_open();
    let before = generation(&mut api);
    api.health.begin_generation(api.now);
    assert_eq!(generation(&mut api), before);
}

// A probe decides by itself, so a new generation keeps its ticket valid and its slot taken.
#[test]
fn a_new_generation_keeps_its_probes() {
    let mut api = Api::half_open();
    let probe = api.send();
    assert!(probe.is_probe());
    api.health.begin_generation(api.now);
    assert_eq!(
        moved(api.answer(probe, Outcome::THROTTLED)),
        Some((HealthState::Sleep, TransitionReason::ProbeFailed))
    );
}

// The first asks for a minute and the last for ten: the longer wait holds for all.
#[test]
fn a_late_ban_is_obeyed_by_maximum() {
    let mut api = Api::usual();
    let (first, late, short) = (api.send(), api.send(), api.send());
    api.answer(first, Outcome::BANNED.with_retry_after(SECOND * 60));
    let until = api.now.saturating_add(SECOND * 600);
    let change = api.answer(late, Outcome::BANNED.with_retry_after(SECOND * 600));
    assert_eq!(change, HealthChange::Cooling { until });
    assert_eq!(
        api.answer(short, Outcome::BANNED.with_retry_after(SECOND)),
        HealthChange::None
    );
    assert_eq!(api.health.next_wakeup(), Some(until));
    assert_eq!(api.health.snapshot(api.now).until, Some(until));
}

// Two throttles of one instant ask for three seconds each, and a third for none.
#[test]
fn a_known_wait_is_no_change() {
    let mut api = Api::usual();
    let (first, second, third) = (api.send(), api.send(), api.send());
    let refused = Outcome::THROTTLED.with_retry_after(SECOND * 3);
    let until = api.now.saturating_add(SECOND * 3);
    assert_eq!(api.answer(first, refused), HealthChange::Cooling { until });
    assert_eq!(api.answer(second, refused), HealthChange::None);
    let at_once = Outcome::SERVER_FAILED.with_retry_after(Duration::ZERO);
    assert_eq!(api.answer(third, at_once), HealthChange::None);
    let mut fresh = Api::usual();
    assert_eq!(fresh.call(at_once), HealthChange::None);
}

#[test]
fn a_late_ban_blocks_calls_without_a_transition() {
    let mut api = Api::usual();
    let late = api.send();
    api.calls(3, Outcome::THROTTLED);
    let until = api.now.saturating_add(SECOND * 60);
    let change = api.answer(late, Outcome::BANNED.with_retry_after(SECOND * 60));
    assert_eq!(change, HealthChange::Cooling { until });
    assert_eq!(api.state(), HealthState::Throttle);
    assert_eq!(api.health.admission(api.now), HealthDecision::Cooling { until });
}

// It belongs to a request sent in Normal and arrives in Throttle: no request goes for our own
// cooldown of 2 s and up to a quarter more.
#[test]
fn a_late_ban_without_a_time_lasts_our_cooldown() {
    let mut api = Api::usual();
    let late = api.send();
    api.calls(3, Outcome::THROTTLED);
    let HealthChange::Cooling { until } = api.answer(late, Outcome::BANNED) else {
        panic!("no cooldown");
    };
    let wait = until.since(api.now);
    assert!(wait >= SECOND * 2 && wait <= SECOND * 5 / 2, "{wait:?}");
    assert_eq!(api.state(), HealthState::Throttle);
    assert_eq!(api.health.admission(api.now), HealthDecision::Cooling { until });
}

// A server may ask for a year; it gets a day.
#[test]
fn an_absurd_wait_is_capped_at_a_day() {
    let mut api = Api::usual();
    let year = SECOND * 86_400 * 365;
    let slept = api.call(Outcome::THROTTLED.with_retry_after(year)).transition();
    let day = api.now.saturating_add(SECOND * 86_400);
    assert_eq!(slept.and_then(|t| t.until), Some(day));
}

#[test]
fn a_servers_hour_is_not_cut_to_our_longest_sleep() {
    let mut api = Api::usual();
    let slept = api
        .call(Outcome::THROTTLED.with_retry_after(SECOND * 3_600))
        .transition();
    let hour = api.now.saturating_add(SECOND * 3_600);
    assert_eq!(slept.and_then(|t| t.until), Some(hour));
}

// Ten seconds are less than a breaker's shortest sleep of thirty, and one is less than the default
// two: the server may name both.
#[test]
fn a_servers_time_is_not_stretched_to_our_shortest_sleep() {
    let cases = [
        (HealthSettings::BREAKER, Outcome::THROTTLED, 10),
        (HealthSettings::BREAKER, Outcome::BANNED, 1),
        (HealthSettings::CAUTIOUS, Outcome::BANNED, 1),
    ];
    for (settings, outcome, seconds) in cases {
        let mut api = Api::new(&settings);
        let asked = SECOND * seconds;
        let slept = api.call(outcome.with_retry_after(asked)).transition();
        let until = Some(api.now.saturating_add(asked));
        assert_eq!(slept.map(|t| (t.to, t.until)), Some((HealthState::Sleep, until)));
        assert_eq!(api.health.next_wakeup(), until);
        assert_eq!(api.wake_when_due().map(|t| t.to), Some(HealthState::HalfOpen));
    }
}

// One cap: a wait that the header parser accepts is not cut again by the machine.
#[test]
fn the_maximum_wait_is_no_shorter_than_the_parsers_cap() {
    let read = WaitBounds::default().max_honour();
    for profile in [HealthSettings::CAUTIOUS, HealthSettings::BREAKER] {
        assert_eq!(profile.max_retry_after, read);
    }
}

// A hundred hold no ticket yet when Sleep begins; the check right before sending stops each.
#[test]
fn a_waiter_in_sleep_does_not_send() {
    let mut api = Api::usual();
    let last = api.send();
    api.answer(last, Outcome::BANNED.with_retry_after(SECOND * 60));
    for waiter in 0..100 {
        api.pass_millis(waiter);
        assert!(matches!(
            api.health.admission(api.now),
            HealthDecision::Blocked {
                state: HealthState::Sleep,
                until: Some(_)
            }
        ));
    }
}

#[test]
fn forced_offline_makes_no_call_for_an_hour() {
    let mut api = Api::usual();
    api.health.force(api.now, HealthOverride::Sleep);
    for _ in 0..3_600 {
        api.pass(SECOND);
        assert_eq!(api.health.next_wakeup(), None);
        assert_eq!(api.wake(), None);
        let blocked = HealthDecision::Blocked {
            state: HealthState::Sleep,
            until: None,
        };
        assert_eq!(api.health.admission(api.now), blocked);
    }
}

#[test]
fn a_forced_normal_never_moves_and_obeys_the_server() {
    let mut api = Api::usual();
    api.health.force(api.now, HealthOverride::Normal);
    assert_eq!(api.calls(100, Outcome::THROTTLED), HealthChange::None);
    api.pass(SECOND);
    assert_eq!(api.wake(), None);
    let until = api.now.saturating_add(SECOND * 60);
    let change = api.call(Outcome::BANNED.with_retry_after(SECOND * 60));
    assert_eq!(change, HealthChange::Cooling { until });
    assert_eq!(api.health.admission(api.now), HealthDecision::Cooling { until });
}

// Four of twenty are a fifth; a success makes it less at 200 ms, a failure more again at 240 ms.
// Without the success it would have been believed at 250 ms.
#[test]
fn a_contrary_observation_restarts_the_confirmation() {
    let mut api = Api::usual();
    api.calls(16, Outcome::SUCCESS);
    api.calls(4, Outcome::SERVER_FAILED);
    api.pass_millis(200);
    assert_eq!(api.call(Outcome::SUCCESS), HealthChange::None);
    api.pass_millis(40);
    assert_eq!(api.call(Outcome::SERVER_FAILED), HealthChange::None);
    api.pass_millis(249);
    assert_eq!(api.wake(), None);
    assert_eq!(api.call(Outcome::SERVER_FAILED), HealthChange::None);
    api.pass_millis(1);
    assert_eq!(api.wake().map(|t| t.to), Some(HealthState::Throttle));
}

#[test]
fn a_ratio_that_persists_is_believed_without_another_call() {
    let mut api = Api::usual();
    api.calls(20, Outcome::NETWORK_FAILED);
    let due = api.now.saturating_add(Duration::from_millis(250));
    assert_eq!(api.health.next_wakeup(), Some(due));
    assert_eq!(api.wake_when_due().map(|t| t.to), Some(HealthState::Throttle));
}

// Old failures must not fail fresh probes: the window of each state is its own.
#[test]
fn each_state_begins_with_an_empty_window() {
    let mut api = Api::usual();
    api.calls(19, Outcome::SERVER_FAILED);
    api.calls(3, Outcome::THROTTLED);
    assert_eq!(api.state(), HealthState::Throttle);
    let fresh = api.health.snapshot(api.now);
    assert_eq!(
        (fresh.counts, fresh.streak),
        (outflow_core::OutcomeCounts::default(), 0)
    );
}

#[test]
fn a_clock_that_steps_back_never_shortens_a_sleep() {
    let mut api = Api::asleep();
    let until = api.health.next_wakeup();
    let now = api.now;
    for step in 0..1_000 {
        api.now = now.saturating_sub(SECOND * (step % 2) * 86_400);
        assert_eq!(api.wake(), None);
        assert!(matches!(api.health.admission(api.now), HealthDecision::Blocked { .. }));
        assert_eq!(api.health.next_wakeup(), until);
    }
    api.now = until.expect("a timer");
    assert_eq!(api.wake().map(|t| t.to), Some(HealthState::HalfOpen));
}

#[test]
fn the_ends_of_the_timeline_are_safe() {
    let mut health = Health::new(HealthConfig::cautious(), Nanos::MAX);
    for entropy in [0, u64::MAX] {
        for outcome in [
            Outcome::SUCCESS,
            Outcome::SERVER_FAILED,
            Outcome::BANNED.with_retry_after(Duration::MAX),
        ] {
            if let HealthDecision::Go(ticket) = health.admission(Nanos::MAX) {
                health.record(Nanos::MAX, ticket, outcome, entropy);
            }
            health.wake(Nanos::MAX, entropy);
        }
    }
    assert_eq!(health.state(), HealthState::Sleep);
    assert_ne!(health.admission(Nanos::MAX), HealthDecision::Overdue);
}

#[test]
fn settings_change_without_a_transition() {
    let changed = HealthSettings {
        n_throttle: Some(10),
        probe_success: 2,
        concurrency: Some(8),
        probe_rate: Some(rate("1/s")),
        ..HealthSettings::CAUTIOUS
    };
    let config = HealthConfig::new(changed).expect("valid");
    let mut api = Api::usual();
    api.calls(2, Outcome::THROTTLED);
    api.health.configure(api.now, config);
    assert_eq!(moved(api.calls(7, Outcome::THROTTLED)), None, "nine of ten");
    assert_eq!(api.health.snapshot(api.now).streak, 9, "the streak goes on");
    assert_eq!(api.health.concurrency(), 8);

    let mut api = Api::half_open();
    let probe = api.send();
    api.health.configure(api.now, config);
    assert_eq!(api.health.effective(rate("35/s")), rate("1/s"));
    assert_eq!(moved(api.answer(probe, Outcome::SUCCESS)), None);
    assert_eq!(
        moved(api.call(Outcome::SUCCESS)),
        Some((HealthState::Normal, TransitionReason::ProbesOk))
    );

    let mut api = Api::asleep();
    let until = api.health.next_wakeup();
    api.health.configure(api.now, config);
    assert_eq!((api.state(), api.health.next_wakeup()), (HealthState::Sleep, until));
}

fn config(settings: &HealthSettings) -> HealthConfig {
    HealthConfig::new(*settings).expect("valid")
}

// Everything fails once a second and the settings are reloaded every four minutes: the required
// five minutes pass all the same. The first twenty calls are the sample.
#[test]
fn a_reload_does_not_postpone_a_confirmation() {
    let mut api = Api::throttled();
    let began = api.now;
    let left = (0..3_600).find_map(|second| {
        api.pass(SECOND);
        if second % 240 == 0 {
            api.health.configure(api.now, HealthConfig::cautious());
        }
        api.wake().or_else(|| {
            api.call(Outcome::SERVER_FAILED);
            None
        })
    });
    let left = left.expect("an hour of failures");
    assert_eq!(left.reason, TransitionReason::ErrorRatioHeld);
    assert_eq!(left.at.since(began), SECOND * (20 + 300));
}

// All of twenty fail. Held for 1 s instead of 250 ms, then for 300 ms, it counts from when it was
// first seen; a threshold that is no longer met ends it.
#[test]
fn a_confirmation_follows_the_new_settings() {
    let mut api = Api::usual();
    api.calls(20, Outcome::SERVER_FAILED);
    let seen = api.now;
    api.pass_millis(200);
    for millis in [1_000, 300] {
        let confirm_after = Duration::from_millis(millis);
        let settings = HealthSettings {
            confirm_after,
            ..HealthSettings::CAUTIOUS
        };
        api.health.configure(api.now, config(&settings));
        let due = Some(seen.saturating_add(confirm_after));
        assert_eq!(api.health.next_wakeup(), due);
    }
    let mut fewer = api.health.clone();
    let settings = HealthSettings {
        min_samples: 21,
        ..HealthSettings::CAUTIOUS
    };
    fewer.configure(api.now, config(&settings));
    assert_eq!(fewer.next_wakeup(), None);
    assert_eq!(api.wake_when_due().map(|t| t.to), Some(HealthState::Throttle));
}

// Ten successes after one failure are a ratio of 9 %, which points up. Where one sample is enough
// and 5 % is too much, the window points down, which must be confirmed separately.
#[test]
fn a_reload_does_not_confirm_one_ratio_by_another() {
    let mut api = Api::throttled();
    api.call(Outcome::SERVER_FAILED);
    api.calls(10, Outcome::SUCCESS);
    assert!(api.health.next_wakeup().is_some(), "on the way up");
    let strict = HealthSettings {
        min_samples: 1,
        p_recover: Share::percent(5),
        p_throttle: Share::percent(5),
        p_sleep: Some(Share::percent(5)),
        ..HealthSettings::CAUTIOUS
    };
    api.health.configure(api.now, config(&strict));
    assert_eq!(api.health.next_wakeup(), None);
}

#[test]
fn a_release_is_jittered_up_to_a_second() {
    let api = Api::usual();
    assert_eq!(api.health.release_jitter(0), Duration::ZERO);
    assert_eq!(api.health.release_jitter(u64::MAX), SECOND);
}

// The window of 30 s is empty by the time a confirmation of 40 s is due.
#[test]
fn an_expired_ratio_is_not_believed() {
    let mut api = Api::new(&HealthSettings {
        confirm_after: SECOND * 40,
        ..HealthSettings::CAUTIOUS
    });
    api.calls(20, Outcome::SERVER_FAILED);
    assert_eq!(api.wake_when_due(), None);
    assert_eq!(api.health.next_wakeup(), None);
}

// 15 of 25 are the 60 % that lead to Sleep; half a minute later the next success stands alone and
// points the other way, which must be confirmed separately.
#[test]
fn one_ratio_does_not_confirm_another() {
    let mut api = Api::throttled();
    api.calls(15, Outcome::SERVER_FAILED);
    api.calls(10, Outcome::SUCCESS);
    api.pass(SECOND * 31);
    assert_eq!(api.call(Outcome::SUCCESS), HealthChange::None);
    api.pass_millis(250);
    assert_eq!(api.wake().map(|t| t.to), Some(HealthState::HalfOpen));
}

#[test]
fn a_zero_hold_is_still_confirmed() {
    let mut api = Api::new(&HealthSettings {
        p_sleep_held: Duration::ZERO,
        ..HealthSettings::CAUTIOUS
    });
    api.calls(3, Outcome::THROTTLED);
    assert_eq!(moved(api.calls(30, Outcome::SERVER_FAILED)), None);
    api.pass_millis(250);
    assert_eq!(api.wake().map(|t| t.reason), Some(TransitionReason::ErrorRatioHeld));
}

#[test]
fn successes_before_throttle_do_not_end_it() {
    let mut api = Api::usual();
    api.calls(100, Outcome::SUCCESS);
    api.calls(3, Outcome::THROTTLED);
    assert_eq!(api.state(), HealthState::Throttle);
    api.calls(9, Outcome::SUCCESS);
    assert_eq!(api.health.next_wakeup(), None);
}

// The machine has seen 1:00 when a ban of a minute arrives at 0:00.
#[test]
fn a_clock_step_does_not_shorten_a_servers_wait() {
    let mut api = Api::usual();
    let ticket = api.send();
    let latest = api.now;
    api.now = Nanos::ZERO;
    api.answer(ticket, Outcome::BANNED.with_retry_after(SECOND * 60));
    let until = latest.saturating_add(SECOND * 60);
    assert_eq!(api.health.next_wakeup(), Some(until));
}
