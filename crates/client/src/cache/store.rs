//! Memory and disk as one store.
//!
//! One lock guards the index: keys in memory, files, and pending writes. Memory lookups do not take
//! it. Files are read and written without it, and the holder notices changes when it takes the lock
//! again. Files are removed under the lock, so that nothing removed can come back.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use http::{HeaderName, Uri};
use outflow_sync::Mutex;
use tokio::sync::{Notify, Semaphore};

use super::disk::{CacheDir, random_secret};
use super::disk_index::DiskIndex;
use super::entry::{CacheEntry, EntrySlot};
use super::key::{CacheKey, Digest, FlightKey, KeySecret};
use super::memory::{CachedKeys, MemoryCache};
use super::query::{BypassReason, CacheQuery};
use super::report::{CacheFaults, CacheReport, DiskState};
use super::write_queue::WriteQueue;
use super::{CacheError, CacheSettings, codec};
use disk_writer::WriteBackoff;

mod disk_writer;

/// Memory and disk.
pub(super) struct CacheStore {
    secret: KeySecret,
    memory: MemoryCache,
    disk: Result<DiskStore, DiskState>,
    index: Mutex<CacheIndex>,
    pub(super) max_response: u64,
    write_queued: Notify,
    faults: CacheFaults,
    /// Permits to read a file.
    pub(super) read_permits: Arc<Semaphore>,
    /// Writes to the resources whose hashes share a first byte.
    writes: [AtomicU64; 256],
}

struct DiskStore {
    dir: CacheDir,
    max_bytes: u64,
    /// Held by the writer, so that there is only one.
    writer: Mutex<WriteBackoff>,
}

struct CacheIndex {
    keys: CachedKeys,
    files: DiskIndex,
    queue: WriteQueue,
}

impl CacheStore {
    pub(super) fn open(settings: &CacheSettings) -> Result<Self, CacheError> {
        if settings.memory < MIN_BYTES || (settings.dir.is_some() && settings.disk < MIN_BYTES) {
            return Err(CacheError::TooSmall);
        }
        let faults = CacheFaults::default();
        let random = || random_secret().map_err(|_| CacheError::NoRandomness);
        let (disk, index, secret) = match open_disk(settings, &faults)? {
            Ok((disk, index, secret)) => (Ok(disk), index, secret),
            Err(state) => (Err(state), DiskIndex::default(), random()?),
        };
        let queue_bytes = settings.memory / 8;
        let smaller = match disk {
            Ok(_) => settings.memory.min(settings.disk),
            Err(_) => settings.memory,
        };
        let store = Self {
            secret: KeySecret::new(secret),
            memory: MemoryCache::new(settings.memory - queue_bytes).ok_or(CacheError::TooSmall)?,
            disk,
            index: Mutex::new(CacheIndex {
                keys: CachedKeys::default(),
                files: index,
                queue: WriteQueue::new(queue_bytes),
            }),
            max_response: (smaller / 16).min(MAX_RESPONSE),
            write_queued: Notify::new(),
            faults,
            read_permits: Arc::new(Semaphore::new(MAX_READS)),
            writes: std::array::from_fn(|_| AtomicU64::new(0)),
        };
        store.shrink(settings.disk);
        Ok(store)
    }

    pub(super) fn selection(&self, names: &[HeaderName], query: &CacheQuery<'_>) -> Digest {
        self.secret.selection(names, query.headers)
    }

    pub(super) fn flight_key(&self, query: &CacheQuery<'_>) -> FlightKey {
        let resource = self.secret.resource(query.api, query.uri);
        let writes = self.write_count(resource);
        self.secret
            .flight_key(query, writes.map_or(0, |writes| writes.load(Ordering::Acquire)))
    }

    /// Returns the write counter of a resource, shared by one in 256. A foreign write costs one
    /// shared call, and the counters stay few.
    fn write_count(&self, resource: Digest) -> Option<&AtomicU64> {
        self.writes.get(usize::from(*resource.first()?))
    }

