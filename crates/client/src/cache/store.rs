//! Memory and disk as one: where a slot is found, put and forgotten.
//!
//! One lock, the ledger's, is around everything that says what is where: the keys on the shelf, the
//! files, what is yet to be written. Looking up what is in memory does not take it; files are read and
//! written without it, and what changed meanwhile is noticed when it is taken again. Files that must go
//! are removed while it is held, so that nothing forgotten can come back.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::{HeaderName, Uri};
use tokio::sync::{Notify, Semaphore};

use super::disk::{CacheDir, OpenedDir, SecretFile, random_secret};
use super::disk_index::DiskIndex;
use super::entry::{CacheEntry, EntrySlot};
use super::key::{CacheKey, Digest, FlightKey, KeySecret};
use super::memory::{CachedKeys, MemoryCache};
use super::query::{BypassReason, CacheQuery};
use super::report::{CacheFaults, CacheReport, DiskState};
use super::write_queue::{Queued, WriteQueue};
use super::{CacheError, CacheSettings, codec};
use disk_writer::WriteBackoff;

mod disk_writer;

/// Memory and disk.
pub(super) struct CacheStore {
    seal: KeySecret,
    shelf: MemoryCache,
    disk: Result<DiskStore, DiskState>,
    ledger: Mutex<StoreCounts>,
    largest: u64,
    written: Notify,
    faults: CacheFaults,
    /// Leave to read a file.
    reads: Arc<Semaphore>,
    /// How many writes there were to the resources whose hashes begin with a byte.
    writes: [AtomicU64; 256],
}

struct DiskStore {
    folder: CacheDir,
    most: u64,
    /// Held by whoever writes, so that two do not.
    writer: Mutex<WriteBackoff>,
}

struct StoreCounts {
    keys: CachedKeys,
    index: DiskIndex,
    backlog: WriteQueue,
}

impl CacheStore {
    pub(super) fn open(settings: &CacheSettings) -> Result<Self, CacheError> {
        if settings.memory < LEAST || (settings.dir.is_some() && settings.disk < LEAST) {
            return Err(CacheError::TooSmall);
        }
        let faults = CacheFaults::default();
        let random = || random_secret().map_err(|_| CacheError::NoRandomness);
        let (disk, index, secret) = match open_disk(settings, &faults)? {
            Ok((disk, index, secret)) => (Ok(disk), index, secret),
            Err(state) => (Err(state), DiskIndex::default(), random()?),
        };
        let backlog = settings.memory / 8;
        let smaller = match disk {
            Ok(_) => settings.memory.min(settings.disk),
            Err(_) => settings.memory,
        };
        let store = Self {
            seal: KeySecret::new(secret),
            shelf: MemoryCache::new(settings.memory - backlog).ok_or(CacheError::TooSmall)?,
            disk,
            ledger: Mutex::new(StoreCounts {
                keys: CachedKeys::default(),
                index,
                backlog: WriteQueue::new(backlog),
            }),
            largest: (smaller / 16).min(LARGEST),
            written: Notify::new(),
            faults,
            reads: Arc::new(Semaphore::new(READS_AT_A_TIME)),
            writes: std::array::from_fn(|_| AtomicU64::new(0)),
        };
        store.shrink(settings.disk);
        Ok(store)
    }

    /// The largest answer that is kept.
    pub(super) fn largest(&self) -> u64 {
        self.largest
    }

    pub(super) fn selection(&self, names: &[HeaderName], query: &CacheQuery<'_>) -> Digest {
        self.seal.selection(names, query.headers)
    }

    pub(super) fn flight(&self, query: &CacheQuery<'_>) -> FlightKey {
        let resource = self.seal.resource(query.api, query.uri);
        let writes = self.writes_to(resource);
        self.seal.flight(
            query,
            writes.map_or(0, |writes| writes.load(Ordering::Acquire)),
        )
    }

    /// The count of writes that a resource shares with one in 256: a write too many costs a call that
    /// could have been shared, and the counts stay few.
    fn writes_to(&self, resource: Digest) -> Option<&AtomicU64> {
        self.writes.get(usize::from(*resource.first()?))
    }

