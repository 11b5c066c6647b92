//! Servers whose clock is set, with `libfaketime` between the server and the system.

use outflow_testkit::{RedisOptions as ServerOptions, ServerClock, ServerFlavor};

use super::fleet::{Fleet, LedgerServer, QUANTITY, WINDOW};
use crate::redis_faults::support::RECOVERY_TIME;

/// Sets the server's clock while processes call. None is restarted, and no window has too many arrivals.
async fn set_clock(steps: &[i64]) {
    if !ServerClock::is_installed() {
        println!("libfaketime is not installed: the server's clock is not tested");
        return;
    }
    let clock = ServerClock::new().expect("a file");
    let options = ServerOptions {
        // Redis and the library end in a recursion: both replace functions of the system.
        flavor: ServerFlavor::Valkey,
        clock: Some(clock.clone()),
        ..ServerOptions::default()
    };
    let ledger = LedgerServer::start(options).await;
    let fleet = Fleet::start(&ledger.options, 4).await;
    for offset in steps {
        clock.set_offset(*offset).expect("set");
        let took = fleet.wait_for_calls(QUANTITY, RECOVERY_TIME + WINDOW * 2).await;
        println!("clock at {offset} s: {QUANTITY} calls in {took:?}");
    }
    fleet.wait_for_calls(QUANTITY * 2, RECOVERY_TIME + WINDOW).await;
    fleet.assert_kept();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clock_of_valkey_that_jumps_ahead_keeps_the_limit() {
    set_clock(&[1, 3_600, 3_602, 90_000]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clock_of_valkey_that_is_set_back_keeps_the_limit() {
    set_clock(&[-3_600, -3_602, -90_000]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clock_of_valkey_that_jumps_to_and_fro_keeps_the_limit() {
    set_clock(&[3_600, 0, 5, 0, -3_600, 3_600]).await;
}
