//! What came of the calls, as those who made them saw it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Counts of all callers.
#[derive(Debug, Default)]
pub(super) struct Seen {
    sent: AtomicU64,
    over: AtomicU64,
    failed: AtomicU64,
    governed: AtomicU64,
    doubtful: AtomicU64,
    unexpected: AtomicU64,
    first: Mutex<Vec<String>>,
}

impl Seen {
    /// A request begins.
    pub(super) fn begins(&self) {
        self.sent.fetch_add(1, Ordering::Relaxed);
    }

    /// It was one that the program must count as a call of the API.
    pub(super) fn is_governed(&self) {
        self.governed.fetch_add(1, Ordering::Relaxed);
    }

    /// It may have been one: whoever hangs up does not learn whether the request was read before.
    pub(super) fn may_be_governed(&self) {
        self.doubtful.fetch_add(1, Ordering::Relaxed);
    }

    /// It is over, with or without an answer.
    pub(super) fn ends(&self) {
        self.over.fetch_add(1, Ordering::Relaxed);
    }

    /// It brought no good answer.
    pub(super) fn fails(&self) {
        self.failed.fetch_add(1, Ordering::Relaxed);
    }

    /// Something happened that nothing explains; the first few are kept in words.
    pub(super) fn surprise(&self, words: impl FnOnce() -> String) {
        self.unexpected.fetch_add(1, Ordering::Relaxed);
        let mut first = self.first.lock().unwrap_or_else(PoisonError::into_inner);
        if first.len() < FEW {
            let words = words();
            eprintln!("unexpected: {words}");
            first.push(words);
        }
    }

    pub(super) fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    pub(super) fn governed(&self) -> u64 {
        self.governed.load(Ordering::Relaxed)
    }

    pub(super) fn doubtful(&self) -> u64 {
        self.doubtful.load(Ordering::Relaxed)
    }

    pub(super) fn failed(&self) -> u64 {
        self.failed.load(Ordering::Relaxed)
    }

    pub(super) fn unexpected(&self) -> u64 {
        self.unexpected.load(Ordering::Relaxed)
    }

    pub(super) fn under_way(&self) -> u64 {
        self.sent()
            .saturating_sub(self.over.load(Ordering::Relaxed))
    }

    /// The first surprises, in words.
    pub(super) fn first(&self) -> Vec<String> {
        let first = self.first.lock().unwrap_or_else(PoisonError::into_inner);
        first.clone()
    }
}

/// Enough to see what is wrong.
const FEW: usize = 20;
