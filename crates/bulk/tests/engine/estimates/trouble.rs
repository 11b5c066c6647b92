//! Estimates during and after an outage.

use std::time::Duration;

use outflow::core::HealthState;
use outflow_mock::{Fault, MockResponse, Script, ScriptMatch, ScriptedFault};

use super::{LATENCY, SECOND, assert_true, compare};
use crate::support::{Plan, gets, name};

// An outage of a minute at the begin of a run, in its middle, and one that hangs. The probes of its first minutes are some
// seconds apart, and counted as a slow API: the estimate was ten hours, and seventeen minutes a little later.
#[tokio::test(start_paused = true)]
async fn an_eta_is_true_after_a_short_outage() {
    let forms: [fn() -> ScriptedFault; 2] = [|| MockResponse::status(500).into(), || Fault::Hang.into()];
    for (start, fault) in [(0, forms[0]), (70, forms[0]), (70, forms[1])] {
        let world = Plan::with_user_defaults("10/s", LATENCY).start().await;
        let outage = ScriptMatch::always().between(start * SECOND..(start + 60) * SECOND);
        world.mock.rewrite(Script::new().rule(outage, fault()));
        let healed = Duration::from_secs(u64::from(start) + 70);
        let compared = compare(&world, gets("t", 1_500), healed).await;
        assert_true(&format!("out at {start}"), &compared);
    }
}

// While the API is probed, the estimate was gone.
#[tokio::test(start_paused = true)]
async fn an_eta_is_known_while_an_api_is_probed() {
    let world = Plan::with_user_defaults("30/s", LATENCY).start().await;
    world.submit("all", gets("a", 3_000)).await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    let outage = Script::new().rule(ScriptMatch::always(), MockResponse::status(503));
    world.mock.rewrite(outage);
    let upstream = world.client.upstream("mock").expect("known");
    let target = upstream.group("default").expect("there");
    let mut probed = 0;
    while probed < 20 {
        tokio::time::sleep(Duration::from_millis(50)).await;
        if upstream.state(target) == HealthState::HalfOpen {
            let progress = world.engine.progress(&name("all")).await.expect("read").expect("known");
            assert!(progress.eta.is_some(), "{:?}", progress.waits);
            probed += 1;
        }
    }
}

// One response asks for 30 s, and the API then serves as before: the speed grows back within seconds.
#[tokio::test(start_paused = true)]
async fn an_eta_is_true_after_a_retry_after() {
    let world = Plan::with_user_defaults("10/s", LATENCY).start().await;
    let asks = MockResponse::status(429).header("retry-after", "30");
    let at = Duration::from_secs(30)..Duration::from_mins(1);
    world
        .mock
        .rewrite(Script::new().rule(ScriptMatch::always().between(at).first(1), asks));
    let compared = compare(&world, gets("t", 600), Duration::from_secs(32)).await;
    assert_true("retry-after", &compared);
}
