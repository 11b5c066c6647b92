//! An answer that is on disk alone, and the way by which it comes into memory.
//!
//! A runtime's threads are few and a disk can stand still for seconds, so that one file read on them
//! would hold up calls that have nothing to do with it. Files are read beside the runtime instead, and
//! only where memory does not have the answer: what is hot is found without leaving the thread. How many
//! are read at a time is bounded, for names are resolved on the same threads and a disk that stands
//! still must not take all of them. Whoever waits may give up; the file is then read all the same, for
//! the next.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::key::CacheKey;
use super::store::CacheStore;
use crate::tasks::aside;

/// An answer that is on disk alone.
#[must_use = "it stays on disk until it is warmed"]
pub struct DiskEntry {
    store: Arc<CacheStore>,
    key: CacheKey,
}

impl DiskEntry {
    pub(super) fn new(store: &Arc<CacheStore>, key: CacheKey) -> Self {
        let store = Arc::clone(store);
        Self { store, key }
    }

    /// Brings it into memory beside the current runtime, and waits for that at most so long. A file
    /// that is damaged, foreign or no file at all is dropped and counted.
    pub async fn load(self, within: Duration) {
        let Self { store, key } = self;
        let reading = async {
            let turn = Arc::clone(store.reads()).acquire_owned().await;
            aside(move || {
                // Known only here: whoever waits for the file may have left.
                let _turn = turn;
                let _on_its_shelf = store.reload(&key);
            })
            .await
        };
        let _late_or_ended = tokio::time::timeout(within, reading).await;
    }
}

/// Shows no key: it would tell equal requests apart.
impl fmt::Debug for DiskEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cold").finish_non_exhaustive()
    }
}
