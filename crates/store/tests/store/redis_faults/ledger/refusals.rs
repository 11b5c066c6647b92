//! Servers that refuse: full, evicting, without permissions, with another password, over TLS; and forgotten scripts.

use std::time::Duration;

use outflow_store::{RedisLedger, RedisOptions};
use outflow_testkit::{Listen, RedisOptions as ServerOptions, RedisServer, ServerFlavor};
use tokio::time::sleep;

use super::fleet::{Fleet, LedgerServer, QUANTITY, WINDOW, options_at};
use crate::redis_faults::support::{RECOVERY_TIME, setting};

const PASSWORD: &str = "hunter2";

/// Options of a server with a user who has these rules.
fn user(server: &RedisServer, name: &str, rules: &[&str]) -> RedisOptions {
    let command = [&["ACL", "SETUSER", name, "on", ">hunter2"], rules].concat();
    server.command(&command).expect("a user");
    options_at(server.url().replace("redis://", &format!("redis://{name}:{PASSWORD}@")))
}

/// Returns the reason for which no renewal succeeds. It has no password.
async fn refusal(options: &RedisOptions) -> String {
    let mut fleet = Fleet::new();
    fleet.join(options);
    fleet.wait_until_failing().await;
    let [reason] = fleet.failures().try_into().expect("one process");
    assert!(!reason.contains(PASSWORD), "{reason}");
    assert_eq!(fleet.count(), 0, "nothing starts without a ledger");
    reason
}

// Renewals need memory for rings and holders, but a full server has them already.
#[tokio::test(flavor = "multi_thread")]
async fn a_full_redis_or_valkey_keeps_the_limit() {
    for flavor in [ServerFlavor::Redis, ServerFlavor::Valkey] {
        let ledger = LedgerServer::start(ServerOptions {
            flavor,
            ..ServerOptions::default()
        })
        .await;
        let mut fleet = Fleet::start(&ledger.options, 2).await;
        ledger
            .server
            .command(&["CONFIG", "SET", "maxmemory", "1"])
            .expect("full");
        fleet.wait_for_calls(QUANTITY * 2, RECOVERY_TIME).await;
        // A new process sends the scripts again where functions were lost.
        ledger.server.command(&["FUNCTION", "FLUSH"]).expect("flushed");
        ledger.server.command(&["SCRIPT", "FLUSH"]).expect("flushed");
        fleet.join(&ledger.options);
        fleet.wait_for_calls(QUANTITY * 2, RECOVERY_TIME).await;
        assert_eq!(fleet.failures(), [""; 0]);
        fleet.assert_kept();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn forgotten_scripts_are_sent_again() {
    for functions in [true, false] {
        let ledger = LedgerServer::start(ServerOptions::default()).await;
        if !functions {
            ledger
                .server
                .command(&["ACL", "SETUSER", "default", "-fcall"])
                .expect("forbidden");
        }
        let fleet = Fleet::start(&ledger.options, 4).await;
        for _ in 0..10 {
            for command in [["SCRIPT", "FLUSH"], ["FUNCTION", "FLUSH"]] {
                ledger.server.command(&command).expect("flushed");
            }
            sleep(Duration::from_millis(130)).await;
        }
        fleet.wait_for_calls(QUANTITY, RECOVERY_TIME + WINDOW).await;
        fleet.assert_kept();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_evicting_server_is_refused() {
    let settings = vec![setting("maxmemory-policy", "allkeys-lru")];
    let server = RedisServer::start(ServerOptions {
        settings,
        ..ServerOptions::default()
    })
    .expect("a server");
    let reason = refusal(&options_at(server.url())).await;
    assert!(
        reason.contains("allkeys-lru") && reason.contains("noeviction"),
        "{reason}"
    );
    assert!(!reason.contains("jobs"), "it has no jobs: {reason}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_password_is_reported() {
    let settings = vec![setting("requirepass", "another")];
    let server = RedisServer::start(ServerOptions {
        settings,
        ..ServerOptions::default()
    })
    .expect("a server");
    for url in [
        server.url(),
        server.url().replace("redis://", &format!("redis://:{PASSWORD}@")),
    ] {
        let reason = refusal(&options_at(url)).await;
        assert!(reason.contains("password"), "{reason}");
    }
}

// The permissions are those of docs/operations.md.
#[tokio::test(flavor = "multi_thread")]
async fn a_user_with_least_permissions_shares_limits_on_redis_and_valkey() {
    for flavor in [ServerFlavor::Redis, ServerFlavor::Valkey] {
        let server = RedisServer::start(ServerOptions {
            flavor,
            ..ServerOptions::default()
        })
        .expect("a server");
        let fleet = Fleet::start(&user(&server, "limits", &LEAST_PERMISSIONS), 2).await;
        fleet.wait_for_calls(QUANTITY, RECOVERY_TIME).await;
        fleet.assert_kept();
        let listed = fleet.ledger().accounts(RECOVERY_TIME).expect("listed");
        assert_eq!(listed.len(), 1);
    }
}

const LEAST_PERMISSIONS: [&str; 26] = [
    "~{outflow}:*",
    "&{outflow}:*",
    "+info",
    "+ping",
    "+eval",
    "+evalsha",
    "+script|load",
    "+script|exists",
    "+fcall",
    "+function|load",
    "+hget",
    "+hset",
    "+hmget",
    "+hgetall",
    "+hdel",
    "+time",
    "+getrange",
    "+setrange",
    "+pexpire",
    "+zadd",
    "+zrange",
    "+zrem",
    "+zremrangebyscore",
    "+del",
    "+publish",
    "+subscribe",
];

#[tokio::test(flavor = "multi_thread")]
async fn missing_permissions_are_reported() {
    let server = RedisServer::start(ServerOptions::default()).expect("a server");
    let reader = user(&server, "reader", &["~*", "+@read", "+info", "+ping"]);
    let stranger = user(&server, "stranger", &["~other:*", "+@all"]);
    for options in [reader, stranger] {
        let reason = refusal(&options).await;
        assert!(reason.contains("permissions"), "{reason}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_are_shared_over_tls_with_a_private_authority() {
    let options = ServerOptions {
        listen: Listen::Tls,
        ..ServerOptions::default()
    };
    let mut server = RedisServer::start(options).expect("a server with TLS");
    let trusting = RedisOptions {
        ca_file: server.ca_file(),
        ..options_at(server.url())
    };
    let fleet = Fleet::start(&trusting, 2).await;
    server.restart().expect("restarted");
    fleet.wait_for_calls(QUANTITY, RECOVERY_TIME + WINDOW * 3).await;
    fleet.assert_kept();
    let reason = refusal(&options_at(server.url())).await;
    assert!(reason.contains("ca_file"), "{reason}");
}

// A user learns of a wrong address when the program starts.
#[tokio::test]
async fn an_address_that_cannot_be_read_is_refused_at_once() {
    let clock = std::sync::Arc::new(super::fleet::TestClock::new());
    let error = RedisLedger::open(&options_at(format!("http://:{PASSWORD}@h/")), clock).expect_err("no address");
    assert!(error.is_refused() && !error.to_string().contains(PASSWORD), "{error}");
}
