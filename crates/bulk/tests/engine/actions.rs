//! Actions: their end, and the notification of it.

use std::time::Duration;

use http::HeaderName;
use outflow_bulk::{BulkEvent, JobSpec, JobSubmission, Webhook};
use outflow_core::{Clock, HealthOverride};
use outflow_mock::{Fault, MockApi, MockResponse, Script, ScriptMatch, ScriptedFault};
use outflow_store::{
    ActionReport, ActionSpec, ActionStage, ActionStore, BatchPosition, ControlScope, DeadLetterStore, JobQueue, Name,
    StoreControl,
};
use secrecy::SecretString;
use tokio::sync::broadcast::Receiver;

use super::support::{Plan, World, by_caller, get, gets, name};

/// Returns the webhook that receives the ends.
fn hook() -> Webhook {
    Webhook {
        api: "mock".to_owned(),
        path: "/hook".to_owned(),
    }
}

/// Waits for the next event of a finished action.
async fn next_finished(events: &mut Receiver<BulkEvent>) -> ActionReport {
    loop {
        if let BulkEvent::Finished { report } = events.recv().await.expect("events") {
            return report;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_action_is_complete_when_it_is_closed_and_all_its_jobs_are_over() {
    let world = Plan::scripted(Script::new()).start().await;
    let submission = |rest| JobSubmission {
        action: Some(ActionSpec::new(name("a"))),
        rest,
        jobs: gets("t", 3),
    };
    let taken = world.engine.submit(submission(BatchPosition::More)).await;
    taken.expect("accepted");
    while world.counts().await.done < 3 {
        world.store().changed().await;
    }
    let open = world.store().action(&name("a")).await.expect("asked");
    assert_eq!(open.expect("known").stage, ActionStage::Running);
    world.store().close(&name("a")).await.expect("closed");
    let report = world.finished("a").await;
    assert_eq!((report.stage, report.counts.done), (ActionStage::Completed, 3));
}

// A file is submitted again after all its jobs were done.
#[tokio::test(start_paused = true)]
async fn a_repeated_submission_keeps_its_results() {
    let world = Plan::scripted(Script::new()).start().await;
    let jobs = || {
        let mut jobs = gets("t", 3);
        for (job, id) in jobs.iter_mut().zip(["x", "y", "z"]) {
            job.id = Some(name(id));
        }
        jobs
    };
    world.submit("a", jobs()).await;
    let before = world.finished("a").await;
    world.submit("a", jobs()).await;
    assert_eq!(world.finished("a").await, before);
    let outcomes = world.store().outcomes(&name("a"), 0, 9).await;
    assert_eq!(outcomes.expect("outcomes").len(), 3);
    assert_eq!(world.mock.audit().count(), 3);
}

#[tokio::test(start_paused = true)]
async fn an_action_past_its_timeout_fails_and_reports_it() {
    let script = Script::new().rule(ScriptMatch::always(), Fault::Hang);
    let world = Plan::scripted(script).start().await;
    let mut events = world.engine.events();
    let submission = JobSubmission {
        action: Some(ActionSpec {
            timeout: Duration::from_mins(1),
            ..ActionSpec::new(name("a"))
        }),
        rest: BatchPosition::Last,
        jobs: gets("t", 50),
    };
    world.engine.submit(submission).await.expect("accepted");
    let report = world.finished("a").await;
    assert_eq!(report.stage, ActionStage::Failed);
    let report = next_finished(&mut events).await;
    assert_eq!(report.stage, ActionStage::Failed);
}

// One of three calls is answered after nine seconds, and the action times out after five: two jobs are
// cancelled, and the final counts include the third.
#[tokio::test(start_paused = true)]
async fn a_timed_out_action_counts_its_jobs_in_flight() {
    let script = Script::new().rule(ScriptMatch::path("/t/0"), ScriptedFault::Late(Duration::from_secs(9)));
    let plan = Plan::scripted(script).with(|settings| {
        settings.workers.min = Some(1);
        settings.workers.max = Some(1);
    });
    let world = plan.start().await;
    let mut events = world.engine.events();
    let submission = JobSubmission {
        action: Some(ActionSpec {
            timeout: Duration::from_secs(5),
            note: Some(hook().note()),
            ..ActionSpec::new(name("a"))
        }),
        rest: BatchPosition::Last,
        jobs: gets("t", 3),
    };
    world.engine.submit(submission).await.expect("accepted");
    let report = world.finished("a").await;
    let reported = next_finished(&mut events).await;
    for report in [report, reported] {
        assert_eq!(report.stage, ActionStage::Failed);
        let counts = report.counts;
        assert_eq!((counts.done, counts.cancelled, counts.open()), (1, 2, 0));
    }
    assert_eq!(world.mock.audit().attempts("/hook"), 1);
}

// The first two notifications fail, the third is accepted. All carry the same id and a signature.
#[tokio::test(start_paused = true)]
async fn a_webhook_is_notified_until_it_accepts() {
    let script = Script::new().rule(ScriptMatch::path("/hook").first(2), MockResponse::status(404));
    let noted = HeaderName::from_static("webhook-signature");
    let mut plan = Plan::scripted(Script::new());
    plan.mock = by_caller(MockApi::builder().script(script).noting(noted));
    let world = plan
        .start_with(|builder| builder.webhook_secret(SecretString::from("CANARY")))
        .await;
    let submission = JobSubmission {
        action: Some(ActionSpec {
            note: Some(hook().note()),
            ..ActionSpec::new(name("a"))
        }),
        rest: BatchPosition::Last,
        jobs: gets("t", 2),
    };
    world.engine.submit(submission).await.expect("accepted");
    world.finished("a").await;
    let audit = world.mock.audit();
    assert_eq!(audit.attempts("/hook"), 3);
    let notifications = audit.arrivals().iter().filter(|one| &*one.path == "/hook");
    let keys: Vec<_> = notifications
        .clone()
        .map(|one| one.idempotency_key.clone().expect("a key"))
        .collect();
    assert!(keys.iter().all(|key| *key == keys[0]), "{keys:?}");
    for one in notifications {
        let (_, code) = one.headers.first().expect("a signature");
        let code = code.to_str().expect("text");
        assert!(code.starts_with("v1,"), "{code}");
        assert!(!code.contains("CANARY"));
    }
}

/// Submits two calls as an action with a webhook.
async fn submit_with_hook(world: &World) {
    let submission = JobSubmission {
        action: Some(ActionSpec {
            note: Some(hook().note()),
            ..ActionSpec::new(name("a"))
        }),
        rest: BatchPosition::Last,
        jobs: gets("t", 2),
    };
    world.engine.submit(submission).await.expect("accepted");
}

// A webhook that never accepts gets one notification and four retries; the waits between them are a quarter of
// a minute.
#[tokio::test(start_paused = true)]
async fn a_webhook_notification_is_retried_at_most_four_times() {
    let script = Script::new().rule(ScriptMatch::path("/hook"), MockResponse::status(500));
    let world = Plan::scripted(script).start().await;
    let _other = world.another().await;
    submit_with_hook(&world).await;
    world.finished("a").await;
    tokio::time::sleep(Duration::from_mins(5)).await;
    assert_eq!(world.mock.audit().attempts("/hook"), 5);
}

// The webhook takes five seconds to answer, in which both engines poll five times.
#[tokio::test(start_paused = true)]
async fn one_of_two_engines_notifies_a_webhook() {
    let late = ScriptedFault::Late(Duration::from_secs(5));
    let world = Plan::scripted(Script::new().rule(ScriptMatch::path("/hook"), late));
    let world = world.start().await;
    let _other = world.another().await;
    submit_with_hook(&world).await;
    world.finished("a").await;
    tokio::time::sleep(Duration::from_mins(5)).await;
    assert_eq!(world.mock.audit().attempts("/hook"), 1);
}

// The first notification is never answered, and the engine that sent it stops meanwhile.
#[tokio::test(start_paused = true)]
async fn another_engine_sends_the_notification_that_one_left() {
    let script = Script::new().rule(ScriptMatch::path("/hook").first(1), Fault::Hang);
    let world = Plan::scripted(script).start().await;
    submit_with_hook(&world).await;
    while world.mock.audit().attempts("/hook") < 1 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let other = world.another().await;
    world.engine.stop().await;
    let begun = world.now();
    let report = other.wait_finished(&name("a")).await.expect("asked");
    assert_eq!(report.expect("known").stage, ActionStage::Completed);
    let lease = other.settings().lease;
    let took = world.now().since(begun);
    assert!(took <= lease * 3 + Duration::from_secs(2), "{took:?}");
    assert_eq!(world.mock.audit().attempts("/hook"), 2);
}

// Twenty webhooks never answer, more than are notified at once. The next action has none and finishes within
// its own seconds.
#[tokio::test(start_paused = true)]
async fn a_slow_webhook_delays_no_other_action() {
    let script = Script::new().rule(ScriptMatch::path("/hook"), Fault::Hang);
    let world = Plan::scripted(script).start().await;
    let mut events = world.engine.events();
    for number in 0..20 {
        let slow = ActionSpec {
            note: Some(hook().note()),
            ..ActionSpec::new(name(&format!("slow-{number}")))
        };
        let submission = JobSubmission {
            action: Some(slow),
            rest: BatchPosition::Last,
            jobs: gets("t", 1),
        };
        world.engine.submit(submission).await.expect("accepted");
    }
    let begun = world.now();
    while world.mock.audit().attempts("/hook") < 16 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    world.submit("quick", gets("t", 1)).await;
    world.finished("quick").await;
    assert!(world.now().since(begun) < Duration::from_secs(3));
    let report = next_finished(&mut events).await;
    assert_eq!(report.spec.id, name("quick"));
    assert_eq!(report.stage, ActionStage::Completed, "the stage after its end");
}

// Five of eight fail for good, and are named.
#[tokio::test(start_paused = true)]
async fn a_summary_names_the_failed_jobs() {
    let failing = ["/t/1", "/t/3", "/t/4", "/t/5", "/t/7"];
    let script = failing.into_iter().fold(Script::new(), |script, path| {
        script.rule(ScriptMatch::path(path), MockResponse::status(404))
    });
    let world = Plan::scripted(script).start().await;
    let mut jobs = gets("t", 8);
    for (number, job) in jobs.iter_mut().enumerate() {
        job.id = Some(name(&format!("job-{number}")));
    }
    world.submit("a", jobs).await;
    world.finished("a").await;
    let summary = world.engine.summary(&name("a")).await.expect("asked");
    let summary = summary.expect("known");
    assert_eq!((summary.total, summary.success, summary.failed), (8, 3, 5));
    let mut failed: Vec<_> = summary.failed_ids.iter().map(Name::as_str).collect();
    failed.sort_unstable();
    assert_eq!(failed, ["job-1", "job-3", "job-4", "job-5", "job-7"]);
    let unknown = world.engine.summary(&name("b")).await.expect("asked");
    assert_eq!(unknown, None);
}

// One job fails and succeeds after a requeue while its action continues; another fails for good, and only that
// one is named.
#[tokio::test(start_paused = true)]
async fn a_summary_does_not_name_requeued_jobs() {
    let script = Script::new()
        .rule(ScriptMatch::path("/t/1").first(1), MockResponse::status(404))
        .rule(ScriptMatch::path("/t/2"), MockResponse::status(404));
    let world = Plan::scripted(script).start().await;
    let submission = |rest, jobs: Vec<JobSpec>| JobSubmission {
        action: Some(ActionSpec::new(name("a"))),
        rest,
        jobs,
    };
    let job = |number| {
        let mut job = get("t", number);
        job.id = Some(name(&format!("job-{number}")));
        job
    };
    let first = submission(BatchPosition::More, vec![job(1)]);
    world.engine.submit(first).await.expect("accepted");
    while world.counts().await.dead < 1 {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let all = outflow_store::DeadLetterFilter::All;
    assert_eq!(world.store().requeue(&all).await.expect("requeued"), 1);
    let second = submission(BatchPosition::Last, vec![job(2)]);
    world.engine.submit(second).await.expect("accepted");
    world.finished("a").await;
    let summary = world.engine.summary(&name("a")).await.expect("asked");
    let summary = summary.expect("known");
    assert_eq!((summary.success, summary.failed), (1, 1));
    assert_eq!(summary.failed_ids, [name("job-2")]);
}

// Results are kept for 20 s and dead letters for 10. Each exists shortly before its end and is gone 1.5 s after
// it, with a sweep every second. A sweep every minute would keep both for longer.
#[tokio::test(start_paused = true)]
async fn results_and_dead_letters_expire_after_their_retention() {
    let script = Script::new().rule(ScriptMatch::path("/bad/0"), MockResponse::status(400));
    let plan = Plan::scripted(script).with(|settings| {
        settings.retention.results = Duration::from_secs(20);
        settings.retention.dead = Duration::from_secs(10);
    });
    let world = plan.start().await;
    let submission = JobSubmission {
        action: Some(ActionSpec {
            keep: Duration::from_secs(20),
            ..ActionSpec::new(name("a"))
        }),
        rest: BatchPosition::Last,
        jobs: [gets("good", 1), gets("bad", 1)].concat(),
    };
    world.engine.submit(submission).await.expect("accepted");
    world.finished("a").await;
    let stored = async || {
        let letters = world.store().dead_letters(0, 9).await.expect("asked").len();
        let action = world.store().action(&name("a")).await.expect("asked");
        (letters, action.is_some())
    };
    tokio::time::sleep(Duration::from_secs(9)).await;
    assert_eq!(stored().await, (1, true));
    tokio::time::sleep(Duration::from_millis(2_500)).await;
    assert_eq!(stored().await, (0, true));
    tokio::time::sleep(Duration::from_secs(7)).await;
    assert_eq!(stored().await, (0, true));
    tokio::time::sleep(Duration::from_secs(4)).await;
    assert_eq!(stored().await, (0, false));
}

// 20 at 5 a minute: five start at once, and at that speed the rest would be done in a moment. The fifteen that
// wait need the next three windows.
#[tokio::test(start_paused = true)]
async fn an_eta_is_never_below_the_lower_bound_of_the_limits() {
    let world = Plan::limited("5/m").start().await;
    world.submit("a", gets("t", 20)).await;
    while world.counts().await.done < 5 {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let progress = world.engine.progress(&name("a")).await;
    let eta = progress.expect("read").expect("known").eta;
    let eta = eta.expect("five are over").as_secs();
    assert!((170..=185).contains(&eta), "{eta} s");
    let scope = ControlScope::Action(name("a"));
    world.store().pause(&scope).await.expect("paused");
    let paused = world.engine.progress(&name("a")).await;
    assert_eq!(paused.expect("read").expect("known").eta, None);
}

// One is over at once, and the other may start in an hour.
#[tokio::test(start_paused = true)]
async fn an_eta_includes_the_last_scheduled_start() {
    let world = Plan::limited("100/s").start().await;
    let mut jobs = gets("t", 2);
    let later = Duration::from_hours(1);
    jobs[1].not_before = Some(world.time.wall().saturating_add(later));
    world.submit("a", jobs).await;
    while world.counts().await.done < 1 {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let progress = world.engine.progress(&name("a")).await;
    let eta = progress.expect("read").expect("known").eta;
    assert!(eta.expect("one is over") > Duration::from_mins(59), "{eta:?}");
}

// An operator forces the API's health for an unknown time.
#[tokio::test(start_paused = true)]
async fn there_is_no_eta_while_the_health_of_an_api_is_forced() {
    let world = Plan::limited("10/s").start().await;
    world.submit("a", gets("t", 100)).await;
    while world.counts().await.done < 5 {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let eta = async || {
        let progress = world.engine.progress(&name("a")).await;
        progress.expect("read").expect("known").eta
    };
    assert!(eta().await.is_some());
    let upstream = world.client.upstream("mock").expect("known");
    upstream.force_health(None, HealthOverride::Sleep);
    assert_eq!(eta().await, None);
    upstream.release_health(None);
    world.finished("a").await;
}

// Ten a second, paused for an hour after the first few of 200: the rest runs as fast as before.
#[tokio::test(start_paused = true)]
async fn an_eta_ignores_a_past_pause() {
    let world = Plan::limited("10/s").start().await;
    world.submit("a", gets("t", 200)).await;
    let scope = ControlScope::Action(name("a"));
    let eta = async || {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let progress = world.engine.progress(&name("a")).await;
        progress.expect("read").expect("known").eta
    };
    while eta().await.is_none() {}
    world.store().pause(&scope).await.expect("paused");
    tokio::time::sleep(Duration::from_hours(1)).await;
    assert_eq!(eta().await, None);
    world.store().resume(&scope).await.expect("resumed");
    for _ in 0..5 {
        eta().await;
    }
    let left = eta().await.expect("it continues");
    assert!(left <= Duration::from_secs(30), "{left:?}");
}
