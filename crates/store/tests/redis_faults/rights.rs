//! Servers that do not let everybody do everything.

use outflow_store::{JobStore, Redis, RedisOptions};
use outflow_testkit::{RedisOptions as ServerOptions, RedisServer};

use super::room::submit;

// A user that may read and no more, and one that may do what it needs.
#[tokio::test]
async fn a_user_without_rights_is_told_so_and_the_password_is_not_shown() {
    let server = RedisServer::start(ServerOptions::default()).expect("a server");
    let user = |name: &str, rules: &[&str]| {
        let command = [&["ACL", "SETUSER", name, "on", ">hunter2"], rules].concat();
        server.ask(&command).expect("a user");
        RedisOptions::new(
            server
                .url()
                .replace("redis://", &format!("redis://{name}:hunter2@")),
        )
    };
    let reader = user("reader", &["~*", "+@read", "+info", "+ping", "+client"]);
    let stranger = user("stranger", &["~other:*", "+@all"]);
    for options in [reader, stranger] {
        let error = Redis::connect(options).await.expect_err("no rights");
        let words = format!("{error} {error:?}");
        assert!(error.is_refused() && words.contains("right"), "{words}");
        assert!(!words.contains("hunter2"), "{words}");
    }
    let worker = user(
        "worker",
        &["~{outflow}:*", "&{outflow}:*", "+@all", "-@admin", "+info"],
    );
    let store = Redis::connect(worker).await.expect("all that it needs");
    submit(&store, "a", 3).await.expect("submitted");
    assert_eq!(store.tally().await.expect("tally").queued, 3);
}
