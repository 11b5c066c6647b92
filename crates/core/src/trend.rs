//! Trend of usage: the last windows, a prediction for the next, and the shape of the series.
//!
//! A moving average adapts quickly to a new level but lags behind a slope. A straight line follows
//! a slope but is thrown off by one burst. So the line is believed only where the points lie near
//! it. All of this is information for people: floating point is fine here, and no decision may
//! depend on it.

use alloc::collections::VecDeque;

/// Usage of recent windows.
///
/// ```
/// use outflow_core::{TrendShape, Trend};
///
/// let mut trend = Trend::new(Trend::DEFAULT_WINDOWS);
/// for used in [10, 20, 30, 40, 50] {
///     trend.record(used);
/// }
/// assert_eq!(trend.pattern(), TrendShape::Rising);
/// assert_eq!(trend.prediction(), Some(60));
/// ```
#[derive(Clone, Debug)]
pub struct Trend {
    windows: VecDeque<u64>,
    max_windows: usize,
    smoothed: f64,
    peak: u64,
}

impl Trend {
    /// Enough to separate a slope from noise, few enough to forget yesterday.
    pub const DEFAULT_WINDOWS: usize = 60;

    /// Remembers the last `windows`, at least 2: one point has no direction.
    pub const fn new(windows: usize) -> Self {
        Self {
            windows: VecDeque::new(),
            max_windows: if windows < 2 { 2 } else { windows },
            smoothed: 0.0,
            peak: 0,
        }
    }

    /// Records the usage of a finished window.
    pub fn record(&mut self, used: u64) {
        self.smoothed = if self.windows.is_empty() {
            real(used)
        } else {
            self.smoothed + SMOOTHING * (real(used) - self.smoothed)
        };
        if self.windows.len() >= self.max_windows {
            self.windows.pop_front();
        }
        self.windows.push_back(used);
        self.peak = self.peak.max(used);
    }

    /// Returns the highest usage of any window so far.
    pub const fn peak(&self) -> u64 {
        self.peak
    }

    /// Returns the remembered windows, oldest first.
    pub fn windows(&self) -> impl ExactSizeIterator<Item = u64> {
        self.windows.iter().copied()
    }

    /// Returns the mean in which recent windows count most; `None` before the first window.
    pub fn smoothed(&self) -> Option<f64> {
        (!self.windows.is_empty()).then_some(self.smoothed)
    }

    /// Returns the change of usage per window, along the best line.
    pub fn slope(&self) -> f64 {
        self.line().slope
    }

    /// Predicts the usage of the next window; `None` before the first window.
    pub fn prediction(&self) -> Option<u64> {
        let level = self.smoothed()?;
        Some(round_to_u64(match self.pattern() {
            TrendShape::Rising | TrendShape::Falling => self.line().at(real_len(self.windows.len())),
            TrendShape::Steady | TrendShape::Bursty => level,
        }))
    }

    /// Returns the shape of the series. An empty series is steady.
    pub fn pattern(&self) -> TrendShape {
        let line = self.line();
        if line.mean <= 0.0 {
            return TrendShape::Steady;
        }
        // Comparing squares avoids a root.
        if line.scatter > line.mean * line.mean * BURSTY * BURSTY {
            return TrendShape::Bursty;
        }
        let change = line.slope * real_len(self.windows.len().saturating_sub(1));
        if change > line.mean * MOVING {
            TrendShape::Rising
        } else if change < -line.mean * MOVING {
            TrendShape::Falling
        } else {
            TrendShape::Steady
        }
    }

    /// Fits the straight line with the least squares.
    fn line(&self) -> TrendLine {
        let count = real_len(self.windows.len().max(1));
        let middle = (count - 1.0) / 2.0;
        let mean = self.windows().map(real).sum::<f64>() / count;
        let offsets = || (0..self.windows.len()).map(|i| real_len(i) - middle);
        let spread: f64 = offsets().map(|x| x * x).sum();
        let moved: f64 = offsets().zip(self.windows()).map(|(x, y)| x * (real(y) - mean)).sum();
        let slope = if spread > 0.0 { moved / spread } else { 0.0 };
        let scatter: f64 = offsets()
            .zip(self.windows())
            .map(|(x, y)| real(y) - mean - slope * x)
            .map(|off| off * off)
            .sum();
        TrendLine {
            mean,
            middle,
            slope,
            scatter: scatter / count,
        }
    }
}

impl Default for Trend {
    fn default() -> Self {
        Self::new(Self::DEFAULT_WINDOWS)
    }
}

/// Shape of a series.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum TrendShape {
    /// About equal in every window.
    #[default]
    Steady,
    /// Growing.
    Rising,
    /// Shrinking.
    Falling,
    /// High in some windows, low in others.
    Bursty,
}

