//! Frozen server: it accepts connections and data, and answers nothing.

use std::time::Duration;

use outflow_store::{
    AllowAll, ClaimRequest, JobQueue, RedisOptions, RedisStore, SettleResult, StoreControl,
};
use outflow_testkit::{Keep, RedisOptions as ServerOptions};
use tokio::time::{Instant, timeout};

use super::support::{BACK_WITHIN, PATIENCE, Room, name, settle};

/// Freezes the server while jobs are submitted and settled. No call exceeds its timeout by much,
/// new connections fail as well, and each call is applied once when the server continues.
async fn stands_still(span: Duration) {
    let mut room = Room::new(ServerOptions {
        keep: Keep::EveryWrite,
        ..ServerOptions::default()
    })
    .await;
    room.submit("a", 10).await.expect("submitted");
    let ask = ClaimRequest {
        lane: name("api"),
        session: name("s"),
        most: 5,
        lease: Duration::from_hours(1),
        recoveries: 2,
        plan: None,
    };
    let claims = room.store.claim(ask, &mut AllowAll).await;
    let jobs = claims.expect("claimed").jobs;
    room.server.freeze().expect("stopped");
    let (begun, mut calls) = (Instant::now(), 0);
    while begun.elapsed() < span {
        let submitted = timeout(PATIENCE * 3, room.submit("b", 10)).await;
        let error = submitted.expect("in time").expect_err("nobody answers");
        assert!(error.is_passing(), "{error}");
        let settled = timeout(PATIENCE * 3, settle(&room.store, "s", &jobs)).await;
        let error = settled.expect("in time").expect_err("nobody answers");
        assert!(error.is_passing(), "{error}");
        let mut options = RedisOptions::new(format!("redis://{}/", room.proxy.address()));
        options.timeout = PATIENCE;
        let another = timeout(PATIENCE * 3, RedisStore::connect(options)).await;
        let error = another.expect("in time").expect_err("nobody answers");
        assert!(error.is_passing(), "{error}");
        calls += 3;
    }
    room.server.thaw().expect("goes on");
    room.back().await;
    println!("{calls} calls in {span:?}");
    let again = async {
        while room.submit("b", 10).await.is_err() {}
        loop {
            match settle(&room.store, "s", &jobs).await {
                Ok(settled) => return settled,
                Err(error) => assert!(error.is_passing(), "{error}"),
            }
        }
    };
    let settled = timeout(BACK_WITHIN, again).await.expect("back");
    // A call whose reply was lost may have settled them.
    let once = |one: &SettleResult| matches!(one, SettleResult::Done | SettleResult::Fenced);
    assert!(settled.iter().all(once), "{settled:?}");
    let tally = room.store.job_counts().await.expect("tally");
    assert_eq!((tally.done, tally.in_flight, tally.queued), (5, 0, 15));
    room.balanced().await;
    assert_eq!(room.work_off("t").await.len(), 15);
    room.balanced().await;
}

#[tokio::test]
async fn a_server_that_stands_still_for_five_seconds_loses_nothing() {
    stands_still(Duration::from_secs(5)).await;
}

#[tokio::test]
#[ignore = "a minute of silence"]
async fn stress_a_server_that_stands_still_for_a_minute_loses_nothing() {
    stands_still(Duration::from_mins(1)).await;
}