    /// Whether the server would choose this answer for the request.
    pub(super) fn fits(&self, query: &CacheQuery<'_>, entry: &CacheEntry) -> bool {
        self.selection(&entry.vary, query) == entry.selected
    }

    /// Who is given this may read a file; few are at a time.
    pub(super) fn reads(&self) -> &Arc<Semaphore> {
        &self.reads
    }

    /// The key of a request's slot, if that is on disk only.
    pub(super) fn cold(&self, query: &CacheQuery<'_>) -> Option<CacheKey> {
        if self.disk.is_err() || query.bypass() == Some(BypassReason::Off) {
            return None;
        }
        let key = self.seal.key(query);
        if self.shelf.holds(&key) {
            return None;
        }
        let ledger = self.ledger();
        let waits = ledger.backlog.waiting(&key).is_some();
        ledger.index.current(&key).filter(|_| !waits).map(|_| key)
    }

    /// What is under a request's key, from wherever it is.
    pub(super) fn slot(&self, query: &CacheQuery<'_>) -> Option<Arc<EntrySlot>> {
        let key = self.seal.key(query);
        self.shelf.slot(&key).or_else(|| self.reload(&key))
    }

    /// What is under a request's key in memory, on the shelf or on its way to the disk.
    pub(super) fn slot_in_memory(&self, query: &CacheQuery<'_>) -> Option<Arc<EntrySlot>> {
        let key = self.seal.key(query);
        let waiting = || match self.disk {
            Ok(_) => self.ledger().backlog.waiting(&key).cloned(),
            Err(_) => None,
        };
        self.shelf.slot(&key).or_else(waiting)
    }

    /// Brings a slot back into memory. Reads a file.
    pub(super) fn reload(&self, key: &CacheKey) -> Option<Arc<EntrySlot>> {
        let disk = self.disk.as_ref().ok()?;
        let ledger = self.ledger();
        if let Some(slot) = ledger.backlog.waiting(key) {
            return Some(Arc::clone(slot));
        }
        let noted = ledger.index.current(key)?;
        drop(ledger);
        let content = disk
            .folder
            .read(key, self.largest.saturating_add(FILE_OVERHEAD));
        let read = content
            .ok()
            .and_then(|file| codec::decode(&self.seal, key, file));
        let mut ledger = self.ledger();
        if ledger.index.current(key) != Some(noted) {
            // Replaced, forgotten or used meanwhile: only what is on the shelf by now is certain.
            return self.shelf.slot(key);
        }
        let Some(slot) = read.map(Arc::new) else {
            self.faults.dropped_file();
            self.unlink(&mut ledger, key);
            return None;
        };
        ledger.index.touch(key);
        self.shelf.put(&mut ledger.keys, *key, Arc::clone(&slot));
        Some(slot)
    }

    /// Keeps an answer.
    pub(super) fn put(&self, query: &CacheQuery<'_>, entry: Arc<CacheEntry>) {
        let key = self.seal.key(query);
        let mut ledger = self.ledger();
        let slot = match self.shelf.slot(&key) {
            Some(known) => known.with(entry, self.largest),
            None => EntrySlot::new(vec![entry]),
        };
        self.replace(&mut ledger, key, slot);
    }

    /// Forgets the answer that fits a request, and all variants of it if they are only on disk: to
    /// spare the others, their file would have to be read.
    pub(super) fn displace(&self, query: &CacheQuery<'_>) {
        let key = self.seal.key(query);
        let mut ledger = self.ledger();
        let slot = self.shelf.slot(&key);
        let Some(slot) = slot.or_else(|| ledger.backlog.waiting(&key).cloned()) else {
            return self.replace(&mut ledger, key, EntrySlot::default());
        };
        if let Some(entry) = slot.find(|entry| self.fits(query, entry)) {
            self.replace(&mut ledger, key, slot.without(&entry.selected));
        }
    }

