//! Full server: it accepts no job, and everything else works.

use std::time::Duration;

use outflow_core::{CountBy, Rate};
use outflow_store::{
    AllowAll, ClaimRequest, ClaimedJob, ControlScope, HeartbeatResult, JobQueue, SettleResult,
    SharedLimit, SharedLimits, StartDebit, StoreControl,
};
use outflow_testkit::{Keep, RedisOptions as ServerOptions};

use super::support::{Room, name, setting, settle};

/// Claims under a lease that outlives the restart of a server.
async fn claim_for_long(room: &Room, most: usize) -> Vec<ClaimedJob> {
    let ask = ClaimRequest {
        lane: name("api"),
        session: name("s"),
        most,
        lease: Duration::from_mins(1),
        recoveries: 2,
        plan: None,
    };
    let claims = room.store.claim(ask, &mut AllowAll).await;
    claims.expect("claimed").jobs
}

/// Runs every operation except submission.
async fn goes_on(room: &Room, jobs: &[ClaimedJob]) {
    let error = room.submit("more", 1).await.expect_err("no room");
    assert!(error.is_full(), "{error}");
    let beat = room
        .store
        .heartbeat(&name("s"), Duration::from_mins(1))
        .await;
    assert_eq!(beat.expect("beaten"), HeartbeatResult::Alive);
    let settled = settle(&room.store, "s", jobs).await.expect("settled");
    assert!(
        settled.iter().all(|one| *one == SettleResult::Done),
        "{settled:?}"
    );
    let tenant = ControlScope::Tenant(name("a"));
    room.store.pause(&tenant).await.expect("paused");
    assert!(claim_for_long(room, 9).await.is_empty(), "it is stopped");
    room.store.resume(&tenant).await.expect("resumed");
    let debited = room.store.debit(&start()).await.expect("debited");
    assert_eq!(debited, None);
    room.store.reap(10, 3).await.expect("reaped");
    assert_eq!(room.work_off("s").await.len(), 20);
    room.balanced().await;
}

fn start() -> StartDebit {
    let limit = SharedLimit {
        name: "L0 api".to_owned(),
        rate: Rate::new(10, Duration::from_millis(1)).expect("a rate"),
        measure: CountBy::Cost,
    };
    StartDebit {
        tenant: name("a"),
        cost: outflow_core::Cost::ONE,
        plan: SharedLimits {
            limits: vec![limit],
            guard: Duration::ZERO,
            horizon: Duration::ZERO,
        },
    }
}

// With functions, with functions that were lost and cannot be loaded, and without any.
#[tokio::test]
async fn a_full_server_that_was_restarted_goes_on() {
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
        let mut room = Room::new(options).await;
        room.submit("a", 30).await.expect("submitted");
        let jobs = claim_for_long(&room, 10).await;
        room.server.restart().expect("restarted");
        let full = ["CONFIG", "SET", "maxmemory", "1"];
        room.server.command(&full).expect("full");
        if flushed {
            room.server
                .command(&["FUNCTION", "FLUSH"])
                .expect("flushed");
        }
        room.back().await;
        goes_on(&room, &jobs).await;
    }
}
