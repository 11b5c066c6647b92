//! The delay of a message.
//!
//! The two directions are drawn separately, because only the first one decides when a request
//! arrives. The runtime's timer has steps of a millisecond, so shorter delays are rounded up to
//! one.

use std::time::Duration;

use fastrand::Rng;

/// Distribution of delays.
///
/// ```
/// use std::time::Duration;
/// use outflow_mock::Latency;
///
/// let ms = Duration::from_millis;
/// let mobile = Latency::Exponential { base: ms(20), mean: ms(10) };
/// # let _ = mobile;
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Latency {
    /// No delay at all.
    #[default]
    None,
    /// A constant delay.
    Fixed(Duration),
    /// A uniform delay between the two.
    Uniform(Duration, Duration),
    /// At least `base`, and on average `mean` more, with the long tail of a busy network.
    Exponential {
        /// Minimum delay.
        base: Duration,
        /// Mean of the addition.
        mean: Duration,
    },
}

impl Latency {
    /// Draws one delay.
    pub(crate) fn draw(self, rng: &mut Rng) -> Duration {
        match self {
            Self::None => Duration::ZERO,
            Self::Fixed(delay) => delay,
            Self::Uniform(from, to) => from + to.saturating_sub(from).mul_f64(rng.f64()),
            // One minus a number below one is never zero, so the logarithm is finite.
            Self::Exponential { base, mean } => base + mean.mul_f64(-(1.0 - rng.f64()).ln()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    // 10,000 draws put the mean of an exponential within 4 % with a probability beyond 0.9999.
    #[test]
    fn delays_keep_to_their_distribution() {
        let mut rng = Rng::with_seed(7);
        assert_eq!(Latency::None.draw(&mut rng), Duration::ZERO);
        assert_eq!(Latency::Fixed(3 * MS).draw(&mut rng), 3 * MS);
        let mut total = Duration::ZERO;
        for _ in 0..10_000 {
            let uniform = Latency::Uniform(2 * MS, 5 * MS).draw(&mut rng);
            assert!((2 * MS..=5 * MS).contains(&uniform), "{uniform:?}");
            let tail = Latency::Exponential {
                base: 20 * MS,
                mean: 10 * MS,
            };
            let delay = tail.draw(&mut rng);
            assert!(delay >= 20 * MS, "{delay:?}");
            total += delay;
        }
        let mean = total / 10_000;
        assert!((mean.as_secs_f64() - 0.030).abs() < 0.0004, "{mean:?}");
    }
}
