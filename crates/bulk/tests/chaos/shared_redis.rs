//! Several processes and one Redis.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use fastrand::Rng;
use outflow::{Api, Outflow, Rules};
use outflow_bulk::{BulkEvent, Engine, EngineSettings, HandlerTask, HttpCall, JobSpec, JobSubmission};
use outflow_core::{Cost, Weight};
use outflow_store::{
    ActionSpec, BatchPosition, ControlScope, DeadLetterStore, JobQueue, RedisOptions as StoreOptions, RedisStore,
    SettleResult, StoreControl, StoreError, TenantRule, TenantStore,
};
use outflow_testkit::{Keep, Process, RedisOptions, RedisServer};
use tokio::sync::broadcast::Receiver;
use tokio::time::{sleep, timeout};

use super::consistency::{attempts_by_job, calls_agree};
use super::submission::SubmitProgress;
use super::worker_processes::{FinalCounts, IN_FLIGHT, TestApi, WAIT_LIMIT};

pub(super) fn redis() -> RedisServer {
    let options = RedisOptions {
        keep: Keep::UntilPowerLoss,
        ..RedisOptions::default()
    };
    RedisServer::start(options).expect("a server")
}

/// Runs three workers, the first of which submits jobs, and kills and replaces one of them this many times;
/// then another one finishes all jobs. None may end before its kill: it would have found no work before more
/// was submitted.
fn kill_fleet_workers(api: &TestApi, url: &str, (jobs, kills): (usize, usize)) {
    let mut rng = Rng::with_seed(13);
    let mut progress = SubmitProgress::new(jobs);
    let start = |progress: &SubmitProgress, number: usize| {
        let args = progress.words();
        let args = args.each_ref().map(String::as_str);
        // Only the first worker submits.
        let args = if number == 0 { &args[..] } else { &args[2..] };
        api.worker(url, args, None)
    };
    let mut workers = vec![start(&progress, 0)];
    workers[0].wait_for_line("acked 100", WAIT_LIMIT).expect("accepted");
    workers.extend((1..3).map(|number| start(&progress, number)));
    let (mut killed, mut idle) = (0, 0);
    while killed < kills {
        let life = Duration::from_millis(rng.u64(50..300));
        let victim = rng.usize(..workers.len());
        if let Ok(ended) = workers[victim].wait(life) {
            idle += 1;
            assert!(ended.success() && idle < kills, "{ended}, {idle} of {killed}");
        } else {
            workers[victim].kill().expect("killed");
            killed += 1;
        }
        if victim == 0 {
            progress.read_output(&mut workers[0]);
        }
        workers[victim] = start(&progress, victim);
    }
    workers[0].kill().expect("killed");
    progress.read_output(&mut workers[0]);
    let args = progress.words();
    let args = [&args.each_ref().map(String::as_str)[..], &["workers=100", "outcomes"]].concat();
    let mut last = api.worker(url, &args, None);
    let end = FinalCounts::read(&mut last);
    assert_eq!((end.submitted, end.done, end.drift), (jobs, jobs, 0), "{end:?}");
    assert!(last.wait(WAIT_LIMIT).expect("it ends").success());
    // The worker that submitted was killed as well.
    let kills = kills + 1;
    api.assert_all_done(jobs, kills * IN_FLIGHT);
    let attempts_by_job = attempts_by_job(&mut last).expect("numbers");
    assert_eq!(calls_agree(api, &attempts_by_job, kills), Ok(()));
}

// Three times eight concurrent calls of 40 to 80 ms are 400 a second: ten kills within two seconds find calls
// in flight.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_job_is_lost_when_one_of_several_workers_is_killed() {
    let millis = Duration::from_millis;
    let api = TestApi::with_latency(millis(40), millis(80)).await;
    kill_fleet_workers(&api, &redis().url(), (1_000, 10));
}

// Calls of a fifth of a second, so that there is work for all 500 lives.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "minutes: five hundred kills"]
async fn stress_five_hundred_kills_of_a_fleet_lose_none_of_fifteen_thousand_jobs() {
    let millis = Duration::from_millis;
    let api = TestApi::with_latency(millis(150), millis(250)).await;
    kill_fleet_workers(&api, &redis().url(), (15_000, 500));
}

/// Returns the jobs whose results the store fenced.
fn fenced(worker: &mut Process) -> BTreeSet<String> {
    let lines = worker.last_lines(WAIT_LIMIT).iter();
    let jobs = lines.filter_map(|line| line.text.strip_prefix("fenced job-"));
    jobs.map(str::to_owned).collect()
}

