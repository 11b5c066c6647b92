//! A heap in which every slot knows its place.
//!
//! A tenant's key changes with every pick, and it may pause or leave from anywhere in the order. A
//! plain binary heap would have to be searched or filled with stale entries for that; here a slot's
//! position is kept beside it, so any entry moves or leaves in O(log n). Four children per node
//! make the tree half as deep, and the four lie next to each other in memory.

use alloc::vec::Vec;

/// The smallest key first; at most one key per slot.
#[derive(Clone, Debug)]
pub(super) struct SlotHeap<K> {
    entries: Vec<Entry<K>>,
    places: Vec<u32>,
}

#[derive(Clone, Copy, Debug)]
struct Entry<K> {
    key: K,
    slot: u32,
}

impl<K: Ord + Copy> SlotHeap<K> {
    pub(super) const fn new() -> Self {
        Self {
            entries: Vec::new(),
            places: Vec::new(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn contains(&self, slot: u32) -> bool {
        self.place(slot).is_some()
    }

    /// The slot with the smallest key.
    pub(super) fn first(&self) -> Option<(K, u32)> {
        self.entries.first().map(|entry| (entry.key, entry.slot))
    }

    /// Gives `slot` this key, whether or not it had one.
    pub(super) fn set(&mut self, slot: u32, key: K) {
        let entry = Entry { key, slot };
        let place = self.place(slot).unwrap_or_else(|| {
            self.entries.push(entry);
            self.entries.len() - 1
        });
        self.settle(place, entry);
    }

    /// Takes `slot` out, if it is in.
    pub(super) fn remove(&mut self, slot: u32) {
        let Some(place) = self.place(slot) else {
            return;
        };
        self.note(slot, ABSENT);
        if let Some(last) = self.entries.pop()
            && place < self.entries.len()
        {
            self.settle(place, last);
        }
    }

    fn place(&self, slot: u32) -> Option<usize> {
        let place = *self.places.get(index(slot))?;
        (place != ABSENT).then(|| index(place))
    }

    /// Puts `entry` where it belongs, starting from a free `place`.
    fn settle(&mut self, place: usize, entry: Entry<K>) {
        let risen = self.rise(place, &entry);
        let place = if risen == place {
            self.sink(place, &entry)
        } else {
            risen
        };
        self.put(place, entry);
    }

    fn rise(&mut self, mut place: usize, entry: &Entry<K>) -> usize {
        while place > 0 {
            let above = (place - 1) / CHILDREN;
            match self.entries.get(above) {
                Some(&parent) if entry.key < parent.key => self.put(place, parent),
                _ => break,
            }
            place = above;
        }
        place
    }

    fn sink(&mut self, mut place: usize, entry: &Entry<K>) -> usize {
        while let Some((below, child)) = self.least_child(place) {
            if entry.key <= child.key {
                break;
            }
            self.put(place, child);
            place = below;
        }
        place
    }

    fn least_child(&self, place: usize) -> Option<(usize, Entry<K>)> {
        let from = place * CHILDREN + 1;
        let to = self.entries.len().min(from + CHILDREN);
        let children = self.entries.get(from..to)?;
        let (offset, least) = children
            .iter()
            .enumerate()
            .min_by_key(|(_, child)| child.key)?;
        Some((from + offset, *least))
    }

    fn put(&mut self, place: usize, entry: Entry<K>) {
        if let Some(seat) = self.entries.get_mut(place) {
            *seat = entry;
        }
        self.note(entry.slot, u32::try_from(place).unwrap_or(ABSENT));
    }

    fn note(&mut self, slot: u32, place: u32) {
        let slot = index(slot);
        if slot >= self.places.len() {
            self.places.resize(slot + 1, ABSENT);
        }
        if let Some(known) = self.places.get_mut(slot) {
            *known = place;
        }
    }
}

/// A slot as an index. Slots are handed out from zero, so memory ends long before 32 bits do.
pub(super) fn index(slot: u32) -> usize {
    usize::try_from(slot).unwrap_or(usize::MAX)
}

/// Four keys of 32 bytes fill two cache lines, and halve the depth of a binary heap.
const CHILDREN: usize = 4;

/// The place of a slot that is not in the heap.
const ABSENT: u32 = u32::MAX;

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        // Twelve slots and keys up to 20 make ties, updates in both directions and removals common.
        #[test]
        fn agrees_with_a_map_that_is_searched(
            steps in proptest::collection::vec((0_u32..12, proptest::option::of(0_u64..20)), 0..200)
        ) {
            let mut heap = SlotHeap::new();
            let mut naive = BTreeMap::new();
            for (slot, key) in steps {
                if let Some(key) = key {
                    heap.set(slot, (key, slot));
                    naive.insert(slot, (key, slot));
                } else {
                    heap.remove(slot);
                    naive.remove(&slot);
                }
                let least = naive.values().min().copied();
                prop_assert_eq!(heap.first().map(|(key, _)| key), least);
                prop_assert_eq!(heap.len(), naive.len());
            }
        }
    }
}
