//! Frozen server: it accepts connections and data, and answers nothing.

use std::time::Duration;

use outflow_store::{AllowAll, ClaimRequest, JobQueue, RedisOptions, RedisStore, SettleResult, StoreControl};
use outflow_testkit::{Keep, RedisOptions as ServerOptions};
use tokio::time::{Instant, timeout};

use super::support::{CALL_TIMEOUT, ProxyFixture, RECOVERY_TIME, name, settle};

/// Freezes the server while jobs are submitted and settled. No call exceeds its timeout by much,
/// new connections fail as well, and each call is applied once when the server continues.
async fn freeze_server(span: Duration) {
    let mut fixture = ProxyFixture::new(ServerOptions {
        keep: Keep::EveryWrite,
        ..ServerOptions::default()
    })
    .await;
    fixture.submit("a", 10).await.expect("submitted");
    let request = ClaimRequest {
        lane: name("api"),
        session: name("s"),
        max: 5,
        lease: Duration::from_hours(1),
        recoveries: 2,
        limits: None,
        cost: None,
    };
    let claims = fixture.store.claim(request, &mut AllowAll).await;
    let jobs = claims.expect("claimed").jobs;
    fixture.server.freeze().expect("stopped");
    let (begun, mut calls) = (Instant::now(), 0);
    while begun.elapsed() < span {
        let submitted = timeout(CALL_TIMEOUT * 3, fixture.submit("b", 10)).await;
        let error = submitted.expect("in time").expect_err("the server is frozen");
        assert!(error.is_passing(), "{error}");
        let settled = timeout(CALL_TIMEOUT * 3, settle(&fixture.store, "s", &jobs)).await;
        let error = settled.expect("in time").expect_err("the server is frozen");
        assert!(error.is_passing(), "{error}");
        let mut options = RedisOptions::new(format!("redis://{}/", fixture.proxy.address()));
        options.timeout = CALL_TIMEOUT;
        let another = timeout(CALL_TIMEOUT * 3, RedisStore::connect(options)).await;
        let error = another.expect("in time").expect_err("the server is frozen");
        assert!(error.is_passing(), "{error}");
        calls += 3;
    }
    fixture.server.thaw().expect("goes on");
    fixture.wait_until_back().await;
    println!("{calls} calls in {span:?}");
    let again = async {
        while fixture.submit("b", 10).await.is_err() {}
        loop {
            match settle(&fixture.store, "s", &jobs).await {
                Ok(settled) => return settled,
                Err(error) => assert!(error.is_passing(), "{error}"),
            }
        }
    };
    let settled = timeout(RECOVERY_TIME, again).await.expect("back");
    // A call whose reply was lost may have settled them.
    let once = |one: &SettleResult| matches!(one, SettleResult::Done | SettleResult::Fenced);
    assert!(settled.iter().all(once), "{settled:?}");
    let counts = fixture.store.job_counts().await.expect("counts");
    assert_eq!((counts.done, counts.in_flight, counts.queued), (5, 0, 15));
    fixture.assert_balanced().await;
    assert_eq!(fixture.work_off("t").await.len(), 15);
    fixture.assert_balanced().await;
}

#[tokio::test]
async fn a_server_frozen_for_five_seconds_loses_nothing() {
    freeze_server(Duration::from_secs(5)).await;
}

#[tokio::test]
#[ignore = "a minute of silence"]
async fn stress_a_server_frozen_for_a_minute_loses_nothing() {
    freeze_server(Duration::from_mins(1)).await;
}
