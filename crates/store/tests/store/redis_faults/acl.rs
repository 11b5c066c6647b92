//! Servers with restricted users.

use bytes::Bytes;
use outflow_store::{JobQueue, NewJob, RedisOptions, RedisStore, StoreControl, SubmitBatch};
use outflow_testkit::{RedisOptions as ServerOptions, RedisServer};

use super::support::{claim, name, submit};

// A user that may only read, and one with the needed permissions.
#[tokio::test]
async fn missing_permissions_are_reported_without_the_password() {
    let server = RedisServer::start(ServerOptions::default()).expect("a server");
    let user = |name: &str, rules: &[&str]| {
        let command = [&["ACL", "SETUSER", name, "on", ">hunter2"], rules].concat();
        server.command(&command).expect("a user");
        RedisOptions::new(server.url().replace("redis://", &format!("redis://{name}:hunter2@")))
    };
    let reader = user("reader", &["~*", "+@read", "+info", "+ping", "+client"]);
    let stranger = user("stranger", &["~other:*", "+@all"]);
    for options in [reader, stranger] {
        let error = RedisStore::connect(options).await.expect_err("no rights");
        let words = format!("{error} {error:?}");
        assert!(error.is_refused() && words.contains("permissions"), "{words}");
        assert!(!words.contains("hunter2"), "{words}");
    }
    let worker = user("worker", &["~{outflow}:*", "&{outflow}:*", "+@all", "-@admin", "+info"]);
    let store = RedisStore::connect(worker).await.expect("all that it needs");
    submit(&store, "a", 3).await.expect("submitted");
    assert_eq!(store.job_counts().await.expect("counts").queued, 3);
}

// Without the channel no connection is accepted, since no waiter would be woken; revoked later,
// nothing stays half done.
#[tokio::test]
async fn a_missing_channel_permission_is_reported_and_leaves_nothing_half_done() {
    let server = RedisServer::start(ServerOptions::default()).expect("a server");
    let set = |rules: &[&str]| {
        let rights = ["ACL", "SETUSER", "w", "on", ">secret", "~*", "+@all"];
        server.command(&[&rights, rules].concat()).expect("a user");
    };
    let url = server.url().replace("redis://", "redis://w:secret@");
    set(&["resetchannels"]);
    let error = RedisStore::connect(RedisOptions::new(url.clone())).await;
    let error = error.expect_err("no channel");
    let words = error.to_string();
    assert!(error.is_refused() && words.contains("&{outflow}:*"), "{words}");
    set(&["&{outflow}:bell"]);
    let store = RedisStore::connect(RedisOptions::new(url)).await.expect("connected");
    submit(&store, "a", 3).await.expect("submitted");
    set(&["resetchannels"]);
    let jobs = (0..3).map(|n| plain(&format!("t{n}"))).collect();
    store.submit(SubmitBatch::from_jobs(jobs)).await.expect("submitted");
    submit(&store, "b", 3).await.expect("submitted");
    let jobs = claim(&store, "s", 9).await.expect("claimed");
    assert_eq!(jobs.len(), 9);
    assert_eq!(store.audit().await.expect("counted"), 0);
}

/// Makes an unnamed job, which takes the fast path.
fn plain(tenant: &str) -> NewJob {
    NewJob::new(name(tenant), name("api"), Bytes::from_static(b"x"))
}
