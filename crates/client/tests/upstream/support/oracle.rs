//! Naive oracles: they keep everything for ever and answer by adding up.

use outflow::core::Nanos;

/// A span of time in which a call counts, at its end no more.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counted {
    pub(crate) from: Nanos,
    pub(crate) until: Nanos,
    pub(crate) cost: u64,
}

/// Everything that was ever let go.
#[derive(Default, Debug)]
pub(crate) struct Everything(pub(crate) Vec<Counted>);

impl Everything {
    /// The most that ever counted at once. Only beginnings can be the fullest moment.
    pub(crate) fn peak(&self) -> u64 {
        let begins = self.0.iter().map(|entry| entry.from);
        begins.map(|at| self.at(at)).max().unwrap_or(0)
    }

    /// What counts at an instant.
    pub(crate) fn at(&self, at: Nanos) -> u64 {
        let live = self.0.iter().filter(|e| e.from <= at && at < e.until);
        live.map(|entry| entry.cost).sum()
    }
}