    /// Returns true if the server would choose this response for the request.
    pub(super) fn matches(&self, query: &CacheQuery<'_>, entry: &CacheEntry) -> bool {
        self.selection(&entry.vary, query) == entry.selected
    }

    /// Returns the key of a request's slot, if that is only on disk.
    pub(super) fn find_on_disk(&self, query: &CacheQuery<'_>) -> Option<CacheKey> {
        if self.disk.is_err() || query.bypass() == Some(BypassReason::Off) {
            return None;
        }
        let key = self.secret.key(query);
        if self.memory.contains(&key) {
            return None;
        }
        let index = self.index.lock();
        let is_queued = index.queue.queued(&key).is_some();
        index.files.current(&key).filter(|_| !is_queued).map(|_| key)
    }

    /// Returns the slot of a request from memory or disk.
    pub(super) fn slot(&self, query: &CacheQuery<'_>) -> Option<Arc<EntrySlot>> {
        let key = self.secret.key(query);
        self.memory.slot(&key).or_else(|| self.reload(&key))
    }

    /// Returns the slot of a request in memory, also one that waits for its write.
    pub(super) fn slot_in_memory(&self, query: &CacheQuery<'_>) -> Option<Arc<EntrySlot>> {
        let key = self.secret.key(query);
        let queued = || match self.disk {
            Ok(_) => self.index.lock().queue.queued(&key).cloned(),
            Err(_) => None,
        };
        self.memory.slot(&key).or_else(queued)
    }

    /// Loads a slot from its file into memory.
    pub(super) fn reload(&self, key: &CacheKey) -> Option<Arc<EntrySlot>> {
        let disk = self.disk.as_ref().ok()?;
        let index = self.index.lock();
        if let Some(slot) = index.queue.queued(key) {
            return Some(Arc::clone(slot));
        }
        let entry = index.files.current(key)?;
        drop(index);
        let content = disk.dir.read(key, self.max_response.saturating_add(FILE_OVERHEAD));
        let read = content.ok().and_then(|file| codec::decode(&self.secret, key, file));
        let mut index = self.index.lock();
        if index.files.current(key) != Some(entry) {
            // Replaced, removed or used meanwhile: only memory is certain.
            return self.memory.slot(key);
        }
        let Some(slot) = read.map(Arc::new) else {
            self.faults.count_dropped_file();
            self.unlink(&mut index, key);
            return None;
        };
        index.files.touch(key);
        self.memory.put(&mut index.keys, *key, Arc::clone(&slot));
        Some(slot)
    }

    /// Stores a response.
    pub(super) fn put(&self, query: &CacheQuery<'_>, entry: Arc<CacheEntry>) {
        let key = self.secret.key(query);
        let mut index = self.index.lock();
        let slot = match self.memory.slot(&key) {
            Some(existing) => existing.with(entry, self.max_response),
            None => EntrySlot::new(vec![entry]),
        };
        self.replace(&mut index, key, slot);
    }

    /// Removes the response that matches a request, and all its variants if they are only on disk:
    /// their file would have to be read to keep the others.
    pub(super) fn remove(&self, query: &CacheQuery<'_>) {
        let key = self.secret.key(query);
        let mut index = self.index.lock();
        let slot = self.memory.slot(&key);
        let Some(slot) = slot.or_else(|| index.queue.queued(&key).cloned()) else {
            return self.replace(&mut index, key, EntrySlot::default());
        };
        if let Some(entry) = slot.find(|entry| self.matches(query, entry)) {
            self.replace(&mut index, key, slot.without(&entry.selected));
        }
    }

