//! A fixed window that replays its whole history at every query.

use outflow_core::Decision;

use super::at;

#[derive(Debug, Clone)]
pub struct FixedOracle {
    pub quantity: u64,
    pub window: u64,
    /// Start of aligned windows; `None` if they begin with the first use.
    pub phase: Option<u64>,
    /// (time, cost, given back)
    pub entries: Vec<(u64, u64, bool)>,
    pub latest: u64,
}

impl FixedOracle {
    pub fn new(quantity: u64, window: u64, phase: Option<u64>) -> Self {
        Self {
            quantity,
            window,
            phase,
            entries: Vec::new(),
            latest: 0,
        }
    }

    /// Returns the start and the end of the window around `now`, by walking all windows from the
    /// start.
    fn bounds(&self, now: u64) -> Option<(u64, u64)> {
        if let Some(phase) = self.phase {
            let mut start = (phase % self.window).saturating_sub(self.window);
            let mut end = phase % self.window;
            while end <= now {
                (start, end) = (end, end + self.window);
            }
            return Some((start, end));
        }
        let mut start: Option<u64> = None;
        for &(time, cost, _) in &self.entries {
            if cost > 0 && start.is_none_or(|s| time - s >= self.window) {
                start = Some(time);
            }
        }
        start.filter(|s| now - s < self.window).map(|s| (s, s + self.window))
    }

    pub fn used(&self, now: u64) -> u64 {
        let Some((start, _)) = self.bounds(now) else {
            return 0;
        };
        let counts = |e: &&(u64, u64, bool)| e.0 >= start && !e.2;
        self.entries.iter().filter(counts).map(|e| e.1).sum()
    }

    pub fn decide(&mut self, now: u64, cost: u64) -> Decision<()> {
        self.latest = self.latest.max(now);
        if cost == 0 || self.used(self.latest) + cost <= self.quantity {
            return Decision::Allow(());
        }
        if cost > self.quantity {
            return Decision::Never;
        }
        let (_, end) = self.bounds(self.latest).expect("something was used");
        Decision::WaitUntil(at(end))
    }

    pub fn take(&mut self, cost: u64) -> usize {
        self.entries.push((self.latest, cost, false));
        self.entries.len() - 1
    }

    pub fn refund(&mut self, index: usize) {
        self.entries[index].2 = true;
    }
}
