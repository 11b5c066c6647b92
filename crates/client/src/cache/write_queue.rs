//! Answers that are yet to be written to disk.
//!
//! Bounded in bytes: when the disk is slower than the network the newest are not written, and are then
//! in memory only. Nothing waits for the disk. An answer that is replaced or withdrawn while its file
//! is being written is noticed when the writer comes back.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use super::entry::EntrySlot;
use super::key::{CacheKey, Digest};

/// What is to be written, in order.
pub(super) struct WriteQueue {
    order: VecDeque<CacheKey>,
    slots: HashMap<CacheKey, Arc<EntrySlot>>,
    bytes: u64,
    most: u64,
    in_hand: Option<CacheKey>,
}

/// Whether the backlog took an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Queued {
    Yes,
    Full,
}

impl WriteQueue {
    /// One that holds so many bytes.
    pub(super) fn new(most: u64) -> Self {
        Self {
            order: VecDeque::new(),
            slots: HashMap::new(),
            bytes: 0,
            most,
            in_hand: None,
        }
    }

    /// Adds what is to be written under a key; only the last of several is.
    pub(super) fn push(&mut self, key: CacheKey, slot: Arc<EntrySlot>) -> Queued {
        self.withdraw(&key);
        let bytes = self.bytes.saturating_add(slot.weight());
        if bytes > self.most {
            return Queued::Full;
        }
        self.bytes = bytes;
        self.slots.insert(key, slot);
        self.order.push_back(key);
        Queued::Yes
    }

    /// Nothing is to be written under a key any more, and what is just being written does not count.
    pub(super) fn withdraw(&mut self, key: &CacheKey) {
        if self.in_hand == Some(*key) {
            self.in_hand = None;
        }
        if let Some(slot) = self.slots.remove(key) {
            self.bytes = self.bytes.saturating_sub(slot.weight());
            self.order.retain(|waiting| waiting != key);
        }
    }

    /// The next to be written.
    pub(super) fn pop(&mut self) -> Option<(CacheKey, Arc<EntrySlot>)> {
        let key = self.order.pop_front()?;
        let slot = self.slots.remove(&key)?;
        self.bytes = self.bytes.saturating_sub(slot.weight());
        self.in_hand = Some(key);
        Some((key, slot))
    }

    /// Whether what was popped last still counts.
    pub(super) fn still_counts(&mut self, key: &CacheKey) -> bool {
        self.in_hand.take() == Some(*key)
    }

    /// The keys of one address.
    pub(super) fn of_resource(&self, resource: Digest) -> Vec<CacheKey> {
        let in_hand = self.in_hand.iter();
        let keys = self.slots.keys().chain(in_hand);
        keys.filter(|key| key.resource == resource)
            .copied()
            .collect()
    }

    /// What is yet to be written under a key.
    pub(super) fn waiting(&self, key: &CacheKey) -> Option<&Arc<EntrySlot>> {
        self.slots.get(key)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.order.is_empty()
    }
}