// Frozen for longer than its lease of two seconds, with eight calls of at least half a second in flight: other
// workers run its jobs, and its late results are fenced. Each of its jobs runs twice and counts once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn results_of_a_worker_frozen_past_its_lease_are_fenced() {
    let (min, max) = (Duration::from_millis(500), Duration::from_millis(700));
    let (api, redis) = (TestApi::with_latency(min, max).await, redis());
    let mut frozen = api.worker(&redis.url(), &["submit=100"], None);
    frozen.wait_for_line("acked 100", WAIT_LIMIT).expect("accepted");
    api.wait_for_calls(8).await;
    frozen.freeze().expect("frozen");
    let mut other = api.worker(&redis.url(), &["workers=50", "outcomes"], None);
    let end = FinalCounts::read(&mut other);
    assert_eq!((end.submitted, end.done, end.drift), (100, 100, 0), "{end:?}");
    frozen.thaw().expect("thawed");
    let end = FinalCounts::read(&mut frozen);
    assert_eq!((end.submitted, end.done, end.drift), (100, 100, 0), "{end:?}");
    let numbers = api.numbers().into_iter();
    let repeated: BTreeSet<String> = numbers
        .filter_map(|(job, attempts)| (attempts == [1, 2]).then_some(job))
        .collect();
    assert!((1..=IN_FLIGHT).contains(&repeated.len()), "{repeated:?}");
    let late = fenced(&mut frozen);
    assert!(repeated.is_subset(&late), "{repeated:?} of {late:?}");
    // A frozen worker counts as killed: its claimed and unsent attempts are missing.
    let attempts_by_job = attempts_by_job(&mut other).expect("numbers");
    assert_eq!(calls_agree(&api, &attempts_by_job, 1), Ok(()));
}

/// Starts an engine in this process, whose tasks take a while.
pub(super) async fn engine(url: &str, change: impl FnOnce(&mut EngineSettings)) -> Engine<RedisStore> {
    engine_with(url, Rules::unlimited(), change).await
}

/// Starts an engine with these rules for its API.
async fn engine_with(url: &str, rules: Rules, change: impl FnOnce(&mut EngineSettings)) -> Engine<RedisStore> {
    let mut api = Api::new("api", "http://127.0.0.1:9".parse().expect("an address"));
    api.rules = rules;
    let mut options = StoreOptions::new(url);
    options.timeout = Duration::from_millis(300);
    let store = RedisStore::connect(options).await;
    let rule = TenantRule {
        weight: weight(),
        ..TenantRule::default()
    };
    let mut settings = EngineSettings {
        lease: Duration::from_secs(2),
        heartbeat: Duration::from_millis(200),
        shared: true,
        tenants: [("t".parse().expect("a name"), rule)].into(),
        ..EngineSettings::default()
    };
    change(&mut settings);
    Engine::builder(
        Outflow::init([api]).expect("a client"),
        Arc::new(store.expect("connected")),
    )
    .settings(settings)
    .handler("slow", |_: HandlerTask| async {
        sleep(Duration::from_millis(20)).await;
        Ok(Bytes::new())
    })
    .start()
    .await
    .expect("started")
}

fn weight() -> Weight {
    Weight::new(3).expect("a weight")
}

pub(super) fn tasks(prefix: &str, count: usize) -> JobSubmission {
    let job = |number| {
        let tenant = "t".parse().expect("a name");
        let mut job = JobSpec::task(tenant, "slow", Bytes::new());
        job.id = Some(format!("{prefix}-{number}").parse().expect("a name"));
        job
    };
    JobSubmission {
        action: None,
        rest: BatchPosition::More,
        jobs: (0..count).map(job).collect(),
    }
}

