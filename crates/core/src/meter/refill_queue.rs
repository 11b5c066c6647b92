//! The tokens that were taken from a bucket, in the order in which they refill.
//!
//! The bucket itself is one integer and does not know whose tokens are missing. To give exactly one
//! request's tokens back, all that is needed is how many were taken after them: those refill last.

use alloc::collections::VecDeque;
use core::mem::size_of;

use crate::Receipt;

#[derive(Debug, Clone, Default)]
pub(crate) struct RefillQueue {
    taken: u64,
    /// Tokens given back from the middle, as (mark, cost), by their marks: they refill no more.
    holes: VecDeque<(u64, u64)>,
}

impl RefillQueue {
    /// Where the next tokens will stand: the mark of their receipt.
    pub(crate) const fn end(&self) -> u64 {
        self.taken
    }

    pub(crate) fn join(&mut self, cost: u64) {
        self.taken = self.taken.saturating_add(cost);
    }

    /// All have refilled: nobody asks for a place again.
    pub(crate) fn forget(&mut self) {
        self.holes.clear();
    }

    /// How many tokens stand behind those of a receipt that is given back. `None` once the count
    /// is full, after 2⁶⁴ tokens: then nobody's place is known, and nothing can be given back.
    pub(crate) fn leave(&mut self, receipt: &Receipt) -> Option<u64> {
        let (mark, cost) = (receipt.mark(), receipt.cost().units());
        let end = mark.saturating_add(cost);
        if self.taken == u64::MAX || end > self.taken {
            return None;
        }
        let first = self.holes.partition_point(|(other, _)| *other < end);
        let gone = self
            .holes
            .range(first..)
            .fold(0_u64, |sum, (_, cost)| sum + cost);
        let behind = self.taken - end;
        if behind == 0 {
            self.shorten(mark);
        } else {
            self.dig(first, mark, cost);
        }
        Some(behind.saturating_sub(gone))
    }

    /// The end goes back to `mark`, and over the holes before it.
    fn shorten(&mut self, mark: u64) {
        self.taken = mark;
        while let Some(&(hole, cost)) = self.holes.back() {
            if hole + cost != self.taken {
                break;
            }
            self.taken = hole;
            self.holes.pop_back();
        }
    }

    fn dig(&mut self, place: usize, mark: u64, cost: u64) {
        // Forgetting the oldest returns less to those before it, never more.
        if self.holes.len() == MOST_HOLES && place > 0 {
            self.holes.pop_front();
            self.holes.insert(place - 1, (mark, cost));
        } else if self.holes.len() < MOST_HOLES {
            self.holes.insert(place, (mark, cost));
        }
    }

    pub(crate) fn memory(&self) -> usize {
        self.holes.capacity() * size_of::<(u64, u64)>()
    }
}

/// More refunds than this out of order within one refill are rare; memory stays bounded.
const MOST_HOLES: usize = 256;
