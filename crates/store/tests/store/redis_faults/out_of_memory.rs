//! Full server: it accepts no job, and everything else works.

use std::time::Duration;

use outflow_store::{
    AllowAll, ClaimRequest, ClaimedJob, ControlScope, HeartbeatResult, JobQueue, SettleResult, StoreControl,
};
use outflow_testkit::{Keep, RedisOptions as ServerOptions};

use super::support::{ProxyFixture, name, setting, settle};

/// Claims under a lease that outlives the restart of a server.
async fn claim_with_long_lease(fixture: &ProxyFixture, most: usize) -> Vec<ClaimedJob> {
    let request = ClaimRequest {
        lane: name("api"),
        session: name("s"),
        max: most,
        lease: Duration::from_mins(1),
        recoveries: 2,
        limits: None,
        cost: None,
    };
    let claims = fixture.store.claim(request, &mut AllowAll).await;
    claims.expect("claimed").jobs
}

/// Runs every operation except submission.
async fn assert_operations_work(fixture: &ProxyFixture, jobs: &[ClaimedJob]) {
    let error = fixture.submit("more", 1).await.expect_err("full");
    assert!(error.is_full(), "{error}");
    let beat = fixture.store.heartbeat(&name("s"), Duration::from_mins(1)).await;
    assert_eq!(beat.expect("beaten"), HeartbeatResult::Alive);
    let settled = settle(&fixture.store, "s", jobs).await.expect("settled");
    assert!(settled.iter().all(|one| *one == SettleResult::Done), "{settled:?}");
    let tenant = ControlScope::Tenant(name("a"));
    fixture.store.pause(&tenant).await.expect("paused");
    assert!(claim_with_long_lease(fixture, 9).await.is_empty(), "it is stopped");
    fixture.store.resume(&tenant).await.expect("resumed");
    fixture.store.reap(10, 3).await.expect("reaped");
    assert_eq!(fixture.work_off("s").await.len(), 20);
    fixture.assert_balanced().await;
}

// With functions, with functions that were lost and cannot be loaded, and without any.
#[tokio::test]
async fn a_restarted_full_server_continues() {
    for (functions, flushed) in [(true, false), (true, true), (false, false)] {
        let mut settings = Vec::new();
        if !functions {
            settings.push(setting("rename-command FCALL", "gone"));
        }
        let options = ServerOptions {
            keep: Keep::EveryWrite,
            settings,
            ..ServerOptions::default()
        };
        let mut fixture = ProxyFixture::new(options).await;
        fixture.submit("a", 30).await.expect("submitted");
        let jobs = claim_with_long_lease(&fixture, 10).await;
        fixture.server.restart().expect("restarted");
        let full = ["CONFIG", "SET", "maxmemory", "1"];
        fixture.server.command(&full).expect("full");
        if flushed {
            fixture.server.command(&["FUNCTION", "FLUSH"]).expect("flushed");
        }
        fixture.wait_until_back().await;
        assert_operations_work(&fixture, &jobs).await;
    }
}
