//! Memory cache: a concurrent map with a weight limit, and its keys in order.
//!
//! The map evicts by itself and allows concurrent reads. The sorted keys find all copies of one
//! resource without a full scan. Both agree because every change goes through one lock, which the
//! caller holds.

use std::collections::BTreeSet;
use std::sync::Arc;

use quick_cache::sync::Cache as Map;
use quick_cache::{DefaultHashBuilder, Lifecycle, OptionsBuilder, Weighter};

use super::entry::EntrySlot;
use super::key::{CacheKey, Digest};

/// Responses in memory.
pub(super) struct MemoryCache {
    map: Map<CacheKey, Arc<EntrySlot>, SlotWeighter, DefaultHashBuilder, EvictionLog>,
}

/// Keys of the cached responses. The holder may change the cache.
#[derive(Default)]
pub(super) struct CachedKeys {
    sorted: BTreeSet<CacheKey>,
}

impl MemoryCache {
    /// Returns a cache of this size; `None` if the size is invalid.
    pub(super) fn new(bytes: u64) -> Option<Self> {
        let items = usize::try_from(bytes / TYPICAL_WEIGHT).unwrap_or(usize::MAX);
        let options = OptionsBuilder::new()
            .shards(SHARDS)
            .estimated_items_capacity(items.clamp(64, MAX_RESERVED))
            .weight_capacity(bytes)
            .build()
            .ok()?;
        let hash = DefaultHashBuilder::default();
        Some(Self {
            map: Map::with_options(options, SlotWeighter, hash, EvictionLog),
        })
    }

    /// Returns the slot of a key.
    pub(super) fn slot(&self, key: &CacheKey) -> Option<Arc<EntrySlot>> {
        self.map.get(key)
    }

    /// Inserts a slot and evicts others if necessary.
    pub(super) fn put(&self, keys: &mut CachedKeys, key: CacheKey, slot: Arc<EntrySlot>) {
        let mut evicted = Vec::new();
        keys.sorted.insert(key);
        self.map.insert_with_lifecycle(key, slot, &mut evicted);
        for key in evicted {
            keys.sorted.remove(&key);
        }
    }

    /// Removes the slot of a key.
    pub(super) fn remove(&self, keys: &mut CachedKeys, key: &CacheKey) {
        keys.sorted.remove(key);
        self.map.remove(key);
    }

    /// Returns true if there is a slot. Does not count as a use.
    pub(super) fn contains(&self, key: &CacheKey) -> bool {
        self.map.contains_key(key)
    }

    /// Returns the used bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.map.weight()
    }
}

impl CachedKeys {
    /// Returns the keys of one resource.
    pub(super) fn keys_of(&self, resource: Digest) -> Vec<CacheKey> {
        self.sorted.range(key_range(resource)).copied().collect()
    }

    /// Returns the number of keys.
    pub(super) fn len(&self) -> usize {
        self.sorted.len()
    }
}

/// Returns the range of all keys of one resource.
pub(super) fn key_range(resource: Digest) -> std::ops::RangeInclusive<CacheKey> {
    let bound = |byte| CacheKey {
        resource,
        caller: [byte; 16],
    };
    bound(u8::MIN)..=bound(u8::MAX)
}

#[derive(Clone)]
struct SlotWeighter;

impl Weighter<CacheKey, Arc<EntrySlot>> for SlotWeighter {
    fn weight(&self, _: &CacheKey, slot: &Arc<EntrySlot>) -> u64 {
        slot.weight()
    }
}

/// Collects evicted keys, so that the key set follows.
#[derive(Clone)]
struct EvictionLog;

impl Lifecycle<CacheKey, Arc<EntrySlot>> for EvictionLog {
    type RequestState = Vec<CacheKey>;

    fn on_evict(&self, evicted: &mut Vec<CacheKey>, key: CacheKey, _: Arc<EntrySlot>) {
        evicted.push(key);
    }
}

/// Few enough that the largest response, a sixteenth of all, fits into each several times.
const SHARDS: usize = 4;

/// Approximate weight of a JSON response; only sizes the initial table.
const TYPICAL_WEIGHT: u64 = 4096;

/// The table grows on demand: a large limit alone reserves no more than this.
const MAX_RESERVED: usize = 16_384;
