//! Another server takes over, with and without the last writes.

use std::time::Duration;

use outflow_testkit::{FaultProxy, NetConditions, RedisServer};
use tokio::time::sleep;

use super::fleet::{Fleet, LedgerServer, QUANTITY, WINDOW};
use crate::redis_faults::failover::{copies, primary, replica_of, wait_until_replicated};
use crate::redis_faults::support::RECOVERY_TIME;

/// A replaced server keeps the limit closed for a window, and until its processes have met it.
const CLOSED: Duration = Duration::from_secs(2);

/// Promotes the replica behind the address of the dead primary.
fn promote(ledger: &mut LedgerServer, replica: RedisServer) {
    ledger.server.kill().expect("killed");
    for command in [
        &["CONFIG", "SET", "min-replicas-to-write", "0"][..],
        &["REPLICAOF", "NO", "ONE"],
    ] {
        replica.command(command).expect("promoted");
    }
    ledger.proxy.set_server(replica.address().expect("a port"));
    ledger.proxy.reset_all();
    ledger.server = replica;
}

#[tokio::test(flavor = "multi_thread")]
async fn failovers_keep_the_limit() {
    let mut ledger = LedgerServer::start(primary()).await;
    let fleet = Fleet::start(&ledger.options, 4).await;
    for _ in 0..3 {
        let replica = replica_of(ledger.server.address().expect("a port"));
        copies(&ledger.server).await;
        promote(&mut ledger, replica);
        fleet.wait_for_calls(QUANTITY, RECOVERY_TIME + CLOSED + WINDOW).await;
    }
    fleet.assert_kept();
}

// By the count of the promoted replica everything is free, but the last second is missing there.
#[tokio::test(flavor = "multi_thread")]
async fn a_failover_that_lacks_the_last_writes_keeps_the_limit() {
    for lag in [100, 700, 1_500] {
        let mut ledger = LedgerServer::start(primary()).await;
        let way = FaultProxy::start(ledger.server.address().expect("a port")).await;
        let way = way.expect("a proxy");
        let replica = replica_of(way.address());
        copies(&ledger.server).await;
        let fleet = Fleet::start(&ledger.options, 4).await;
        wait_until_replicated(&ledger.server, &replica).await;
        way.set_conditions(NetConditions::Blackhole).await;
        sleep(Duration::from_millis(lag)).await;
        promote(&mut ledger, replica);
        fleet.wait_for_calls(QUANTITY, RECOVERY_TIME + CLOSED + WINDOW).await;
        fleet.wait_for_calls(QUANTITY, RECOVERY_TIME).await;
        fleet.assert_kept();
    }
}

// A primary that an operator demotes refuses writes, and is one again later.
#[tokio::test(flavor = "multi_thread")]
async fn a_demoted_primary_is_left_and_found_again() {
    let ledger = LedgerServer::start(primary()).await;
    let fleet = Fleet::start(&ledger.options, 4).await;
    ledger
        .server
        .command(&["REPLICAOF", "127.0.0.1", "1"])
        .expect("demoted");
    fleet.wait_until_failing().await;
    let said = fleet.failures();
    assert!(said.iter().all(|reason| reason.contains("replica")), "{said:?}");
    ledger.server.command(&["REPLICAOF", "NO", "ONE"]).expect("promoted");
    fleet.wait_for_calls(QUANTITY, RECOVERY_TIME + WINDOW).await;
    fleet.assert_kept();
}
