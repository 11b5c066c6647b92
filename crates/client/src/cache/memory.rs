//! The answers in memory: a map with a weight cap, and the order of its keys.
//!
//! The map evicts by itself and can be read by many threads at once; which keys it holds is known
//! beside it, sorted, so that all copies of one address are found without a walk over everything. The
//! two agree because every change of either goes through one lock, which the caller holds.

use std::collections::BTreeSet;
use std::sync::Arc;

use quick_cache::sync::Cache as Map;
use quick_cache::{DefaultHashBuilder, Lifecycle, OptionsBuilder, Weighter};

use super::entry::EntrySlot;
use super::key::{CacheKey, Digest};

/// The answers in memory.
pub(super) struct MemoryCache {
    map: Map<CacheKey, Arc<EntrySlot>, ByBytes, DefaultHashBuilder, EvictionLog>,
}

/// The keys of what is on the shelf. Whoever holds it may change the shelf.
#[derive(Default)]
pub(super) struct CachedKeys {
    sorted: BTreeSet<CacheKey>,
}

impl MemoryCache {
    /// A shelf for so many bytes; `None` if there is no such shelf.
    pub(super) fn new(bytes: u64) -> Option<Self> {
        let items = usize::try_from(bytes / TYPICAL_WEIGHT).unwrap_or(usize::MAX);
        let options = OptionsBuilder::new()
            .shards(SHARDS)
            .estimated_items_capacity(items.clamp(64, MOST_RESERVED))
            .weight_capacity(bytes)
            .build()
            .ok()?;
        let hash = DefaultHashBuilder::default();
        Some(Self {
            map: Map::with_options(options, ByBytes, hash, EvictionLog),
        })
    }

    /// What is under a key.
    pub(super) fn slot(&self, key: &CacheKey) -> Option<Arc<EntrySlot>> {
        self.map.get(key)
    }

    /// Puts a slot under a key, and others away if there is no room.
    pub(super) fn put(&self, keys: &mut CachedKeys, key: CacheKey, slot: Arc<EntrySlot>) {
        let mut gone = Vec::new();
        keys.sorted.insert(key);
        self.map.insert_with_lifecycle(key, slot, &mut gone);
        for key in gone {
            keys.sorted.remove(&key);
        }
    }

    /// Takes away what is under a key.
    pub(super) fn remove(&self, keys: &mut CachedKeys, key: &CacheKey) {
        keys.sorted.remove(key);
        self.map.remove(key);
    }

    /// Whether something is under a key, without counting as a use of it.
    pub(super) fn holds(&self, key: &CacheKey) -> bool {
        self.map.contains_key(key)
    }

    /// The bytes on it.
    pub(super) fn bytes(&self) -> u64 {
        self.map.weight()
    }
}

impl CachedKeys {
    /// The keys of one address.
    pub(super) fn get(&self, resource: Digest) -> Vec<CacheKey> {
        self.sorted.range(all_of(resource)).copied().collect()
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.sorted.len()
    }
}

/// The range of all keys of one address.
pub(super) fn all_of(resource: Digest) -> std::ops::RangeInclusive<CacheKey> {
    let end = |byte| CacheKey {
        resource,
        caller: [byte; 16],
    };
    end(u8::MIN)..=end(u8::MAX)
}

#[derive(Clone)]
struct ByBytes;

impl Weighter<CacheKey, Arc<EntrySlot>> for ByBytes {
    fn weight(&self, _: &CacheKey, slot: &Arc<EntrySlot>) -> u64 {
        slot.weight()
    }
}

/// Remembers what went, so that the keys can follow.
#[derive(Clone)]
struct EvictionLog;

impl Lifecycle<CacheKey, Arc<EntrySlot>> for EvictionLog {
    type RequestState = Vec<CacheKey>;

    fn on_evict(&self, gone: &mut Vec<CacheKey>, key: CacheKey, _: Arc<EntrySlot>) {
        gone.push(key);
    }
}

/// Few enough that the largest answer, a sixteenth of all, fits into each several times.
const SHARDS: usize = 4;

/// What an answer of a JSON API weighs, about; it only sizes the table at first.
const TYPICAL_WEIGHT: u64 = 4096;

/// The table grows when it must: a large cap alone reserves no more than this.
const MOST_RESERVED: usize = 16_384;
