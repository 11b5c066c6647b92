//! Histories with a story: the seeds' test vectors, waves, hanging probes, ramps and long outages.

use core::time::Duration;

use outflow_core::{
    Admission, Attempt, Change, Fault, Health, HealthConfig, HealthSettings, Hold, Nanos, Outcome,
    Policy, RampStage, Rate, Reason, State,
};

use super::api::{Api, SECOND, moved};

fn rate(text: &str) -> Rate {
    text.parse().expect("valid")
}

#[test]
fn a_short_wait_is_waited_out_in_the_same_state() {
    let mut api = Api::usual();
    let until = api.now.saturating_add(SECOND * 2);
    let refused = Policy::default().classify(&Attempt::status(429).asking_to_wait(SECOND * 2));
    assert_eq!(api.call(refused.outcome), Change::Cooling { until });
    assert_eq!(api.state(), State::Normal);
    api.now = until.saturating_sub(Duration::from_nanos(1));
    assert_eq!(api.health.admission(api.now), Admission::Cooling { until });
    api.now = until;
    assert_eq!(api.call(Outcome::SUCCESS), Change::None);
}

// Nine of 48 are 18.75 % and change nothing; eleven of fifty are 22 %.
#[test]
fn eleven_failures_of_fifty_throttle() {
    let mut api = Api::usual();
    api.calls(39, Outcome::SUCCESS);
    assert_eq!(api.calls(9, Outcome::SERVER_FAILED), Change::None);
    assert_eq!(api.health.next_wakeup(), None);
    api.calls(2, Outcome::SERVER_FAILED);
    let throttled = api.wake_when_due().map(|t| (t.to, t.reason));
    assert_eq!(throttled, Some((State::Throttle, Reason::ErrorRatio)));
}

#[test]
fn five_good_probes_of_five_return_to_normal() {
    let mut api = Api::half_open();
    assert_eq!(
        moved(api.calls(5, Outcome::SUCCESS)),
        Some((State::Normal, Reason::ProbesOk))
    );
}

#[test]
fn one_bad_probe_of_three_returns_to_sleep() {
    let mut api = Api::half_open();
    api.calls(2, Outcome::SUCCESS);
    assert_eq!(
        moved(api.call(Outcome::THROTTLED)),
        Some((State::Sleep, Reason::ProbeFailed))
    );
}

// A quarter of the calls fail on the network; the same share of 404s does nothing.
#[test]
fn network_faults_count_and_missing_pages_do_not() {
    let landed = |attempt: Attempt| {
        let mut api = Api::usual();
        let outcome = Policy::default().classify(&attempt).outcome;
        for call in 0..100 {
            api.pass_millis(50);
            api.wake();
            api.call(if call % 4 == 0 {
                outcome
            } else {
                Outcome::SUCCESS
            });
            if api.state() != State::Normal {
                break;
            }
        }
        api.state()
    };
    assert_eq!(landed(Attempt::fault(Fault::Dns)), State::Throttle);
    assert_eq!(
        landed(Attempt::fault(Fault::ConnectTimeout)),
        State::Throttle
    );
    assert_eq!(landed(Attempt::status(404)), State::Normal);
    assert_eq!(landed(Attempt::status(401)), State::Normal);
}

