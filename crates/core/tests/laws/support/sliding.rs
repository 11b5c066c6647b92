//! A sliding window that keeps every entry.

use outflow_core::Decision;

use super::at;

#[derive(Debug, Clone)]
pub struct Entry {
    pub time: u64,
    pub cost: u64,
    /// Expired under a window that was in force then, or refunded.
    pub gone: bool,
}

#[derive(Debug, Clone)]
pub struct SlidingOracle {
    pub quantity: u64,
    pub window: u64,
    pub entries: Vec<Entry>,
    pub latest: u64,
    /// If true, a clock that steps back stays at the latest time of any query; otherwise at that of
    /// the newest entry, which is all that a shared limiter remembers.
    pub remembers_asking: bool,
}

impl SlidingOracle {
    pub fn new(quantity: u64, window: u64) -> Self {
        Self {
            quantity,
            window,
            entries: Vec::new(),
            latest: 0,
            remembers_asking: true,
        }
    }

    /// Moves the clock to `now`, or keeps the time from which it must not step back.
    pub fn see(&mut self, now: u64) {
        let logged = self
            .entries
            .iter()
            .filter(|e| !e.gone)
            .map(|e| e.time)
            .max()
            .unwrap_or(0);
        let floor = if self.remembers_asking { self.latest } else { logged };
        self.latest = floor.max(now);
    }

    pub fn used(&self, now: u64) -> u128 {
        let counts = |e: &&Entry| !e.gone && now - e.time < self.window;
        self.entries.iter().filter(counts).map(|e| u128::from(e.cost)).sum()
    }

    /// Decides by trying every instant at which a change is possible.
    pub fn decide(&mut self, now: u64, cost: u64) -> Decision<()> {
        self.see(now);
        let fits = |at: u64| self.used(at) + u128::from(cost) <= u128::from(self.quantity);
        if cost == 0 || fits(self.latest) {
            return Decision::Allow(());
        }
        if cost > self.quantity {
            return Decision::Never;
        }
        let ends = self.entries.iter().filter_map(|e| e.time.checked_add(self.window));
        let mut instants: Vec<u64> = ends.filter(|end| *end > self.latest).collect();
        instants.sort_unstable();
        instants
            .into_iter()
            .find(|at| fits(*at))
            .map_or(Decision::Never, |t| Decision::WaitUntil(at(t)))
    }

    /// Returns the index of the new entry.
    pub fn take(&mut self, cost: u64) -> usize {
        self.entries.push(Entry {
            time: self.latest,
            cost,
            gone: false,
        });
        self.entries.len() - 1
    }

    pub fn refund(&mut self, index: usize) {
        self.entries[index].gone = true;
    }

    /// Entries that have expired stay expired under the new window.
    pub fn reconfigure(&mut self, now: u64, quantity: u64, window: u64) {
        self.see(now);
        for entry in &mut self.entries {
            entry.gone |= self.latest - entry.time >= self.window;
        }
        (self.quantity, self.window) = (quantity, window);
    }
}
