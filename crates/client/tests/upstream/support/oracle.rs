//! Naive oracles: they store everything and answer by addition.

use outflow::core::Nanos;

/// A span of time in which a call counts, its end excluded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CountedSpan {
    pub(crate) from: Nanos,
    pub(crate) until: Nanos,
    pub(crate) cost: u64,
}

/// Every call ever granted.
#[derive(Default, Debug)]
pub(crate) struct CountedSpans(pub(crate) Vec<CountedSpan>);

impl CountedSpans {
    /// Returns the largest sum at any instant. Only a start can be that instant.
    pub(crate) fn peak(&self) -> u64 {
        let begins = self.0.iter().map(|entry| entry.from);
        begins.map(|at| self.at(at)).max().unwrap_or(0)
    }

    /// Returns the sum at an instant.
    pub(crate) fn at(&self, at: Nanos) -> u64 {
        let live = self.0.iter().filter(|e| e.from <= at && at < e.until);
        live.map(|entry| entry.cost).sum()
    }
}
