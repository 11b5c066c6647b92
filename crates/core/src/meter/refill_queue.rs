//! Tokens taken from a bucket, in the order in which they refill.
//!
//! The bucket itself is one integer and does not know which tokens are missing. To refund exactly
//! one request's tokens it needs the number taken after them: those refill last.

use alloc::collections::VecDeque;
use core::mem::size_of;

use crate::Receipt;

#[derive(Debug, Clone, Default)]
pub(crate) struct RefillQueue {
    taken: u64,
    /// Tokens refunded from the middle, as (mark, cost), by their marks: they refill no more.
    holes: VecDeque<(u64, u64)>,
}

impl RefillQueue {
    /// Returns the position of the next tokens: the mark of their receipt.
    pub(crate) const fn end(&self) -> u64 {
        self.taken
    }

    pub(crate) fn join(&mut self, cost: u64) {
        self.taken = self.taken.saturating_add(cost);
    }

    /// Resets the queue after all tokens have refilled: no position is needed again.
    pub(crate) fn forget(&mut self) {
        self.holes.clear();
    }

    /// Removes a refunded receipt and returns the number of tokens behind it. Returns `None` once
    /// the counter is full, after 2⁶⁴ tokens: positions are lost then, and nothing can be refunded.
    pub(crate) fn leave(&mut self, receipt: &Receipt) -> Option<u64> {
        let (mark, cost) = (receipt.mark(), receipt.cost().units());
        let end = mark.saturating_add(cost);
        if self.taken == u64::MAX || end > self.taken {
            return None;
        }
        let first = self.holes.partition_point(|(other, _)| *other < end);
        let gone = self.holes.range(first..).fold(0_u64, |sum, (_, cost)| sum + cost);
        let behind = self.taken - end;
        if behind == 0 {
            self.shorten(mark);
        } else {
            self.dig(first, mark, cost);
        }
        Some(behind.saturating_sub(gone))
    }

    /// Moves the end back to `mark`, and over the holes before it.
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
        // Dropping the oldest refunds less to those before it, never more.
        if self.holes.len() == MAX_HOLES && place > 0 {
            self.holes.pop_front();
            self.holes.insert(place - 1, (mark, cost));
        } else if self.holes.len() < MAX_HOLES {
            self.holes.insert(place, (mark, cost));
        }
    }

    pub(crate) fn memory(&self) -> usize {
        self.holes.capacity() * size_of::<(u64, u64)>()
    }
}

/// More refunds out of order within one refill are rare; memory stays bounded.
const MAX_HOLES: usize = 256;

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;
    use crate::meter::WindowStart;
    use crate::{Cost, Nanos};

    fn take(queue: &mut RefillQueue, cost: u64) -> Receipt {
        let receipt = Receipt::new(Nanos::ZERO, Cost::new(cost), WindowStart::FromSend);
        let receipt = receipt.marked(queue.end());
        queue.join(cost);
        receipt
    }

    // Five costs from 1 to 5: the third and the first leave, so that only present tokens stand
    // behind the others. When the last two have left, the end is that of the second.
    #[test]
    fn refunded_tokens_are_behind_no_other() {
        let mut queue = RefillQueue::default();
        let [first, second, third, fourth, fifth] = [1, 2, 3, 4, 5].map(|cost| take(&mut queue, cost));
        assert_eq!(queue.leave(&third), Some(9));
        assert_eq!(queue.leave(&first), Some(11), "2 + 4 + 5");
        assert_eq!(queue.memory(), queue.holes.capacity() * 16);
        assert!(queue.memory() >= 32);
        assert_eq!(queue.leave(&fourth), Some(5));
        assert_eq!(queue.leave(&fifth), Some(0));
        assert_eq!(
            (queue.end(), queue.holes.len()),
            (3, 1),
            "the second is the last that is there"
        );
        assert_eq!(queue.leave(&second), Some(0));
        assert_eq!((queue.end(), queue.holes.len()), (0, 0));
    }

    #[test]
    fn a_mark_beyond_the_end_is_not_refunded() {
        let mut queue = RefillQueue::default();
        let receipt = take(&mut queue, 4);
        assert_eq!(RefillQueue::default().leave(&receipt), None);
        queue.join(u64::MAX);
        assert_eq!(queue.leave(&receipt), None, "the count is full");
    }

    #[test]
    fn refilled_tokens_are_dropped() {
        let mut queue = RefillQueue::default();
        let [first, _second] = [1, 1].map(|cost| take(&mut queue, cost));
        queue.leave(&first);
        queue.forget();
        assert_eq!((queue.end(), queue.holes.len()), (2, 0));
    }

    // One more hole than are stored: the oldest is dropped, and only receipts before it see more
    // tokens behind them than there are.
    #[test]
    fn memory_is_bounded_and_the_oldest_hole_goes_first() {
        let mut queue = RefillQueue::default();
        let before = take(&mut queue, 1);
        let many: Vec<Receipt> = (0..=MAX_HOLES).map(|_| take(&mut queue, 1)).collect();
        let _last = take(&mut queue, 1);
        for receipt in &many {
            assert!(queue.leave(receipt).is_some());
        }
        assert_eq!(queue.holes.len(), MAX_HOLES);
        assert_eq!(queue.holes.front(), Some(&(2, 1)), "the hole at 1 is forgotten");
        assert_eq!(queue.leave(&before), Some(2), "one that is there, and one that is not");
        assert_eq!(queue.holes.len(), MAX_HOLES, "what would be the oldest is not kept");
    }
}