    /// Removes the responses of a resource for all callers.
    pub(super) fn remove_resource(&self, api: &str, uri: &Uri) {
        let resource = self.secret.resource(api, uri);
        let mut index = self.index.lock();
        if let Some(writes) = self.write_count(resource) {
            writes.fetch_add(1, Ordering::AcqRel);
        }
        let mut keys = index.keys.keys_of(resource);
        keys.extend(index.files.keys_of(resource));
        keys.extend(index.queue.keys_of(resource));
        for key in keys {
            self.replace(&mut index, key, EntrySlot::default());
        }
    }

    /// Replaces a slot; an empty one removes it.
    fn replace(&self, index: &mut CacheIndex, key: CacheKey, slot: EntrySlot) {
        if slot.is_empty() {
            self.memory.remove(&mut index.keys, &key);
            index.queue.cancel(&key);
            self.unlink(index, &key);
            return;
        }
        let slot = Arc::new(slot);
        self.memory.put(&mut index.keys, key, Arc::clone(&slot));
        if self.disk.is_err() {
            return;
        }
        let for_disk = slot.for_disk();
        if for_disk.is_empty() {
            index.queue.cancel(&key);
            self.unlink(index, &key);
            return;
        }
        index.files.outdate(&key);
        if index.queue.push(key, Arc::new(for_disk)) {
            self.write_queued.notify_one();
        } else {
            self.faults.count_skipped_write();
            self.unlink(index, &key);
        }
    }

    /// Removes the file of a key, if there is one.
    fn unlink(&self, index: &mut CacheIndex, key: &CacheKey) {
        let Ok(disk) = &self.disk else { return };
        if index.files.contains(key) && disk.dir.remove(key).is_err() {
            // The file stays outdated and is not served; the next start may find it again.
            index.files.outdate(key);
            self.faults.count_failed_removal();
            return;
        }
        index.files.remove(key);
    }

    /// Returns the bytes in memory.
    pub(super) fn bytes(&self) -> u64 {
        self.memory.bytes()
    }

    pub(super) fn report(&self) -> CacheReport {
        let index = self.index.lock();
        self.faults.fill(CacheReport {
            entries: index.keys.len(),
            memory: self.memory.bytes(),
            disk: index.files.bytes(),
            state: self.disk.as_ref().err().copied().unwrap_or(DiskState::Used),
            dropped_files: 0,
            failed_writes: 0,
            skipped_writes: 0,
        })
    }
}

/// Opens the directory with its index and secret, or returns why it is not used.
#[expect(clippy::type_complexity, reason = "the one caller destructures it at once")]
fn open_disk(
    settings: &CacheSettings,
    faults: &CacheFaults,
) -> Result<Result<(DiskStore, DiskIndex, [u8; 32]), DiskState>, CacheError> {
    let Some(path) = &settings.dir else {
        return Ok(Err(DiskState::None));
    };
    let dir = match CacheDir::open(path)? {
        Ok(dir) => dir,
        Err(state) => return Ok(Err(state)),
    };
    let (Ok(secret), Ok(mut listed)) = (dir.secret(), dir.list()) else {
        return Ok(Err(DiskState::Unusable));
    };
    // Files of a lost secret, and entries that are no files, can never be served.
    listed.retain(|file| {
        let is_lost = secret.is_new || file.size == 0;
        if is_lost {
            let _ = dir.remove(&file.key);
            faults.count_dropped_file();
        }
        !is_lost
    });
    let disk = DiskStore {
        dir,
        max_bytes: settings.disk,
        writer: Mutex::default(),
    };
    Ok(Ok((disk, DiskIndex::from_listed(listed), secret.bytes)))
}

/// A sixteenth of it, one disk block, suffices for a small response.
const MIN_BYTES: u64 = 64 << 10;

/// Larger responses are downloads: they would evict hundreds of others and are requested once.
const MAX_RESPONSE: u64 = 8 << 20;

/// Enough for a fast disk, and few of a runtime's blocking threads.
const MAX_READS: usize = 8;

/// Maximum content of a file beyond the weight of its slot.
const FILE_OVERHEAD: u64 = 4096;
