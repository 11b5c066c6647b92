//! Facts that an account stores for its holders.
//!
//! A wait that the API asked for and limits that evidence lowered hold for every process with the same
//! key, and after a restart. Their meaning is the holders' affair: the account compares generations, so
//! that of two holders that write at once the second reads first.

use alloc::vec::Vec;
use core::time::Duration;

use crate::account::{FactUpdate, SharedFacts};
use crate::time::span_nanos;

/// Most words of the facts of one account.
pub const MAX_FACT_WORDS: usize = 256;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct StoredFacts {
    pub(super) generation: u64,
    pub(super) written_at: u64,
    /// End of their lifetime.
    pub(super) until: u64,
    pub(super) words: Vec<u64>,
}

impl StoredFacts {
    /// Drops facts whose lifetime has ended.
    pub(super) fn advance(&mut self, now: u64) {
        if now >= self.until {
            self.words.clear();
        }
    }

    /// Stores an update, unless others wrote since the holder read.
    pub(super) fn update(&mut self, update: &FactUpdate<'_>, now: u64) {
        if update.based_on != self.generation || update.words.len() > MAX_FACT_WORDS {
            return;
        }
        self.generation += 1;
        self.written_at = now;
        self.until = now.saturating_add(span_nanos(update.lifetime));
        self.words = update.words.to_vec();
    }

    /// Returns the facts for a holder that knows this generation.
    pub(super) fn unseen(&self, seen: u64, now: u64) -> Option<SharedFacts> {
        (seen != self.generation).then(|| SharedFacts {
            generation: self.generation,
            age: Duration::from_nanos(now.saturating_sub(self.written_at)),
            words: self.words.clone(),
        })
    }
}
