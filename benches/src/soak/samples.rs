//! Samples of the process over time, and their growth.

use std::time::Duration;

use crate::measure::{approx, median};

/// The process at one moment.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Sample {
    pub(super) at: Duration,
    pub(super) rss_mib: f64,
    /// Memory that is not backed by files.
    pub(super) anon_mib: f64,
    pub(super) fds: u64,
    pub(super) threads: u64,
    pub(super) log_bytes: u64,
    pub(super) cache_bytes: u64,
}

/// The process over time.
#[derive(Debug)]
pub(super) struct Samples {
    all: Vec<Sample>,
    span: Duration,
}

impl Samples {
    /// Returns samples for a run of this length.
    pub(super) const fn over(span: Duration) -> Self {
        Self { all: Vec::new(), span }
    }

    /// Returns the interval of the samples: many for each fault, and at most one a second.
    pub(super) fn every(&self) -> Duration {
        (self.span / 3_600).clamp(Duration::from_secs(1), Duration::from_secs(5))
    }

    pub(super) fn push(&mut self, sample: Sample) {
        self.all.push(sample);
    }

    /// Returns the least-squares slope in units an hour, after the warm-up, over the medians of complete cycles
    /// of faults. Memory rises and falls with each fault by many times the growth that matters, so a line
    /// through all samples depends on the fault in which the soak ends.
    pub(super) fn slope_per_hour(&self, cycle: Duration, value: impl Fn(&Sample) -> f64) -> f64 {
        let points: Vec<(f64, f64)> = self
            .warm()
            .map(|sample| (sample.at.as_secs_f64() / 3600.0, value(sample)))
            .collect();
        slope(&medians(&points, cycle.as_secs_f64() / 3600.0))
    }

    /// Returns the median over the last third less that over the first, after the warm-up.
    pub(super) fn growth(&self, value: impl Fn(&Sample) -> u64) -> f64 {
        let values: Vec<f64> = self.warm().map(|sample| approx(value(sample))).collect();
        let third = values.len() / 3;
        let (first, last) = (
            values.get(..third).unwrap_or_default(),
            values.get(values.len() - third..).unwrap_or_default(),
        );
        median(last) - median(first)
    }

    /// Returns the highest value.
    pub(super) fn most(&self, value: impl Fn(&Sample) -> u64) -> f64 {
        approx(self.all.iter().map(value).max().unwrap_or(0))
    }

    /// Returns the median at the end.
    pub(super) fn last(&self, value: impl Fn(&Sample) -> f64) -> f64 {
        let from = self.all.len() * 9 / 10;
        let last: Vec<f64> = self.all.iter().skip(from).map(value).collect();
        median(&last)
    }

    /// Returns the true duration.
    pub(super) fn lasted(&self) -> Duration {
        self.all.last().map_or(Duration::ZERO, |sample| sample.at)
    }

    /// Returns the samples after the first three tenths: until then tables and caches fill, and that is no leak.
    fn warm(&self) -> impl Iterator<Item = &Sample> {
        let warm = (self.lasted() * 3 / 10).min(LONGEST_WARM_UP);
        self.all.iter().filter(move |sample| sample.at >= warm)
    }
}

/// Returns the medians of complete cycles, counted back from the last point; all points if there are fewer than
/// three cycles.
fn medians(points: &[(f64, f64)], cycle: f64) -> Vec<(f64, f64)> {
    let (Some((first, _)), Some((last, _))) = (points.first(), points.last()) else {
        return Vec::new();
    };
    let ends = std::iter::successors(Some(*last), |end| Some(end - cycle));
    let cycles: Vec<_> = ends
        .take_while(|end| end - cycle >= *first)
        .map(|end| {
            let within = points.iter().filter(|(at, _)| (end - cycle..end).contains(at));
            let values: Vec<_> = within.map(|(_, value)| *value).collect();
            (end, median(&values))
        })
        .collect();
    if cycles.len() < FEWEST_CYCLES {
        return points.to_vec();
    }
    cycles
}

