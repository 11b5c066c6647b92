//! Responses that wait for their write to disk.
//!
//! Bounded in bytes: if the disk is slower than the network, the newest stay in memory only.
//! Nothing waits for the disk. The writer notices a response that was replaced or cancelled during
//! its write.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use super::entry::EntrySlot;
use super::key::{CacheKey, Digest};

/// Pending writes in order.
pub(super) struct WriteQueue {
    order: VecDeque<CacheKey>,
    slots: HashMap<CacheKey, Arc<EntrySlot>>,
    bytes: u64,
    max_bytes: u64,
    writing: Option<CacheKey>,
}

impl WriteQueue {
    /// Returns a queue of at most `max_bytes`.
    pub(super) fn new(max_bytes: u64) -> Self {
        Self {
            order: VecDeque::new(),
            slots: HashMap::new(),
            bytes: 0,
            max_bytes,
            writing: None,
        }
    }

    /// Queues a slot, replacing an older one of its key. Returns false if the queue is full.
    pub(super) fn push(&mut self, key: CacheKey, slot: Arc<EntrySlot>) -> bool {
        self.cancel(&key);
        let bytes = self.bytes.saturating_add(slot.weight());
        if bytes > self.max_bytes {
            return false;
        }
        self.bytes = bytes;
        self.slots.insert(key, slot);
        self.order.push_back(key);
        true
    }

    /// Cancels the write of a key, also one in progress.
    pub(super) fn cancel(&mut self, key: &CacheKey) {
        if self.writing == Some(*key) {
            self.writing = None;
        }
        if let Some(slot) = self.slots.remove(key) {
            self.bytes = self.bytes.saturating_sub(slot.weight());
            self.order.retain(|queued| queued != key);
        }
    }

    /// Takes the next slot to write.
    pub(super) fn pop(&mut self) -> Option<(CacheKey, Arc<EntrySlot>)> {
        let key = self.order.pop_front()?;
        let slot = self.slots.remove(&key)?;
        self.bytes = self.bytes.saturating_sub(slot.weight());
        self.writing = Some(key);
        Some((key, slot))
    }

    /// Ends the current write. Returns false if it was cancelled.
    pub(super) fn take_writing(&mut self, key: &CacheKey) -> bool {
        self.writing.take() == Some(*key)
    }

    /// Returns the keys of one resource.
    pub(super) fn keys_of(&self, resource: Digest) -> Vec<CacheKey> {
        let writing = self.writing.iter();
        let keys = self.slots.keys().chain(writing);
        keys.filter(|key| key.resource == resource).copied().collect()
    }

    /// Returns the queued slot of a key.
    pub(super) fn queued(&self, key: &CacheKey) -> Option<&Arc<EntrySlot>> {
        self.slots.get(key)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.order.is_empty()
    }
}
