//! An adaptive limit and a health machine against a server on its bad days, on virtual time.
//!
//! Always more callers than 35/s, a latency of 50 to 60 ms, four calls in flight. The figures are
//! those of a simulation, not of the program: an upper bound on trouble, not a promise.

#![expect(
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops at the first surprise, its helpers too"
)]

mod bad_day;
mod client;

use std::time::Duration;

use bad_day::{BadDay, ServerFault};
use client::{RATE, SimulatedClient};
use outflow_core::{HealthState, Nanos};

const SECOND: Duration = Duration::from_secs(1);
/// Start of the trouble.
const BEGINS: Nanos = Nanos::from_secs(60);

/// Figures of one scenario.
#[derive(Debug)]
struct RecoveryFigures {
    /// Time after healing to 95 % of the rate, kept for half a minute.
    settled: Duration,
    /// Calls sent during the trouble, a second.
    sent_to_dead: f64,
    throttled: usize,
    per_ten_thousand: f64,
    /// Number of times that Normal was left.
    flaps: usize,
}

/// Runs the worst of several healing instants, as the trouble may end at any point of a Sleep.
fn worst(fault: ServerFault, lasts: Duration) -> RecoveryFigures {
    let runs = (0..5).map(|phase| figures(fault, lasts + Duration::from_millis(phase * 730), phase));
    runs.max_by_key(|figures| figures.settled).expect("five runs")
}

fn figures(fault: ServerFault, lasts: Duration, noise: u64) -> RecoveryFigures {
    let healed = BEGINS.saturating_add(lasts);
    let mut client = SimulatedClient::new(
        BadDay {
            fault,
            from: BEGINS,
            until: healed,
        },
        noise,
    );
    client.run_until(healed.saturating_add(SECOND * 300));
    assert_eq!(client.health.state(), HealthState::Normal);
    let throttled = client.log.throttled.len();
    RecoveryFigures {
        settled: client.log.settled_after(healed).expect("settled"),
        sent_to_dead: count(client.log.sent_between(BEGINS, healed)) / lasts.as_secs_f64(),
        throttled,
        per_ten_thousand: count(throttled) * 10_000.0 / count(client.log.sent.len()),
        flaps: client.log.flaps,
    }
}

#[expect(clippy::as_conversions, clippy::cast_precision_loss, reason = "a few thousand calls")]
const fn count(calls: usize) -> f64 {
    calls as f64
}

#[test]
fn a_storm_of_throttles_costs_seconds() {
    let seen = worst(ServerFault::Throttle, SECOND * 20);
    assert!(seen.settled <= SECOND * 12, "{seen:?}");
    assert!(seen.sent_to_dead <= 2.5 && seen.per_ten_thousand <= 50.0, "{seen:?}");
    assert_eq!(seen.flaps, 1);
}

#[test]
fn a_failing_server_is_served_again_within_ten_seconds() {
    let seen = worst(ServerFault::Fail, SECOND * 120);
    assert!(seen.settled <= SECOND * 10, "{seen:?}");
    assert!(seen.sent_to_dead <= 1.0 && seen.throttled == 0, "{seen:?}");
    assert_eq!(seen.flaps, 1);
}

#[test]
fn a_hanging_server_is_served_again_within_ten_seconds() {
    let seen = worst(ServerFault::Hang, SECOND * 120);
    assert!(seen.settled <= SECOND * 10, "{seen:?}");
    assert!(seen.sent_to_dead <= 1.0, "{seen:?}");
    assert_eq!(seen.flaps, 1);
}

// Healing is noticed by a try above the found limit only.
#[test]
fn a_halved_limit_is_found_and_its_end_is_noticed() {
    let seen = worst(ServerFault::Share(50), SECOND * 300);
    assert!(seen.settled <= SECOND * 45, "{seen:?}");
    assert!(seen.per_ten_thousand <= 40.0, "{seen:?}");
}

// Ten minutes of 8 whole calls a second, where 35 were configured.
#[test]
fn a_wrong_limit_costs_few_throttles() {
    let ten_minutes = Nanos::from_secs(600);
    let share = BadDay {
        fault: ServerFault::Share(25),
        from: Nanos::ZERO,
        until: Nanos::MAX,
    };
    let mut client = SimulatedClient::new(share, 1);
    client.run_until(ten_minutes);
    let passed = count(client.log.good.len()) / 600.0 / (count(RATE) / 4.0);
    let throttled = client.log.throttled.len();
    let of_all = count(throttled) * 10_000.0 / count(client.log.sent.len());
    assert!(
        throttled <= 50 && of_all <= 100.0,
        "{throttled} throttled, {of_all:.0} of 10,000"
    );
    assert!(passed >= 0.85, "{passed} passed");
    assert_eq!(client.log.flaps, 0, "the rate is no matter of health");
}
