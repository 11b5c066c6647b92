//! A connection to Redis that loses replies, and an engine that continues.

use std::time::Duration;

use outflow_bulk::EngineSettings;
use outflow_store::StoreControl;
use outflow_testkit::{Direction, FaultProxy, NetConditions};
use tokio::time::{sleep, timeout};

use super::shared_redis::{engine, redis, tasks};
use super::worker_processes::WAIT_LIMIT;

// The reply direction is silent four times, each twice as long as a call's timeout and shorter than a lease.
// The engine never learns of claims made meanwhile. No recovery is granted: a job that counted as started would
// be dead-lettered.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_claim_replies_dead_letter_no_job() {
    let redis = redis();
    let proxy = FaultProxy::start(redis.address().expect("a port"));
    let proxy = proxy.await.expect("a proxy");
    let url = format!("redis://{}/", proxy.address());
    // The lease of a user: the shorter one of other tests expires if the machine stalls for two seconds.
    let lease = EngineSettings::default().lease;
    let engine = engine(&url, |settings| (settings.recoveries, settings.lease) = (0, lease)).await;
    engine.submit(tasks("a", 600)).await.expect("submitted");
    let done = async |more: u64| {
        loop {
            match engine.store().job_counts().await {
                Ok(counts) if counts.done + counts.dead >= more => return counts,
                _ => sleep(Duration::from_millis(5)).await,
            }
        }
    };
    let lost = NetConditions::OneWay { lost: Direction::Back };
    for round in 1..=4 {
        let some = timeout(WAIT_LIMIT, done(round * 60));
        some.await.expect("it continues");
        proxy.set_conditions(lost).await;
        sleep(Duration::from_millis(600)).await;
        proxy.set_conditions(NetConditions::Clear).await;
    }
    let counts = timeout(WAIT_LIMIT, done(600)).await.expect("all in time");
    assert_eq!((counts.done, counts.dead), (600, 0));
    assert_eq!(engine.store().audit().await.expect("counted"), 0);
    engine.stop().await;
}
