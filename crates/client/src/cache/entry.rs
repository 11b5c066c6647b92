//! One kept answer, and the slot that holds all variants of it.
//!
//! A slot is what one key leads to: usually one answer, more if the server varies them by a request's
//! headers. All variants live and die together, in memory as on disk, because one value under one key
//! needs no second map that could disagree with the first. How many there may be is bounded: a server
//! that varies by `User-Agent` must not fill the cache with one page.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, StatusCode, header};
use outflow_core::WallTime;

use super::key::Digest;
use crate::http::HOP_BY_HOP;

/// A kept answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct CacheEntry {
    pub(super) status: StatusCode,
    /// Without those that belong to the connection they came over.
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
    /// When it came in.
    pub(super) received: WallTime,
    /// How old it already was then.
    pub(super) initial_age: Duration,
    /// The request headers that the server chose it by, sorted.
    pub(super) vary: Vec<HeaderName>,
    /// The hash of what they were.
    pub(super) selected: Digest,
    /// How far it may be kept.
    pub(super) reach: StorageScope,
}

/// How far an answer may be kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum StorageScope {
    /// In memory and on disk.
    Disk,
    /// In memory only: it repeats what may be a secret, and memory is gone with the program.
    Memory,
}

impl CacheEntry {
    /// How old it is; `None` if the clock says that it has not come yet.
    pub(super) fn age(&self, now: WallTime) -> Option<Duration> {
        (now >= self.received).then(|| now.since(self.received).saturating_add(self.initial_age))
    }

    /// What it weighs in memory, in bytes.
    pub(super) fn weight(&self) -> u64 {
        let headers: usize = self
            .headers
            .iter()
            .map(|(name, value)| name.as_str().len() + value.len() + HEADER_OVERHEAD)
            .sum();
        let names = self.vary.len() * HEADER_OVERHEAD;
        let bytes = headers
            .saturating_add(names)
            .saturating_add(self.body.len());
        u64::try_from(bytes)
            .unwrap_or(u64::MAX)
            .saturating_add(ENTRY_OVERHEAD)
    }
}

/// Everything under one key, the newest first.
#[derive(Clone, Debug, Default)]
pub(super) struct EntrySlot {
    entries: Vec<Arc<CacheEntry>>,
    weight: u64,
}

impl EntrySlot {
    /// A slot of these, the newest first.
    pub(super) fn new(entries: Vec<Arc<CacheEntry>>) -> Self {
        let weight = entries.iter().map(|entry| entry.weight()).sum();
        Self { entries, weight }
    }

    /// The same with one more, which takes the place of its like and, if there is no room, of the
    /// oldest.
    pub(super) fn with(&self, entry: Arc<CacheEntry>, largest: u64) -> Self {
        let mut entries = vec![entry];
        let mut weight = entries.iter().map(|entry| entry.weight()).sum::<u64>();
        for old in self.entries.iter().take(MOST_VARIANTS - 1) {
            let like = entries.iter().any(|new| new.selected == old.selected);
            weight = weight.saturating_add(old.weight());
            if !like && weight <= largest {
                entries.push(Arc::clone(old));
            }
        }
        Self::new(entries)
    }

    /// The same without those that are like this one.
    pub(super) fn without(&self, selected: &Digest) -> Self {
        let others = self
            .entries
            .iter()
            .filter(|entry| entry.selected != *selected);
        Self::new(others.cloned().collect())
    }

    /// The first that fits.
    pub(super) fn find(&self, fits: impl Fn(&CacheEntry) -> bool) -> Option<&Arc<CacheEntry>> {
        self.entries.iter().find(|entry| fits(entry))
    }

    /// What of it may be written to disk.
    pub(super) fn written(&self) -> Self {
        let lasting = self
            .entries
            .iter()
            .filter(|entry| entry.reach == StorageScope::Disk);
        Self::new(lasting.cloned().collect())
    }

    pub(super) fn entries(&self) -> &[Arc<CacheEntry>] {
        &self.entries
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// What it weighs in memory, in bytes; never nothing.
    pub(super) fn weight(&self) -> u64 {
        self.weight.saturating_add(ENTRY_OVERHEAD)
    }
}

/// The headers without those that are about the connection, also those that `Connection` names.
pub(super) fn end_to_end(headers: &HeaderMap) -> HeaderMap {
    let mut kept = headers.clone();
    for named in headers.get_all(header::CONNECTION) {
        for name in named.to_str().unwrap_or_default().split(',') {
            kept.remove(name.trim());
        }
    }
    for name in &HOP_BY_HOP {
        kept.remove(name);
    }
    for name in ABOUT_THIS_RESPONSE {
        kept.remove(name);
    }
    kept
}

/// Headers about the path of one response, which no stored response keeps.
const ABOUT_THIS_RESPONSE: [&str; 2] = ["proxy-authentication-info", "age"];

/// Languages times encodings of one page, in practice; a server that has more is not worth it.
const MOST_VARIANTS: usize = 8;

/// What a map spends on a header beside its text, about.
const HEADER_OVERHEAD: usize = 64;

/// What keys, counters and pointers around an answer take, about: an empty one is not free.
const ENTRY_OVERHEAD: u64 = 256;

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(selected: u8, bytes: usize) -> Arc<CacheEntry> {
        Arc::new(CacheEntry {
            status: StatusCode::OK,
            headers: HeaderMap::new(),
            body: vec![0; bytes].into(),
            received: WallTime::EPOCH,
            initial_age: Duration::ZERO,
            vary: Vec::new(),
            selected: [selected; 16],
            reach: StorageScope::Disk,
        })
    }

    // Three of 1000 bytes and what is around them into 3000: the oldest has no room.
    #[test]
    fn a_slot_of_many_variants_weighs_no_more_than_one_answer_may() {
        let mut slot = EntrySlot::default();
        for variant in 0..3 {
            slot = slot.with(entry(variant, 1000), 3000);
        }
        let kept: Vec<_> = slot
            .entries()
            .iter()
            .map(|entry| entry.selected[0])
            .collect();
        assert_eq!(kept, [2, 1]);
    }

    #[test]
    fn an_answer_takes_the_place_of_its_like() {
        let slot = EntrySlot::default()
            .with(entry(1, 10), 9000)
            .with(entry(2, 10), 9000);
        let slot = slot.with(entry(1, 20), 9000);
        let kept: Vec<_> = slot
            .entries()
            .iter()
            .map(|entry| entry.body.len())
            .collect();
        assert_eq!(kept, [20, 10]);
        assert_eq!(slot.without(&[1; 16]).entries().len(), 1);
    }
}
