//! Stored response, and the slot with all its variants.
//!
//! A slot is the value of one key: usually one response, more if the server varies by request
//! headers. All variants share one lifetime in memory and on disk, so no second map can disagree
//! with the first. Their number is bounded: a server that varies by `User-Agent` must not fill the
//! cache with one page.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, StatusCode, header};
use outflow_core::WallTime;

use super::key::Digest;
use super::packed_head::{BUFFER_OVERHEAD, head_weight};
use crate::http::HOP_BY_HOP;

/// Stored response.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct CacheEntry {
    pub(super) status: StatusCode,
    /// Without hop-by-hop headers, and packed.
    pub(super) headers: HeaderMap,
    /// In memory of its own.
    pub(super) body: Bytes,
    /// Time of receipt.
    pub(super) received: WallTime,
    /// Age at receipt.
    pub(super) initial_age: Duration,
    /// Request headers that select the variant, sorted.
    pub(super) vary: Vec<HeaderName>,
    /// Hash of their values.
    pub(super) selected: Digest,
    /// Storage that it may use.
    pub(super) scope: StorageScope,
}

/// Storage that a response may use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum StorageScope {
    /// Memory and disk.
    Disk,
    /// Memory only: it repeats a possible secret, and memory ends with the program.
    Memory,
}

impl CacheEntry {
    /// Returns the age; `None` if the clock is before the receipt.
    pub(super) fn age(&self, now: WallTime) -> Option<Duration> {
        (now >= self.received).then(|| now.since(self.received).saturating_add(self.initial_age))
    }

    /// Returns the size in memory, in bytes.
    pub(super) fn weight(&self) -> u64 {
        let names = self.vary.len() * size_of::<HeaderName>();
        let fixed = size_of::<Self>() + BUFFER_OVERHEAD + names;
        let bytes = head_weight(&self.headers) + fixed;
        u64::try_from(self.body.len().saturating_add(bytes)).unwrap_or(u64::MAX)
    }
}

/// Values of one key, newest first.
#[derive(Clone, Debug, Default)]
pub(super) struct EntrySlot {
    entries: Vec<Arc<CacheEntry>>,
    weight: u64,
}

impl EntrySlot {
    /// Builds a slot of entries, newest first.
    pub(super) fn new(entries: Vec<Arc<CacheEntry>>) -> Self {
        let weight = entries.iter().map(|entry| entry.weight()).sum();
        Self { entries, weight }
    }

    /// Returns the slot with one more entry, which replaces its variant and, without space, the
    /// oldest.
    pub(super) fn with(&self, entry: Arc<CacheEntry>, max: u64) -> Self {
        let mut entries = vec![entry];
        let mut weight = entries.iter().map(|entry| entry.weight()).sum::<u64>();
        for old in self.entries.iter().take(MAX_VARIANTS - 1) {
            let is_replaced = entries.iter().any(|new| new.selected == old.selected);
            weight = weight.saturating_add(old.weight());
            if !is_replaced && weight <= max {
                entries.push(Arc::clone(old));
            }
        }
        Self::new(entries)
    }

    /// Returns the slot without one variant.
    pub(super) fn without(&self, selected: &Digest) -> Self {
        let others = self.entries.iter().filter(|entry| entry.selected != *selected);
        Self::new(others.cloned().collect())
    }

    /// Finds the first matching entry.
    pub(super) fn find(&self, matches: impl Fn(&CacheEntry) -> bool) -> Option<&Arc<CacheEntry>> {
        self.entries.iter().find(|entry| matches(entry))
    }

    /// Returns the part that may be written to disk.
    pub(super) fn for_disk(&self) -> Self {
        let storable = self.entries.iter().filter(|entry| entry.scope == StorageScope::Disk);
        Self::new(storable.cloned().collect())
    }

    pub(super) fn entries(&self) -> &[Arc<CacheEntry>] {
        &self.entries
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the size in memory, in bytes; never zero.
    pub(super) fn weight(&self) -> u64 {
        self.weight.saturating_add(SLOT_OVERHEAD)
    }
}

/// Removes hop-by-hop headers, including the names in `Connection`.
pub(super) fn without_hop_by_hop(headers: &HeaderMap) -> HeaderMap {
    let mut remaining = headers.clone();
    for value in headers.get_all(header::CONNECTION) {
        for name in value.to_str().unwrap_or_default().split(',') {
            remaining.remove(name.trim());
        }
    }
    for name in &HOP_BY_HOP {
        remaining.remove(name);
    }
    for name in ABOUT_THIS_RESPONSE {
        remaining.remove(name);
    }
    remaining
}

/// Headers about the path of one response, which no stored response keeps.
const ABOUT_THIS_RESPONSE: [&str; 2] = ["proxy-authentication-info", "age"];

/// Languages times encodings of one page in practice; a server with more is not worth it.
const MAX_VARIANTS: usize = 8;

/// Size of a slot without its entries: the slot itself, its place in the map, in the sorted keys and among the keys
/// that the map remembers of evicted slots. Tables have space to grow, up to half of each.
const SLOT_OVERHEAD: u64 = 320;

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
            scope: StorageScope::Disk,
        })
    }

    // Three entries of 1000 bytes with overhead into 3000: the oldest does not fit.
    #[test]
    fn a_slot_weighs_no_more_than_the_largest_response() {
        let mut slot = EntrySlot::default();
        for variant in 0..3 {
            slot = slot.with(entry(variant, 1000), 3000);
        }
        let remaining: Vec<_> = slot.entries().iter().map(|entry| entry.selected[0]).collect();
        assert_eq!(remaining, [2, 1]);
    }

    #[test]
    fn an_entry_replaces_its_own_variant() {
        let slot = EntrySlot::default().with(entry(1, 10), 9000).with(entry(2, 10), 9000);
        let slot = slot.with(entry(1, 20), 9000);
        let remaining: Vec<_> = slot.entries().iter().map(|entry| entry.body.len()).collect();
        assert_eq!(remaining, [20, 10]);
        assert_eq!(slot.without(&[1; 16]).entries().len(), 1);
    }
}
