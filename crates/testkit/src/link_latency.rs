//! How long bytes take.

use std::num::{NonZeroU64, NonZeroUsize};
use std::time::Duration;

/// One of the two directions of every connection.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Direction {
    /// From the client to the server.
    There,
    /// From the server to the client.
    Back,
}

/// The two ways between a client and a server, which need not be alike.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LinkLatency {
    /// From the client to the server.
    pub there: Path,
    /// From the server to the client.
    pub back: Path,
}

impl LinkLatency {
    /// The same fixed delay each way.
    pub fn from_delay(delay: Duration) -> Self {
        let path = Path {
            delay,
            ..Path::default()
        };
        Self {
            there: path,
            back: path,
        }
    }

    /// The same link with this jitter on top of each way.
    #[must_use]
    pub fn with_jitter(mut self, jitter: Jitter) -> Self {
        (self.there.jitter, self.back.jitter) = (jitter, jitter);
        self
    }

    pub(crate) fn path(&self, direction: Direction) -> &Path {
        match direction {
            Direction::There => &self.there,
            Direction::Back => &self.back,
        }
    }
}

/// One way.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Path {
    /// What every byte takes.
    pub delay: Duration,
    /// What comes on top of it, drawn for each piece that is written. What was written first still
    /// arrives first.
    pub jitter: Jitter,
    /// How many bytes a second go through; as many as want to if it is not said.
    pub bandwidth: Option<NonZeroU64>,
    /// The most bytes that arrive in one piece; as many as were written if it is not said.
    pub segment: Option<NonZeroUsize>,
}

impl Path {
    pub(crate) fn delay(&self, chance: &mut fastrand::Rng) -> Duration {
        self.delay + self.jitter.draw(chance)
    }

    /// How many of so many bytes make one piece.
    pub(crate) fn piece(&self, bytes: usize) -> usize {
        self.segment.map_or(bytes, |most| most.get().min(bytes))
    }

    /// How long the line is busy with so many bytes.
    pub(crate) fn occupied(&self, bytes: usize) -> Duration {
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        self.bandwidth.map_or(Duration::ZERO, |per_second| {
            Duration::from_nanos(bytes.saturating_mul(1_000_000_000) / per_second)
        })
    }
}

/// What comes on top of a fixed delay.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Jitter {
    /// Nothing.
    #[default]
    None,
    /// Anything up to this, evenly likely.
    Uniform(Duration),
    /// Mostly little and sometimes much, with this mean: what queues in a network do.
    Exponential(Duration),
}

impl Jitter {
    fn draw(self, chance: &mut fastrand::Rng) -> Duration {
        match self {
            Self::None => Duration::ZERO,
            Self::Uniform(most) => most.mul_f64(chance.f64()),
            // One minus the draw is never zero, so the logarithm is never infinite.
            Self::Exponential(mean) => mean.mul_f64(-(1.0 - chance.f64()).ln()),
        }
    }
}
