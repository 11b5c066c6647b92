//! An indexed heap: each slot knows its position.
//!
//! A tenant's key changes with every pick, and it may pause or leave from any position. A plain
//! binary heap would need a search or stale entries. Here each slot stores its position, so any
//! entry moves or leaves in O(log n). Four children per node halve the depth, and the four are
//! adjacent in memory.

use alloc::vec::Vec;

/// Heap with the smallest key first and at most one key per slot.
#[derive(Clone, Debug)]
pub(super) struct SlotHeap<K> {
    entries: Vec<HeapEntry<K>>,
    places: Vec<u32>,
}

#[derive(Clone, Copy, Debug)]
struct HeapEntry<K> {
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

    /// Returns the slot with the smallest key.
    pub(super) fn first(&self) -> Option<(K, u32)> {
        self.entries.first().map(|entry| (entry.key, entry.slot))
    }

    /// Sets the key of `slot`, new or not.
    pub(super) fn set(&mut self, slot: u32, key: K) {
        let entry = HeapEntry { key, slot };
        let place = self.place(slot).unwrap_or_else(|| {
            self.entries.push(entry);
            self.entries.len() - 1
        });
        self.settle(place, entry);
    }

    /// Removes `slot`, if present.
    pub(super) fn remove(&mut self, slot: u32) {
        let Some(place) = self.place(slot) else {
            return;
        };
        self.note(slot, index(ABSENT));
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

    /// Moves `entry` into position, starting from a free `place`.
    ///
    /// Most entries come from the top with a key that belongs near the bottom. So the gap first
    /// moves all the way down and the entry then rises: one comparison less per level.
    fn settle(&mut self, place: usize, entry: HeapEntry<K>) {
        let mut gap = self.rise(place, entry.key, 0);
        if gap == place {
            let bottom = self.sink(place);
            gap = self.rise(bottom, entry.key, place);
        }
        if let Some(target) = self.entries.get_mut(gap) {
            *target = entry;
        }
        self.note(entry.slot, gap);
    }

    /// Moves a gap up, no further than `top`, past all entries that sort after `key`.
    fn rise(&mut self, mut gap: usize, key: K, top: usize) -> usize {
        while gap > top {
            let above = (gap - 1) / CHILDREN;
            match self.entries.get(above) {
                Some(parent) if key < parent.key => self.shift(above, gap),
                _ => break,
            }
            gap = above;
        }
        gap
    }

    /// Moves a gap down to a node without children.
    fn sink(&mut self, mut gap: usize) -> usize {
        while let Some(below) = self.least_child(gap) {
            self.shift(below, gap);
            gap = below;
        }
        gap
    }

    fn least_child(&self, place: usize) -> Option<usize> {
        let from = place * CHILDREN + 1;
        let least = match self.entries.get(from..)? {
            [] => return None,
            // Two pairs and a final: independent comparisons run in parallel.
            [a, b, c, d, ..] => {
                let left = if b.key < a.key { (b, 1) } else { (a, 0) };
                let right = if d.key < c.key { (d, 3) } else { (c, 2) };
                let (_, least) = if right.0.key < left.0.key { right } else { left };
                least
            }
            few => few.iter().enumerate().min_by_key(|(_, child)| child.key)?.0,
        };
        Some(from + least)
    }

    /// Moves the entry at `from` into the gap at `to`.
    fn shift(&mut self, from: usize, to: usize) {
        let Some(&entry) = self.entries.get(from) else {
            return;
        };
        if let Some(gap) = self.entries.get_mut(to) {
            *gap = entry;
        }
        self.note(entry.slot, to);
    }

    fn note(&mut self, slot: u32, place: usize) {
        let slot = index(slot);
        let place = u32::try_from(place).unwrap_or(ABSENT);
        if slot >= self.places.len() {
            self.places.resize(slot + 1, ABSENT);
        }
        if let Some(known) = self.places.get_mut(slot) {
            *known = place;
        }
    }
}

/// Converts a slot to an index. Slots are allocated from zero, so memory ends long before 32 bits
/// do.
pub(super) fn index(slot: u32) -> usize {
    usize::try_from(slot).unwrap_or(usize::MAX)
}

/// Four keys of 32 bytes fill two cache lines, and halve the depth of a binary heap.
const CHILDREN: usize = 4;

/// Position of a slot that is not in the heap.
const ABSENT: u32 = u32::MAX;

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        // Twelve slots and keys up to 20 make ties, updates in both directions and removals common.
        #[test]
        fn agrees_with_a_linear_search(
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
