//! Several processes and one Redis.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use fastrand::Rng;
use outflow::{Api, Outflow, Rules};
use outflow_bulk::{
    BulkEvent, Engine, EngineSettings, HandlerTask, HttpCall, JobSpec, JobSubmission,
    SharedLimitSettings,
};
use outflow_core::{Cost, Weight};
use outflow_store::{
    ActionSpec, BatchPosition, ControlScope, DeadLetterStore, JobQueue,
    RedisOptions as StoreOptions, RedisStore, SettleResult, StoreControl, StoreError, TenantRule,
    TenantStore,
};
use outflow_testkit::{Keep, Process, RedisOptions, RedisServer};
use tokio::sync::broadcast::Receiver;
use tokio::time::{sleep, timeout};

use super::consistency::{calls_agree, tried};
use super::submission::Handing;
use super::worker_processes::{End, Field, IN_FLIGHT, PATIENCE};

pub(super) fn redis() -> RedisServer {
    let options = RedisOptions {
        keep: Keep::EveryWrite,
        ..RedisOptions::default()
    };
    RedisServer::start(options).expect("a server")
}

/// Three workers, the first of which hands jobs in. So many times one of them is killed and replaced; then
/// another finishes everything. Whoever ends by itself found nothing to do before more was handed in.
fn a_fleet_with_losses(field: &Field, url: &str, (jobs, kills): (usize, usize)) {
    let mut rng = Rng::with_seed(13);
    let mut handing = Handing::of(jobs);
    let start = |handing: &Handing, number: usize| {
        let words = handing.words();
        let words = words.each_ref().map(String::as_str);
        // Those who hand nothing in are told the rest.
        let words = if number == 0 { &words[..] } else { &words[2..] };
        field.worker(url, words, None)
    };
    let mut workers = vec![start(&handing, 0)];
    workers[0]
        .wait_for_line("acked 100", PATIENCE)
        .expect("taken");
    workers.extend((1..3).map(|number| start(&handing, number)));
    let (mut killed, mut idle) = (0, 0);
    while killed < kills {
        let life = Duration::from_millis(rng.u64(50..300));
        let victim = rng.usize(..workers.len());
        if let Ok(ended) = workers[victim].wait(life) {
            idle += 1;
            assert!(
                ended.success() && idle < kills,
                "{ended}, {idle} of {killed}"
            );
        } else {
            workers[victim].kill().expect("killed");
            killed += 1;
        }
        if victim == 0 {
            handing.hear(&mut workers[0]);
        }
        workers[victim] = start(&handing, victim);
    }
    workers[0].kill().expect("killed");
    handing.hear(&mut workers[0]);
    let words = handing.words();
    let words = [
        &words.each_ref().map(String::as_str)[..],
        &["crew=100", "books"],
    ]
    .concat();
    let mut last = field.worker(url, &words, None);
    let end = End::of(&mut last);
    assert_eq!(
        (end.submitted, end.done, end.drift),
        (jobs, jobs, 0),
        "{end:?}"
    );
    assert!(last.wait(PATIENCE).expect("it ends").success());
    // And the one that handed in until the end.
    let kills = kills + 1;
    field.all_done(jobs, kills * IN_FLIGHT);
    let tried = tried(&mut last).expect("numbers");
    assert_eq!(calls_agree(field, &tried, kills), Ok(()));
}

// Three times eight calls of forty to eighty milliseconds at once are four hundred a second: ten kills within
// two seconds find work under way.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_when_one_of_several_is_killed() {
    let millis = Duration::from_millis;
    let field = Field::answering_within(millis(40), millis(80)).await;
    a_fleet_with_losses(&field, &redis().url(), (1_000, 10));
}

// Calls of a fifth of a second, so that there is work for all five hundred lives.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "minutes: five hundred kills"]
async fn stress_five_hundred_kills_of_a_fleet_lose_nothing_of_fifteen_thousand() {
    let millis = Duration::from_millis;
    let field = Field::answering_within(millis(150), millis(250)).await;
    a_fleet_with_losses(&field, &redis().url(), (15_000, 500));
}

