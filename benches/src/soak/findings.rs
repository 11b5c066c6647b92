//! Findings of a soak, as figures.

use std::io;
use std::process::ExitStatus;
use std::time::Duration;

use outflow_mock::Totals;

use super::call_counts::CallCounts;
use super::counters::MetricsPage;
use super::phases::Phases;
use super::program::{CACHE_CAP, LOG_CAP};
use super::samples::Samples;
use crate::figure::{Figure, Goal};
use crate::measure::approx;

/// All findings.
pub(super) struct Findings<'a> {
    pub(super) samples: &'a Samples,
    pub(super) seen: &'a CallCounts,
    pub(super) page: &'a MetricsPage,
    pub(super) totals: &'a Totals,
    pub(super) processor: Duration,
    pub(super) exit: io::Result<ExitStatus>,
}

impl Findings<'_> {
    /// Returns growth first, then the counters, then figures without a goal.
    pub(super) fn figures(&self) -> Vec<Figure> {
        let mut figures = self.growth();
        figures.extend(self.counters());
        figures.extend(self.shown());
        figures
    }

    fn growth(&self) -> Vec<Figure> {
        let samples = self.samples;
        let mut slope = Figure::alone(
            "rss_slope_mib_per_h",
            Goal::Own(1.0),
            &[samples.slope_per_hour(Phases::cycle(), |sample| sample.rss_mib)],
        );
        if samples.lasted() < LEAST_FOR_A_SLOPE {
            "too short to distinguish a leak from tables that fill".clone_into(&mut slope.note);
        }
        let over = |most: f64, cap: u64| (most - approx(cap)).max(0.0);
        vec![
            slope,
            Figure::alone("fd_growth", Goal::Own(2.0), &[samples.growth(|sample| sample.fds)]),
            Figure::alone(
                "thread_growth",
                Goal::Own(1.0),
                &[samples.growth(|sample| sample.threads)],
            ),
            Figure::alone(
                "log_bytes_over_cap",
                Goal::Own(0.0),
                &[over(samples.most(|sample| sample.log_bytes), LOG_CAP)],
            ),
            Figure::alone(
                "cache_bytes_over_cap",
                Goal::Own(0.0),
                &[over(samples.most(|sample| sample.cache_bytes), CACHE_CAP)],
            ),
        ]
    }

    fn counters(&self) -> Vec<Figure> {
        let mut unexpected = Figure::alone("unexpected", Goal::Own(0.0), &[approx(self.seen.unexpected())]);
        if let Some(first) = self.seen.first().first() {
            unexpected.note = format!("the first: {first}");
        }
        let mut exit = Figure::alone("exit_code", Goal::Own(0.0), &[self.exit_code()]);
        if let Err(error) = &self.exit {
            exit.note = error.to_string();
        }
        let calls = self.page.calls_astray(self.seen);
        let attempts = self.page.attempts_astray(self.totals);
        vec![
            Figure::alone("books_calls_astray", Goal::Own(0.0), &[calls]),
            Figure::alone("books_attempts_astray", Goal::Own(0.0), &[attempts]),
            unexpected,
            Figure::alone("left_in_flight", Goal::Own(0.0), &[self.page.in_flight()]),
            exit,
        ]
    }

    fn shown(&self) -> Vec<Figure> {
        let samples = self.samples;
        let seconds = samples.lasted().as_secs_f64();
        let anon = samples.slope_per_hour(Phases::cycle(), |sample| sample.anon_mib);
        [
            ("anon_slope_mib_per_h", anon),
            ("rss_mib", samples.last(|sample| sample.rss_mib)),
            ("fds", samples.last(|sample| approx(sample.fds))),
            ("threads", samples.last(|sample| approx(sample.threads))),
            ("log_bytes", samples.most(|sample| sample.log_bytes)),
            ("cache_bytes", samples.most(|sample| sample.cache_bytes)),
            ("calls", approx(self.seen.sent())),
            ("failed", approx(self.seen.failed())),
            ("attempts", approx(self.totals.seen)),
            ("refused_upstream", approx(self.totals.refused)),
            ("cpu_cores", self.processor.as_secs_f64() / seconds),
            ("minutes", seconds / 60.0),
        ]
        .map(|(name, value)| Figure::alone(name, Goal::Shown, &[value]))
        .into()
    }

    /// Returns the exit code; a process that a signal ended has none, and failed.
    fn exit_code(&self) -> f64 {
        match &self.exit {
            Ok(status) => status.code().map_or(f64::from(u8::MAX), f64::from),
            Err(_) => f64::from(u8::MAX),
        }
    }
}

/// A shorter soak has too few cycles of faults after its warm-up.
const LEAST_FOR_A_SLOPE: Duration = Duration::from_hours(1);
