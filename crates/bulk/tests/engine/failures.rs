//! Jobs that fail, are throttled, or are never answered.

use std::time::Duration;

use outflow_bulk::JobWork;
use outflow_core::Clock;
use outflow_mock::{Fault, MockResponse, Script, ScriptMatch, ScriptedFault};
use outflow_store::{ActionStage, ActionStore, DeadLetterStore, JobQueue, JobStatus, TenantStore};

use super::support::{Plan, get, gets, name, rate_rule};

fn failing(response: MockResponse) -> Plan {
    Plan::scripted(Script::new().rule(ScriptMatch::always(), response))
}

// One attempt and three retries, each with the same key and a higher number.
#[tokio::test(start_paused = true)]
async fn a_failing_job_is_retried_and_dead_lettered_with_its_history() {
    let world = failing(MockResponse::status(500)).start().await;
    world.submit("a", vec![get("t", 1)]).await;
    let report = world.finished("a").await;
    assert_eq!((report.stage, report.counts.dead), (ActionStage::Completed, 1));
    let dead = world.store().dead_letters(0, 10).await.expect("letters");
    assert_eq!(dead.len(), 1);
    assert_eq!((dead[0].attempts, dead[0].history.len()), (4, 4));
    assert!(dead[0].history[0].message.contains("500"), "{:?}", dead[0]);
    let outcomes = world.store().outcomes(&name("a"), 0, 10).await;
    let outcomes = outcomes.expect("outcomes");
    assert_eq!((outcomes.len(), outcomes[0].status), (1, Some(500)));
    let audit = world.mock.audit();
    let keys: Vec<_> = audit.arrivals().iter().map(|one| &one.idempotency_key).collect();
    assert_eq!(keys.len(), 4);
    assert!(keys.iter().all(|key| key.is_some() && *key == keys[0]), "{keys:?}");
    world.assert_counts_match().await;
}

#[tokio::test(start_paused = true)]
async fn a_permanent_failure_is_not_retried() {
    let world = failing(MockResponse::status(404)).start().await;
    world.submit("a", gets("t", 3)).await;
    let report = world.finished("a").await;
    assert_eq!((report.counts.dead, world.mock.audit().count()), (3, 3));
}

// The first call is throttled with a wait of 7 s. The job returns to the head of its queue and no other job
// overtakes it. It uses no retry, although it is throttled more often than it may fail.
#[tokio::test(start_paused = true)]
async fn a_throttled_job_waits_for_retry_after_and_uses_no_retry() {
    let throttle = MockResponse::status(429).header("retry-after", "7");
    let script = Script::new().rule(ScriptMatch::always().first(5), throttle);
    let world = Plan::scripted(script)
        .with(|settings| {
            settings.workers.min = Some(1);
            settings.workers.max = Some(1);
        })
        .start()
        .await;
    let mut jobs = gets("t", 3);
    jobs[0].max_retries = Some(0);
    world.submit("a", jobs).await;
    let report = world.finished("a").await;
    assert_eq!((report.counts.done, report.counts.throttles), (3, 5));
    let audit = world.mock.audit();
    assert!(audit.sent_before_retry_after().is_empty());
    let paths: Vec<_> = audit.arrivals().iter().map(|one| &*one.path).collect();
    assert_eq!(paths, ["/t/0", "/t/0", "/t/0", "/t/0", "/t/0", "/t/0", "/t/1", "/t/2"]);
}

// Throttled every time, each time for a second more, with a deadline after five seconds. No retry is granted
// and none is used. The job expires within a second of its deadline, and is not sent after it.
#[tokio::test(start_paused = true)]
async fn a_job_throttled_until_its_deadline_expires() {
    let world = failing(MockResponse::status(429).header("retry-after", "1"))
        .start()
        .await;
    let mut job = get("t", 0);
    job.max_retries = Some(0);
    job.deadline = Some(world.time.wall().saturating_add(Duration::from_secs(5)));
    let begun = world.now();
    world.submit("a", vec![job]).await;
    let report = world.finished("a").await;
    let took = world.now().since(begun);
    assert!((5..=6).contains(&took.as_secs()), "{took:?}");
    let audit = world.mock.audit();
    let throttles = audit.count();
    assert!((3..=5).contains(&throttles), "{throttles}");
    assert!(audit.sent_before_retry_after().is_empty());
    let last = audit.arrivals().last().expect("some").at.since(begun);
    assert!(last < Duration::from_secs(5), "{last:?}");
    assert_eq!(report.counts.throttles, u64::try_from(throttles).expect("few"));
    assert_eq!((report.counts.cancelled, report.counts.dead), (1, 0), "{report:?}");
    let outcomes = world.store().outcomes(&name("a"), 0, 9).await;
    let outcomes = outcomes.expect("outcomes");
    assert_eq!((outcomes.len(), outcomes[0].ended), (1, JobStatus::Expired));
    world.assert_counts_match().await;
}

