//! A token bucket that replays its whole history at every query.
//!
//! Levels are counted in tokens times the rate's span, so that a nanosecond refills a whole number
//! (the quantity) of them.

use outflow_core::Decision;

use super::at;

#[derive(Debug, Clone)]
pub struct BucketOracle {
    pub quantity: u64,
    pub per: u64,
    pub burst: u64,
    /// (time, cost, given back)
    pub entries: Vec<(u64, u64, bool)>,
    pub latest: u64,
}

impl BucketOracle {
    pub fn new(quantity: u64, per: u64, burst: u64) -> Self {
        Self {
            quantity,
            per,
            burst,
            entries: Vec::new(),
            latest: 0,
        }
    }

    /// Returns the level at `now` as if the refunded ones had never been taken; `None` if it was
    /// overdrawn.
    pub fn level(&self, now: u64) -> Option<u128> {
        let full = u128::from(self.burst) * u128::from(self.per);
        let (mut level, mut last) = (full, 0_u64);
        for &(time, cost, gone) in self.entries.iter().filter(|e| !e.2) {
            debug_assert!(!gone);
            level = full.min(level + u128::from(time - last) * u128::from(self.quantity));
            level = level.checked_sub(u128::from(cost) * u128::from(self.per))?;
            last = time;
        }
        Some(full.min(level + u128::from(now - last) * u128::from(self.quantity)))
    }

    pub fn decide(&mut self, now: u64, cost: u64) -> Decision<()> {
        self.latest = self.latest.max(now);
        let wanted = u128::from(cost) * u128::from(self.per);
        let level = self.level(self.latest).expect("never overdrawn");
        if cost == 0 || level >= wanted {
            return Decision::Allow(());
        }
        if cost > self.burst {
            return Decision::Never;
        }
        let missing = wanted - level;
        let nanos = u64::try_from(missing.div_ceil(u128::from(self.quantity))).expect("small");
        Decision::WaitUntil(at(self.latest + nanos))
    }

    pub fn take(&mut self, cost: u64) -> usize {
        self.entries.push((self.latest, cost, false));
        self.entries.len() - 1
    }

    pub fn refund(&mut self, index: usize) {
        self.entries[index].2 = true;
    }
}
