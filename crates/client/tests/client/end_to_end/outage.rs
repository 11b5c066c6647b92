//! A server that fails altogether, and comes back.

use std::time::Duration;

use outflow::core::{HealthOverride, Share};
use outflow::{Api, Rules};
use outflow_mock::{Fault, MockApi, MockResponse, Script, ScriptMatch, ScriptedFault};

use super::support::{Ended, Load, World, breaker, health};

const SECOND: Duration = Duration::from_secs(1);
const WAY: Duration = Duration::from_millis(5);

/// What an outage cost and how it ended.
struct Story {
    calls: u64,
    attempts: u64,
    /// Successes after the server was healed, in spans of five seconds from then on.
    good: Vec<usize>,
}

impl Story {
    /// The spans until goodput is back for good at 95 % of what is asked.
    fn recovered_after(&self, per_second: u32) -> Duration {
        let full = usize::try_from(5 * per_second).expect("small");
        let poor = |count: &usize| count * 100 < full * 95;
        let last = self.good.iter().rposition(poor).map_or(0, |last| last + 1);
        5 * SECOND * u32::try_from(last).expect("small")
    }
}

/// How a server fails, how long, and how long it is watched afterwards.
struct Plan {
    per_second: u32,
    failing: Duration,
    watched: Duration,
    act: ScriptedFault,
}

fn remembering(most: usize) -> MockApi {
    let builder = MockApi::builder().remembering(most);
    builder.build().expect("valid")
}

async fn played(plan: Plan, hold: Option<HealthOverride>, adapt: impl FnOnce(&mut Api)) -> Story {
    let world = World::new(remembering(10), WAY);
    world
        .strict
        .rewrite(Script::new().rule(ScriptMatch::always(), plan.act));
    let client = world.client(adapt);
    if let Some(hold) = hold {
        client
            .upstream("strict")
            .expect("there")
            .force_health(None, hold);
    }
    let mut load = Load::on(&client);
    let calls = load.run(plan.per_second, plan.failing).await;
    // What was begun during the outage may be repeated a little later and belongs to it.
    let attempts = world.strict.totals().seen;
    world.strict.rewrite(Script::new());
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
    Story {
        calls,
        attempts,
        good,
    }
}

/// Two hundred calls a second for ten minutes, all of them failing like this.
fn ten_minutes(act: impl Into<ScriptedFault>) -> Plan {
    Plan {
        per_second: 200,
        failing: 600 * SECOND,
        watched: 60 * SECOND,
        act: act.into(),
    }
}

/// Room enough in flight that nothing but the rules of repetition protects the server.
fn roomy(api: &mut Api) {
    api.rules.health = health(|settings| settings.concurrency = 100);
}

// 200 calls a second for 600 s may cost 1.2 × 120,000 + 10 × 600 = 150,000 attempts, and do cost more
// than one each: that repetitions were made at all is part of the law.
#[tokio::test(start_paused = true)]
async fn an_outage_of_answers_is_not_multiplied_by_repetitions() {
    let story = played(
        ten_minutes(MockResponse::status(503)),
        Some(HealthOverride::Normal),
        roomy,
    )
    .await;
    let most = story.calls + story.calls / 5 + 10 * 600;
    assert!(story.attempts <= most, "{} > {most}", story.attempts);
    assert!(story.attempts > story.calls, "{}", story.attempts);
    assert!(
        story.recovered_after(200) <= 30 * SECOND,
        "{:?}",
        story.good
    );
}

#[tokio::test(start_paused = true)]
async fn an_outage_of_connections_is_not_multiplied_by_repetitions() {
    let plan = ten_minutes(Fault::ResetBeforeHead);
    let story = played(plan, Some(HealthOverride::Normal), roomy).await;
    let most = story.calls + story.calls / 5 + 10 * 600;
    assert!(story.attempts <= most, "{} > {most}", story.attempts);
    assert!(story.attempts > story.calls, "{}", story.attempts);
    assert!(
        story.recovered_after(200) <= 30 * SECOND,
        "{:?}",
        story.good
    );
}

// The limit has room for twice the demand: after a recovery it begins at a half. A circuit that opens
// for 20 s lets three probes and what was under way through each time.
#[tokio::test(start_paused = true)]
async fn a_circuit_breaker_spares_the_server_and_recovers_within_thirty_seconds() {
    let story = played(ten_minutes(MockResponse::status(503)), None, |api| {
        api.rules = Rules::with_limit("500/s".parse().expect("valid"));
        api.rules.health = breaker(|settings| {
            settings.concurrency = 100;
            settings.sleep_min = 20 * SECOND;
            settings.sleep_max = 20 * SECOND;
        });
    })
    .await;
    assert!(story.attempts < story.calls / 100, "{}", story.attempts);
    assert!(
        story.recovered_after(200) <= 30 * SECOND,
        "{:?}",
        story.good
    );
}

// The usual machine slows down, sleeps longer each time and ends in CacheOnly, which it leaves on a
// period of a quarter of an hour: so late is the recovery at most, and so rare are the attempts.
#[tokio::test(start_paused = true)]
async fn the_usual_machine_spares_the_server_and_comes_back_by_itself() {
    let plan = Plan {
        per_second: 20,
        failing: 600 * SECOND,
        watched: 1_200 * SECOND,
        act: MockResponse::status(503).into(),
    };
    let story = played(plan, None, |api| {
        api.rules = Rules::with_limit("50/s".parse().expect("valid"));
    })
    .await;
    let back = story.recovered_after(20);
    assert!(story.attempts * 10 < story.calls * 7, "{}", story.attempts);
    assert!(back <= 920 * SECOND, "{back:?}");
}

// Repetitions would make 200 calls a second 240 or more; with every attempt counted no window of a
// second ever has more than the 210 that are allowed.
#[tokio::test(start_paused = true)]
async fn every_repetition_is_counted_by_the_limit() {
    let strict = MockApi::builder().build().expect("valid");
    let world = World::new(strict, WAY);
    let failing = Script::new().rule(ScriptMatch::always(), MockResponse::status(503));
    world.strict.rewrite(failing);
    let client = world.client(|api| {
        api.rules = Rules::with_limit("210/s".parse().expect("valid"));
        roomy(api);
        api.retry.budget.share = Share::percent(100);
    });
    let upstream = client.upstream("strict").expect("there");
    upstream.force_health(None, HealthOverride::Normal);
    let mut load = Load::on(&client);
    load.run(200, 20 * SECOND).await;
    let ended = load.ended().await;
    let audit = world.strict.audit();
    let attempts = |call: &Ended| match &call.result {
        Ok(answer) => answer.attempts(),
        Err(error) => error.attempts(),
    };
    let attempts: u32 = ended.iter().map(attempts).sum();
    assert_eq!(audit.count(), usize::try_from(attempts).expect("small"));
    let most = audit.most_in_any_window(SECOND);
    assert!((205..=210).contains(&most), "{most}");
    assert!(audit.count() > 4_100, "{}", audit.count());
}
