//! Addresses of clusters, Sentinels and several servers: the owner is found, also after it died.

use std::time::Duration;

use outflow_store::{RedisOptions, RedisStore, StoreControl};
use outflow_testkit::{RedisOptions as ServerOptions, RedisServer};
use tokio::time::{sleep, timeout};

use super::fleet::{Fleet, QUANTITY, WINDOW, options_at};
use crate::redis_faults::cluster::{PRIMARY, SentinelTrio, TestCluster};
use crate::redis_faults::failover::{copies, replica_of, wait_until_replicated};
use crate::redis_faults::support::{RECOVERY_TIME, claim, submit};

/// Time after which the other nodes, or Sentinels, have promoted a replica; they wait for up to a second before.
const FAILOVER: Duration = Duration::from_secs(10);

/// A replaced server keeps the limit closed for a window, and until its processes have met it.
const CLOSED: Duration = Duration::from_secs(2);

/// Waits until the job store answers, and returns the number of its jobs.
async fn jobs_after_outage(store: &RedisStore, within: Duration) -> u64 {
    let back = async {
        loop {
            match store.job_counts().await {
                Ok(counts) => return counts.queued,
                Err(error) => assert!(error.is_passing(), "{error}"),
            }
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(within, back).await.expect("back")
}

// One address names nodes that do not own the queue, the other only the replica.
#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_leads_to_the_owner_and_to_its_successor() {
    let mut cluster = TestCluster::start().await;
    let mut fleet = Fleet::start(&options_at(cluster.url(&[1, 2])), 2).await;
    fleet.join(&options_at(cluster.url(&[3])));
    let store = RedisStore::connect(RedisOptions::new(cluster.url(&[2]))).await;
    let store = store.expect("connected");
    submit(&store, "before", 5).await.expect("submitted");
    fleet.wait_for_calls(QUANTITY, RECOVERY_TIME).await;
    cluster.owner().kill().expect("killed");
    fleet.wait_until_failing().await;
    fleet
        .wait_for_calls(QUANTITY, FAILOVER + RECOVERY_TIME + CLOSED + WINDOW)
        .await;
    assert_eq!(jobs_after_outage(&store, RECOVERY_TIME).await, 5);
    // The owner comes back as a replica, and the cluster hands the slot over to it.
    cluster.owner().restart().expect("restarted");
    let again = |info: String| info.contains("master_link_status:up");
    while !again(cluster.owner().command(&["INFO", "replication"]).expect("read")) {
        sleep(Duration::from_millis(20)).await;
    }
    cluster.owner().command(&["CLUSTER", "FAILOVER"]).expect("begun");
    fleet
        .wait_for_calls(QUANTITY * 2, FAILOVER + RECOVERY_TIME + CLOSED + WINDOW)
        .await;
    submit(&store, "after", 5).await.expect("submitted");
    fleet.assert_kept();
}

#[tokio::test(flavor = "multi_thread")]
async fn sentinels_lead_to_the_primary_and_to_its_successor() {
    let mut trio = SentinelTrio::start().await;
    let fleet = Fleet::start(&options_at(trio.url()), 3).await;
    let store = RedisStore::connect(RedisOptions::new(trio.url())).await;
    let store = store.expect("connected");
    submit(&store, "before", 5).await.expect("submitted");
    // Two of three go on.
    trio.sentinels[0].kill().expect("killed");
    trio.primary.kill().expect("killed");
    fleet.wait_until_failing().await;
    fleet
        .wait_for_calls(QUANTITY, FAILOVER + RECOVERY_TIME + CLOSED + WINDOW)
        .await;
    assert_eq!(jobs_after_outage(&store, RECOVERY_TIME).await, 5);
    assert!(is_primary(&trio.replica), "it was promoted");
    // The old primary becomes a replica: nothing is closed for it.
    trio.primary.restart().expect("restarted");
    fleet.wait_for_calls(QUANTITY * 2, RECOVERY_TIME).await;
    fleet.assert_kept();
}

fn is_primary(server: &RedisServer) -> bool {
    server
        .command(&["INFO", "replication"])
        .expect("read")
        .contains("role:master")
}

#[tokio::test]
async fn failures_name_the_host_and_no_password() {
    let trio = SentinelTrio::start().await;
    let [first, ..] = trio.sentinels.as_slice() else {
        unreachable!("three");
    };
    let reason = async |url: String| {
        let url = url.replace("redis://", "redis://:hunter2@");
        let error = RedisStore::connect(RedisOptions::new(url))
            .await
            .expect_err("nothing there");
        let words = error.to_string();
        assert!(!words.contains("hunter2"), "{words}");
        words
    };
    let unknown = reason(trio.url().replace(PRIMARY, "other")).await;
    assert!(unknown.contains(&first.address().to_string()), "{unknown}");
    assert!(unknown.contains("no primary other"), "{unknown}");
    let dead = reason("redis://127.0.0.1:1,127.0.0.1:2/".to_owned()).await;
    assert!(
        dead.contains("127.0.0.1:1: ") && dead.contains("127.0.0.1:2: "),
        "{dead}"
    );
    let no_sentinel = reason(format!("{}?sentinel={PRIMARY}", trio.primary.url())).await;
    assert!(no_sentinel.contains("no Sentinel"), "{no_sentinel}");
}

// The first host is down, the second one a replica that is promoted later.
#[tokio::test(flavor = "multi_thread")]
async fn several_servers_lead_to_the_one_that_is_the_primary() {
    let mut primary = RedisServer::start(ServerOptions::default()).expect("a server");
    let replica = replica_of(primary.address().expect("a port"));
    copies(&primary).await;
    let hosts = [&replica, &primary].map(|server| server.address().expect("a port").to_string());
    let url = format!("redis://127.0.0.1:1,{}/", hosts.join(","));
    let fleet = Fleet::start(&options_at(url.as_str()), 2).await;
    let store = RedisStore::connect(RedisOptions::new(url)).await.expect("connected");
    submit(&store, "a", 5).await.expect("submitted");
    wait_until_replicated(&primary, &replica).await;
    primary.kill().expect("killed");
    for command in [
        &["CONFIG", "SET", "min-replicas-to-write", "0"][..],
        &["REPLICAOF", "NO", "ONE"],
    ] {
        replica.command(command).expect("promoted");
    }
    fleet.wait_for_calls(QUANTITY, RECOVERY_TIME + CLOSED + WINDOW).await;
    assert_eq!(jobs_after_outage(&store, RECOVERY_TIME).await, 5);
    assert!(claim(&store, "s", 9).await.is_ok());
    fleet.assert_kept();
}