/// Returns the slope of the regression line; zero if there is none.
fn slope(points: &[(f64, f64)]) -> f64 {
    let count = approx(points.len());
    let (mean_x, mean_y) = (
        points.iter().map(|(x, _)| x).sum::<f64>() / count,
        points.iter().map(|(_, y)| y).sum::<f64>() / count,
    );
    let (mut together, mut alone) = (0.0, 0.0);
    for (x, y) in points {
        together += (x - mean_x) * (y - mean_y);
        alone += (x - mean_x) * (x - mean_x);
    }
    if alone > 0.0 { together / alone } else { 0.0 }
}

/// Half an hour is enough for every table and cache to fill, and for each fault to occur four times.
const LONGEST_WARM_UP: Duration = Duration::from_mins(30);

/// A line through two points has no error to see.
const FEWEST_CYCLES: usize = 3;

#[cfg(test)]
mod tests {
    use super::*;

    const CYCLE: Duration = Duration::from_mins(10);

    fn samples(seconds: impl Iterator<Item = u64>, rss: impl Fn(f64) -> f64) -> Samples {
        let mut samples = Samples::over(Duration::from_hours(3));
        for at in seconds {
            samples.push(Sample {
                at: Duration::from_secs(at),
                rss_mib: rss(approx(at)),
                anon_mib: 0.0,
                fds: at / 600,
                threads: 5,
                log_bytes: 0,
                cache_bytes: at % 1000,
            });
        }
        samples
    }

    // Two MiB an hour under outages of a minute that take 30 MiB, in soaks that end at any part of a cycle. A
    // line through all samples finds 0.2 to 2.8.
    #[test]
    fn the_slope_is_that_of_the_memory_between_faults() {
        for last in (5_400..=6_000).step_by(60) {
            let fault = |at: f64| if at % 600.0 < 60.0 { 30.0 } else { 0.0 };
            let seen = samples((0..=last).step_by(5), |at| 20.0 + at / 1800.0 + fault(at));
            let slope = seen.slope_per_hour(CYCLE, |sample| sample.rss_mib);
            assert!((slope - 2.0).abs() < 0.2, "{last}: {slope}");
        }
    }

    // 100 MiB in the first half hour, then flat: a table that fills, and no leak.
    #[test]
    fn growth_during_the_warm_up_is_no_slope() {
        for last in [6_000, 10_800] {
            let seen = samples((0..=last).step_by(15), |at| at.min(1_800.0) / 18.0);
            let slope = seen.slope_per_hour(CYCLE, |sample| sample.rss_mib);
            assert!(slope.abs() < 1e-6, "{last}: {slope}");
        }
    }

    // Ten minutes after a warm-up of three are one cycle: the slope is that of all samples.
    #[test]
    fn a_short_soak_has_a_slope_too() {
        let seen = samples(0..=780, |at| at / 1800.0);
        let slope = seen.slope_per_hour(CYCLE, |sample| sample.rss_mib);
        assert!((slope - 2.0).abs() < 1e-6, "{slope}");
    }

    // One descriptor in ten minutes: between the middles of the thirds lie 6,000 s.
    #[test]
    fn growth_compares_the_first_and_the_last_third() {
        let seen = samples((0..=10_800).step_by(15), |_| 1.0);
        let growth = seen.growth(|sample| sample.fds);
        assert!((9.0..=11.0).contains(&growth), "{growth}");
        assert!(seen.growth(|sample| sample.threads).abs() < f64::EPSILON);
        assert!((seen.most(|sample| sample.cache_bytes) - 990.0).abs() < 6.0);
    }

    #[test]
    fn no_sample_and_a_single_sample_are_flat() {
        assert!(slope(&[]).abs() < f64::EPSILON);
        assert!(slope(&[(1.0, 7.0)]).abs() < f64::EPSILON);
        let none = samples(0..0, |_| 1.0);
        assert!(none.slope_per_hour(CYCLE, |sample| sample.rss_mib).abs() < f64::EPSILON);
    }
}