struct TrendLine {
    mean: f64,
    middle: f64,
    slope: f64,
    /// Mean square of the distances from the line.
    scatter: f64,
}

impl TrendLine {
    fn at(&self, window: f64) -> f64 {
        self.mean + self.slope * (window - self.middle)
    }
}

#[expect(
    clippy::as_conversions,
    clippy::cast_precision_loss,
    reason = "shown, never compared: 52 bits are plenty"
)]
fn real(value: u64) -> f64 {
    value as f64
}

fn real_len(value: usize) -> f64 {
    real(u64::try_from(value).unwrap_or(u64::MAX))
}

/// Rounds to the nearest whole number, from zero up.
#[expect(
    clippy::as_conversions,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the cast saturates, and a prediction below zero is zero"
)]
fn round_to_u64(value: f64) -> u64 {
    (value + 0.5) as u64
}

/// Weight of the newest window: half of the mean consists of the last two to three.
const SMOOTHING: f64 = 0.25;

/// A series moves if the line through it changes by a fifth of the mean.
const MOVING: f64 = 0.2;

/// A series is bursty if its points lie half of the mean away from the line.
const BURSTY: f64 = 0.5;

#[cfg(test)]
mod tests {
    use super::*;

    fn trend(series: impl IntoIterator<Item = u64>) -> Trend {
        let mut trend = Trend::new(10);
        for used in series {
            trend.record(used);
        }
        trend
    }

    #[test]
    fn known_series_are_recognised() {
        let cases: [(&[u64], TrendShape, u64); 8] = [
            (&[7, 7, 7, 7], TrendShape::Steady, 7),
            (&[100, 101, 99, 100, 100], TrendShape::Steady, 100),
            (&[10, 20, 30, 40, 50], TrendShape::Rising, 60),
            (&[50, 40, 30, 20, 10], TrendShape::Falling, 0),
            (&[5, 4, 3, 2, 1, 0, 0, 0], TrendShape::Falling, 0),
            (&[0, 100, 0, 0, 100, 0, 0, 100], TrendShape::Bursty, 40),
            (&[0, 0, 0], TrendShape::Steady, 0),
            (&[42], TrendShape::Steady, 42),
        ];
        for (series, pattern, next) in cases {
            let trend = trend(series.iter().copied());
            assert_eq!(trend.pattern(), pattern, "{series:?}");
            assert_eq!(trend.prediction(), Some(next), "{series:?}");
        }
    }

    // All around a mean of 100: lines that change by 24 and by 16, and points that lie 70, 55 and 45
    // away from their line.
    #[test]
    fn a_fifth_is_a_trend_and_a_half_is_a_burst() {
        let cases: [(&[u64], TrendShape); 6] = [
            (&[88, 94, 100, 106, 112], TrendShape::Rising),
            (&[112, 106, 100, 94, 88], TrendShape::Falling),
            (&[92, 96, 100, 104, 108], TrendShape::Steady),
            (&[30, 170, 170, 30], TrendShape::Bursty),
            (&[45, 155, 155, 45], TrendShape::Bursty),
            (&[55, 145, 145, 55], TrendShape::Steady),
        ];
        for (series, pattern) in cases {
            let trend = trend(series.iter().copied());
            assert_eq!(trend.pattern(), pattern, "{series:?}");
        }
    }

    #[test]
    fn an_empty_series_predicts_nothing() {
        let trend = Trend::default();
        assert_eq!((trend.prediction(), trend.smoothed()), (None, None));
        assert_eq!(trend.pattern(), TrendShape::Steady);
    }

    // y = 3x + 5 exactly.
    #[test]
    fn the_slope_of_a_line_is_found() {
        let trend = trend((0..8).map(|x| 3 * x + 5));
        assert!((trend.slope() - 3.0).abs() < 1e-9, "{}", trend.slope());
        assert_eq!(trend.prediction(), Some(29));
    }

    // From 0 to 100: a quarter of the way each time.
    #[test]
    fn the_smoothed_mean_follows_by_a_quarter() {
        let trend = trend([0, 100, 100]);
        let smoothed = trend.smoothed().expect("three windows");
        assert!((smoothed - 43.75).abs() < 1e-9, "{smoothed}");
    }

    #[test]
    fn memory_is_bounded_and_the_peak_outlives_it() {
        let trend = trend((0..1_000).rev());
        assert_eq!(trend.windows().len(), 10);
        assert_eq!(trend.windows().next(), Some(9));
        assert_eq!(trend.peak(), 999);
    }

    #[test]
    fn the_largest_values_stay_finite() {
        let trend = trend([u64::MAX; 20]);
        assert_eq!(trend.prediction(), Some(u64::MAX));
        assert!(trend.slope().is_finite());
    }
}