// One call hangs for ever: it is retried after its timeout, and the tenant's other jobs continue meanwhile.
#[tokio::test(start_paused = true)]
async fn a_call_without_a_response_delays_no_other_job() {
    let script = Script::new().rule(ScriptMatch::path("/t/0").first(1), Fault::Hang);
    let world = Plan::scripted(script)
        .with(|settings| settings.timeout = Duration::from_secs(5))
        .start()
        .await;
    world.submit("a", gets("t", 20)).await;
    let begun = world.now();
    let report = world.finished("a").await;
    assert_eq!(report.counts.done, 20);
    let took = world.now().since(begun);
    assert!((5..20).contains(&took.as_secs()), "{took:?}");
}

// The API's timeout is ten seconds and it answers this call after twenty; its job may take 25.
#[tokio::test(start_paused = true)]
async fn the_timeout_of_a_job_overrides_that_of_the_api() {
    let script = Script::new().rule(ScriptMatch::always(), ScriptedFault::Late(Duration::from_secs(20)));
    let world = Plan::scripted(script).start().await;
    let mut job = get("t", 0);
    job.max_retries = Some(0);
    let JobWork::Call(call) = &mut job.work else {
        panic!("it is a call");
    };
    call.timeout = Some(Duration::from_secs(25));
    let mut default = get("t", 1);
    default.max_retries = Some(0);
    world.submit("a", vec![job, default]).await;
    let report = world.finished("a").await;
    assert_eq!((report.counts.done, report.counts.dead), (1, 1), "{report:?}");
}

#[tokio::test(start_paused = true)]
async fn a_requeued_dead_letter_runs_again() {
    let script = Script::new().rule(ScriptMatch::always().first(1), MockResponse::status(404));
    let world = Plan::scripted(script).start().await;
    world.submit("a", gets("t", 1)).await;
    world.finished("a").await;
    let requeued = world.store().requeue(&outflow_store::DeadLetterFilter::All).await;
    assert_eq!(requeued.expect("the store answers"), 1);
    while world.counts().await.done == 0 {
        world.store().changed().await;
    }
    let tenant = world.store().tenant(&name("t")).await.expect("asked");
    assert_eq!(world.counts().await.dead, 0, "{tenant:?}");
    let report = world.finished("a").await;
    assert_eq!(
        (report.stage, report.counts.done, report.counts.failed),
        (ActionStage::Completed, 1, 0)
    );
}

// One throttle without a wait. The limit's window is an hour, which no job has to wait for. A job that is
// throttled repeatedly waits ever longer: 1 + 2 + 4 + 8 seconds before its fifth attempt.
#[tokio::test(start_paused = true)]
async fn a_throttle_without_retry_after_costs_a_tenant_a_second() {
    for (throttles, least, max) in [(1, 1, 3), (4, 15, 20)] {
        let refused = ScriptMatch::path("/acme/**").first(throttles);
        let script = Script::new().rule(refused, MockResponse::status(429));
        let plan = Plan::scripted(script).with(|settings| {
            settings.tenant = rate_rule("10000/h");
            settings.workers.min = Some(1);
            settings.workers.max = Some(1);
        });
        let world = plan.start().await;
        let begun = world.now();
        world.submit("a", gets("acme", 20)).await;
        assert_eq!(world.finished("a").await.counts.done, 20);
        let took = world.now().since(begun).as_secs();
        assert!((least..=max).contains(&took), "{throttles}: {took} s");
    }
}