    /// Forgets everybody's answers from an address.
    pub(super) fn forget(&self, api: &str, uri: &Uri) {
        let resource = self.seal.resource(api, uri);
        let mut ledger = self.ledger();
        if let Some(writes) = self.writes_to(resource) {
            writes.fetch_add(1, Ordering::AcqRel);
        }
        let mut keys = ledger.keys.get(resource);
        keys.extend(ledger.index.of_resource(resource));
        keys.extend(ledger.backlog.of_resource(resource));
        for key in keys {
            self.replace(&mut ledger, key, EntrySlot::default());
        }
    }

    /// Puts a slot in the place of another; an empty one takes everything away.
    fn replace(&self, ledger: &mut StoreCounts, key: CacheKey, slot: EntrySlot) {
        if slot.is_empty() {
            self.shelf.remove(&mut ledger.keys, &key);
            ledger.backlog.withdraw(&key);
            self.unlink(ledger, &key);
            return;
        }
        let slot = Arc::new(slot);
        self.shelf.put(&mut ledger.keys, key, Arc::clone(&slot));
        if self.disk.is_err() {
            return;
        }
        let written = slot.written();
        if written.is_empty() {
            ledger.backlog.withdraw(&key);
            self.unlink(ledger, &key);
            return;
        }
        ledger.index.outdate(&key);
        match ledger.backlog.push(key, Arc::new(written)) {
            Queued::Yes => self.written.notify_one(),
            Queued::Full => {
                self.faults.skipped_write();
                self.unlink(ledger, &key);
            }
        }
    }

    /// Removes a key's file, if there is one.
    fn unlink(&self, ledger: &mut StoreCounts, key: &CacheKey) {
        let Ok(disk) = &self.disk else { return };
        if ledger.index.holds(key) && disk.folder.remove(key).is_err() {
            // It stays outdated, and is not given; the next start may find it again.
            ledger.index.outdate(key);
            self.faults.failed_removal();
            return;
        }
        ledger.index.forget(key);
    }

    pub(super) fn report(&self) -> CacheReport {
        let ledger = self.ledger();
        self.faults.fill(CacheReport {
            entries: ledger.keys.len(),
            memory: self.shelf.bytes(),
            disk: ledger.index.bytes(),
            state: self.disk.as_ref().err().copied().unwrap_or(DiskState::Used),
            dropped_files: 0,
            failed_writes: 0,
            skipped_writes: 0,
        })
    }

    fn ledger(&self) -> MutexGuard<'_, StoreCounts> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The directory with its index and secret, or why there is none.
#[expect(
    clippy::type_complexity,
    reason = "three things that are taken apart at once"
)]
fn open_disk(
    settings: &CacheSettings,
    faults: &CacheFaults,
) -> Result<Result<(DiskStore, DiskIndex, [u8; 32]), DiskState>, CacheError> {
    let Some(path) = &settings.dir else {
        return Ok(Err(DiskState::None));
    };
    let folder = match CacheDir::open(path)? {
        OpenedDir::Ours(folder) => folder,
        OpenedDir::Elsewhere => return Ok(Err(DiskState::Elsewhere)),
        OpenedDir::Unusable => return Ok(Err(DiskState::Unusable)),
    };
    let (Ok((secret, found)), Ok(mut listed)) = (folder.secret(), folder.list()) else {
        return Ok(Err(DiskState::Unusable));
    };
    // Files of a secret that is lost, and what only looks like a file of ours, can never be given.
    listed.retain(|file| {
        let hopeless = found == SecretFile::New || file.size == 0;
        if hopeless {
            let _ = folder.remove(&file.key);
            faults.dropped_file();
        }
        !hopeless
    });
    let disk = DiskStore {
        folder,
        most: settings.disk,
        writer: Mutex::default(),
    };
    Ok(Ok((disk, DiskIndex::from_listed(listed), secret)))
}

/// A sixteenth of it, a block of the disk, is enough for a small answer.
const LEAST: u64 = 64 << 10;

/// Larger answers are downloads: they would push out hundreds of others and are asked for once.
const LARGEST: u64 = 8 << 20;

/// Enough to keep a fast disk busy, and few of the threads on which a runtime lets things block.
const READS_AT_A_TIME: usize = 8;

/// What a file holds beside what its slot weighs, at most.
const FILE_OVERHEAD: u64 = 4096;
