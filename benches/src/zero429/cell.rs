//! One cell of the matrix: a server, a rate, a network and how many send.

use std::time::Duration;

use outflow_core::Rate;
use outflow_mock::{Latency, Quota};

/// What is run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Cell {
    pub(crate) server: Kept,
    /// So many in a second.
    pub(crate) quantity: u32,
    pub(crate) jitter: Duration,
    pub(crate) senders: u32,
}

/// How the server keeps its limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kept {
    SlidingLog,
    FixedWindow,
    TokenBucket,
}

impl Cell {
    /// The mean of what each way takes beyond its base.
    pub(crate) const JITTERS: [Duration; 3] = [
        Duration::ZERO,
        Duration::from_millis(10),
        Duration::from_millis(50),
    ];

    /// The one that is repeated over real sockets.
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

    /// What both ends are told; `None` cannot be.
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

    /// Each way, from this base.
    pub(crate) fn latency(self, base: Duration) -> Latency {
        if self.jitter.is_zero() {
            return Latency::Fixed(base);
        }
        Latency::Exponential {
            base,
            mean: self.jitter,
        }
    }

    /// What the names of figures about one jitter end with.
    pub(crate) fn suffix(jitter: Option<Duration>) -> String {
        jitter.map_or_else(String::new, |jitter| {
            format!("_jitter{}", jitter.as_millis())
        })
    }
}

/// What each way takes at least.
pub(crate) const BASE: Duration = Duration::from_millis(20);
