//! Servers that return with old data.

use outflow_store::{SettleResult, StoreControl};
use outflow_testkit::RedisOptions as ServerOptions;

use super::support::{Room, claim, settle};

// The server forgot the claims of ten jobs, but not the lease of their session. The next ten claims
// are of other jobs, and a late settlement of the first ten must not end them.
#[tokio::test]
async fn an_end_of_a_claim_that_was_forgotten_ends_no_other_job() {
    let mut room = Room::new(ServerOptions::default()).await;
    room.submit("a", 21).await.expect("submitted");
    assert_eq!(claim(&room.store, "s", 1).await.expect("claimed").len(), 1);
    room.server.command(&["SAVE"]).expect("saved");
    let forgotten = claim(&room.store, "s", 10).await.expect("claimed");
    room.server.kill().expect("killed");
    room.server.restart().expect("restarted");
    room.back().await;
    let given = claim(&room.store, "s", 10).await.expect("claimed");
    assert_eq!(given.len(), 10);
    let late = settle(&room.store, "s", &forgotten).await.expect("settled");
    assert!(
        late.iter().all(|one| *one == SettleResult::Fenced),
        "{late:?}"
    );
    let done = settle(&room.store, "s", &given).await.expect("settled");
    assert!(
        done.iter().all(|one| *one == SettleResult::Done),
        "{done:?}"
    );
    room.balanced().await;
    let tally = room.store.job_counts().await.expect("tally");
    assert_eq!((tally.done, tally.queued, tally.in_flight), (10, 10, 1));
}
