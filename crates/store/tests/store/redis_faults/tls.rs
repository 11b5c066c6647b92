//! Servers with TLS, and servers that should have it.

use std::path::PathBuf;
use std::time::Duration;

use outflow_store::{JobQueue, RedisOptions, RedisStore, StoreControl, StoreError};
use outflow_testkit::{FaultProxy, Listen, RedisOptions as ServerOptions, RedisServer};
use tokio::time::timeout;

use super::support::{RECOVERY_TIME, claim, setting, settle, submit};

fn server(settings: Vec<(String, String)>) -> RedisServer {
    let options = ServerOptions {
        listen: Listen::Tls,
        settings,
        ..ServerOptions::default()
    };
    RedisServer::start(options).expect("a server with TLS")
}

/// Makes options for a server with a password and an authority.
fn options(url: &str, ca_file: Option<PathBuf>) -> RedisOptions {
    let with_password = format!("://:{PASSWORD}@");
    let url = url.replacen("://", &with_password, 1);
    let timeout = Duration::from_secs(1);
    RedisOptions {
        ca_file,
        timeout,
        ..RedisOptions::new(url)
    }
}

async fn refusal(url: &str, ca_file: Option<PathBuf>) -> (StoreError, String) {
    let refused = RedisStore::connect(options(url, ca_file)).await;
    let error = refused.expect_err("refused");
    let words = format!("{error} {error:?}");
    assert!(!words.contains(PASSWORD), "{words}");
    (error, words)
}

// Jobs are submitted, claimed, done, and waited for with notices, all over TLS; then the connection
// breaks, and recovers by itself.
#[tokio::test]
async fn a_store_works_over_tls() {
    let server = server(vec![setting("requirepass", PASSWORD)]);
    let proxy = FaultProxy::start(server.address().expect("a port"));
    let proxy = proxy.await.expect("a proxy");
    let url = format!("rediss://localhost:{}/", proxy.address().port());
    let store = RedisStore::connect(options(&url, server.ca_file()));
    let store = store.await.expect("connected");
    submit(&store, "a", 10).await.expect("submitted");
    let jobs = claim(&store, "s", 4).await.expect("claimed");
    let ends = settle(&store, "s", &jobs).await.expect("settled");
    let again = settle(&store, "s", &jobs).await.expect("settled");
    assert_ne!(ends, again, "they are already settled");
    let handing_in = async { submit(&store, "b", 1).await.expect("submitted") };
    let ringing = async { tokio::join!(store.changed(), handing_in) };
    timeout(RECOVERY_TIME, ringing).await.expect("it rang");
    proxy.reset_all();
    let back = async { while store.job_counts().await.is_err() {} };
    timeout(RECOVERY_TIME, back).await.expect("back");
    let counts = store.job_counts().await.expect("counts");
    assert_eq!((counts.queued, counts.done), (7, 4));
    assert_eq!(store.audit().await.expect("counted"), 0);
}

// The machine does not trust a new authority, and neither does another such authority.
#[tokio::test]
async fn a_server_of_an_untrusted_authority_is_refused() {
    let (server, other) = (server(Vec::new()), server(Vec::new()));
    for authority in [None, other.ca_file()] {
        let (error, words) = refusal(&server.url(), authority).await;
        assert!(error.is_refused() && words.contains("ca_file"), "{words}");
    }
}

// Its certificate is for a name, and not for the address of that machine.
#[tokio::test]
async fn a_server_with_a_certificate_for_another_name_is_refused() {
    let server = server(Vec::new());
    let url = format!("rediss://{}/", server.address().expect("a port"));
    let (error, words) = refusal(&url, server.ca_file()).await;
    assert!(error.is_refused(), "{words}");
    assert!(words.contains("for another name"), "{words}");
}

#[tokio::test]
async fn a_plain_connection_to_a_tls_port_gets_a_hint() {
    let server = server(Vec::new());
    let url = format!("redis://{}/", server.address().expect("a port"));
    let (_, words) = refusal(&url, None).await;
    assert!(words.contains("rediss://"), "{words}");
}

// A server without TLS takes the first message for the start of a long command, and waits for more.
#[tokio::test]
async fn a_tls_connection_to_a_plain_port_gets_a_hint() {
    let server = RedisServer::start(ServerOptions::default()).expect("a server");
    let url = server.url().replace("redis://", "rediss://");
    let (_, words) = refusal(&url, None).await;
    assert!(words.contains("TLS"), "{words}");
}

// Such a server asks for client certificates by default.
#[tokio::test]
async fn a_server_that_requires_a_client_certificate_is_reported() {
    let server = server(vec![setting("tls-auth-clients", "yes")]);
    let (error, words) = refusal(&server.url(), server.ca_file()).await;
    assert!(error.is_refused(), "{words}");
    assert!(words.contains("tls-auth-clients"), "{words}");
}

// None of these reaches a server.
#[tokio::test]
async fn invalid_tls_options_are_refused_before_connecting() {
    let folder = tempfile::tempdir().expect("a folder");
    let empty = folder.path().join("empty.pem");
    std::fs::write(&empty, "no certificate\n").expect("written");
    let missing = folder.path().join("missing.pem");
    let cases = [
        ("rediss://localhost:1/#insecure", None, "ca_file"),
        ("redis://localhost:1/", Some(empty.clone()), "rediss://"),
        ("rediss://localhost:1/", Some(empty), "empty.pem"),
        ("rediss://localhost:1/", Some(missing), "missing.pem"),
    ];
    for (url, authority, word) in cases {
        let (error, words) = refusal(url, authority).await;
        assert!(error.is_refused() && words.contains(word), "{words}");
    }
}

const PASSWORD: &str = "hunter2";
