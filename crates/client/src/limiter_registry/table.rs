//! A hash table whose slots are filled once and read without a lock.
//!
//! Open addressing with linear probing, at most half full. It cannot grow and cannot forget; a larger
//! one takes its place. Only one thread may insert at a time.

use std::sync::OnceLock;

use super::LimiterHandle;

pub(super) struct LimiterTable {
    slots: Box<[OnceLock<TableSlot>]>,
}

struct TableSlot {
    /// Kept here so that a name is compared only where it almost certainly matches.
    hash: u64,
    handle: LimiterHandle,
}

impl LimiterTable {
    /// A small one, to begin with.
    pub(super) fn first() -> Self {
        Self::from_slots(FIRST_SLOTS)
    }

    /// Twice the slots, with all that this one holds.
    pub(super) fn doubled(&self) -> Self {
        let larger = Self::from_slots(self.slots.len() * 2);
        for slot in self.slots.iter().filter_map(OnceLock::get) {
            larger.insert(slot.hash, slot.handle.clone());
        }
        larger
    }

    /// Whether it stays at most half full: longer runs of full slots would have to be searched.
    pub(super) fn has_room_for(&self, names: usize) -> bool {
        names <= self.slots.len() / 2
    }

    #[inline]
    pub(super) fn find(&self, hash: u64, name: &str) -> Option<&LimiterHandle> {
        self.probe(hash)
            .map_while(OnceLock::get)
            .find(|slot| slot.hash == hash && slot.handle.name() == name)
            .map(|slot| &slot.handle)
    }

    /// Puts a name into the first empty slot of its run. It must be new and have room.
    pub(super) fn insert(&self, hash: u64, handle: LimiterHandle) {
        let mut slot = TableSlot { hash, handle };
        for place in self.probe(hash) {
            match place.set(slot) {
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

    /// All slots, beginning where the hash points.
    #[inline]
    fn probe(&self, hash: u64) -> impl Iterator<Item = &OnceLock<TableSlot>> {
        let mask = self.slots.len() - 1;
        let start = usize::try_from(hash & u64::try_from(mask).unwrap_or(0)).unwrap_or(0);
        let (before, after) = self.slots.split_at(start);
        after.iter().chain(before)
    }
}

/// A power of two, as all that follow: enough for a program that talks to a few APIs.
const FIRST_SLOTS: usize = 64;
