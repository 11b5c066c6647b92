//! Writes of responses to disk, one at a time.
//!
//! A failed write costs only that file. Some writes after it are skipped, because a full disk stays
//! full for a while and each attempt takes time.

use super::{CacheStore, FILE_OVERHEAD};
use crate::cache::codec;
use crate::cache::key::CacheKey;

impl CacheStore {
    /// Waits until there is something to write.
    pub(in crate::cache) async fn wait_for_writes(&self) {
        loop {
            let write_queued = self.write_queued.notified();
            if !self.index.lock().queue.is_empty() {
                return;
            }
            write_queued.await;
        }
    }

    /// Writes the next slot. Returns false if there was none.
    pub(in crate::cache) fn write_next(&self) -> bool {
        let Ok(disk) = &self.disk else { return false };
        let mut backoff = disk.writer.lock();
        let Some((key, slot)) = self.index.lock().queue.pop() else {
            return false;
        };
        let file = codec::encode(&self.secret, &key, &slot);
        let length = u64::try_from(file.len()).unwrap_or(u64::MAX);
        let needed = length.saturating_add(FILE_OVERHEAD);
        self.shrink(disk.max_bytes.saturating_sub(needed));
        let result = backoff.write_or_skip(|| disk.dir.write(&key, &file));
        self.record(key, length, result);
        true
    }

    /// Records the result of a write.
    fn record(&self, key: CacheKey, length: u64, result: WriteOutcome) {
        let mut index = self.index.lock();
        let is_wanted = index.queue.take_writing(&key);
        match result {
            WriteOutcome::Written => {
                self.faults.clear_failing();
                index.files.insert(key, length);
                if !is_wanted {
                    self.unlink(&mut index, &key);
                }
            }
            WriteOutcome::Failed => {
                self.faults.count_failed_write();
                self.unlink(&mut index, &key);
            }
            WriteOutcome::Skipped => {
                self.faults.count_skipped_write();
                self.unlink(&mut index, &key);
            }
        }
    }

    /// Removes files until the rest fits.
    pub(super) fn shrink(&self, max_bytes: u64) {
        let Ok(disk) = &self.disk else { return };
        let mut index = self.index.lock();
        for key in index.files.shrink_to(max_bytes) {
            if disk.dir.remove(&key).is_err() {
                self.faults.count_failed_removal();
            }
        }
    }
}

/// Writes to skip after a failed one.
#[derive(Default)]
pub(super) struct WriteBackoff {
    skips: u64,
}

enum WriteOutcome {
    Written,
    Failed,
    Skipped,
}

impl WriteBackoff {
    /// Writes unless a write has just failed: a full disk is not tried for every response.
    fn write_or_skip(&mut self, write: impl FnOnce() -> std::io::Result<()>) -> WriteOutcome {
        if self.skips > 0 {
            self.skips -= 1;
            return WriteOutcome::Skipped;
        }
        if write().is_ok() {
            return WriteOutcome::Written;
        }
        self.skips = SKIPPED_WRITES;
        WriteOutcome::Failed
    }
}

/// About the number of responses that a busy client stores per second.
const SKIPPED_WRITES: u64 = 64;

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use http::{HeaderMap, Method, StatusCode, Uri};
    use outflow_core::WallTime;

    use super::*;
    use crate::api::CacheMode;
    use crate::cache::entry::{CacheEntry, StorageScope};
    use crate::cache::{CacheQuery, CacheSettings};

    // The file is written but not recorded when its resource is removed.
    #[test]
    fn a_response_removed_during_its_write_leaves_no_file() {
        let dir = tempfile::tempdir().expect("a directory");
        let settings = CacheSettings {
            dir: Some(dir.path().to_owned()),
            ..CacheSettings::default()
        };
        let store = CacheStore::open(&settings).expect("a store");
        let (uri, headers) = (Uri::from_static("http://a/"), HeaderMap::new());
        let query = CacheQuery {
            api: "a",
            method: &Method::GET,
            uri: &uri,
            headers: &headers,
            credential: None,
            mode: CacheMode::Standard,
        };
        let entry = CacheEntry {
            status: StatusCode::OK,
            headers: HeaderMap::new(),
            body: "body".into(),
            received: WallTime::EPOCH,
            initial_age: Duration::ZERO,
            selected: store.selection(&[], &query),
            vary: Vec::new(),
            scope: StorageScope::Disk,
        };
        store.put(&query, Arc::new(entry));
        let (key, slot) = store.index.lock().queue.pop().expect("one is queued");
        let file = codec::encode(&store.secret, &key, &slot);
        let disk = store.disk.as_ref().expect("a disk");
        disk.dir.write(&key, &file).expect("writable");
        store.remove_resource("a", &uri);
        store.record(key, 4, WriteOutcome::Written);
        assert!(store.slot(&query).is_none());
        assert!(!dir.path().join(key.file_name()).exists());
    }
}
