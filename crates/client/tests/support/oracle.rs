//! Naive oracles: they keep everything for ever and answer by adding up.

use std::time::Duration;

use outflow::core::Nanos;

/// A span of time in which a call counts, at its end no more.
#[derive(Clone, Copy, Debug)]
pub struct Counted {
    pub from: Nanos,
    pub until: Nanos,
    pub cost: u64,
}

/// Everything that was ever let go.
#[derive(Default, Debug)]
pub struct Everything(pub Vec<Counted>);

impl Everything {
    /// A call sent now counts for one window.
    pub fn sent(&mut self, now: Nanos, window: Duration, cost: u64) {
        self.0.push(Counted {
            from: now,
            until: now.saturating_add(window),
            cost,
        });
    }

    /// The most that ever counted at once. Only beginnings can be the fullest moment.
    pub fn peak(&self) -> u64 {
        let begins = self.0.iter().map(|entry| entry.from);
        begins.map(|at| self.at(at)).max().unwrap_or(0)
    }

    /// What counts at an instant.
    pub fn at(&self, at: Nanos) -> u64 {
        let live = self.0.iter().filter(|e| e.from <= at && at < e.until);
        live.map(|entry| entry.cost).sum()
    }
}