#[test]
fn a_flood_of_missing_pages_hides_no_refusals() {
    let mut api = Api::usual();
    for call in 0..40 {
        api.pass_millis(50);
        api.wake();
        if api.state() == State::Throttle {
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

// A hundred were in flight when the limit was hit; all of them are refused.
#[test]
fn one_wave_of_refusals_is_one_step() {
    let mut api = Api::usual();
    let wave: Vec<_> = (0..100).map(|_| api.send()).collect();
    let mut moves = Vec::new();
    for ticket in wave {
        api.pass_millis(10);
        moves.extend(moved(api.answer(ticket, Outcome::THROTTLED)));
    }
    assert_eq!(moves, [(State::Throttle, Reason::Streak)]);
}

// A minute is asked of the first and ten minutes of the last: the longer wait holds for all.
#[test]
fn a_late_ban_is_obeyed_by_maximum() {
    let mut api = Api::usual();
    let (first, late, short) = (api.send(), api.send(), api.send());
    api.answer(first, Outcome::BANNED.asking_to_wait(SECOND * 60));
    let until = api.now.saturating_add(SECOND * 600);
    let change = api.answer(late, Outcome::BANNED.asking_to_wait(SECOND * 600));
    assert_eq!(change, Change::Cooling { until });
    assert_eq!(
        api.answer(short, Outcome::BANNED.asking_to_wait(SECOND)),
        Change::None
    );
    assert_eq!(api.health.next_wakeup(), Some(until));
    assert_eq!(api.health.snapshot(api.now).until, Some(until));
}

#[test]
fn a_late_ban_stops_a_state_that_it_does_not_change() {
    let mut api = Api::usual();
    let late = api.send();
    api.calls(3, Outcome::THROTTLED);
    let until = api.now.saturating_add(SECOND * 60);
    let change = api.answer(late, Outcome::BANNED.asking_to_wait(SECOND * 60));
    assert_eq!(change, Change::Cooling { until });
    assert_eq!(api.state(), State::Throttle);
    assert_eq!(api.health.admission(api.now), Admission::Cooling { until });
}

// A server may ask for a year; it gets a day.
#[test]
fn an_absurd_wait_is_capped_at_a_day() {
    let mut api = Api::usual();
    let year = SECOND * 86_400 * 365;
    let slept = api
        .call(Outcome::THROTTLED.asking_to_wait(year))
        .transition();
    let day = api.now.saturating_add(SECOND * 86_400);
    assert_eq!(slept.and_then(|t| t.until), Some(day));
}

#[test]
fn a_servers_hour_is_not_cut_to_our_longest_sleep() {
    let mut api = Api::usual();
    let slept = api
        .call(Outcome::THROTTLED.asking_to_wait(SECOND * 3_600))
        .transition();
    let hour = api.now.saturating_add(SECOND * 3_600);
    assert_eq!(slept.and_then(|t| t.until), Some(hour));
}

#[test]
fn a_hundred_callers_send_one_probe() {
    let mut api = Api::half_open();
    let mut sent = Vec::new();
    for _ in 0..100 {
        if let Admission::Go(ticket) = api.health.admission(api.now) {
            sent.push(ticket);
        }
    }
    assert_eq!(sent.len(), 1);
    assert!(sent[0].is_probe());
    assert_eq!(api.health.snapshot(api.now).probes_out, 1);
}

// Dropped, answered 404, or answered after the machine had moved on and come back: within one probe
// timeout of 15 s the machine has left `HalfOpen` or lets the next probe go.
#[test]
fn no_probe_keeps_the_machine_half_open() {
    let spoil: [fn(&mut Api); 4] = [
        |api| {
            let dropped = api.send();
            api.health.abandon(api.now, dropped);
        },
        |api| {
            let missing = api.send();
            assert_eq!(api.answer(missing, Outcome::NEUTRAL), Change::None);
        },
        |api| {
            let late = api.send();
            api.wake_when_due();
            assert_eq!(api.state(), State::Sleep, "timed out");
            api.wake_when_due();
            assert_eq!(api.answer(late, Outcome::SERVER_FAILED), Change::None);
        },
        |api| {
            let late = api.send();
            api.wake_when_due();
            api.wake_when_due();
            let probe = api.send();
            api.health.abandon(api.now, late);
            assert_eq!(api.health.snapshot(api.now).probes_out, 1, "not its slot");
            api.answer(probe, Outcome::SUCCESS);
        },
    ];
    for spoiled in spoil {
        let mut api = Api::half_open();
        spoiled(&mut api);
        assert_eq!(api.state(), State::HalfOpen);
        let change = (0..5).find_map(|_| moved(api.call(Outcome::SUCCESS)));
        assert_eq!(change, Some((State::Normal, Reason::ProbesOk)));
    }
}

#[test]
fn a_probe_that_hangs_fails_at_its_timeout() {
    let mut api = Api::half_open();
    let sent = api.now;
    let hanging = api.send();
    assert_eq!(
        api.health.next_wakeup(),
        Some(sent.saturating_add(SECOND * 15))
    );
    api.pass_millis(14_999);
    assert_eq!(api.wake(), None);
    api.pass_millis(1);
    assert_eq!(api.health.admission(api.now), Admission::Overdue);
    assert_eq!(api.wake().map(|t| t.reason), Some(Reason::ProbeTimedOut));
    assert_eq!(api.answer(hanging, Outcome::SUCCESS), Change::None);
    assert_eq!(api.state(), State::Sleep);
}

// A hundred hold no ticket yet when Sleep begins; the check right before sending stops each.
#[test]
fn nobody_who_waited_into_a_sleep_sends() {
    let mut api = Api::usual();
    let last = api.send();
    api.answer(last, Outcome::BANNED.asking_to_wait(SECOND * 60));
    for waiter in 0..100 {
        api.pass_millis(waiter);
        assert!(matches!(
            api.health.admission(api.now),
            Admission::Blocked {
                state: State::Sleep,
                until: Some(_)
            }
        ));
    }
}

#[test]
fn offline_makes_no_call_for_an_hour_and_no_timer_ends_it() {
    let mut api = Api::usual();
    api.health.force(api.now, Hold::Sleep);
    for _ in 0..3_600 {
        api.pass(SECOND);
        assert_eq!(api.health.next_wakeup(), None);
        assert_eq!(api.wake(), None);
        let blocked = Admission::Blocked {
            state: State::Sleep,
            until: None,
        };
        assert_eq!(api.health.admission(api.now), blocked);
    }
}

#[test]
fn a_held_normal_moves_for_nothing_and_still_obeys_the_server() {
    let mut api = Api::usual();
    api.health.force(api.now, Hold::Normal);
    assert_eq!(api.calls(100, Outcome::THROTTLED), Change::None);
    api.pass(SECOND);
    assert_eq!(api.wake(), None);
    let until = api.now.saturating_add(SECOND * 60);
    let change = api.call(Outcome::BANNED.asking_to_wait(SECOND * 60));
    assert_eq!(change, Change::Cooling { until });
    assert_eq!(api.health.admission(api.now), Admission::Cooling { until });
}

// Half of 35 is 17; at 5/s and below only the concurrency is cut; between, 5/s is the floor.
#[test]
fn throttle_halves_rates_down_to_a_floor() {
    let api = Api::throttled();
    let cases = [
        ("35/s", "17/s"),
        ("10/s", "5/s"),
        ("8/s", "5/s"),
        ("5/s", "5/s"),
        ("2/s", "2/s"),
        ("100/min", "100/min"),
        ("400/min", "300/min"),
        ("6000/min", "3000/min"),
        ("1/100ms", "1/200ms"),
    ];
    for (configured, left) in cases {
        assert_eq!(
            api.health.effective(rate(configured)),
            rate(left),
            "{configured}"
        );
    }
}

#[test]
fn each_state_has_its_concurrency_and_its_rate() {
    let expected = [
        (State::Normal, 4, "35/s"),
        (State::Throttle, 2, "17/s"),
        (State::Sleep, 0, "3/s"),
        (State::HalfOpen, 1, "3/s"),
        (State::CacheOnly, 0, "3/s"),
    ];
    for (state, concurrency, left) in expected {
        let api = Api::in_state(state);
        assert_eq!(api.health.concurrency(), concurrency, "{state}");
        assert_eq!(api.health.effective(rate("35/s")), rate(left), "{state}");
        assert_eq!(api.health.effective(rate("2/s")), rate("2/s"), "{state}");
    }
}

#[test]
fn a_concurrency_of_one_is_left_in_throttle() {
    let mut api = Api::new(&HealthSettings {
        concurrency: 1,
        ..HealthSettings::default()
    });
    api.calls(3, Outcome::THROTTLED);
    assert_eq!(
        (api.state(), api.health.concurrency()),
        (State::Throttle, 1)
    );
}

// 17.5 × 1.1⁷ is 34.1, the first above 95 % of 35; the eighth step reaches 35 after forty minutes.
#[test]
fn the_ramp_takes_forty_minutes_to_full_speed() {
    let mut api = Api::half_open();
    let recovered = api.now;
    api.calls(5, Outcome::SUCCESS);
    let mut speeds = vec![api.health.effective(rate("35/s")).quantity()];
    while api.health.snapshot(api.now).ramp != RampStage::None {
        assert_eq!(api.wake_when_due(), None, "a step is no transition");
        speeds.push(api.health.effective(rate("35/s")).quantity());
    }
    assert_eq!(speeds, [17, 19, 21, 23, 25, 28, 31, 34, 35]);
    assert_eq!(api.now.since(recovered), Duration::from_mins(40));
    assert_eq!(api.health.next_wakeup(), None);
}

#[test]
fn a_ramp_that_nobody_woke_catches_up() {
    let mut api = Api::half_open();
    api.calls(5, Outcome::SUCCESS);
    api.pass(Duration::from_mins(17));
    assert_eq!(api.health.admission(api.now), Admission::Overdue);
    assert_eq!(api.wake(), None);
    assert_eq!(api.health.effective(rate("35/s")), rate("23/s"));
    assert!(matches!(api.health.admission(api.now), Admission::Go(_)));
}

#[test]
fn trouble_during_a_ramp_throttles_and_ends_it() {
    let mut api = Api::half_open();
    api.calls(5, Outcome::SUCCESS);
    let change = api.calls(3, Outcome::THROTTLED);
    assert_eq!(moved(change), Some((State::Throttle, Reason::Streak)));
    assert_eq!(api.health.snapshot(api.now).ramp, RampStage::None);
}

// 2, 4, 8, … s, each up to a quarter longer, capped at 300 s; without `CacheOnly` in the way.
#[test]
fn the_cooldown_doubles_up_to_its_cap_and_starts_anew_after_normal() {
    let mut api = Api::new(&HealthSettings {
        cache_only_after: None,
        ..HealthSettings::default()
    });
    api.calls(3, Outcome::THROTTLED);
    let mut slept = api.calls(5, Outcome::THROTTLED).transition();
    for expected in [2_u32, 4, 8, 16, 32, 64, 128, 256, 300, 300] {
        let transition = slept.expect("asleep");
        let span = transition.until.expect("a timer").since(transition.at);
        let (low, high) = match expected {
            256.. => (240, 300),
            _ => (expected, expected + expected.div_ceil(4)),
        };
        assert!(
            span >= SECOND * low && span <= SECOND * high,
            "{span:?} for {expected}"
        );
        assert_eq!(api.health.snapshot(api.now).cooldown, SECOND * expected);
        api.wake_when_due();
        slept = api.call(Outcome::SERVER_FAILED).transition();
    }
    api.wake_when_due();
    api.calls(5, Outcome::SUCCESS);
    assert_eq!(api.state(), State::Normal);
    assert_eq!(api.health.snapshot(api.now).cooldown, SECOND * 2);
}

// A probe that is refused "for 1 s" still rests the shortest sleep of 2 s, and not the 4 s of ours.
#[test]
fn a_servers_time_replaces_our_cooldown() {
    let mut api = Api::half_open();
    let slept = api
        .call(Outcome::THROTTLED.asking_to_wait(SECOND))
        .transition();
    assert_eq!(
        slept.and_then(|t| t.until),
        Some(api.now.saturating_add(SECOND * 2))
    );
}

#[test]
fn cache_only_tries_on_its_period_and_returns_until_the_next() {
    let mut api = Api::cache_only();
    for _ in 0..10 {
        let entered = api.now;
        let tried = api.wake_when_due().expect("a try");
        assert_eq!(
            (tried.to, tried.reason),
            (State::Sleep, Reason::AutoRecover)
        );
        assert_eq!(tried.at.since(entered), Duration::from_mins(15));
        let open = api.wake_when_due().expect("a probe");
        assert_eq!(open.to, State::HalfOpen);
        assert!(open.at.since(tried.at) <= Duration::from_millis(2_500));
        assert_eq!(
            moved(api.call(Outcome::NETWORK_FAILED)),
            Some((State::CacheOnly, Reason::RecoveriesExhausted))
        );
    }
    api.wake_when_due();
    api.wake_when_due();
    api.calls(5, Outcome::SUCCESS);
    assert_eq!(api.state(), State::Normal);
    assert_eq!(api.health.snapshot(api.now).failed_recoveries, 0);
}

#[test]
fn cache_only_without_auto_recovery_waits_for_an_operator() {
    let mut api = Api::cache_only();
    let settings = HealthSettings {
        auto_recover: None,
        ..HealthSettings::default()
    };
    let config = HealthConfig::new(settings).expect("valid");
    api.health.configure(api.now, config);
    api.pass(SECOND * 86_400);
    assert_eq!((api.wake(), api.health.next_wakeup()), (None, None));
    api.health.force(api.now, Hold::CacheOnly);
    assert_eq!(
        api.health.release(api.now).map(|t| t.to),
        Some(State::HalfOpen)
    );
}

// Four of twenty are a fifth; a success makes it less at 200 ms, a failure more again at 240 ms.
// Without the success it would have been believed at 250 ms.
#[test]
fn a_contrary_look_starts_the_confirmation_anew() {
    let mut api = Api::usual();
    api.calls(16, Outcome::SUCCESS);
    api.calls(4, Outcome::SERVER_FAILED);
    api.pass_millis(200);
    assert_eq!(api.call(Outcome::SUCCESS), Change::None);
    api.pass_millis(40);
    assert_eq!(api.call(Outcome::SERVER_FAILED), Change::None);
    api.pass_millis(249);
    assert_eq!(api.wake(), None);
    assert_eq!(api.call(Outcome::SERVER_FAILED), Change::None);
    api.pass_millis(1);
    assert_eq!(api.wake().map(|t| t.to), Some(State::Throttle));
}

#[test]
fn a_ratio_that_persists_is_believed_without_another_call() {
    let mut api = Api::usual();
    api.calls(20, Outcome::NETWORK_FAILED);
    let due = api.now.saturating_add(Duration::from_millis(250));
    assert_eq!(api.health.next_wakeup(), Some(due));
    assert_eq!(api.wake_when_due().map(|t| t.to), Some(State::Throttle));
}

// Old failures must not fail fresh probes: the window of each state is its own.
#[test]
fn each_state_begins_with_an_empty_window() {
    let mut api = Api::usual();
    api.calls(19, Outcome::SERVER_FAILED);
    api.calls(3, Outcome::THROTTLED);
    assert_eq!(api.state(), State::Throttle);
    let fresh = api.health.snapshot(api.now);
    assert_eq!(
        (fresh.counts, fresh.streak),
        (outflow_core::Counts::default(), 0)
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
        assert!(matches!(
            api.health.admission(api.now),
            Admission::Blocked { .. }
        ));
        assert_eq!(api.health.next_wakeup(), until);
    }
    api.now = until.expect("a timer");
    assert_eq!(api.wake().map(|t| t.to), Some(State::HalfOpen));
}

#[test]
fn the_ends_of_time_are_ordinary() {
    let mut health = Health::new(HealthConfig::default(), Nanos::MAX);
    for entropy in [0, u64::MAX] {
        for outcome in [
            Outcome::SUCCESS,
            Outcome::SERVER_FAILED,
            Outcome::BANNED.asking_to_wait(Duration::MAX),
        ] {
            if let Admission::Go(ticket) = health.admission(Nanos::MAX) {
                health.record(Nanos::MAX, ticket, outcome, entropy);
            }
            health.wake(Nanos::MAX, entropy);
        }
    }
    assert_eq!(health.state(), State::Sleep);
    assert_ne!(health.admission(Nanos::MAX), Admission::Overdue);
}

#[test]
fn variables_change_while_the_state_stays() {
    let changed = HealthSettings {
        n_throttle: 10,
        probe_success: 2,
        concurrency: 8,
        probe_rate: rate("1/s"),
        ..HealthSettings::default()
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
        Some((State::Normal, Reason::ProbesOk))
    );

    let mut api = Api::asleep();
    let until = api.health.next_wakeup();
    api.health.configure(api.now, config);
    assert_eq!(
        (api.state(), api.health.next_wakeup()),
        (State::Sleep, until)
    );
}

#[test]
fn a_release_is_jittered_up_to_a_second() {
    let api = Api::usual();
    assert_eq!(api.health.release_jitter(0), Duration::ZERO);
    assert_eq!(api.health.release_jitter(u64::MAX), SECOND);
}
