//! Bringing answers to disk, one at a time, by whoever has the time for it.
//!
//! A write that fails costs the answer's file and nothing else; after one, some are skipped, because a
//! disk that is full stays so for a while and each attempt takes its time.

use std::sync::PoisonError;

use super::{CacheStore, FILE_OVERHEAD};
use crate::cache::codec;
use crate::cache::key::CacheKey;

impl CacheStore {
    /// Waits until something is to be written.
    pub(in crate::cache) async fn pending(&self) {
        loop {
            let written = self.written.notified();
            if !self.ledger().backlog.is_empty() {
                return;
            }
            written.await;
        }
    }

    /// Writes the next slot, and says whether there was one.
    pub(in crate::cache) fn write_next(&self) -> bool {
        let Ok(disk) = &self.disk else { return false };
        let mut rest = disk.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((key, slot)) = self.ledger().backlog.pop() else {
            return false;
        };
        let file = codec::encode(&self.seal, &key, &slot);
        let length = u64::try_from(file.len()).unwrap_or(u64::MAX);
        let room = length.saturating_add(FILE_OVERHEAD);
        self.shrink(disk.most.saturating_sub(room));
        let result = rest.spared_or(|| disk.folder.write(&key, &file));
        self.settle(key, length, result);
        true
    }

    /// Enters a write into the books.
    fn settle(&self, key: CacheKey, length: u64, result: WriteOutcome) {
        let mut ledger = self.ledger();
        let counts = ledger.backlog.still_counts(&key);
        match result {
            WriteOutcome::Yes => {
                self.faults.wrote();
                ledger.index.note(key, length);
                if !counts {
                    self.unlink(&mut ledger, &key);
                }
            }
            WriteOutcome::Failed => {
                self.faults.failed_write();
                self.unlink(&mut ledger, &key);
            }
            WriteOutcome::Spared => {
                self.faults.skipped_write();
                self.unlink(&mut ledger, &key);
            }
        }
    }

    /// Removes files until the rest fits.
    pub(super) fn shrink(&self, most: u64) {
        let Ok(disk) = &self.disk else { return };
        let mut ledger = self.ledger();
        for key in ledger.index.shrink_to(most) {
            if disk.folder.remove(&key).is_err() {
                self.faults.failed_removal();
            }
        }
    }
}

/// After a write that failed, how many are skipped before the next is tried.
#[derive(Default)]
pub(super) struct WriteBackoff {
    writes: u64,
}

enum WriteOutcome {
    Yes,
    Failed,
    Spared,
}

impl WriteBackoff {
    /// Writes, unless it failed a moment ago: a full disk is not asked again for every answer.
    fn spared_or(&mut self, write: impl FnOnce() -> std::io::Result<()>) -> WriteOutcome {
        if self.writes > 0 {
            self.writes -= 1;
            return WriteOutcome::Spared;
        }
        if write().is_ok() {
            return WriteOutcome::Yes;
        }
        self.writes = RESTED_WRITES;
        WriteOutcome::Failed
    }
}

/// About as many answers as a busy client keeps in a second.
const RESTED_WRITES: u64 = 64;

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

    // The file is written and not yet entered into the books when its address is forgotten.
    #[test]
    fn an_answer_withdrawn_while_it_is_written_does_not_stay() {
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
            reach: StorageScope::Disk,
        };
        store.put(&query, Arc::new(entry));
        let (key, slot) = store.ledger().backlog.pop().expect("one waits");
        let file = codec::encode(&store.seal, &key, &slot);
        let disk = store.disk.as_ref().expect("a disk");
        disk.folder.write(&key, &file).expect("writable");
        store.forget("a", &uri);
        store.settle(key, 4, WriteOutcome::Yes);
        assert!(store.slot(&query).is_none());
        assert!(!dir.path().join(key.file_name()).exists());
    }
}
