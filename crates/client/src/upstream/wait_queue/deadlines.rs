//! Deadlines of the waiters under one circuit.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use outflow_core::Nanos;

/// Deadlines, earliest first. Entries of waiters that left are removed late.
#[derive(Debug, Default)]
pub(super) struct DeadlineQueue {
    pub(super) waiting: usize,
    heap: BinaryHeap<Reverse<(Nanos, u64, usize)>>,
}

impl DeadlineQueue {
    pub(super) fn push(&mut self, deadline: Nanos, number: u64, key: usize) {
        if deadline < Nanos::MAX {
            self.heap.push(Reverse((deadline, number, key)));
        }
    }

    /// Returns the earliest deadline, or `Nanos::MAX`.
    pub(super) fn first(&self) -> Nanos {
        let first = self.heap.peek();
        first.map_or(Nanos::MAX, |Reverse((at, ..))| *at)
    }

    /// Removes the next entry with a deadline before `end` and returns its waiter's number and key.
    pub(super) fn pop_before(&mut self, end: Nanos) -> Option<(u64, usize)> {
        if self.first() >= end {
            return None;
        }
        let first = self.heap.pop();
        first.map(|Reverse((_, number, key))| (number, key))
    }

    /// Drops the entries of waiters that left, once they are the majority.
    pub(super) fn drop_stale(&mut self, waits: impl Fn(u64, usize) -> bool) {
        if self.heap.len() > FEW && self.heap.len() / 2 > self.waiting {
            self.heap.retain(|Reverse((_, number, key))| waits(*number, *key));
        }
    }

    /// Returns the heap memory in bytes.
    pub(super) fn memory(&self) -> usize {
        self.heap.capacity() * size_of::<Reverse<(Nanos, u64, usize)>>()
    }

    /// Returns unused memory.
    pub(super) fn prune(&mut self) {
        self.heap.shrink_to_fit();
    }
}

/// Below this number, stale deadlines cost nothing.
const FEW: usize = 64;
