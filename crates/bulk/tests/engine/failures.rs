//! Jobs that fail, are refused, or are never answered.

use std::time::Duration;

use outflow_bulk::JobWork;
use outflow_core::Clock;
use outflow_mock::{Fault, MockResponse, Script, ScriptMatch, ScriptedFault};
use outflow_store::{ActionStage, ActionStore, DeadLetterStore, JobQueue, JobStatus, TenantStore};

use super::support::{Plan, get, gets, limited_to, name};

fn failing(answer: MockResponse) -> Plan {
    Plan::scripted(Script::new().rule(ScriptMatch::always(), answer))
}

// One attempt and three more; every one with the same key and a higher number.
#[tokio::test(start_paused = true)]
async fn a_job_that_fails_is_tried_again_and_then_buried_with_its_history() {
    let world = failing(MockResponse::status(500)).start().await;
    world.submit("a", vec![get("t", 1)]).await;
    let report = world.finished("a").await;
    assert_eq!(
        (report.stage, report.tally.dead),
        (ActionStage::Completed, 1)
    );
    let dead = world.store().dead_letters(0, 10).await.expect("letters");
    assert_eq!(dead.len(), 1);
    assert_eq!((dead[0].attempts, dead[0].history.len()), (4, 4));
    assert!(dead[0].history[0].words.contains("500"), "{:?}", dead[0]);
    let outcomes = world.store().outcomes(&name("a"), 0, 10).await;
    let outcomes = outcomes.expect("outcomes");
    assert_eq!((outcomes.len(), outcomes[0].status), (1, Some(500)));
    let audit = world.strict.audit();
    let keys: Vec<_> = audit
        .arrivals()
        .iter()
        .map(|one| &one.idempotency_key)
        .collect();
    assert_eq!(keys.len(), 4);
    assert!(
        keys.iter().all(|key| key.is_some() && *key == keys[0]),
        "{keys:?}"
    );
    world.books_balance().await;
}

#[tokio::test(start_paused = true)]
async fn what_will_never_succeed_is_not_tried_again() {
    let world = failing(MockResponse::status(404)).start().await;
    world.submit("a", gets("t", 3)).await;
    let report = world.finished("a").await;
    assert_eq!((report.tally.dead, world.strict.audit().count()), (3, 3));
}

// The first is refused with a wait of 7 s: it comes back to the head of its line, nobody goes before,
// and no retry is used although it was refused more often than it may fail.
#[tokio::test(start_paused = true)]
async fn a_refused_job_waits_as_long_as_the_server_says_and_uses_no_retry() {
    let refusal = MockResponse::status(429).header("retry-after", "7");
    let script = Script::new().rule(ScriptMatch::always().first(5), refusal);
    let world = Plan::scripted(script)
        .with(|settings| {
            settings.workers.min = 1;
            settings.workers.max = 1;
        })
        .start()
        .await;
    let mut orders = gets("t", 3);
    orders[0].max_retries = Some(0);
    world.submit("a", orders).await;
    let report = world.finished("a").await;
    assert_eq!((report.tally.done, report.tally.throttles), (3, 5));
    let audit = world.strict.audit();
    assert!(audit.sent_before_retry_after().is_empty());
    let paths: Vec<_> = audit.arrivals().iter().map(|one| &*one.path).collect();
    assert_eq!(
        paths,
        [
            "/t/0", "/t/0", "/t/0", "/t/0", "/t/0", "/t/0", "/t/1", "/t/2"
        ]
    );
}

