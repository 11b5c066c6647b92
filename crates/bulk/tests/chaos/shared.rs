//! Several processes and one Redis.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use fastrand::Rng;
use outflow::{Api, Outflow, Rules};
use outflow_bulk::{Engine, News, Order, Settings, Shared, Submission, Task};
use outflow_store::{JobStore, Redis, RedisOptions as StoreOptions, Rest};
use outflow_testkit::{Keep, Process, RedisOptions, RedisServer};
use tokio::time::{sleep, timeout};

use super::fleet::{End, Field, IN_FLIGHT, PATIENCE};

fn redis() -> RedisServer {
    let options = RedisOptions {
        keep: Keep::EveryWrite,
        ..RedisOptions::default()
    };
    RedisServer::start(options).expect("a server")
}

/// Three workers, of which one is killed now and then and replaced, until all is done.
fn a_fleet_with_losses(field: &Field, url: &str, jobs: usize, kills: usize) {
    let mut rng = Rng::with_seed(13);
    let submit = format!("submit={jobs}");
    let mut submitter = field.worker(url, &[&submit], None);
    let mut workers: Vec<Process> = (0..2).map(|_| field.worker(url, &[], None)).collect();
    for _ in 0..kills {
        let life = Duration::from_millis(rng.u64(50..300));
        let victim = rng.usize(..workers.len());
        // Whoever ended by itself found nothing to do, and is replaced all the same.
        if workers[victim].wait(life).is_err() {
            workers[victim].kill().expect("killed");
        }
        workers[victim] = field.worker(url, &[], None);
    }
    let end = End::of(&mut submitter);
    assert_eq!(
        (end.submitted, end.done, end.drift),
        (jobs, jobs, 0),
        "{end:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_when_one_of_several_is_killed() {
    let (field, redis) = (Field::new().await, redis());
    a_fleet_with_losses(&field, &redis.url(), 1_000, 10);
    field.all_done(1_000, 10 * IN_FLIGHT);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "minutes: five hundred kills"]
async fn stress_five_hundred_kills_of_a_fleet_lose_nothing_of_fifteen_thousand() {
    let (field, redis) = (Field::new().await, redis());
    a_fleet_with_losses(&field, &redis.url(), 15_000, 500);
    field.all_done(15_000, 500 * IN_FLIGHT);
}

// Frozen for longer than its lease of two seconds: others do its jobs, and what it says when it wakes is
// not counted. Each job of it is done twice and counted once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_was_frozen_past_its_lease_changes_nothing() {
    let (field, redis) = (Field::new().await, redis());
    let mut frozen = field.worker(&redis.url(), &["submit=400"], None);
    frozen.wait_for_line("acked 400", PATIENCE).expect("taken");
    frozen.freeze().expect("frozen");
    let mut other = field.worker(&redis.url(), &[], None);
    let end = End::of(&mut other);
    assert_eq!(
        (end.submitted, end.done, end.drift),
        (400, 400, 0),
        "{end:?}"
    );
    frozen.thaw().expect("thawed");
    let end = End::of(&mut frozen);
    assert_eq!((end.done, end.drift), (400, 0), "{end:?}");
    field.all_done(400, IN_FLIGHT);
}

/// An engine in this process, whose tasks take a while.
async fn engine(url: &str) -> Engine<Redis> {
    let mut api = Api::new("api", "http://127.0.0.1:9".parse().expect("an address"));
    api.rules = Rules::unlimited();
    let store = Redis::connect(StoreOptions::new(url)).await;
    let settings = Settings {
        lease: Duration::from_secs(2),
        beat: Duration::from_millis(200),
        shared: Some(Shared::default()),
        ..Settings::default()
    };
    Engine::builder(
        Outflow::init([api]).expect("a client"),
        Arc::new(store.expect("connected")),
    )
    .settings(settings)
    .handler("slow", |_: Task| async {
        sleep(Duration::from_millis(20)).await;
        Ok(Bytes::new())
    })
    .start()
    .await
    .expect("started")
}

fn tasks(word: &str, many: usize) -> Submission {
    let order = |number| {
        let tenant = "t".parse().expect("a name");
        let mut order = Order::task(tenant, "slow", Bytes::new());
        order.id = Some(format!("{word}-{number}").parse().expect("a name"));
        order
    };
    Submission {
        action: None,
        rest: Rest::More,
        orders: (0..many).map(order).collect(),
    }
}

// Emptied in the middle of 200 tasks: the loss is told and not taken for an end, nobody spins (a dozen
// parts of the engine say it, each about once a second), and once somebody has decided to begin anew the
// same engine goes on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_emptied_server_is_told_and_the_workers_live_on() {
    let redis = redis();
    let engine = engine(&redis.url()).await;
    engine.submit(tasks("a", 200)).await.expect("submitted");
    while engine.store().tally().await.expect("tally").done < 20 {
        sleep(Duration::from_millis(5)).await;
    }
    let mut news = engine.news();
    redis.ask(&["FLUSHALL"]).expect("flushed");
    let mut told = 0;
    let listening = async {
        loop {
            if let Ok(News::Trouble { words }) = news.recv().await {
                assert!(words.contains("the queue was lost"), "{words}");
                told += 1;
            }
        }
    };
    let _over = timeout(Duration::from_secs(3), listening).await;
    assert!(
        (1..=100).contains(&told),
        "told {told} times in three seconds"
    );
    assert!(engine.store().lost());
    engine.store().begin_anew().await.expect("anew");
    engine.submit(tasks("b", 40)).await.expect("submitted");
    let again = async {
        while engine.store().tally().await.expect("tally").done < 40 {
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(Duration::from_secs(5), again)
        .await
        .expect("back within five seconds");
    assert_eq!(engine.store().recount().await.expect("counted"), 0);
    engine.stop().await;
}
