//! Laws of background work: it ends with its holder, and its panic is the holder's.

use std::sync::Arc;

use outflow_testkit::Background;
use tokio::task::yield_now;

#[tokio::test]
async fn dropping_the_handle_ends_the_work() {
    let held = Arc::new(());
    let theirs = held.clone();
    let work = Background::start(async move {
        std::future::pending::<()>().await;
        drop(theirs);
    });
    yield_now().await;
    assert!(!work.is_over());
    drop(work);
    yield_now().await;
    assert_eq!(Arc::strong_count(&held), 1);
}

#[tokio::test]
#[should_panic(expected = "as the work did")]
async fn waiting_panics_as_the_work_did() {
    Background::start(async { panic!("as the work did") }).join().await
}