/// The jobs whose ends a worker was told are not counted.
fn fenced(worker: &mut Process) -> BTreeSet<String> {
    let lines = worker.last_lines(PATIENCE).iter();
    let jobs = lines.filter_map(|line| line.text.strip_prefix("fenced job-"));
    jobs.map(str::to_owned).collect()
}

// Frozen for longer than its lease of two seconds, with eight calls of half a second and more under way: others
// do its jobs, and what it says when it wakes is not counted. Each job of it is done twice and counted once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_was_frozen_past_its_lease_changes_nothing() {
    let (least, most) = (Duration::from_millis(500), Duration::from_millis(700));
    let (field, redis) = (Field::answering_within(least, most).await, redis());
    let mut frozen = field.worker(&redis.url(), &["submit=100"], None);
    frozen.wait_for_line("acked 100", PATIENCE).expect("taken");
    field.has_seen(8).await;
    frozen.freeze().expect("frozen");
    let mut other = field.worker(&redis.url(), &["crew=50", "books"], None);
    let end = End::of(&mut other);
    assert_eq!(
        (end.submitted, end.done, end.drift),
        (100, 100, 0),
        "{end:?}"
    );
    frozen.thaw().expect("thawed");
    let end = End::of(&mut frozen);
    assert_eq!(
        (end.submitted, end.done, end.drift),
        (100, 100, 0),
        "{end:?}"
    );
    let numbers = field.numbers().into_iter();
    let twice: BTreeSet<String> = numbers
        .filter_map(|(job, attempts)| (attempts == [1, 2]).then_some(job))
        .collect();
    assert!((1..=IN_FLIGHT).contains(&twice.len()), "{twice:?}");
    let late = fenced(&mut frozen);
    assert!(twice.is_subset(&late), "{twice:?} of {late:?}");
    // A frozen one is as good as killed: what it had claimed and not sent comes to nothing.
    let tried = tried(&mut other).expect("numbers");
    assert_eq!(calls_agree(&field, &tried, 1), Ok(()));
}

/// An engine in this process, whose tasks take a while.
pub(super) async fn engine(
    url: &str,
    change: impl FnOnce(&mut EngineSettings),
) -> Engine<RedisStore> {
    engine_of(url, Rules::unlimited(), change).await
}

/// With these limits of its API.
async fn engine_of(
    url: &str,
    rules: Rules,
    change: impl FnOnce(&mut EngineSettings),
) -> Engine<RedisStore> {
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
        shared: Some(SharedLimitSettings::default()),
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

pub(super) fn tasks(word: &str, many: usize) -> JobSubmission {
    let order = |number| {
        let tenant = "t".parse().expect("a name");
        let mut order = JobSpec::task(tenant, "slow", Bytes::new());
        order.id = Some(format!("{word}-{number}").parse().expect("a name"));
        order
    };
    JobSubmission {
        action: None,
        rest: BatchPosition::More,
        jobs: (0..many).map(order).collect(),
    }
}

// Handed in when limits were wide, what costs 10 and 4 would be given back for ever by an API that allows 5 a
// second and a tenant that has 3. What costs 3 goes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_that_costs_more_than_a_shared_limit_is_buried_and_not_tried_for_ever() {
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
        engine_of(&redis.url(), rules, change).await
    };
    let wide = with("100/s", "100/s").await;
    let whose = |tenant: &str| ControlScope::Tenant(tenant.parse().expect("a name"));
    for tenant in ["t", "free"] {
        wide.store().pause(&whose(tenant)).await.expect("paused");
    }
    let mut handed_in = tasks("dear", 2);
    handed_in.jobs[0].cost = Some(Cost::new(3));
    handed_in.jobs[1].cost = Some(Cost::new(4));
    let call = HttpCall::new("api", http::Method::GET, "/");
    let mut call = JobSpec::call("free".parse().expect("a name"), call);
    call.cost = Some(Cost::new(10));
    handed_in.jobs.push(call);
    wide.submit(handed_in).await.expect("taken");
    wide.stop().await;
    let engine = with("5/s", "3/s").await;
    for tenant in ["t", "free"] {
        engine
            .store()
            .resume(&whose(tenant))
            .await
            .expect("goes on");
    }
    let over = async {
        loop {
            let changed = engine.store().changed();
            let tally = engine.store().job_counts().await.expect("tally");
            if tally.open() == 0 {
                return tally;
            }
            let _again = timeout(Duration::from_millis(50), changed).await;
        }
    };
    let tally = timeout(PATIENCE, over).await.expect("over");
    assert_eq!((tally.done, tally.dead), (1, 2), "{tally:?}");
    for letter in engine.store().dead_letters(0, 10).await.expect("letters") {
        let words = &letter.history[0].words;
        assert!(words.contains("cost"), "{words}");
        assert_eq!(letter.attempts, 1);
    }
    engine.stop().await;
}

