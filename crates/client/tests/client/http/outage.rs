//! An outage from its first failure to the last trace of it.

use std::time::Duration;

use outflow::core::{HealthConfig, HealthSettings, Limit};
use outflow_mock::{MockResponse, Script, ScriptMatch};
use tokio::time::Instant;

use super::support::{over_pipes, scripted};

const SECOND: Duration = Duration::from_secs(1);

/// How an outage went.
struct Went {
    /// What arrived while it lasted.
    arrived: usize,
    /// The calls that brought something, of the hundred in the five seconds that began half a minute
    /// after it.
    good: u32,
}

/// Twenty calls a second to a server that is well for ten seconds, fails for a minute, and is well
/// again.
async fn went(health: &HealthConfig) -> Went {
    let outage = ScriptMatch::always().between(10 * SECOND..70 * SECOND);
    let strict = scripted(Script::new().rule(outage, MockResponse::status(503)));
    let client = over_pipes(&strict, |api| {
        api.rules.limits = vec![Limit::sliding("100/s".parse().expect("a rate"))];
        api.rules.health = *health;
    });
    let (began, mut good) = (Instant::now(), 0);
    for nth in 0..2_100 {
        tokio::time::sleep_until(began + nth * SECOND / 20).await;
        let call = client.get("strict", "/").max_wait(SECOND / 100);
        let brought = call.send().await.is_ok_and(|answer| answer.status() == 200);
        good += u32::from(brought && nth >= 2_000);
    }
    let within = strict.audit().only(|one| {
        let at = Duration::from_nanos(one.at.as_nanos());
        (10 * SECOND..70 * SECOND).contains(&at)
    });
    Went {
        arrived: within.count(),
        good,
    }
}

// 1 200 calls fall into the minute. Retries are a fifth of them and of the 200 in the ten seconds for
// which earnings keep, and ten a second with one second's worth saved: 280 and 610.
#[tokio::test(start_paused = true)]
async fn an_outage_is_not_multiplied_and_is_over_within_half_a_minute() {
    let breaker = HealthConfig::new(HealthSettings::BREAKER).expect("valid");
    for (health, most) in [(HealthConfig::default(), 1_200 + 280 + 610), (breaker, 60)] {
        let went = went(&health).await;
        assert!(went.arrived <= most, "{} of {most} arrived", went.arrived);
        assert!(went.good >= 95, "{} of 100 were good again", went.good);
    }
}
