//! A server that fails completely and recovers.

use std::time::Duration;

use outflow::core::{HealthConfig, HealthOverride, Share};
use outflow::{Api, Rules, WhenAsleep};
use outflow_mock::{Fault, MockApi, MockResponse, Script, ScriptMatch, ScriptedFault};

use super::support::{CallLoad, EndedCall, TestBed, health};

const SECOND: Duration = Duration::from_secs(1);
const WAY: Duration = Duration::from_millis(5);

/// Cost and end of an outage.
struct OutageReport {
    calls: u64,
    attempts: u64,
    /// Successes after the server recovered, in spans of five seconds.
    good: Vec<usize>,
}

impl OutageReport {
    /// Returns the time until goodput stays at 95 % of the demand.
    fn recovered_after(&self, per_second: u32) -> Duration {
        let full = usize::try_from(5 * per_second).expect("small");
        let poor = |count: &usize| count * 100 < full * 95;
        let last = self.good.iter().rposition(poor).map_or(0, |last| last + 1);
        5 * SECOND * u32::try_from(last).expect("small")
    }
}

/// Kind and length of a failure, and the length of the observation afterwards.
struct OutagePlan {
    per_second: u32,
    failing: Duration,
    watched: Duration,
    act: ScriptedFault,
}

fn server_with_history(most: usize) -> MockApi {
    let builder = MockApi::builder().remembering(most);
    builder.build().expect("valid")
}

async fn run_outage(plan: OutagePlan, hold: Option<HealthOverride>, adapt: impl FnOnce(&mut Api)) -> OutageReport {
    let bed = TestBed::new(server_with_history(10), WAY);
    bed.mock.rewrite(Script::new().rule(ScriptMatch::always(), plan.act));
    let client = bed.client(adapt);
    if let Some(hold) = hold {
        client.upstream("strict").expect("there").force_health(None, hold);
    }
    let mut load = CallLoad::on(&client);
    let calls = load.run(plan.per_second, plan.failing).await;
    // A retry of a call from the outage may arrive a little later and belongs to it.
    let attempts = bed.mock.totals().seen;
    bed.mock.rewrite(Script::new());
    load.run(plan.per_second, plan.watched).await;
    let ended = load.ended().await;
    let spans = usize::try_from(plan.watched.as_secs() / 5).expect("small");
    let mut good = vec![0; spans];
    for call in ended.iter().filter(|call| call.is_good()) {
        let after = call.over.saturating_sub(plan.failing).as_secs() / 5;
        if let Some(span) = good.get_mut(usize::try_from(after).expect("small")) {
            *span += 1;
        }
    }
    OutageReport { calls, attempts, good }
}

/// Plans two hundred failing calls a second for ten minutes.
fn ten_minutes(act: impl Into<ScriptedFault>) -> OutagePlan {
    OutagePlan {
        per_second: 200,
        failing: 600 * SECOND,
        watched: 60 * SECOND,
        act: act.into(),
    }
}

/// Allows ample concurrency, so that only the retry rules protect the server.
fn wide_concurrency(api: &mut Api) {
    api.rules.health = health(|settings| settings.concurrency = Some(100));
}

// 200 calls a second for 600 s may cost 1.2 × 120,000 + 10 × 600 = 150,000 attempts. They must
// cost more than one each, so that retries happen at all.
#[tokio::test(start_paused = true)]
async fn retries_do_not_multiply_an_outage_of_responses() {
    let story = run_outage(
        ten_minutes(MockResponse::status(503)),
        Some(HealthOverride::Normal),
        wide_concurrency,
    )
    .await;
    let most = story.calls + story.calls / 5 + 10 * 600;
    assert!(story.attempts <= most, "{} > {most}", story.attempts);
    assert!(story.attempts > story.calls, "{}", story.attempts);
    assert!(story.recovered_after(200) <= 30 * SECOND, "{:?}", story.good);
}

#[tokio::test(start_paused = true)]
async fn retries_do_not_multiply_an_outage_of_connections() {
    let plan = ten_minutes(Fault::ResetBeforeHead);
    let story = run_outage(plan, Some(HealthOverride::Normal), wide_concurrency).await;
    let most = story.calls + story.calls / 5 + 10 * 600;
    assert!(story.attempts <= most, "{} > {most}", story.attempts);
    assert!(story.attempts > story.calls, "{}", story.attempts);
    assert!(story.recovered_after(200) <= 30 * SECOND, "{:?}", story.good);
}

// A plain breaker sleeps thirty seconds at a time and admits three probes after each; the attempts
// in flight when it opens come on top.
#[tokio::test(start_paused = true)]
async fn a_circuit_breaker_spares_the_server_and_recovers_within_its_cooldown() {
    let story = run_outage(ten_minutes(MockResponse::status(503)), None, |api| {
        api.rules = Rules::with_limit("500/s".parse().expect("valid"));
        // The profile, which refuses while it is open.
        api.rules.health = HealthConfig::breaker();
        api.rules.when_asleep = WhenAsleep::Refuse;
    })
    .await;
    assert!(story.attempts < story.calls / 100, "{}", story.attempts);
    assert!(story.recovered_after(200) <= 31 * SECOND, "{:?}", story.good);
}

// Ten minutes of 503s: the default machine sends a probe now and then, and serves every call again
// within thirty seconds.
#[tokio::test(start_paused = true)]
async fn the_default_machine_spares_the_server_and_recovers_by_itself() {
    let plan = OutagePlan {
        per_second: 20,
        failing: 600 * SECOND,
        watched: 120 * SECOND,
        act: MockResponse::status(503).into(),
    };
    let story = run_outage(plan, None, |api| {
        api.rules = Rules::with_limit("50/s".parse().expect("valid"));
    })
    .await;
    assert!(
        story.attempts < story.calls / 50,
        "{} of {}",
        story.attempts,
        story.calls
    );
    let back = story.recovered_after(20);
    assert!(back <= 30 * SECOND, "{back:?}");
}

// Retries would make 200 calls a second 240 or more. With every attempt counted, no window of a
// second exceeds the 210 allowed.
#[tokio::test(start_paused = true)]
async fn the_limit_counts_every_retry() {
    let mock = MockApi::builder().build().expect("valid");
    let bed = TestBed::new(mock, WAY);
    let failing = Script::new().rule(ScriptMatch::always(), MockResponse::status(503));
    bed.mock.rewrite(failing);
    let client = bed.client(|api| {
        api.rules = Rules::with_limit("210/s".parse().expect("valid"));
        wide_concurrency(api);
        api.retry.budget.share = Share::percent(100);
    });
    let upstream = client.upstream("strict").expect("there");
    upstream.force_health(None, HealthOverride::Normal);
    let mut load = CallLoad::on(&client);
    load.run(200, 20 * SECOND).await;
    let ended = load.ended().await;
    let audit = bed.mock.audit();
    let attempts = |call: &EndedCall| match &call.result {
        Ok(response) => response.attempts(),
        Err(error) => error.attempts(),
    };
    let attempts: u32 = ended.iter().map(attempts).sum();
    assert_eq!(audit.count(), usize::try_from(attempts).expect("small"));
    let most = audit.most_in_any_window(SECOND);
    assert!((205..=210).contains(&most), "{most}");
    assert!(audit.count() > 4_100, "{}", audit.count());
}
