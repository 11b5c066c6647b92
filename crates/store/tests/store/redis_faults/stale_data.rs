//! Servers that return with old data.

use outflow_store::{SettleResult, StoreControl};
use outflow_testkit::RedisOptions as ServerOptions;

use super::support::{ProxyFixture, claim, settle};

// The server forgot the claims of ten jobs, but not the lease of their session. The next ten claims
// are of other jobs, and a late settlement of the first ten must not end them.
#[tokio::test]
async fn a_settlement_of_a_forgotten_claim_ends_no_other_job() {
    let mut fixture = ProxyFixture::new(ServerOptions::default()).await;
    fixture.submit("a", 21).await.expect("submitted");
    assert_eq!(claim(&fixture.store, "s", 1).await.expect("claimed").len(), 1);
    fixture.server.command(&["SAVE"]).expect("saved");
    let forgotten = claim(&fixture.store, "s", 10).await.expect("claimed");
    fixture.server.kill().expect("killed");
    fixture.server.restart().expect("restarted");
    fixture.wait_until_back().await;
    let given = claim(&fixture.store, "s", 10).await.expect("claimed");
    assert_eq!(given.len(), 10);
    let late = settle(&fixture.store, "s", &forgotten).await.expect("settled");
    assert!(late.iter().all(|one| *one == SettleResult::Fenced), "{late:?}");
    let done = settle(&fixture.store, "s", &given).await.expect("settled");
    assert!(done.iter().all(|one| *one == SettleResult::Done), "{done:?}");
    fixture.assert_balanced().await;
    let counts = fixture.store.job_counts().await.expect("counts");
    assert_eq!((counts.done, counts.queued, counts.in_flight), (10, 10, 1));
}
