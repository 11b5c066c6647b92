//! Servers that die, stop, or lose their data.

use std::time::Duration;

use outflow_testkit::{Keep, RedisOptions as ServerOptions, ServerFlavor};
use tokio::time::{Instant, sleep};

use super::fleet::{Fleet, LedgerServer, QUANTITY, WINDOW};
use crate::redis_faults::support::RECOVERY_TIME;

/// A lost or replaced server keeps the limit closed for a window, and until its processes have met it.
const CLOSED: Duration = Duration::from_secs(2);

fn options(flavor: ServerFlavor, keep: Keep) -> ServerOptions {
    ServerOptions {
        flavor,
        keep,
        ..ServerOptions::default()
    }
}

/// Kills the server five times, and lets the processes find the next one.
async fn kill_and_restart(flavor: ServerFlavor, keep: Keep) {
    let mut ledger = LedgerServer::start(options(flavor, keep)).await;
    let fleet = Fleet::start(&ledger.options, 4).await;
    for round in 0..5 {
        // At another moment of the window each time.
        sleep(Duration::from_millis(170 * round)).await;
        ledger.server.restart().expect("restarted");
        fleet.wait_for_calls(QUANTITY, RECOVERY_TIME + CLOSED + WINDOW).await;
    }
    fleet.assert_kept();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_with_its_data_keeps_the_limit() {
    kill_and_restart(ServerFlavor::Redis, Keep::EveryWrite).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_with_its_data_keeps_the_limit_on_valkey() {
    kill_and_restart(ServerFlavor::Valkey, Keep::EveryWrite).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_without_its_data_keeps_the_limit() {
    kill_and_restart(ServerFlavor::Redis, Keep::Nothing).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_without_its_data_keeps_the_limit_on_valkey() {
    kill_and_restart(ServerFlavor::Valkey, Keep::Nothing).await;
}

// While the server is away each process spends its lease, at most a fourth of the limit, and then stops.
#[tokio::test(flavor = "multi_thread")]
async fn processes_stop_while_the_server_is_away_and_say_so() {
    let mut ledger = LedgerServer::start(options(ServerFlavor::Either, Keep::EveryWrite)).await;
    let fleet = Fleet::start(&ledger.options, 4).await;
    ledger.server.kill().expect("killed");
    fleet.wait_until_failing().await;
    sleep(Duration::from_secs(6)).await;
    let before = fleet.count();
    sleep(WINDOW).await;
    assert_eq!(fleet.count(), before, "their leases are over");
    assert!(
        fleet.failures().iter().all(|reason| reason.contains("redis")),
        "{:?}",
        fleet.failures()
    );
    ledger.server.restart().expect("restarted");
    fleet.wait_for_calls(QUANTITY, RECOVERY_TIME + CLOSED + WINDOW).await;
    fleet.assert_kept();
}

/// Stops the server, which then answers everything at once.
async fn freeze(flavor: ServerFlavor, span: Duration) {
    let mut ledger = LedgerServer::start(options(flavor, Keep::Nothing)).await;
    let fleet = Fleet::start(&ledger.options, 4).await;
    ledger.server.freeze().expect("stopped");
    sleep(span).await;
    ledger.server.thaw().expect("continued");
    fleet.wait_for_calls(QUANTITY, RECOVERY_TIME + WINDOW).await;
    fleet.wait_for_calls(QUANTITY, WINDOW * 2).await;
    fleet.assert_kept();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_stops_for_a_second_keeps_the_limit() {
    freeze(ServerFlavor::Redis, Duration::from_secs(1)).await;
}

// Longer than a lease, whose units were then never sent.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_stops_for_seven_seconds_keeps_the_limit_on_valkey() {
    freeze(ServerFlavor::Valkey, Duration::from_secs(7)).await;
}

/// Empties the server again and again while processes call.
async fn flush(flavor: ServerFlavor, rounds: u64) {
    let ledger = LedgerServer::start(options(flavor, Keep::Nothing)).await;
    let fleet = Fleet::start(&ledger.options, 4).await;
    for round in 0..rounds {
        ledger.server.command(&["FLUSHALL"]).expect("flushed");
        // Sometimes while it is still closed.
        sleep(Duration::from_millis(round * 311 % 2_900)).await;
    }
    fleet.wait_for_calls(QUANTITY, RECOVERY_TIME + CLOSED + WINDOW).await;
    fleet.assert_kept();
    assert!(fleet.count() > QUANTITY * 2, "{} calls", fleet.count());
}

#[tokio::test(flavor = "multi_thread")]
async fn thirty_flushes_keep_the_limit() {
    flush(ServerFlavor::Redis, 30).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "minutes: a hundred flushes of each server"]
async fn stress_a_hundred_flushes_of_redis_and_valkey_keep_the_limit() {
    flush(ServerFlavor::Redis, 100).await;
    flush(ServerFlavor::Valkey, 100).await;
}

// No process is left that knew the ledger: only the server's scripts show that it was used.
#[tokio::test(flavor = "multi_thread")]
async fn a_new_process_on_a_flushed_redis_or_valkey_waits_for_a_window() {
    for flavor in [ServerFlavor::Redis, ServerFlavor::Valkey] {
        let ledger = LedgerServer::start(options(flavor, Keep::Nothing)).await;
        let mut fleet = Fleet::start(&ledger.options, 2).await;
        fleet.kill();
        ledger.server.command(&["FLUSHALL"]).expect("flushed");
        fleet.join(&ledger.options);
        fleet.wait_for_calls(QUANTITY, RECOVERY_TIME + CLOSED + WINDOW).await;
        fleet.assert_kept();
    }
}

// The new process creates the ledger again before one that knew the old one comes back.
#[tokio::test(flavor = "multi_thread")]
async fn a_new_process_may_come_first_after_a_loss() {
    let mut ledger = LedgerServer::start(options(ServerFlavor::Either, Keep::Nothing)).await;
    let mut fleet = Fleet::start(&ledger.options, 2).await;
    for _ in 0..5 {
        // The others wait for their next attempt meanwhile.
        ledger.server.kill().expect("killed");
        fleet.wait_until_failing().await;
        let begun = Instant::now();
        ledger.server.restart().expect("restarted");
        fleet.join(&ledger.options);
        fleet.wait_for_calls(QUANTITY, RECOVERY_TIME + CLOSED + WINDOW).await;
        println!("back after {:?}", begun.elapsed());
    }
    fleet.assert_kept();
}
