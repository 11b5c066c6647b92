//! Load of a response that is only on disk.
//!
//! A runtime has few threads and a disk can stall for seconds, so a read on them would delay
//! unrelated calls. Blocking threads read the files, and only if memory lacks the response. The
//! number of concurrent reads is bounded: name lookups use these threads too, and a stalled disk
//! must not take them all. A caller may give up; the load then completes for the next one.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::key::CacheKey;
use super::store::CacheStore;
use crate::tasks::run_blocking;

/// Response that is only on disk.
#[must_use = "the response stays on disk until it is loaded"]
pub struct DiskEntry {
    store: Arc<CacheStore>,
    key: CacheKey,
}

impl DiskEntry {
    pub(super) fn new(store: &Arc<CacheStore>, key: CacheKey) -> Self {
        let store = Arc::clone(store);
        Self { store, key }
    }

    /// Loads the response into memory on a blocking thread and waits up to `timeout`. Drops and
    /// counts a damaged or foreign file.
    pub async fn load(self, timeout: Duration) {
        let Self { store, key } = self;
        let load = async {
            let permit = Arc::clone(&store.read_permits).acquire_owned().await;
            run_blocking(move || {
                // Held until the read ends, even if the caller has given up.
                let _permit = permit;
                let _slot = store.reload(&key);
            })
            .await
        };
        let _late_or_ended = tokio::time::timeout(timeout, load).await;
    }
}

/// Hides the key, which would distinguish requests.
impl fmt::Debug for DiskEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DiskEntry").finish_non_exhaustive()
    }
}
