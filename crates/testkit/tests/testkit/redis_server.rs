//! Laws of the server for one test. Each name says `redis` or `valkey`, so that a machine without that
//! server can leave them out.

use std::path::Path;

use outflow_testkit::{Keep, Listen, RedisOptions, RedisServer, ServerFlavor};

fn started(options: RedisOptions) -> RedisServer {
    RedisServer::start(options).expect("`cargo xtask test` installs it")
}

#[test]
fn a_redis_serves_its_port_until_dropped() {
    let server = started(RedisOptions::default());
    let address = server.address().unwrap();
    assert_eq!(server.url(), format!("redis://{address}/"));
    assert_eq!(server.command(&["SET", "key", "two words"]).unwrap(), "OK");
    assert_eq!(server.command(&["GET", "key"]).unwrap(), "two words");
    let directory = server.command(&["CONFIG", "GET", "dir"]).unwrap_err();
    assert!(
        directory.to_string().contains("shown"),
        "a list cannot be shown as text"
    );
    drop(server);
    assert!(std::net::TcpStream::connect(address).is_err());
}

#[test]
fn a_redis_listens_on_a_socket_that_goes_with_it() {
    let server = started(RedisOptions {
        listen: Listen::Socket,
        ..RedisOptions::default()
    });
    assert_eq!(server.address(), None);
    assert_eq!(server.command(&["PING"]).unwrap(), "PONG");
    let path = server.url().replace("redis+unix://", "");
    assert!(Path::new(&path).exists());
    drop(server);
    assert!(!Path::new(&path).exists());
}

#[test]
fn two_redis_servers_do_not_see_each_other() {
    let (one, other) = (started(RedisOptions::default()), started(RedisOptions::default()));
    one.command(&["SET", "key", "1"]).unwrap();
    assert_eq!(other.command(&["EXISTS", "key"]).unwrap(), "0");
}

#[test]
fn a_durable_redis_keeps_writes_after_a_kill() {
    let keep = Keep::EveryWrite;
    let mut server = started(RedisOptions {
        keep,
        ..RedisOptions::default()
    });
    let address = server.address();
    server.command(&["SET", "key", "kept"]).unwrap();
    server.kill().unwrap();
    assert!(server.command(&["PING"]).is_err(), "it is dead");
    server.restart().unwrap();
    assert_eq!(server.command(&["GET", "key"]).unwrap(), "kept");
    assert_eq!(server.address(), address);
}

#[test]
fn a_volatile_redis_is_empty_after_a_restart() {
    let mut server = started(RedisOptions::default());
    server.command(&["SET", "key", "lost"]).unwrap();
    server.restart().unwrap();
    assert_eq!(server.command(&["EXISTS", "key"]).unwrap(), "0");
}

#[test]
fn a_frozen_redis_does_not_respond_until_resumed() {
    let mut server = started(RedisOptions::default());
    server.freeze().unwrap();
    assert!(server.command(&["PING"]).is_err());
    server.thaw().unwrap();
    assert_eq!(server.command(&["PING"]).unwrap(), "PONG");
}

#[test]
fn a_redis_accepts_settings_and_a_password() {
    let settings = vec![("requirepass".to_owned(), "swordfish".to_owned())];
    let server = started(RedisOptions {
        settings,
        ..RedisOptions::default()
    });
    let refused = server.command(&["GET", "key"]).unwrap_err();
    assert!(refused.to_string().starts_with("NOAUTH"), "{refused}");
}

#[test]
fn a_redis_that_cannot_start_reports_the_reason() {
    let settings = vec![("no-such-setting".to_owned(), "1".to_owned())];
    let error = RedisServer::start(RedisOptions {
        settings,
        ..RedisOptions::default()
    })
    .unwrap_err();
    assert!(error.to_string().contains("no-such-setting"), "{error}");
}

// A script counts three up to five, like a shared limit: both servers must reply equally.
#[test]
fn a_valkey_stores_values_and_runs_scripts() {
    let server = started(RedisOptions {
        flavor: ServerFlavor::Valkey,
        ..RedisOptions::default()
    });
    let about = server.command(&["INFO", "server"]).unwrap();
    assert!(about.contains("valkey_version:"), "{about}");
    assert_eq!(server.command(&["SET", "units", "3"]).unwrap(), "OK");
    let script = "return redis.call('INCRBY', KEYS[1], ARGV[1])";
    let counted = server.command(&["EVAL", script, "1", "units", "2"]).unwrap();
    assert_eq!(counted, "5");
    assert_eq!(server.command(&["GET", "units"]).unwrap(), "5");
}

#[test]
fn a_durable_valkey_keeps_writes_after_a_kill() {
    let mut server = started(RedisOptions {
        flavor: ServerFlavor::Valkey,
        keep: Keep::EveryWrite,
        ..RedisOptions::default()
    });
    server.command(&["SET", "key", "kept"]).unwrap();
    server.restart().unwrap();
    assert_eq!(server.command(&["GET", "key"]).unwrap(), "kept");
}
