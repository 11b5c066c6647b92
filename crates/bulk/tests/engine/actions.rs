//! Actions: their end, and who is told of it.

use std::time::Duration;

use outflow_bulk::{News, Submission, Webhook};
use outflow_store::{ActionSpec, JobStore, Rest, Stage};
use outflow_upstream::{Answer, Fault, Script, When};
use secrecy::SecretString;

use super::support::{Plan, gets, name};

#[tokio::test(start_paused = true)]
async fn an_action_is_complete_when_it_is_closed_and_all_its_jobs_are_over() {
    let world = Plan::scripted(Script::new()).start().await;
    let submission = |rest| Submission {
        action: Some(ActionSpec::new(name("a"))),
        rest,
        orders: gets("t", 3),
    };
    let taken = world.engine.submit(submission(Rest::More)).await;
    taken.expect("taken");
    while world.tally().await.done < 3 {
        world.store().changed().await;
    }
    let open = world.store().action(&name("a")).await.expect("asked");
    assert_eq!(open.expect("known").stage, Stage::Running);
    world.store().close(&name("a")).await.expect("closed");
    let report = world.finished("a").await;
    assert_eq!((report.stage, report.tally.done), (Stage::Completed, 3));
}

#[tokio::test(start_paused = true)]
async fn an_action_that_takes_too_long_fails_and_says_so() {
    let script = Script::new().rule(When::always(), Fault::Hang);
    let world = Plan::scripted(script).start().await;
    let mut news = world.engine.news();
    let submission = Submission {
        action: Some(ActionSpec {
            timeout: Duration::from_mins(1),
            ..ActionSpec::new(name("a"))
        }),
        rest: Rest::Last,
        orders: gets("t", 50),
    };
    world.engine.submit(submission).await.expect("taken");
    let report = world.finished("a").await;
    assert_eq!(report.stage, Stage::Failed);
    let told = loop {
        if let News::Finished { report } = news.recv().await.expect("news") {
            break report;
        }
    };
    assert_eq!(told.stage, Stage::Failed);
}

// The first two tellings fail: the third is taken. All carry the same id and a signature.
#[tokio::test(start_paused = true)]
async fn a_webhook_is_told_until_it_takes_it() {
    let script = Script::new().rule(When::path("/hook").first(2), Answer::status(404));
    let world = Plan::scripted(script)
        .start_with(|builder| builder.webhook_secret(SecretString::from("CANARY")))
        .await;
    let hook = Webhook {
        api: "strict".to_owned(),
        path: "/hook".to_owned(),
    };
    let submission = Submission {
        action: Some(ActionSpec {
            note: Some(hook.note()),
            ..ActionSpec::new(name("a"))
        }),
        rest: Rest::Last,
        orders: gets("t", 2),
    };
    world.engine.submit(submission).await.expect("taken");
    world.finished("a").await;
    let audit = world.strict.audit();
    assert_eq!(audit.attempts("/hook"), 3);
    let keys: Vec<_> = audit
        .arrivals()
        .iter()
        .filter(|one| &*one.path == "/hook")
        .map(|one| one.idempotency_key.clone().expect("a key"))
        .collect();
    assert!(keys.iter().all(|key| *key == keys[0]), "{keys:?}");
}