// Refused for ever, each time for a second more; too late after five. No retry is granted and none is used:
// it ends because of its deadline, within a second of it, and is not sent after it.
#[tokio::test(start_paused = true)]
async fn a_job_that_is_refused_until_its_deadline_expires() {
    let world = failing(MockResponse::status(429).header("retry-after", "1"))
        .start()
        .await;
    let mut order = get("t", 0);
    order.max_retries = Some(0);
    order.deadline = Some(world.time.wall().saturating_add(Duration::from_secs(5)));
    let begun = world.now();
    world.submit("a", vec![order]).await;
    let report = world.finished("a").await;
    let took = world.now().since(begun);
    assert!((5..=6).contains(&took.as_secs()), "{took:?}");
    let audit = world.strict.audit();
    let refusals = audit.count();
    assert!((3..=5).contains(&refusals), "{refusals}");
    assert!(audit.sent_before_retry_after().is_empty());
    let last = audit.arrivals().last().expect("some").at.since(begun);
    assert!(last < Duration::from_secs(5), "{last:?}");
    assert_eq!(
        report.tally.throttles,
        u64::try_from(refusals).expect("few")
    );
    assert_eq!(
        (report.tally.cancelled, report.tally.dead),
        (1, 0),
        "{report:?}"
    );
    let outcomes = world.store().outcomes(&name("a"), 0, 9).await;
    let outcomes = outcomes.expect("outcomes");
    assert_eq!((outcomes.len(), outcomes[0].ended), (1, JobStatus::Expired));
    world.books_balance().await;
}

// One hangs for ever: after its timeout it is tried again, and the tenant's others went on meanwhile.
#[tokio::test(start_paused = true)]
async fn a_job_that_is_never_answered_holds_up_nobody() {
    let script = Script::new().rule(ScriptMatch::path("/t/0").first(1), Fault::Hang);
    let world = Plan::scripted(script)
        .with(|settings| settings.timeout = Duration::from_secs(5))
        .start()
        .await;
    world.submit("a", gets("t", 20)).await;
    let begun = world.now();
    let report = world.finished("a").await;
    assert_eq!(report.tally.done, 20);
    let took = world.now().since(begun);
    assert!((5..20).contains(&took.as_secs()), "{took:?}");
}

// An API ends its calls after ten seconds and answers this one after twenty; its job may take 25.
#[tokio::test(start_paused = true)]
async fn a_jobs_own_timeout_is_not_cut_short_by_the_apis() {
    let script = Script::new().rule(
        ScriptMatch::always(),
        ScriptedFault::Late(Duration::from_secs(20)),
    );
    let world = Plan::scripted(script).start().await;
    let mut order = get("t", 0);
    order.max_retries = Some(0);
    let JobWork::Call(call) = &mut order.work else {
        panic!("it is a call");
    };
    call.timeout = Some(Duration::from_secs(25));
    let mut usual = get("t", 1);
    usual.max_retries = Some(0);
    world.submit("a", vec![order, usual]).await;
    let report = world.finished("a").await;
    assert_eq!((report.tally.done, report.tally.dead), (1, 1), "{report:?}");
}

#[tokio::test(start_paused = true)]
async fn a_dead_letter_that_is_revived_is_tried_anew() {
    let script = Script::new().rule(ScriptMatch::always().first(1), MockResponse::status(404));
    let world = Plan::scripted(script).start().await;
    world.submit("a", gets("t", 1)).await;
    world.finished("a").await;
    let revived = world
        .store()
        .requeue(&outflow_store::DeadLetterFilter::All)
        .await;
    assert_eq!(revived.expect("the store answers"), 1);
    while world.tally().await.done == 0 {
        world.store().changed().await;
    }
    let tenant = world.store().tenant(&name("t")).await.expect("asked");
    assert_eq!(world.tally().await.dead, 0, "{tenant:?}");
}

// One refusal that does not say how long. The limit's window is an hour, which nobody has to wait for; a job that is
// refused over and over waits ever longer, 1 + 2 + 4 + 8 seconds before its fifth attempt.
#[tokio::test(start_paused = true)]
async fn a_refusal_that_names_no_time_costs_a_tenant_a_second() {
    for (refusals, least, most) in [(1, 1, 3), (4, 15, 20)] {
        let refused = ScriptMatch::path("/acme/**").first(refusals);
        let script = Script::new().rule(refused, MockResponse::status(429));
        let plan = Plan::scripted(script).with(|settings| {
            settings.tenant = limited_to("10000/h");
            settings.workers.min = 1;
            settings.workers.max = 1;
        });
        let world = plan.start().await;
        let begun = world.now();
        world.submit("a", gets("acme", 20)).await;
        assert_eq!(world.finished("a").await.tally.done, 20);
        let took = world.now().since(begun).as_secs();
        assert!((least..=most).contains(&took), "{refusals}: {took} s");
    }
}
