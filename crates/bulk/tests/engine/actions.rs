//! Actions: their end, and who is told of it.

use std::time::Duration;

use http::HeaderName;
use outflow_bulk::{BulkEvent, JobSpec, JobSubmission, Webhook};
use outflow_core::{Clock, HealthOverride};
use outflow_mock::{Fault, MockApi, MockResponse, Script, ScriptMatch, ScriptedFault};
use outflow_store::{
    ActionReport, ActionSpec, ActionStage, ActionStore, BatchPosition, ControlScope,
    DeadLetterStore, JobQueue, Name, StoreControl,
};
use secrecy::SecretString;
use tokio::sync::broadcast::Receiver;

use super::support::{Plan, World, by_caller, get, gets, name};

/// Where the ends are told.
fn hook() -> Webhook {
    Webhook {
        api: "strict".to_owned(),
        path: "/hook".to_owned(),
    }
}

/// The next end that is told.
async fn ended(news: &mut Receiver<BulkEvent>) -> ActionReport {
    loop {
        if let BulkEvent::Finished { report } = news.recv().await.expect("news") {
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
    taken.expect("taken");
    while world.tally().await.done < 3 {
        world.store().changed().await;
    }
    let open = world.store().action(&name("a")).await.expect("asked");
    assert_eq!(open.expect("known").stage, ActionStage::Running);
    world.store().close(&name("a")).await.expect("closed");
    let report = world.finished("a").await;
    assert_eq!(
        (report.stage, report.tally.done),
        (ActionStage::Completed, 3)
    );
}

// A file is handed over once more after everything in it was done.
#[tokio::test(start_paused = true)]
async fn what_is_submitted_again_keeps_its_results() {
    let world = Plan::scripted(Script::new()).start().await;
    let orders = || {
        let mut orders = gets("t", 3);
        for (order, id) in orders.iter_mut().zip(["x", "y", "z"]) {
            order.id = Some(name(id));
        }
        orders
    };
    world.submit("a", orders()).await;
    let before = world.finished("a").await;
    world.submit("a", orders()).await;
    assert_eq!(world.finished("a").await, before);
    let outcomes = world.store().outcomes(&name("a"), 0, 9).await;
    assert_eq!(outcomes.expect("outcomes").len(), 3);
    assert_eq!(world.strict.audit().count(), 3);
}

#[tokio::test(start_paused = true)]
async fn an_action_that_takes_too_long_fails_and_says_so() {
    let script = Script::new().rule(ScriptMatch::always(), Fault::Hang);
    let world = Plan::scripted(script).start().await;
    let mut news = world.engine.events();
    let submission = JobSubmission {
        action: Some(ActionSpec {
            timeout: Duration::from_mins(1),
            ..ActionSpec::new(name("a"))
        }),
        rest: BatchPosition::Last,
        jobs: gets("t", 50),
    };
    world.engine.submit(submission).await.expect("taken");
    let report = world.finished("a").await;
    assert_eq!(report.stage, ActionStage::Failed);
    let told = ended(&mut news).await;
    assert_eq!(told.stage, ActionStage::Failed);
}

// Of three one is answered after nine seconds, and the time is over after five: two are cancelled, and the end
// counts the third as well.
#[tokio::test(start_paused = true)]
async fn the_end_of_an_action_out_of_time_counts_what_was_under_way() {
    let script = Script::new().rule(
        ScriptMatch::path("/t/0"),
        ScriptedFault::Late(Duration::from_secs(9)),
    );
    let plan = Plan::scripted(script).with(|settings| {
        settings.workers.min = 1;
        settings.workers.max = 1;
    });
    let world = plan.start().await;
    let mut news = world.engine.events();
    let submission = JobSubmission {
        action: Some(ActionSpec {
            timeout: Duration::from_secs(5),
            note: Some(hook().note()),
            ..ActionSpec::new(name("a"))
        }),
        rest: BatchPosition::Last,
        jobs: gets("t", 3),
    };
    world.engine.submit(submission).await.expect("taken");
    let report = world.finished("a").await;
    let told = ended(&mut news).await;
    for report in [report, told] {
        assert_eq!(report.stage, ActionStage::Failed);
        let tally = report.tally;
        assert_eq!((tally.done, tally.cancelled, tally.open()), (1, 2, 0));
    }
    assert_eq!(world.strict.audit().attempts("/hook"), 1);
}

// The first two tellings fail: the third is taken. All carry the same id and a signature.
#[tokio::test(start_paused = true)]
async fn a_webhook_is_told_until_it_takes_it() {
    let script = Script::new().rule(
        ScriptMatch::path("/hook").first(2),
        MockResponse::status(404),
    );
    let noted = HeaderName::from_static("webhook-signature");
    let mut plan = Plan::scripted(Script::new());
    plan.strict = by_caller(MockApi::builder().script(script).noting(noted));
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
    world.engine.submit(submission).await.expect("taken");
    world.finished("a").await;
    let audit = world.strict.audit();
    assert_eq!(audit.attempts("/hook"), 3);
    let told = audit.arrivals().iter().filter(|one| &*one.path == "/hook");
    let keys: Vec<_> = told
        .clone()
        .map(|one| one.idempotency_key.clone().expect("a key"))
        .collect();
    assert!(keys.iter().all(|key| *key == keys[0]), "{keys:?}");
    for one in told {
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
    world.engine.submit(submission).await.expect("taken");
}

// A webhook that never takes it hears of it once and four times more: the waits between are a quarter of a
// minute.
#[tokio::test(start_paused = true)]
async fn a_webhook_is_told_again_four_times_and_no_more() {
    let script = Script::new().rule(ScriptMatch::path("/hook"), MockResponse::status(500));
    let world = Plan::scripted(script).start().await;
    let _other = world.another().await;
    submit_with_hook(&world).await;
    world.finished("a").await;
    tokio::time::sleep(Duration::from_mins(5)).await;
    assert_eq!(world.strict.audit().attempts("/hook"), 5);
}

// It takes five seconds to answer, in which both machines look five times.
#[tokio::test(start_paused = true)]
async fn of_two_machines_one_tells_a_webhook() {
    let late = ScriptedFault::Late(Duration::from_secs(5));
    let world = Plan::scripted(Script::new().rule(ScriptMatch::path("/hook"), late));
    let world = world.start().await;
    let _other = world.another().await;
    submit_with_hook(&world).await;
    world.finished("a").await;
    tokio::time::sleep(Duration::from_mins(5)).await;
    assert_eq!(world.strict.audit().attempts("/hook"), 1);
}

// The first is never answered, and whoever sent it stops meanwhile.
#[tokio::test(start_paused = true)]
async fn another_machine_tells_what_one_left_untold() {
    let script = Script::new().rule(ScriptMatch::path("/hook").first(1), Fault::Hang);
    let world = Plan::scripted(script).start().await;
    submit_with_hook(&world).await;
    while world.strict.audit().attempts("/hook") < 1 {
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
    assert_eq!(world.strict.audit().attempts("/hook"), 2);
}

// Twenty actions' webhooks are never answered, more than are told at once; the next has none and is over
// within its own seconds.
#[tokio::test(start_paused = true)]
async fn a_slow_webhook_delays_no_other_end() {
    let script = Script::new().rule(ScriptMatch::path("/hook"), Fault::Hang);
    let world = Plan::scripted(script).start().await;
    let mut news = world.engine.events();
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
        world.engine.submit(submission).await.expect("taken");
    }
    let begun = world.now();
    while world.strict.audit().attempts("/hook") < 16 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    world.submit("quick", gets("t", 1)).await;
    world.finished("quick").await;
    assert!(world.now().since(begun) < Duration::from_secs(3));
    let told = ended(&mut news).await;
    assert_eq!(told.spec.id, name("quick"));
    assert_eq!(
        told.stage,
        ActionStage::Completed,
        "as what it is once told"
    );
}

// Five of eight fail for good, and are named.
#[tokio::test(start_paused = true)]
async fn a_summary_names_those_that_failed() {
    let failing = ["/t/1", "/t/3", "/t/4", "/t/5", "/t/7"];
    let script = failing.into_iter().fold(Script::new(), |script, path| {
        script.rule(ScriptMatch::path(path), MockResponse::status(404))
    });
    let world = Plan::scripted(script).start().await;
    let mut orders = gets("t", 8);
    for (number, order) in orders.iter_mut().enumerate() {
        order.id = Some(name(&format!("job-{number}")));
    }
    world.submit("a", orders).await;
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

// One fails and is tried anew with success while its action goes on, another fails for good: that one is named.
#[tokio::test(start_paused = true)]
async fn a_summary_does_not_name_what_was_tried_anew() {
    let script = Script::new()
        .rule(
            ScriptMatch::path("/t/1").first(1),
            MockResponse::status(404),
        )
        .rule(ScriptMatch::path("/t/2"), MockResponse::status(404));
    let world = Plan::scripted(script).start().await;
    let submission = |rest, orders: Vec<JobSpec>| JobSubmission {
        action: Some(ActionSpec::new(name("a"))),
        rest,
        jobs: orders,
    };
    let order = |number| {
        let mut order = get("t", number);
        order.id = Some(name(&format!("job-{number}")));
        order
    };
    let first = submission(BatchPosition::More, vec![order(1)]);
    world.engine.submit(first).await.expect("taken");
    while world.tally().await.dead < 1 {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let all = outflow_store::DeadLetterFilter::All;
    assert_eq!(world.store().requeue(&all).await.expect("revived"), 1);
    let second = submission(BatchPosition::Last, vec![order(2)]);
    world.engine.submit(second).await.expect("taken");
    world.finished("a").await;
    let summary = world.engine.summary(&name("a")).await.expect("asked");
    let summary = summary.expect("known");
    assert_eq!((summary.success, summary.failed), (1, 1));
    assert_eq!(summary.failed_ids, [name("job-2")]);
}

// Results are kept for 20 s and letters for 10: each is there a little before its end, and gone a second
// and a half after, with a sweep every second. A sweep a minute would leave both for longer.
#[tokio::test(start_paused = true)]
async fn what_is_kept_for_seconds_is_gone_after_them() {
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
    world.engine.submit(submission).await.expect("taken");
    world.finished("a").await;
    let kept = async || {
        let letters = world.store().dead_letters(0, 9).await.expect("asked").len();
        let action = world.store().action(&name("a")).await.expect("asked");
        (letters, action.is_some())
    };
    tokio::time::sleep(Duration::from_secs(9)).await;
    assert_eq!(kept().await, (1, true));
    tokio::time::sleep(Duration::from_millis(2_500)).await;
    assert_eq!(kept().await, (0, true));
    tokio::time::sleep(Duration::from_secs(7)).await;
    assert_eq!(kept().await, (0, true));
    tokio::time::sleep(Duration::from_secs(4)).await;
    assert_eq!(kept().await, (0, false));
}

// 20 at 5 a minute: five go at once, and by that speed the rest would be done in a moment. The fifteen that
// wait need the three windows after this one.
#[tokio::test(start_paused = true)]
async fn an_estimate_is_never_below_what_limits_need() {
    let world = Plan::limited("5/m").start().await;
    world.submit("a", gets("t", 20)).await;
    while world.tally().await.done < 5 {
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
async fn an_estimate_waits_for_the_last_start() {
    let world = Plan::limited("100/s").start().await;
    let mut orders = gets("t", 2);
    let later = Duration::from_hours(1);
    orders[1].not_before = Some(world.time.wall().saturating_add(later));
    world.submit("a", orders).await;
    while world.tally().await.done < 1 {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let progress = world.engine.progress(&name("a")).await;
    let eta = progress.expect("read").expect("known").eta;
    assert!(
        eta.expect("one is over") > Duration::from_mins(59),
        "{eta:?}"
    );
}

// Somebody holds the API, and nobody knows for how long.
#[tokio::test(start_paused = true)]
async fn there_is_no_estimate_while_an_api_is_held() {
    let world = Plan::limited("10/s").start().await;
    world.submit("a", gets("t", 100)).await;
    while world.tally().await.done < 5 {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let eta = async || {
        let progress = world.engine.progress(&name("a")).await;
        progress.expect("read").expect("known").eta
    };
    assert!(eta().await.is_some());
    let door = world.client.upstream("strict").expect("known");
    door.force_health(None, HealthOverride::Sleep);
    assert_eq!(eta().await, None);
    door.release_health(None);
    world.finished("a").await;
}

// Ten a second, stopped for an hour after the first few of 200: what is left is as quick as it was before.
#[tokio::test(start_paused = true)]
async fn an_estimate_forgets_a_pause() {
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
    let left = eta().await.expect("it goes on");
    assert!(left <= Duration::from_secs(30), "{left:?}");
}
