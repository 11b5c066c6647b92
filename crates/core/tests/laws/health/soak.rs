//! Thirty days of an upstream that fails now and then, in a second or two.

use core::time::Duration;

use outflow_core::{HealthDecision, HealthSettings, HealthState, Nanos, Outcome};

use super::api::{Api, RECOVERING};

const THIRTY_DAYS: Duration = Duration::from_hours(720);

/// Longer than the longest rest: a quarter of an hour of `CacheOnly`, the Sleeps on either side of
/// it, a minute asked by the server, and a probe that hangs.
const LONGEST_SILENCE: Duration = Duration::from_mins(25);

/// A minute asked by the server, or the longest Sleep with its jitter.
const ADAPTIVE_SILENCE: Duration = Duration::from_secs(61);

/// Returns the API's behaviour by the hour: mostly well, sometimes slow, throttling or down.
fn outcome(weather: u64, entropy: u64) -> Outcome {
    let percent = entropy % 100;
    match weather % 8 {
        0 if percent < 30 => Outcome::THROTTLED,
        1 if percent < 90 => Outcome::SERVER_FAILED,
        2 => Outcome::NETWORK_FAILED,
        3 if percent < 2 => Outcome::THROTTLED.with_retry_after(Duration::from_mins(1)),
        4 if percent < 50 => Outcome::NEUTRAL,
        _ => Outcome::SUCCESS,
    }
}

#[test]
fn thirty_days_leave_no_stuck_state_and_no_growth() {
    let visited = lives_through(&RECOVERING, LONGEST_SILENCE);
    assert!(visited.iter().all(|visits| *visits > 0), "{visited:?}");
}

#[test]
fn thirty_adaptive_days_never_rest_for_long_nor_in_cache_only() {
    let visited = lives_through(&HealthSettings::ADAPTIVE, ADAPTIVE_SILENCE);
    assert!(visited[..4].iter().all(|visits| *visits > 0), "{visited:?}");
    assert_eq!(visited[4], 0);
}

/// A call about every 300 ms: nine million of them. Returns the number of visits of each state.
fn lives_through(settings: &HealthSettings, longest_silence: Duration) -> [u64; 5] {
    let mut api = Api::new(settings);
    let end = api.now.saturating_add(THIRTY_DAYS);
    let mut last_sent = api.now;
    let mut visited = [0_u64; 5];
    while api.now < end {
        let entropy = api.entropy();
        api.pass(Duration::from_nanos(entropy % 600_000_000));
        match api.health.admission(api.now) {
            HealthDecision::Go(ticket) => {
                last_sent = api.now;
                visited[index(api.state())] += 1;
                let weather = hour_of(api.now).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
                api.answer(ticket, outcome(weather, entropy >> 32));
            }
            HealthDecision::Overdue => {
                api.wake();
            }
            HealthDecision::Cooling { until } => api.now = until,
            HealthDecision::Blocked { until, state } => {
                visited[index(state)] += 1;
                api.now = until.expect("no operator holds it");
            }
        }
        assert!(api.now.since(last_sent) <= longest_silence, "{:?}", api.now);
    }
    let at_the_end = api.health.snapshot(api.now);
    let counts = at_the_end.counts;
    assert!(counts.success + counts.throttled + counts.server + counts.network <= 300);
    assert!(at_the_end.generation > 1_000);
    visited
}

fn hour_of(now: Nanos) -> u64 {
    now.as_nanos() / 3_600_000_000_000
}

fn index(state: HealthState) -> usize {
    match state {
        HealthState::Normal => 0,
        HealthState::Throttle => 1,
        HealthState::Sleep => 2,
        HealthState::HalfOpen => 3,
        HealthState::CacheOnly => 4,
    }
}
