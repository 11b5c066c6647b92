//! Delay and bandwidth of a link.

use std::num::{NonZeroU64, NonZeroUsize};
use std::time::Duration;

/// Direction of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Direction {
    /// From the client to the server.
    There,
    /// From the server to the client.
    Back,
}

/// The two paths between a client and a server, which may differ.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LinkLatency {
    /// From the client to the server.
    pub there: Path,
    /// From the server to the client.
    pub back: Path,
}

impl LinkLatency {
    /// Builds a link with an equal fixed delay each way.
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

    /// Adds this jitter to each way.
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

/// One path.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Path {
    /// Delay of every byte.
    pub delay: Duration,
    /// Additional random delay, drawn for each written piece. Earlier pieces still arrive first.
    pub jitter: Jitter,
    /// Bytes per second; unlimited if `None`.
    pub bandwidth: Option<NonZeroU64>,
    /// Maximum number of bytes in one piece; as written if `None`.
    pub segment: Option<NonZeroUsize>,
}

impl Path {
    pub(crate) fn delay(&self, chance: &mut fastrand::Rng) -> Duration {
        self.delay + self.jitter.draw(chance)
    }

    /// Returns the number of bytes in the next piece.
    pub(crate) fn piece(&self, bytes: usize) -> usize {
        self.segment.map_or(bytes, |most| most.get().min(bytes))
    }

    /// Returns the time for which these bytes occupy the path.
    pub(crate) fn occupied(&self, bytes: usize) -> Duration {
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        self.bandwidth.map_or(Duration::ZERO, |per_second| {
            Duration::from_nanos(bytes.saturating_mul(1_000_000_000) / per_second)
        })
    }
}

/// Addition to a fixed delay.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Jitter {
    /// Nothing.
    #[default]
    None,
    /// A uniform addition up to this.
    Uniform(Duration),
    /// An exponential addition with this mean, like queues in a network.
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
