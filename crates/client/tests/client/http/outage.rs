//! An outage from its first failure to its last effect.

use std::time::Duration;

use outflow::core::{HealthConfig, HealthSettings, Limit};
use outflow_mock::{MockResponse, Script, ScriptMatch};
use tokio::time::Instant;

use super::support::{over_pipes, scripted};

const SECOND: Duration = Duration::from_secs(1);

/// Course of an outage.
struct OutageResult {
    /// Requests that arrived during the outage.
    arrived: usize,
    /// Successes among the hundred calls of the five seconds that begin half a minute after it.
    good: u32,
}

/// Runs twenty calls a second against a server that is healthy for ten seconds, fails for a
/// minute, and recovers.
async fn run_outage(health: &HealthConfig) -> OutageResult {
    let outage = ScriptMatch::always().between(10 * SECOND..70 * SECOND);
    let mock = scripted(Script::new().rule(outage, MockResponse::status(503)));
    let client = over_pipes(&mock, |api| {
        api.rules.limits = vec![Limit::sliding("100/s".parse().expect("a rate"))];
        api.rules.health = *health;
    });
    let (began, mut good) = (Instant::now(), 0);
    for nth in 0..2_100 {
        tokio::time::sleep_until(began + nth * SECOND / 20).await;
        let call = client.get("strict", "/").max_wait(SECOND / 100);
        let brought = call.send().await.is_ok_and(|response| response.status() == 200);
        good += u32::from(brought && nth >= 2_000);
    }
    let within = mock.audit().only(|one| {
        let at = Duration::from_nanos(one.at.as_nanos());
        (10 * SECOND..70 * SECOND).contains(&at)
    });
    OutageResult {
        arrived: within.count(),
        good,
    }
}

// 1,200 calls fall into the minute. Retries are a fifth of them and of the 200 calls before, 280.
// Ten a second are free, with one second saved: 610.
#[tokio::test(start_paused = true)]
async fn an_outage_is_not_multiplied_and_ends_within_half_a_minute() {
    let breaker = HealthConfig::new(HealthSettings::BREAKER).expect("valid");
    for (health, most) in [(HealthConfig::default(), 1_200 + 280 + 610), (breaker, 60)] {
        let went = run_outage(&health).await;
        assert!(went.arrived <= most, "{} of {most} arrived", went.arrived);
        assert!(went.good >= 95, "{} of 100 were good again", went.good);
    }
}
