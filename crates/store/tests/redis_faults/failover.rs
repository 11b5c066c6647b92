//! Another server takes over.

use std::collections::BTreeSet;
use std::time::Duration;

use outflow_store::{JobStore, Replicas};
use outflow_testkit::{FaultProxy, RedisOptions as ServerOptions, RedisServer, Weather};
use tokio::time::{sleep, timeout};

use super::room::{BACK_WITHIN, Room, setting};

/// A server that lets others copy it at once.
fn primary() -> ServerOptions {
    ServerOptions {
        settings: vec![setting("repl-diskless-sync-delay", 0)],
        ..ServerOptions::default()
    }
}

/// A server that copies another, which it finds there.
fn replica_of(address: std::net::SocketAddr) -> RedisServer {
    let of = format!("{} {}", address.ip(), address.port());
    let settings = vec![
        setting("replicaof", of),
        setting("repl-diskless-sync-delay", 0),
        setting("min-replicas-to-write", 1),
        setting("min-replicas-max-lag", 2),
    ];
    let replica = RedisServer::start(ServerOptions {
        settings,
        ..ServerOptions::default()
    });
    replica.expect("a replica")
}

async fn copies(primary: &RedisServer) {
    let copies = async {
        while !primary
            .ask(&["INFO", "replication"])
            .expect("told")
            .contains("state=online")
        {
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(Duration::from_secs(20), copies)
        .await
        .expect("a copy");
}

/// Confirmed submissions through so many failovers, each in the middle of one. Says how many were
/// confirmed, and how many of all that were tried were in doubt.
async fn failovers(rounds: u32) -> (usize, usize) {
    let confirm = Replicas {
        count: 1,
        timeout: Duration::from_millis(300),
    };
    let mut room = Room::with(primary(), |options| options.wait_replicas = Some(confirm)).await;
    let mut replica = replica_of(room.server.address().expect("a port"));
    copies(&room.server).await;
    room.server
        .ask(&["CONFIG", "SET", "min-replicas-to-write", "1"])
        .expect("set");
    let (mut confirmed, mut doubtful, mut number) = (BTreeSet::new(), 0, 0);
    for round in 0..rounds {
        // Anywhere in some of the first calls.
        let fall = Duration::from_micros(2_000 + u64::from(round) * 7_919 % 38_000);
        let mut hand_in = async |store: &outflow_store::Redis, until_it_works: bool| {
            loop {
                number += 1;
                let word = format!("w{number}");
                match super::room::submit(store, &word, 5).await {
                    Ok(()) => {
                        confirmed.extend((0..5).map(|n| format!("{word}-{n}")));
                        if until_it_works {
                            return;
                        }
                    }
                    Err(error) => {
                        assert!(error.is_passing(), "{error}");
                        doubtful += 5;
                        if !until_it_works {
                            return;
                        }
                    }
                }
            }
        };
        // Handed in until the first that fails, because the primary dies meanwhile.
        tokio::join!(hand_in(&room.store, false), async {
            sleep(fall).await;
            room.server.kill().expect("killed");
        });
        replica.ask(&["REPLICAOF", "NO", "ONE"]).expect("promoted");
        let address = replica.address().expect("a port");
        room.proxy.set_server(address);
        room.proxy.reset_all();
        let next = replica_of(address);
        room.server = std::mem::replace(&mut replica, next);
        copies(&room.server).await;
        timeout(BACK_WITHIN, hand_in(&room.store, true))
            .await
            .expect("back");
    }
    room.balanced().await;
    let kept: BTreeSet<String> = room.work_off("s").await.into_iter().collect();
    let lost: Vec<_> = confirmed.difference(&kept).collect();
    assert!(
        lost.is_empty(),
        "{} of {} confirmed: {lost:?}",
        lost.len(),
        confirmed.len()
    );
    room.balanced().await;
    (confirmed.len(), doubtful)
}

#[tokio::test]
async fn what_a_replica_confirmed_outlives_failovers() {
    let (confirmed, _) = failovers(3).await;
    assert!(confirmed > 15, "{confirmed}");
}

#[tokio::test]
#[ignore = "minutes: fifty failovers"]
async fn stress_what_a_replica_confirmed_outlives_fifty_failovers() {
    let (confirmed, doubtful) = failovers(50).await;
    println!("50 failovers: {confirmed} confirmed and kept, {doubtful} in doubt");
}

// The replica hears nothing for a while, and is promoted all the same. Without confirmation what was
// answered meanwhile is gone; with it nothing was answered but doubt.
#[tokio::test]
async fn without_confirmation_a_failover_loses_what_the_replica_had_not_heard() {
    for wait in [None, Some(1)] {
        let confirm = wait.map(|count| Replicas {
            count,
            timeout: Duration::from_millis(100),
        });
        let mut room = Room::with(primary(), |options| {
            options.wait_replicas = confirm;
        })
        .await;
        let way = FaultProxy::start(room.server.address().expect("a port"));
        let way = way.await.expect("a proxy");
        let replica = replica_of(way.address());
        copies(&room.server).await;
        room.submit("before", 10).await.expect("submitted");
        let heard = async { while room.server.ask(&["WAIT", "1", "100"]).expect("told") != "1" {} };
        timeout(BACK_WITHIN, heard).await.expect("copied");
        way.set_weather(Weather::Blackhole).await;
        let mut answered = 0;
        for batch in 0..10 {
            match room.submit(&format!("b{batch}"), 10).await {
                Ok(()) => answered += 10,
                Err(error) => assert!(error.is_doubtful(), "{error}"),
            }
        }
        room.server.kill().expect("killed");
        replica
            .ask(&["CONFIG", "SET", "min-replicas-to-write", "0"])
            .expect("set");
        replica.ask(&["REPLICAOF", "NO", "ONE"]).expect("promoted");
        room.proxy.set_server(replica.address().expect("a port"));
        room.proxy.reset_all();
        room.back().await;
        let kept = room.store.tally().await.expect("tally").queued;
        let lost = answered + 10 - kept;
        // 100 without confirmation, none with it.
        assert_eq!(
            (answered, lost),
            if wait.is_none() { (100, 100) } else { (0, 0) }
        );
        room.balanced().await;
    }
}
