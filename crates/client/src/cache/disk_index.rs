//! Which answers are on disk, how large they are, and which goes first.
//!
//! Made from the names and sizes in the directory, so that a start reads no file and no index file can
//! be wrong. What a file holds is found out when it is asked for.

use std::collections::BTreeMap;

use super::disk::ListedFile;
use super::key::{CacheKey, Digest};
use super::memory::all_of;

/// The files of a directory.
#[derive(Default)]
pub(super) struct DiskIndex {
    files: BTreeMap<CacheKey, FileNote>,
    /// By last use, the longest ago first.
    turns: BTreeMap<u64, CacheKey>,
    next: u64,
    bytes: u64,
}

/// What is known of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct FileNote {
    size: u64,
    turn: u64,
    standing: FileStatus,
}

/// Whether a file holds what it should.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum FileStatus {
    Current,
    /// A newer answer is on its way; this one is not given any more.
    Outdated,
}

impl DiskIndex {
    /// The index of these files, the oldest going first.
    pub(super) fn from_listed(mut listed: Vec<ListedFile>) -> Self {
        listed.sort_unstable_by_key(|file| (file.written, file.key));
        let mut index = Self::default();
        for file in listed {
            index.note(file.key, file.size);
        }
        index
    }

    /// A file was written, in the place of an older one if there was.
    pub(super) fn note(&mut self, key: CacheKey, length: u64) {
        self.forget(&key);
        let size = length.div_ceil(BLOCK).saturating_mul(BLOCK);
        let (turn, standing) = (self.turn(), FileStatus::Current);
        self.bytes = self.bytes.saturating_add(size);
        self.turns.insert(turn, key);
        let noted = FileNote {
            size,
            turn,
            standing,
        };
        self.files.insert(key, noted);
    }

    /// A file is gone.
    pub(super) fn forget(&mut self, key: &CacheKey) {
        if let Some(noted) = self.files.remove(key) {
            self.turns.remove(&noted.turn);
            self.bytes = self.bytes.saturating_sub(noted.size);
        }
    }

    /// A file's answer was replaced in memory.
    pub(super) fn outdate(&mut self, key: &CacheKey) {
        if let Some(noted) = self.files.get_mut(key) {
            noted.standing = FileStatus::Outdated;
        }
    }

    /// The file of a key, if it may be given.
    pub(super) fn current(&self, key: &CacheKey) -> Option<FileNote> {
        let noted = self.files.get(key).copied()?;
        (noted.standing == FileStatus::Current).then_some(noted)
    }

    /// Whether there is a file, whatever it holds.
    pub(super) fn holds(&self, key: &CacheKey) -> bool {
        self.files.contains_key(key)
    }

    /// A file was used, and goes later.
    pub(super) fn touch(&mut self, key: &CacheKey) {
        let turn = self.turn();
        if let Some(noted) = self.files.get_mut(key) {
            self.turns.remove(&noted.turn);
            self.turns.insert(turn, *key);
            noted.turn = turn;
        }
    }

    /// Forgets what has not been used for longest until the rest fits, and says what that was.
    pub(super) fn shrink_to(&mut self, bytes: u64) -> Vec<CacheKey> {
        let mut gone = Vec::new();
        while self.bytes > bytes {
            let Some((_, key)) = self.turns.pop_first() else {
                break;
            };
            self.forget(&key);
            gone.push(key);
        }
        gone
    }

    /// The keys of one address.
    pub(super) fn of_resource(&self, resource: Digest) -> Vec<CacheKey> {
        self.files
            .range(all_of(resource))
            .map(|(key, _)| *key)
            .collect()
    }

    /// The bytes that the files take.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    fn turn(&mut self) -> u64 {
        self.next += 1;
        self.next
    }
}

/// What a file takes is counted in the blocks that nearly every file system deals in: a million files
/// of a hundred bytes are four gigabytes.
const BLOCK: u64 = 4096;
