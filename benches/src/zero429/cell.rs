//! One cell of the matrix: a server, a rate, a network and the senders.

use std::time::Duration;

use outflow_core::Rate;
use outflow_mock::{Latency, Quota};

/// Parameters of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Cell {
    pub(crate) server: Kept,
    /// Limit a second.
    pub(crate) quantity: u32,
    pub(crate) jitter: Duration,
    pub(crate) senders: u32,
}

/// Enforcement of the limit by the server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kept {
    SlidingLog,
    FixedWindow,
    TokenBucket,
}

impl Cell {
    /// Mean delay of each way beyond its base.
    pub(crate) const JITTERS: [Duration; 3] = [Duration::ZERO, Duration::from_millis(10), Duration::from_millis(50)];

    /// The cell that is repeated over real sockets.
    pub(crate) const REAL: Self = Self {
        server: Kept::SlidingLog,
        quantity: 50,
        jitter: Duration::from_millis(10),
        senders: 4,
    };

    pub(crate) fn all() -> Vec<Self> {
        let mut cells = Vec::new();
        for server in [Kept::SlidingLog, Kept::FixedWindow, Kept::TokenBucket] {
            for quantity in [10, 50] {
                for jitter in Self::JITTERS {
                    cells.extend([1, 4].map(|senders| Self {
                        server,
                        quantity,
                        jitter,
                        senders,
                    }));
                }
            }
        }
        cells
    }

    pub(crate) const fn window() -> Duration {
        Duration::from_secs(1)
    }

    /// Returns the rate of both ends; `None` if it is invalid.
    pub(crate) fn rate(self) -> Option<Rate> {
        Rate::new(u64::from(self.quantity), Self::window()).ok()
    }

    pub(crate) fn quota(self) -> Option<Quota> {
        let rate = self.rate()?;
        Some(match self.server {
            Kept::SlidingLog => Quota::sliding(rate),
            Kept::FixedWindow => Quota::fixed(rate),
            Kept::TokenBucket => Quota::bucket(rate, u64::from(self.quantity)),
        })
    }

    /// Returns the delay of each way, from this base.
    pub(crate) fn latency(self, base: Duration) -> Latency {
        if self.jitter.is_zero() {
            return Latency::Fixed(base);
        }
        Latency::Exponential {
            base,
            mean: self.jitter,
        }
    }

    /// Returns the suffix of figures about one jitter.
    pub(crate) fn suffix(jitter: Option<Duration>) -> String {
        jitter.map_or_else(String::new, |jitter| format!("_jitter{}", jitter.as_millis()))
    }
}

/// Smallest delay of each way.
pub(crate) const BASE: Duration = Duration::from_millis(20);
