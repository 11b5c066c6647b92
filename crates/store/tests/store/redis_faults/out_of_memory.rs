//! A server without room: it takes no job, and everything else goes on.

use std::time::Duration;

use outflow_core::{Measure, Rate};
use outflow_store::{
    Beat, ClaimAsk, Claimed, JobStore, OpenGate, Scope, Settled, SharedLimit, SharedPlan, Start,
};
use outflow_testkit::{Keep, RedisOptions as ServerOptions};

use super::support::{Room, name, setting, settle};

/// A lease that outlives the restart of a server.
async fn claim_for_long(room: &Room, most: usize) -> Vec<Claimed> {
    let ask = ClaimAsk {
        lane: name("api"),
        session: name("s"),
        most,
        lease: Duration::from_mins(1),
        recoveries: 2,
        plan: None,
    };
    let claims = room.store.claim(ask, &mut OpenGate).await;
    claims.expect("claimed").jobs
}

/// Whatever is to be done besides submitting.
async fn goes_on(room: &Room, jobs: &[Claimed]) {
    let error = room.submit("more", 1).await.expect_err("no room");
    assert!(error.is_full(), "{error}");
    let beat = room.store.beat(&name("s"), Duration::from_mins(1)).await;
    assert_eq!(beat.expect("beaten"), Beat::Alive);
    let settled = settle(&room.store, "s", jobs).await.expect("settled");
    assert!(
        settled.iter().all(|one| *one == Settled::Done),
        "{settled:?}"
    );
    let tenant = Scope::Tenant(name("a"));
    room.store.pause(&tenant).await.expect("paused");
    assert!(claim_for_long(room, 9).await.is_empty(), "it is stopped");
    room.store.resume(&tenant).await.expect("resumed");
    let debited = room.store.debit(&start()).await.expect("debited");
    assert_eq!(debited, None);
    room.store.reap(10, 3).await.expect("reaped");
    assert_eq!(room.work_off("s").await.len(), 20);
    room.balanced().await;
}

fn start() -> Start {
    let limit = SharedLimit {
        name: "L0 api".to_owned(),
        rate: Rate::new(10, Duration::from_millis(1)).expect("a rate"),
        measure: Measure::Cost,
    };
    Start {
        tenant: name("a"),
        cost: outflow_core::Cost::ONE,
        plan: SharedPlan {
            limits: vec![limit],
            guard: Duration::ZERO,
            horizon: Duration::ZERO,
        },
    }
}

// With functions, with functions that it has lost and takes no more, and without any.
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
        room.server.ask(&full).expect("full");
        if flushed {
            room.server.ask(&["FUNCTION", "FLUSH"]).expect("flushed");
        }
        room.back().await;
        goes_on(&room, &jobs).await;
    }
}
