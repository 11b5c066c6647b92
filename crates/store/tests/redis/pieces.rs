//! What is done in pieces comes to its end, however many there are.

use outflow_store::{ActionSpec, Rest, Scope};
use tokio::time::timeout;

use super::*;

/// Longer than any of these takes, and shorter than a test may hang.
const LONG: Duration = Duration::from_secs(30);

fn of_action(action: &str, jobs: Vec<NewJob>) -> Batch {
    Batch {
        action: Some(ActionSpec::new(name(action))),
        rest: Rest::Last,
        ..Batch::of(jobs)
    }
}

// Sets of more than two thousand are shown in pages, of which some are empty once most of it is gone.
#[tokio::test]
async fn an_action_at_thousands_of_places_is_cancelled_and_its_name_is_free() {
    let room = Room::new().await;
    let many = 3_000;
    let jobs = || (0..many).map(|n| job(&format!("t{n}"), n)).collect();
    for _ in 0..2 {
        let submitted = timeout(LONG, room.store.submit(of_action("act", jobs()))).await;
        submitted.expect("in time").expect("submitted");
        let cancelled = timeout(LONG, room.store.cancel(&Scope::Action(name("act")))).await;
        let cancelled = cancelled.expect("in time").expect("cancelled");
        assert_eq!(cancelled, 3_000);
        let left = room.server.ask(&["SCARD", "{outflow}:m:act"]);
        assert_eq!(left.expect("asked"), "0");
    }
    room.balanced().await;
}

// Nine thousand fields are kept in a table in which a search from the beginning finds nothing once a third is gone.
#[tokio::test]
async fn a_large_session_is_taken_back_to_its_last_job() {
    let room = Room::new().await;
    room.submit("a", 9_000).await;
    for _ in 0..9 {
        assert_eq!(room.claim(1_000).await.jobs.len(), 1_000);
    }
    let over = ["ZADD", "{outflow}:sessions", "1", "worker"];
    room.server.ask(&over).expect("its lease is over");
    let mut returned = 0;
    while returned < 9_000 {
        let piece = room.store.reap(200, 3).await.expect("reaped").returned;
        assert!(piece > 0, "none after {returned}");
        returned += piece;
    }
    assert_eq!(room.store.tally().await.expect("tally").queued, 9_000);
    room.balanced().await;
}
