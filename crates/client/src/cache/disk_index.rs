//! Index of the files on disk: sizes and order of last use.
//!
//! Built from names and sizes in the directory: a start reads no file, and no index file can be
//! wrong. A file's content is checked when it is requested.

use std::collections::BTreeMap;

use super::disk::ListedFile;
use super::key::{CacheKey, Digest};
use super::memory::key_range;

/// Files of a directory.
#[derive(Default)]
pub(super) struct DiskIndex {
    files: BTreeMap<CacheKey, FileEntry>,
    /// By last use, oldest first.
    uses: BTreeMap<u64, CacheKey>,
    next: u64,
    bytes: u64,
}

/// Entry of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct FileEntry {
    size: u64,
    last_use: u64,
    /// False while a newer response waits for its write; the file is then not served.
    is_current: bool,
}

impl DiskIndex {
    /// Builds the index; the oldest files are removed first.
    pub(super) fn from_listed(mut listed: Vec<ListedFile>) -> Self {
        listed.sort_unstable_by_key(|file| (file.written, file.key));
        let mut index = Self::default();
        for file in listed {
            index.insert(file.key, file.size);
        }
        index
    }

    /// Records a written file, which may replace an older one.
    pub(super) fn insert(&mut self, key: CacheKey, length: u64) {
        self.remove(&key);
        let size = length.div_ceil(BLOCK).saturating_mul(BLOCK);
        let last_use = self.next_use();
        self.bytes = self.bytes.saturating_add(size);
        self.uses.insert(last_use, key);
        let entry = FileEntry {
            size,
            last_use,
            is_current: true,
        };
        self.files.insert(key, entry);
    }

    /// Removes a file from the index.
    pub(super) fn remove(&mut self, key: &CacheKey) {
        if let Some(entry) = self.files.remove(key) {
            self.uses.remove(&entry.last_use);
            self.bytes = self.bytes.saturating_sub(entry.size);
        }
    }

    /// Marks a file as outdated: memory has a newer response.
    pub(super) fn outdate(&mut self, key: &CacheKey) {
        if let Some(entry) = self.files.get_mut(key) {
            entry.is_current = false;
        }
    }

    /// Returns the entry of a file that may be served.
    pub(super) fn current(&self, key: &CacheKey) -> Option<FileEntry> {
        let entry = self.files.get(key).copied()?;
        entry.is_current.then_some(entry)
    }

    /// Returns true if there is a file, current or not.
    pub(super) fn contains(&self, key: &CacheKey) -> bool {
        self.files.contains_key(key)
    }

    /// Records a use of a file.
    pub(super) fn touch(&mut self, key: &CacheKey) {
        let last_use = self.next_use();
        if let Some(entry) = self.files.get_mut(key) {
            self.uses.remove(&entry.last_use);
            self.uses.insert(last_use, *key);
            entry.last_use = last_use;
        }
    }

    /// Removes the least recently used files until the rest fits, and returns their keys.
    pub(super) fn shrink_to(&mut self, bytes: u64) -> Vec<CacheKey> {
        let mut removed = Vec::new();
        while self.bytes > bytes {
            let Some((_, key)) = self.uses.pop_first() else {
                break;
            };
            self.remove(&key);
            removed.push(key);
        }
        removed
    }

    /// Returns the keys of one resource.
    pub(super) fn keys_of(&self, resource: Digest) -> Vec<CacheKey> {
        self.files.range(key_range(resource)).map(|(key, _)| *key).collect()
    }

    /// Returns the size of all files.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    fn next_use(&mut self) -> u64 {
        self.next += 1;
        self.next
    }
}

/// Sizes count in blocks of nearly every file system: a million files of a hundred bytes take four
/// gigabytes.
const BLOCK: u64 = 4096;