/// What was heard of a loss.
#[derive(Default)]
struct Heard {
    losses: usize,
    fenced: usize,
    finished: usize,
}

/// Listens for a while. What the old queue had under way is fenced, and never done.
async fn listen(news: &mut Receiver<BulkEvent>, span: Duration) -> Heard {
    let mut heard = Heard::default();
    let listening = async {
        loop {
            match news.recv().await.expect("news") {
                BulkEvent::Error { message: words } => {
                    assert!(words.contains("the queue was lost"), "{words}");
                    heard.losses += 1;
                }
                BulkEvent::Settled { id, how, .. } if id.as_str().starts_with("a-") => {
                    assert_eq!(how, SettleResult::Fenced, "{id}");
                    heard.fenced += 1;
                }
                BulkEvent::Finished { .. } => heard.finished += 1,
                _ => {}
            }
        }
    };
    let _over = timeout(span, listening).await;
    heard
}

// Emptied in the middle of 200 tasks of an action that somebody waits for: the loss is told and not taken
// for an end, nobody spins (a dozen parts of the engine say it, each about once a second), and the same
// engine takes jobs again within five seconds, by the rules that it was given.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_emptied_server_is_told_and_the_workers_live_on() {
    let redis = redis();
    let engine = engine(&redis.url(), |_| {}).await;
    let action = ActionSpec::new("day".parse().expect("a name"));
    let id = action.id.clone();
    let first = JobSubmission {
        action: Some(action),
        ..tasks("a", 200)
    };
    engine.submit(first).await.expect("submitted");
    while engine.store().job_counts().await.expect("tally").done < 20 {
        sleep(Duration::from_millis(5)).await;
    }
    redis.command(&["FLUSHALL"]).expect("flushed");
    // What was settled before it may be told after it.
    sleep(Duration::from_millis(50)).await;
    let mut news = engine.events();
    let again = async {
        while let Err(error) = engine.submit(tasks("b", 40)).await {
            assert!(error.store().is_some_and(StoreError::is_lost), "{error}");
            sleep(Duration::from_millis(50)).await;
        }
    };
    let again = timeout(Duration::from_secs(5), again);
    let (heard, finished, again) = tokio::join!(
        listen(&mut news, Duration::from_secs(6)),
        engine.wait_finished(&id),
        again
    );
    again.expect("back within five seconds");
    let words = finished.expect_err("it is not over").to_string();
    assert!(words.contains("the queue was lost"), "{words}");
    let losses = heard.losses;
    assert!((1..=100).contains(&losses), "told {losses} times");
    assert!(heard.fenced > 0, "nothing was under way");
    assert_eq!(heard.finished, 0, "an action that was lost is not over");
    let gone = engine.progress(&id).await.expect("asked");
    assert_eq!(gone, None, "an action of the lost queue is unknown");
    let tally = engine.store().job_counts().await.expect("tally");
    assert_eq!((tally.done, tally.open()), (40, 0));
    assert_eq!(engine.store().audit().await.expect("counted"), 0);
    let tenant = engine.store().tenant(&"t".parse().expect("a name")).await;
    let rule = tenant.expect("asked").expect("known").rule;
    assert_eq!(rule.weight, weight(), "the rules hold again");
    engine.stop().await;
}
