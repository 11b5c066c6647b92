//! What is taken, what is not, and what is said about it.

use outflow::core::{Cost, WallTime};
use outflow_bulk::{HttpCall, JobDestination, JobSpec, JobSubmission};
use outflow_mock::{MockApi, Script};
use outflow_store::BatchPosition;

use super::support::{Plan, by_caller, get, gets, limited_to, name};

fn alone(orders: Vec<JobSpec>) -> JobSubmission {
    JobSubmission {
        action: None,
        rest: BatchPosition::More,
        jobs: orders,
    }
}

// Three mistakes among five orders: all are told, with their numbers, and nothing is taken.
#[tokio::test(start_paused = true)]
async fn every_mistake_is_told_at_once_and_nothing_is_taken() {
    let world = Plan::limited("10/s").start().await;
    let mut dear = get("t", 2);
    dear.cost = Some(Cost::new(11));
    let elsewhere = HttpCall::new("strict", http::Method::GET, "//evil.example/x");
    let orders = vec![
        get("t", 1),
        dear,
        JobSpec::call(name("t"), elsewhere),
        JobSpec::call(name("t"), HttpCall::new("other", http::Method::GET, "/")),
        JobSpec::task(name("t"), "nobody", bytes::Bytes::new()),
    ];
    let error = world.engine.submit(alone(orders)).await.expect_err("wrong");
    assert!(error.is_invalid());
    let words = error.to_string();
    for part in [
        "job 2: it costs 11",
        "job 3: path",
        "job 4: no API",
        "job 5: no handler",
    ] {
        assert!(words.contains(part), "{part}: {words}");
    }
    assert!(!words.contains("job 1"), "{words}");
    assert_eq!(world.tally().await.submitted(), 0);
}

// A rate of 10 for one tenant: ten are ready, five wait, and the last two find the queue full.
#[tokio::test(start_paused = true)]
async fn a_job_is_told_where_it_went_and_why() {
    let world = Plan::scripted(Script::new())
        .with(|settings| {
            settings.global_rate = 10;
            settings.queue_max = 15;
        })
        .start()
        .await;
    let placed = world
        .engine
        .submit(alone(gets("t", 17)))
        .await
        .expect("told");
    let ready = |one: &&outflow_bulk::SubmittedJob| one.destination == JobDestination::Ready;
    let refused = placed.iter().filter(|one| one.id.is_none()).count();
    assert_eq!(refused, 2);
    let JobDestination::Rejected { reason } = &placed[16].destination else {
        panic!("{:?}", placed[16]);
    };
    assert_eq!(reason, "queue at capacity");
    let JobDestination::NonReady { reason, .. } = &placed[14].destination else {
        panic!("{:?}", placed[14]);
    };
    assert_eq!(
        reason,
        "rate limited (global 15/10, group 15/10, congestion LOW)"
    );
    assert_eq!(placed.iter().take_while(ready).count(), 10);
    assert_eq!(placed.iter().filter(ready).count(), 10);
}

#[tokio::test(start_paused = true)]
async fn the_same_job_is_taken_once() {
    let world = Plan::limited("10/s").start().await;
    let mut order = get("t", 1);
    order.id = Some(name("order-17"));
    for expected in [JobDestination::Ready, JobDestination::Duplicate] {
        let placed = world.engine.submit(alone(vec![order.clone()])).await;
        assert_eq!(placed.expect("told")[0].destination, expected);
    }
    assert_eq!(world.tally().await.submitted(), 1);
}

// What could be written down and never be sent: a tunnel, a key that is no header, a start after the
// deadline, and a cost above what the tenant ever has.
#[tokio::test(start_paused = true)]
async fn what_can_never_go_is_not_taken() {
    let limit = |settings: &mut outflow_bulk::EngineSettings| settings.tenant = limited_to("2/s");
    let world = Plan::limited("10/s").with(limit).start().await;
    let tunnel = HttpCall::new("strict", http::Method::CONNECT, "/");
    let mut keyed = HttpCall::new("strict", http::Method::GET, "/");
    keyed.idempotency_key = Some("a\nb".to_owned());
    let mut late = get("t", 3);
    late.not_before = Some(WallTime::from_unix_secs(20));
    late.deadline = Some(WallTime::from_unix_secs(10));
    let mut dear = get("t", 4);
    dear.cost = Some(Cost::new(3));
    let orders = vec![
        JobSpec::call(name("t"), tunnel),
        JobSpec::call(name("t"), keyed),
        late,
        dear,
    ];
    let error = world.engine.submit(alone(orders)).await.expect_err("wrong");
    let words = error.to_string();
    for part in [
        "job 1: CONNECT",
        "job 2: the idempotency key",
        "job 3: it is not to begin",
        "job 4: it costs 3, more than the 2/s of its tenant",
    ] {
        assert!(words.contains(part), "{part}: {words}");
    }
}

// A key among the headers is the key, and is sent once.
#[tokio::test(start_paused = true)]
async fn a_job_has_one_key_whoever_says_it() {
    let noted = http::HeaderName::from_static("idempotency-key");
    let mut plan = Plan::scripted(Script::new());
    plan.strict = by_caller(MockApi::builder().noting(noted.clone()));
    let world = plan.start().await;
    let call = |path: &str| HttpCall::new("strict", http::Method::POST, path);
    let mut own = call("/own");
    own.headers.insert(noted, "mine".parse().expect("a value"));
    let mut said = own.clone();
    said.path = "/said".to_owned();
    said.idempotency_key = Some("other".to_owned());
    let mut orders = [call("/none"), own, said].map(|call| JobSpec::call(name("t"), call));
    orders[0].id = Some(name("job-1"));
    world.submit("a", orders.to_vec()).await;
    world.finished("a").await;
    let audit = world.strict.audit();
    for (path, key) in [("/none", "job-1"), ("/own", "mine"), ("/said", "other")] {
        let mut arrivals = audit.arrivals().iter();
        let arrival = arrivals.find(|one| &*one.path == path).expect("it came");
        let keys: Vec<_> = arrival.headers.iter().map(|(_, value)| value).collect();
        assert_eq!(keys, [key], "{path}");
    }
}
