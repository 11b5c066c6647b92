//! Results of the calls, as their callers saw them.

use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

/// Counts of all callers.
#[derive(Debug, Default)]
pub(super) struct CallCounts {
    sent: AtomicU64,
    over: AtomicU64,
    failed: AtomicU64,
    governed: AtomicU64,
    doubtful: AtomicU64,
    unexpected: AtomicU64,
    first: Mutex<Vec<String>>,
}

impl CallCounts {
    /// Records the start of a request.
    pub(super) fn begins(&self) {
        self.sent.fetch_add(1, Ordering::Relaxed);
    }

    /// Records a request that the program must count as a call of the API.
    pub(super) fn is_governed(&self) {
        self.governed.fetch_add(1, Ordering::Relaxed);
    }

    /// Records a request that may be one: a caller that hangs up does not learn whether it was read.
    pub(super) fn may_be_governed(&self) {
        self.doubtful.fetch_add(1, Ordering::Relaxed);
    }

    /// Records the end of a request, with or without a response.
    pub(super) fn ends(&self) {
        self.over.fetch_add(1, Ordering::Relaxed);
    }

    /// Records a failed response.
    pub(super) fn fails(&self) {
        self.failed.fetch_add(1, Ordering::Relaxed);
    }

    /// Records an unexplained result; the first few are stored as text.
    pub(super) fn surprise(&self, words: impl FnOnce() -> String) {
        self.unexpected.fetch_add(1, Ordering::Relaxed);
        let mut first = self.first.lock();
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

    pub(super) fn in_flight(&self) -> u64 {
        self.sent().saturating_sub(self.over.load(Ordering::Relaxed))
    }

    /// Returns the first surprises as text.
    pub(super) fn first(&self) -> Vec<String> {
        let first = self.first.lock();
        first.clone()
    }
}

/// Enough to see the cause.
const FEW: usize = 20;
