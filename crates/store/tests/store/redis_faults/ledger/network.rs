//! Networks that are slow, silent or break, and servers whose replies make no sense.

use std::time::Duration;

use outflow_testkit::{Cut, Direction, LinkLatency, NetConditions, RedisOptions as ServerOptions};
use tokio::net::TcpListener;
use tokio::time::sleep;

use super::fleet::{Fleet, LedgerServer, QUANTITY, RENEWAL_TIMEOUT, START, WINDOW};
use crate::redis_faults::invalid_replies::{INVALID, InjectedReply, replace_replies};
use crate::redis_faults::support::RECOVERY_TIME;

// A round trip of 50 ms, as between regions of one continent, and of 500 ms, as on a bad line.
#[tokio::test(flavor = "multi_thread")]
async fn a_slow_server_slows_calls_and_keeps_the_limit() {
    for round_trip in [50, 500] {
        let ledger = LedgerServer::start(ServerOptions::default()).await;
        let way = LinkLatency::from_delay(Duration::from_millis(round_trip / 2));
        ledger.proxy.set_link(way);
        let fleet = Fleet::start(&ledger.options, 4).await;
        fleet.wait_for_calls(QUANTITY, WINDOW * 10).await;
        // Connections that break while it is slow are opened again.
        ledger.proxy.reset_all();
        fleet.wait_for_calls(QUANTITY, RECOVERY_TIME + WINDOW * 10).await;
        ledger.proxy.set_link(LinkLatency::default());
        fleet.wait_for_calls(QUANTITY, RECOVERY_TIME + WINDOW).await;
        fleet.assert_kept();
    }
}

// Nothing arrives and no error is reported; at last everything arrives at once, late renewals too.
#[tokio::test(flavor = "multi_thread")]
async fn a_silent_connection_is_noticed_and_keeps_the_limit() {
    let there = NetConditions::OneWay { lost: Direction::There };
    let back = NetConditions::OneWay { lost: Direction::Back };
    for conditions in [NetConditions::Blackhole, there, back] {
        let ledger = LedgerServer::start(ServerOptions::default()).await;
        let fleet = Fleet::start(&ledger.options, 4).await;
        ledger.proxy.set_conditions(conditions).await;
        fleet.wait_until_failing().await;
        let said = fleet.failures();
        assert!(said.iter().all(|reason| reason.contains("redis")), "{said:?}");
        sleep(RENEWAL_TIMEOUT).await;
        ledger.proxy.set_conditions(NetConditions::Clear).await;
        fleet.wait_for_calls(QUANTITY, RECOVERY_TIME + WINDOW).await;
        fleet.assert_kept();
    }
}

// Each cut loses the replies that follow: the server has granted units, and the process does not know of them.
#[tokio::test(flavor = "multi_thread")]
async fn lost_replies_keep_the_limit() {
    let ledger = LedgerServer::start(ServerOptions::default()).await;
    let fleet = Fleet::start(&ledger.options, 4).await;
    for round in 0..20 {
        let after = ledger.proxy.traffic().back / 16 + round * 97 % 500;
        ledger.proxy.set_cut(Some(Cut {
            direction: Direction::Back,
            after,
        }));
        sleep(Duration::from_millis(100)).await;
        ledger.proxy.set_cut(None);
        ledger.proxy.reset_all();
        sleep(Duration::from_millis(round * 53 % 300)).await;
    }
    fleet.wait_for_calls(QUANTITY, RECOVERY_TIME + WINDOW).await;
    fleet.assert_kept();
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_replies_keep_the_limit() {
    let ledger = LedgerServer::start(ServerOptions::default()).await;
    let words = InjectedReply::default();
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let server = ledger.server.address().expect("a port");
    ledger.proxy.set_server(listener.local_addr().expect("a port"));
    tokio::select! {
        () = replace_replies(listener, server, words.clone()) => {}
        () = async {
            let fleet = Fleet::start(&ledger.options, 2).await;
            for invalid in INVALID {
                *words.lock() = Some(invalid.to_vec());
                fleet.wait_until_failing().await;
                *words.lock() = None;
                fleet.wait_for_calls(QUANTITY, RECOVERY_TIME + WINDOW).await;
            }
            fleet.assert_kept();
        } => {}
    }
}

// One of four processes is cut off, and its share stays reserved until its lease is over: the sum is the limit.
#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_is_cut_off_alone_keeps_the_limit() {
    let ledger = LedgerServer::start(ServerOptions::default()).await;
    let mut fleet = Fleet::start(&super::fleet::options_at(ledger.server.url()), 3).await;
    fleet.join(&ledger.options);
    fleet.wait_for_calls(QUANTITY, START).await;
    ledger.proxy.set_conditions(NetConditions::Blackhole).await;
    // Longer than its lease.
    sleep(Duration::from_secs(7)).await;
    ledger.proxy.set_conditions(NetConditions::Clear).await;
    fleet.wait_for_calls(QUANTITY * 2, RECOVERY_TIME + WINDOW).await;
    fleet.assert_kept();
}