// Submitted under wide limits, jobs that cost 10 and 4 would be returned for ever: the API allows 5 a second
// and the tenant 3. The job that costs 3 runs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_above_a_shared_limit_is_dead_lettered() {
    let redis = redis();
    let with = async |api: &str, tenant: &str| {
        let rule = TenantRule {
            rate: Some(tenant.parse().expect("a rate")),
            ..TenantRule::default()
        };
        let rules = Rules::with_limit(api.parse().expect("a rate"));
        let change = |settings: &mut EngineSettings| {
            settings.tenants = [("t".parse().expect("a name"), rule)].into();
        };
        engine_with(&redis.url(), rules, change).await
    };
    let wide = with("100/s", "100/s").await;
    let scope = |tenant: &str| ControlScope::Tenant(tenant.parse().expect("a name"));
    for tenant in ["t", "free"] {
        wide.store().pause(&scope(tenant)).await.expect("paused");
    }
    let mut submission = tasks("costly", 2);
    submission.jobs[0].cost = Some(Cost::new(3));
    submission.jobs[1].cost = Some(Cost::new(4));
    let call = HttpCall::new("api", http::Method::GET, "/");
    let mut call = JobSpec::call("free".parse().expect("a name"), call);
    call.cost = Some(Cost::new(10));
    submission.jobs.push(call);
    wide.submit(submission).await.expect("accepted");
    wide.stop().await;
    let engine = with("5/s", "3/s").await;
    for tenant in ["t", "free"] {
        engine.store().resume(&scope(tenant)).await.expect("resumed");
    }
    let over = async {
        loop {
            let changed = engine.store().changed();
            let counts = engine.store().job_counts().await.expect("counts");
            if counts.open() == 0 {
                return counts;
            }
            let _again = timeout(Duration::from_millis(50), changed).await;
        }
    };
    let counts = timeout(WAIT_LIMIT, over).await.expect("over");
    assert_eq!((counts.done, counts.dead), (1, 2), "{counts:?}");
    for letter in engine.store().dead_letters(0, 10).await.expect("letters") {
        let message = &letter.history[0].message;
        assert!(message.contains("cost"), "{message}");
        assert_eq!(letter.attempts, 1);
    }
    engine.stop().await;
}

/// Events after a loss.
#[derive(Default)]
struct LossEvents {
    losses: usize,
    fenced: usize,
    finished: usize,
}

/// Collects events for a while. Jobs that the old queue had in flight are fenced, never done.
async fn collect_events(events: &mut Receiver<BulkEvent>, span: Duration) -> LossEvents {
    let mut seen = LossEvents::default();
    let collecting = async {
        loop {
            match events.recv().await.expect("events") {
                BulkEvent::Error { message } => {
                    assert!(message.contains("the queue was lost"), "{message}");
                    seen.losses += 1;
                }
                BulkEvent::Settled { id, how, .. } if id.as_str().starts_with("a-") => {
                    assert_eq!(how, SettleResult::Fenced, "{id}");
                    seen.fenced += 1;
                }
                BulkEvent::Finished { .. } => seen.finished += 1,
                _ => {}
            }
        }
    };
    let _over = timeout(span, collecting).await;
    seen
}

// Emptied in the middle of 200 tasks of an action that a caller waits for: the engine reports the loss and does
// not take it for the end. No part of it spins: a dozen parts each report about once a second. The engine
// accepts jobs again within five seconds, by its configured rules.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_emptied_server_is_reported_and_the_engine_continues() {
    let redis = redis();
    let engine = engine(&redis.url(), |_| {}).await;
    let action = ActionSpec::new("import".parse().expect("a name"));
    let id = action.id.clone();
    let first = JobSubmission {
        action: Some(action),
        ..tasks("a", 200)
    };
    engine.submit(first).await.expect("submitted");
    while engine.store().job_counts().await.expect("counts").done < 20 {
        sleep(Duration::from_millis(5)).await;
    }
    redis.command(&["FLUSHALL"]).expect("flushed");
    // Results settled before the loss may be reported after it.
    sleep(Duration::from_millis(50)).await;
    let mut events = engine.events();
    let again = async {
        while let Err(error) = engine.submit(tasks("b", 40)).await {
            assert!(error.store().is_some_and(StoreError::is_lost), "{error}");
            sleep(Duration::from_millis(50)).await;
        }
    };
    let again = timeout(Duration::from_secs(5), again);
    let (seen, finished, again) = tokio::join!(
        collect_events(&mut events, Duration::from_secs(6)),
        engine.wait_finished(&id),
        again
    );
    again.expect("back within five seconds");
    let message = finished.expect_err("it is not over").to_string();
    assert!(message.contains("the queue was lost"), "{message}");
    let losses = seen.losses;
    assert!((1..=100).contains(&losses), "reported {losses} times");
    assert!(seen.fenced > 0, "nothing was in flight");
    assert_eq!(seen.finished, 0, "an action that was lost is not over");
    let gone = engine.progress(&id).await.expect("asked");
    assert_eq!(gone, None, "an action of the lost queue is unknown");
    let counts = engine.store().job_counts().await.expect("counts");
    assert_eq!((counts.done, counts.open()), (40, 0));
    assert_eq!(engine.store().audit().await.expect("counted"), 0);
    let tenant = engine.store().tenant(&"t".parse().expect("a name")).await;
    let rule = tenant.expect("asked").expect("known").rule;
    assert_eq!(rule.weight, weight(), "the rules hold again");
    engine.stop().await;
}
