//! The way to the API and back: a base and an even spread on top of it.
//!
//! The dice are a counter and a mixing function, so that a run can be played again exactly.

use std::time::Duration;

/// Draws how long each way takes.
#[derive(Clone, Debug)]
pub struct Network {
    latency: Duration,
    jitter: Duration,
    dice: u64,
}

impl Network {
    /// A way of this length, and up to this jitter more.
    pub const fn new(latency: Duration, jitter: Duration, seed: u64) -> Self {
        Self {
            latency,
            jitter,
            dice: seed,
        }
    }

    /// How long the next way takes.
    pub fn draw(&mut self) -> Duration {
        let spread = u64::try_from(self.jitter.as_nanos()).unwrap_or(u64::MAX);
        let extra = self.roll() % spread.saturating_add(1);
        self.latency.saturating_add(Duration::from_nanos(extra))
    }

    /// The shortest way.
    pub const fn latency(&self) -> Duration {
        self.latency
    }

    /// How much longer a way may take.
    pub const fn jitter(&self) -> Duration {
        self.jitter
    }

    /// A counter of odd steps, its bits stirred until each depends on all.
    fn roll(&mut self) -> u64 {
        self.dice = self.dice.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.dice ^ (self.dice >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }
}
