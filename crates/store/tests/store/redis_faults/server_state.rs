//! Servers that are killed, frozen, loading, busy, full, or demoted.

use std::time::Duration;

use outflow_store::StoreControl;
use outflow_testkit::{Keep, RedisOptions as ServerOptions};
use tokio::runtime::Handle;
use tokio::time::{sleep, timeout};

use super::support::{ProxyFixture, RECOVERY_TIME, claim, setting, settle};

fn durable_options(keep: Keep) -> ServerOptions {
    ServerOptions {
        keep,
        ..ServerOptions::default()
    }
}

// Twenty kills while jobs are submitted and done: acknowledged jobs are there after each.
#[tokio::test]
async fn repeated_kills_lose_no_acknowledged_job() {
    let mut fixture = ProxyFixture::new(durable_options(Keep::EveryWrite)).await;
    let mut acked = 0;
    let mut done = 0;
    for round in 0..20 {
        for batch in 0..3 {
            if fixture.submit(&format!("r{round}-{batch}"), 10).await.is_ok() {
                acked += 10;
            }
        }
        let jobs = claim(&fixture.store, &format!("s{round}"), 7).await.expect("claimed");
        done += settle(&fixture.store, &format!("s{round}"), &jobs)
            .await
            .expect("settled")
            .len();
        fixture.server.restart().expect("restarted");
        fixture.wait_until_back().await;
    }
    let counts = fixture.store.job_counts().await.expect("counts");
    assert_eq!((acked, done), (600, 140));
    assert_eq!((counts.queued, counts.done), (460, 140));
    fixture.assert_balanced().await;
}

// Loading takes a second here: a thousand keys of a millisecond each. Calls report it and end in
// time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_wait_for_a_loading_server() {
    let mut options = durable_options(Keep::EverySecond);
    options.settings = vec![setting("key-load-delay", 20_000)];
    let mut fixture = ProxyFixture::new(options).await;
    for batch in 0..30 {
        fixture.submit(&format!("b{batch}"), 10).await.expect("submitted");
    }
    let (store, server) = (&fixture.store, &mut fixture.server);
    let runtime = Handle::current();
    let mut refused = 0;
    tokio::task::block_in_place(|| {
        std::thread::scope(|threads| {
            let restarting = threads.spawn(|| server.restart());
            while !restarting.is_finished() {
                if let Err(error) = runtime.block_on(store.job_counts()) {
                    assert!(error.is_passing(), "{error}");
                    refused += 1;
                }
            }
            restarting.join().expect("joined").expect("restarted");
        });
    });
    assert!(refused > 0, "it was there all the time");
    fixture.wait_until_back().await;
    assert_eq!(fixture.store.job_counts().await.expect("counts").queued, 300);
    fixture.assert_balanced().await;
}

// A foreign script runs for a second and a half, and the server reports to be busy after 100 ms.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_wait_for_a_busy_server() {
    let options = ServerOptions {
        settings: vec![setting("busy-reply-threshold", 100)],
        ..ServerOptions::default()
    };
    let mut fixture = ProxyFixture::new(options).await;
    fixture.submit("a", 20).await.expect("submitted");
    let jobs = claim(&fixture.store, "s", 10).await.expect("claimed");
    let busy = "local begun = redis.call('TIME') repeat local now = redis.call('TIME') \
                until (now[1] - begun[1]) * 1000000 + now[2] - begun[2] > 1500000";
    let (store, server) = (&fixture.store, &mut fixture.server);
    let runtime = Handle::current();
    let mut refused = 0;
    tokio::task::block_in_place(|| {
        std::thread::scope(|threads| {
            let script = threads.spawn(move || server.command(&["EVAL", busy, "0"]));
            while !script.is_finished() {
                runtime.block_on(async {
                    if let Err(error) = settle(store, "s", &jobs).await {
                        assert!(error.is_passing(), "{error}");
                        refused += 1;
                    }
                    sleep(Duration::from_millis(20)).await;
                });
            }
        });
    });
    assert!(refused > 0, "it was never busy");
    fixture.wait_until_back().await;
    let counts = fixture.store.job_counts().await.expect("counts");
    assert_eq!((counts.done + counts.in_flight, counts.queued), (10, 10));
    fixture.assert_balanced().await;
}

// An operator pauses writes, as a failover does: a call is doubtful after its half second, and is
// applied once.
#[tokio::test]
async fn calls_are_repeated_while_clients_are_paused() {
    let fixture = ProxyFixture::new(ServerOptions::default()).await;
    fixture.submit("a", 10).await.expect("submitted");
    let jobs = claim(&fixture.store, "s", 10).await.expect("claimed");
    fixture
        .server
        .command(&["CLIENT", "PAUSE", "700", "WRITE"])
        .expect("paused");
    let error = settle(&fixture.store, "s", &jobs).await.expect_err("paused");
    assert!(error.is_passing(), "{error}");
    let again = async {
        while settle(&fixture.store, "s", &jobs).await.is_err() {}
        while fixture.submit("b", 5).await.is_err() {}
    };
    timeout(RECOVERY_TIME, again).await.expect("back");
    let counts = fixture.store.job_counts().await.expect("counts");
    assert_eq!((counts.done, counts.queued), (10, 5));
    fixture.assert_balanced().await;
}

