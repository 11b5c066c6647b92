//! A way to Redis over which answers are lost, and an engine that lives on.

use std::time::Duration;

use outflow_store::StoreControl;
use outflow_testkit::{Direction, FaultProxy, NetConditions};
use tokio::time::{sleep, timeout};

use super::shared_redis::{engine, redis, tasks};
use super::worker_processes::PATIENCE;

// Four silences of the way back, each twice as long as a call waits and shorter than a lease. What was
// claimed meanwhile nobody here heard of. No recovery is granted: a job of those that counted as begun
// would be buried.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claims_whose_answers_are_lost_bury_nothing() {
    let redis = redis();
    let proxy = FaultProxy::start(redis.address().expect("a port"));
    let proxy = proxy.await.expect("a proxy");
    let url = format!("redis://{}/", proxy.address());
    let engine = engine(&url, |settings| settings.recoveries = 0).await;
    engine.submit(tasks("a", 600)).await.expect("submitted");
    let done = async |more: u64| {
        loop {
            match engine.store().job_counts().await {
                Ok(tally) if tally.done + tally.dead >= more => return tally,
                _ => sleep(Duration::from_millis(5)).await,
            }
        }
    };
    let lost = NetConditions::OneWay {
        lost: Direction::Back,
    };
    for round in 1..=4 {
        let some = timeout(PATIENCE, done(round * 60));
        some.await.expect("it goes on");
        proxy.set_conditions(lost).await;
        sleep(Duration::from_millis(600)).await;
        proxy.set_conditions(NetConditions::Clear).await;
    }
    let tally = timeout(PATIENCE, done(600)).await.expect("all in time");
    assert_eq!((tally.done, tally.dead), (600, 0));
    assert_eq!(engine.store().audit().await.expect("counted"), 0);
    engine.stop().await;
}
