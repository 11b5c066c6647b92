//! Pause, resume, cancel, stop.

use std::time::Duration;

use http::HeaderName;
use outflow_bulk::{BulkEvent, JobSubmission, Webhook};
use outflow_mock::{Fault, MockApi, Script, ScriptMatch, ScriptedFault};
use outflow_store::{ActionSpec, ActionStage, BatchPosition, ControlScope, StoreControl};

use super::support::{Plan, by_caller, gets, name};

#[tokio::test(start_paused = true)]
async fn a_paused_tenant_waits_and_continues_after_resume() {
    let world = Plan::limited("10/s").start().await;
    let tenant = ControlScope::Tenant(name("a"));
    world.store().pause(&tenant).await.expect("paused");
    world.submit("a", gets("a", 20)).await;
    world.submit("b", gets("b", 20)).await;
    world.finished("b").await;
    assert_eq!(world.mock.audit().count(), 20, "only the other's");
    world.store().resume(&tenant).await.expect("resumed");
    assert_eq!(world.finished("a").await.counts.done, 20);
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_action_ends_at_once() {
    let world = Plan::limited("1/s").start().await;
    world.submit("a", gets("t", 1_000)).await;
    world
        .time
        .reaches(world.now().saturating_add(Duration::from_secs(5)))
        .await;
    let scope = ControlScope::Action(name("a"));
    let cancelled = world.store().cancel(&scope).await.expect("cancelled");
    assert!((990..1_000).contains(&cancelled), "{cancelled}");
    let report = world.finished("a").await;
    assert_eq!(report.stage, ActionStage::Cancelled);
    assert_eq!(report.counts.open(), 0);
    world.assert_counts_match().await;
}

// One of three calls is answered after five seconds and is in flight when the action is cancelled after one.
// The end is reported when that call is done, also to the webhook.
#[tokio::test(start_paused = true)]
async fn the_end_of_a_cancelled_action_is_reported() {
    let script = Script::new().rule(ScriptMatch::path("/t/0"), ScriptedFault::Late(Duration::from_secs(5)));
    let plan = Plan::scripted(script).with(|settings| {
        settings.workers.min = Some(1);
        settings.workers.max = Some(1);
    });
    let world = plan.start().await;
    let mut events = world.engine.events();
    let hook = Webhook {
        api: "mock".to_owned(),
        path: "/hook".to_owned(),
    };
    let submission = JobSubmission {
        action: Some(ActionSpec {
            note: Some(hook.note()),
            ..ActionSpec::new(name("a"))
        }),
        rest: BatchPosition::Last,
        jobs: gets("t", 3),
    };
    world.engine.submit(submission).await.expect("accepted");
    let soon = world.now().saturating_add(Duration::from_secs(1));
    world.time.reaches(soon).await;
    let scope = ControlScope::Action(name("a"));
    assert_eq!(world.store().cancel(&scope).await.expect("cancelled"), 2);
    let report = loop {
        if let BulkEvent::Finished { report } = events.recv().await.expect("events") {
            break report;
        }
    };
    assert_eq!(report.stage, ActionStage::Cancelled);
    assert_eq!((report.counts.done, report.counts.cancelled), (1, 2));
    assert_eq!(world.mock.audit().attempts("/hook"), 1);
    assert_eq!(world.finished("a").await.stage, ActionStage::Cancelled);
}

// The first call is never answered, and the engine stops meanwhile. The API sees two distinct arrivals.
#[tokio::test(start_paused = true)]
async fn an_attempt_interrupted_by_a_stop_counts() {
    let noted = HeaderName::from_static("outflow-attempt");
    let script = Script::new().rule(ScriptMatch::always().first(1), Fault::Hang);
    let mut plan = Plan::scripted(Script::new()).with(|settings| settings.grace = Duration::from_secs(1));
    plan.mock = by_caller(MockApi::builder().script(script).noting(noted));
    let world = plan.start().await;
    world.submit("a", gets("t", 1)).await;
    while world.mock.audit().count() < 1 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    world.engine.stop().await;
    let other = world.another().await;
    other.wait_finished(&name("a")).await.expect("asked");
    let audit = world.mock.audit();
    let attempts = audit.arrivals().iter().flat_map(|one| &one.headers);
    let attempts: Vec<_> = attempts.map(|(_, value)| value.clone()).collect();
    assert_eq!(attempts, ["1", "2"]);
}

// Ten calls hang; a stop waits for its grace period and returns them, and all are queued again.
#[tokio::test(start_paused = true)]
async fn a_stop_returns_jobs_in_flight_to_the_queue() {
    let world = Plan::scripted(Script::new().rule(ScriptMatch::always(), Fault::Hang))
        .with(|settings| settings.grace = Duration::from_secs(2))
        .start()
        .await;
    world.submit("a", gets("t", 30)).await;
    world
        .time
        .reaches(world.now().saturating_add(Duration::from_secs(1)))
        .await;
    assert_eq!(world.counts().await.in_flight, 10);
    assert!(!world.engine.stop().await, "not all were over");
    let counts = world.counts().await;
    assert_eq!((counts.queued, counts.in_flight), (30, 0), "{counts:?}");
    world.assert_counts_match().await;
}