// Its file may grow by 64 KiB and no more. No batch is taken in part, and accepted jobs are there
// when the disk has space again, and after a restart.
#[tokio::test]
async fn a_full_disk_refuses_and_loses_nothing() {
    let mut fixture = ProxyFixture::new(durable_options(Keep::EverySecond)).await;
    fixture.submit("before", 100).await.expect("submitted");
    fixture.server.limit_files(Some(64 * 1_024)).expect("limited");
    let mut acked = 100;
    let full = async {
        for batch in 0.. {
            match fixture.submit(&format!("b{batch}"), 100).await {
                Ok(()) => acked += 100,
                Err(error) => return error,
            }
            sleep(Duration::from_millis(10)).await;
        }
        unreachable!("numbers never end")
    };
    let error = timeout(Duration::from_secs(20), full).await.expect("full");
    assert!(error.is_full() && error.is_passing(), "{error}");
    fixture.server.limit_files(None).expect("lifted");
    let again = async {
        while fixture.submit("after", 10).await.is_err() {
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(RECOVERY_TIME, again).await.expect("back");
    assert_eq!(fixture.store.job_counts().await.expect("counts").queued, acked + 10);
    fixture.assert_balanced().await;
    // All of it reaches the disk within a second, and outlives the server.
    sleep(Duration::from_millis(1_100)).await;
    fixture.server.restart().expect("restarted");
    fixture.wait_until_back().await;
    assert_eq!(fixture.store.job_counts().await.expect("counts").queued, acked + 10);
    fixture.assert_balanced().await;
}

// A server that waits for its disk exits when that is full. The pending call is doubtful;
// acknowledged jobs are there after the restart, and doubtful ones are there at most once.
#[tokio::test]
async fn a_server_stopped_by_its_full_disk_loses_no_acknowledged_job() {
    let mut fixture = ProxyFixture::new(durable_options(Keep::EveryWrite)).await;
    fixture.submit("before", 100).await.expect("submitted");
    fixture.server.limit_files(Some(256 * 1_024)).expect("limited");
    let mut acked: Vec<String> = (0..100).map(|n| format!("before-{n}")).collect();
    let mut batch = 0;
    let error = loop {
        let word = format!("b{batch}");
        match fixture.submit(&word, 100).await {
            Ok(()) => acked.extend((0..100).map(|n| format!("{word}-{n}"))),
            Err(error) => break error,
        }
        batch += 1;
        assert!(batch < 1_000, "never full");
    };
    assert!(batch > 0 && error.is_passing(), "{error}");
    assert!(fixture.server.command(&["PING"]).is_err(), "it has ended");
    let error = fixture.submit("while", 1).await.expect_err("it has ended");
    assert!(error.is_passing(), "{error}");
    fixture.server.restart().expect("restarted");
    fixture.wait_until_back().await;
    fixture.submit(&format!("b{batch}"), 100).await.expect("submitted");
    acked.extend((0..100).map(|n| format!("b{batch}-{n}")));
    fixture.assert_balanced().await;
    let mut kept = fixture.work_off("s").await;
    kept.sort_unstable();
    acked.sort_unstable();
    assert_eq!(kept, acked);
    fixture.assert_balanced().await;
}

// A primary that becomes a replica refuses everything; as a primary again, it continues.
#[tokio::test]
async fn a_demoted_primary_is_not_written_to() {
    let fixture = ProxyFixture::new(ServerOptions::default()).await;
    fixture.submit("a", 10).await.expect("submitted");
    let jobs = claim(&fixture.store, "s", 5).await.expect("claimed");
    fixture
        .server
        .command(&["REPLICAOF", "127.0.0.1", "1"])
        .expect("demoted");
    for _ in 0..3 {
        let error = settle(&fixture.store, "s", &jobs).await.expect_err("a replica");
        assert!(error.is_passing() && !error.is_doubtful(), "{error}");
        let error = fixture.submit("b", 1).await.expect_err("a replica");
        assert!(error.is_passing(), "{error}");
    }
    fixture.server.command(&["REPLICAOF", "NO", "ONE"]).expect("promoted");
    fixture.wait_until_back().await;
    assert_eq!(settle(&fixture.store, "s", &jobs).await.expect("settled").len(), 5);
    assert_eq!(fixture.work_off("t").await.len(), 5);
    fixture.assert_balanced().await;
}
