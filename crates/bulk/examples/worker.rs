//! A worker: runs the jobs of a store until none is left, in a process of its own.
//!
//! `worker API_URL STORE [submit COUNT] [poison]`, where the store is a directory, or the URL of a Redis
//! that several workers share. With `submit` it first hands in that many calls of ten tenants, and says
//! how many were acknowledged as they are. With `poison` there is a task among them that takes the whole
//! process down whenever it is tried.
//!
//! It prints what it does, a line each, and at its end how many jobs are where.

use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use outflow::{Api, Events, Outflow, Rules, SystemClock, Tasks};
use outflow_bulk::{Crew, Engine, HttpCall, Order, Settings, Shared, Submission, Task};
use outflow_store::{ActionSpec, Embedded, JobStore, Name, Redis, RedisOptions, Rest};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [url, store, rest @ ..] = words.as_slice() else {
        return Err("usage: worker API_URL STORE [submit COUNT] [poison]".into());
    };
    if store.starts_with("redis://") {
        let options = RedisOptions::new(store);
        let redis = Redis::connect(options).await?;
        return work(url, redis, Some(Shared::default()), rest).await;
    }
    let clock = Arc::new(SystemClock::new());
    let (embedded, writer) = Embedded::open(Path::new(store), clock)?;
    let tasks = Tasks::new("worker", Events::new(), Arc::new(SystemClock::new()));
    let writer = std::sync::Mutex::new(Some(writer));
    tasks.thread("writer", move |_| {
        let writer = writer.lock().ok().and_then(|mut writer| writer.take());
        if let Some(writer) = writer {
            writer.run();
        }
    })?;
    work(url, embedded, None, rest).await
}

async fn work<S: JobStore>(
    url: &str,
    store: S,
    shared: Option<Shared>,
    rest: &[String],
) -> Result<(), Box<dyn Error>> {
    let mut api = Api::new("api", url.parse()?);
    api.rules = Rules::unlimited();
    let settings = Settings {
        crew: CREW,
        lease: Duration::from_secs(2),
        beat: Duration::from_millis(500),
        shared,
        ..Settings::default()
    };
    let engine = Engine::builder(Outflow::init([api])?, Arc::new(store))
        .settings(settings)
        .handler("poison", |_: Task| async { std::process::abort() })
        .start()
        .await?;
    println!("ready");
    if let [submit, count, ..] = rest
        && submit == "submit"
    {
        hand_in(&engine, count.parse()?).await?;
    }
    if rest.iter().any(|word| word == "poison") {
        let mut order = Order::task("t0".parse()?, "poison", Bytes::new());
        order.id = Some("poison".parse()?);
        engine.submit(submission(vec![order])?).await?;
    }
    while open_jobs(engine.store().as_ref()).await? > 0 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    engine.stop().await;
    let tally = engine.store().tally().await?;
    let drift = engine.store().recount().await?;
    println!(
        "end submitted={} done={} dead={} drift={drift}",
        tally.submitted(),
        tally.done,
        tally.dead
    );
    Ok(())
}

/// How many jobs are not over. A store that does not answer now is asked again.
async fn open_jobs<S: JobStore>(store: &S) -> Result<u64, Box<dyn Error>> {
    match store.tally().await {
        Ok(tally) => Ok(tally.open()),
        Err(error) if error.is_passing() => Ok(1),
        Err(error) => Err(error.into()),
    }
}

/// Hands jobs in, ten at a time, and says after each ten how many were taken in all. Their names are
/// their numbers, so handing them in again changes nothing.
async fn hand_in<S: JobStore>(engine: &Engine<S>, count: usize) -> Result<(), Box<dyn Error>> {
    for begin in (0..count).step_by(10) {
        let orders = (begin..count.min(begin + 10)).map(order);
        let orders = orders.collect::<Result<Vec<_>, _>>()?;
        engine.submit(submission(orders)?).await?;
        println!("acked {}", count.min(begin + 10));
    }
    Ok(())
}

fn order(number: usize) -> Result<Order, Box<dyn Error>> {
    let tenant: Name = format!("t{}", number % 10).parse()?;
    let path = format!("/job/{number}");
    let mut order = Order::call(tenant, HttpCall::new("api", http::Method::POST, &path));
    order.id = Some(format!("job-{number}").parse()?);
    Ok(order)
}

fn submission(orders: Vec<Order>) -> Result<Submission, Box<dyn Error>> {
    Ok(Submission {
        action: Some(ActionSpec::new("chaos".parse()?)),
        rest: Rest::More,
        orders,
    })
}

/// As many as are lost with a process at most.
const CREW: Crew = Crew {
    least: 8,
    most: 8,
    depth: 1_000,
};
