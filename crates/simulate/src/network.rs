//! Network latency: a base and a uniform jitter.
//!
//! The random numbers are a counter and a mixing function, so that a run is repeatable.

use std::time::Duration;

/// Source of one-way latencies.
#[derive(Clone, Debug)]
pub struct Network {
    /// Shortest latency.
    pub latency: Duration,
    /// Largest addition to the latency.
    pub jitter: Duration,
    counter: u64,
}

impl Network {
    /// Creates a network with this latency and up to this jitter.
    pub const fn new(latency: Duration, jitter: Duration, seed: u64) -> Self {
        Self {
            latency,
            jitter,
            counter: seed,
        }
    }

    /// Returns the next one-way latency.
    pub fn draw(&mut self) -> Duration {
        let spread = u64::try_from(self.jitter.as_nanos()).unwrap_or(u64::MAX);
        let extra = self.next_random() % spread.saturating_add(1);
        self.latency.saturating_add(Duration::from_nanos(extra))
    }

    /// Advances the counter by an odd step and mixes its bits until each depends on all.
    fn next_random(&mut self) -> u64 {
        self.counter = self.counter.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.counter ^ (self.counter >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }
}
