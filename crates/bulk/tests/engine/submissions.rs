//! Accepted and rejected submissions, and the report about them.

use outflow::core::{Cost, WallTime};
use outflow_bulk::{HttpCall, JobDestination, JobSpec, JobSubmission};
use outflow_mock::{MockApi, Script};
use outflow_store::BatchPosition;

use super::support::{Plan, by_caller, get, gets, name, rate_rule};

fn submission(jobs: Vec<JobSpec>) -> JobSubmission {
    JobSubmission {
        action: None,
        rest: BatchPosition::More,
        jobs,
    }
}

// Three errors among five jobs: all are reported with their numbers, and no job is accepted.
#[tokio::test(start_paused = true)]
async fn all_errors_of_a_submission_are_reported_and_no_job_is_accepted() {
    let world = Plan::limited("10/s").start().await;
    let mut costly = get("t", 2);
    costly.cost = Some(Cost::new(11));
    let elsewhere = HttpCall::new("mock", http::Method::GET, "//evil.example/x");
    let jobs = vec![
        get("t", 1),
        costly,
        JobSpec::call(name("t"), elsewhere),
        JobSpec::call(name("t"), HttpCall::new("other", http::Method::GET, "/")),
        JobSpec::task(name("t"), "unknown", bytes::Bytes::new()),
    ];
    let error = world.engine.submit(submission(jobs)).await.expect_err("wrong");
    assert!(error.is_invalid());
    let message = error.to_string();
    for part in [
        "job 2: it costs 11",
        "job 3: path",
        "job 4: no API",
        "job 5: no handler",
    ] {
        assert!(message.contains(part), "{part}: {message}");
    }
    assert!(!message.contains("job 1"), "{message}");
    assert_eq!(world.counts().await.submitted(), 0);
}

// A rate of 10 for one tenant: ten are ready, five wait, and the last two find the queue full.
#[tokio::test(start_paused = true)]
async fn a_submission_reports_the_destination_and_reason_of_each_job() {
    let world = Plan::scripted(Script::new())
        .with(|settings| {
            settings.global_rate = 10;
            settings.queue_max = 15;
        })
        .start()
        .await;
    let placed = world.engine.submit(submission(gets("t", 17))).await.expect("reported");
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
    assert_eq!(reason, "rate limited (global 15/10, group 15/10, congestion LOW)");
    assert_eq!(placed.iter().take_while(ready).count(), 10);
    assert_eq!(placed.iter().filter(ready).count(), 10);
}

#[tokio::test(start_paused = true)]
async fn a_repeated_job_is_accepted_once() {
    let world = Plan::limited("10/s").start().await;
    let mut job = get("t", 1);
    job.id = Some(name("order-17"));
    for expected in [JobDestination::Ready, JobDestination::Duplicate] {
        let placed = world.engine.submit(submission(vec![job.clone()])).await;
        assert_eq!(placed.expect("reported")[0].destination, expected);
    }
    assert_eq!(world.counts().await.submitted(), 1);
}

// Jobs that could be stored and never sent: a tunnel, a key that is no valid header, a start after the
// deadline, and a cost above the tenant's limit.
#[tokio::test(start_paused = true)]
async fn a_job_that_can_never_be_sent_is_not_accepted() {
    let limit = |settings: &mut outflow_bulk::EngineSettings| settings.tenant = rate_rule("2/s");
    let world = Plan::limited("10/s").with(limit).start().await;
    let tunnel = HttpCall::new("mock", http::Method::CONNECT, "/");
    let mut keyed = HttpCall::new("mock", http::Method::GET, "/");
    keyed.idempotency_key = Some("a\nb".to_owned());
    let mut late = get("t", 3);
    late.not_before = Some(WallTime::from_unix_secs(20));
    late.deadline = Some(WallTime::from_unix_secs(10));
    let mut costly = get("t", 4);
    costly.cost = Some(Cost::new(3));
    let jobs = vec![
        JobSpec::call(name("t"), tunnel),
        JobSpec::call(name("t"), keyed),
        late,
        costly,
    ];
    let error = world.engine.submit(submission(jobs)).await.expect_err("wrong");
    let message = error.to_string();
    for part in [
        "job 1: CONNECT",
        "job 2: the idempotency key",
        "job 3: it is not to begin",
        "job 4: it costs 3, more than the 2/s of its tenant",
    ] {
        assert!(message.contains(part), "{part}: {message}");
    }
}

// A key among the headers is the job's key, and is sent once.
#[tokio::test(start_paused = true)]
async fn a_job_has_one_idempotency_key_from_any_source() {
    let noted = http::HeaderName::from_static("idempotency-key");
    let mut plan = Plan::scripted(Script::new());
    plan.mock = by_caller(MockApi::builder().noting(noted.clone()));
    let world = plan.start().await;
    let call = |path: &str| HttpCall::new("mock", http::Method::POST, path);
    let mut own = call("/own");
    own.headers.insert(noted, "mine".parse().expect("a value"));
    let mut said = own.clone();
    said.path = "/said".to_owned();
    said.idempotency_key = Some("other".to_owned());
    let mut jobs = [call("/none"), own, said].map(|call| JobSpec::call(name("t"), call));
    jobs[0].id = Some(name("job-1"));
    world.submit("a", jobs.to_vec()).await;
    world.finished("a").await;
    let audit = world.mock.audit();
    for (path, key) in [("/none", "job-1"), ("/own", "mine"), ("/said", "other")] {
        let mut arrivals = audit.arrivals().iter();
        let arrival = arrivals.find(|one| &*one.path == path).expect("it came");
        let keys: Vec<_> = arrival.headers.iter().map(|(_, value)| value).collect();
        assert_eq!(keys, [key], "{path}");
    }
}
