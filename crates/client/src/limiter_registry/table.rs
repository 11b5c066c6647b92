//! A hash table whose slots are filled once and read without a lock.
//!
//! It uses open addressing with linear probing and is at most half full. It cannot grow or forget; a
//! larger one replaces it. Only one thread may insert at a time.

use std::sync::OnceLock;

use super::LimiterHandle;

pub(super) struct LimiterTable {
    slots: Box<[OnceLock<TableSlot>]>,
}

struct TableSlot {
    /// Compared first, so that names are compared only for an almost certain match.
    hash: u64,
    handle: LimiterHandle,
}

impl LimiterTable {
    /// Creates the first, small table.
    pub(super) fn first() -> Self {
        Self::from_slots(FIRST_SLOTS)
    }

    /// Returns a table with twice the slots and all entries of this one.
    pub(super) fn doubled(&self) -> Self {
        let larger = Self::from_slots(self.slots.len() * 2);
        for slot in self.slots.iter().filter_map(OnceLock::get) {
            larger.insert(slot.hash, slot.handle.clone());
        }
        larger
    }

    /// Returns true if it stays at most half full with this number of names, which keeps probes short.
    pub(super) fn has_space_for(&self, names: usize) -> bool {
        names <= self.slots.len() / 2
    }

    #[inline]
    pub(super) fn find(&self, hash: u64, name: &str) -> Option<&LimiterHandle> {
        self.probe(hash)
            .map_while(OnceLock::get)
            .find(|slot| slot.hash == hash && slot.handle.name() == name)
            .map(|slot| &slot.handle)
    }

    /// Inserts a new name into the first empty slot of its run. There must be space for it.
    pub(super) fn insert(&self, hash: u64, handle: LimiterHandle) {
        let mut slot = TableSlot { hash, handle };
        for target in self.probe(hash) {
            match target.set(slot) {
                Ok(()) => return,
                Err(taken) => slot = taken,
            }
        }
    }

    fn from_slots(slots: usize) -> Self {
        Self {
            slots: (0..slots).map(|_| OnceLock::new()).collect(),
        }
    }

    /// Returns all slots, beginning with that of the hash.
    #[inline]
    fn probe(&self, hash: u64) -> impl Iterator<Item = &OnceLock<TableSlot>> {
        let mask = self.slots.len() - 1;
        let start = usize::try_from(hash & u64::try_from(mask).unwrap_or(0)).unwrap_or(0);
        let (before, after) = self.slots.split_at(start);
        after.iter().chain(before)
    }
}

/// A power of two, like all sizes: enough for a program with a few APIs.
const FIRST_SLOTS: usize = 64;
