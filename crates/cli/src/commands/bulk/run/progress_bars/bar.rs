//! Progress of one tenant, or of several together.

use std::fmt::Write as _;
use std::time::Duration;

use indicatif::ProgressBar;
use outflow_bulk::{JobRate, Throughput};

use crate::terminal::format_span;

/// Progress of one tenant, or of several together.
pub(super) struct TenantProgress {
    pub(super) name: String,
    pub(super) over: u64,
    pub(super) not_done: u64,
    pub(super) jobs: u64,
    pub(super) throughput: Throughput,
    pub(super) allowed: Option<JobRate>,
    /// Remaining time by the engine's estimate.
    pub(super) eta: Option<Duration>,
    /// Sentences about what jobs wait for, if none ended for a while.
    pub(super) waits: Vec<String>,
}

impl TenantProgress {
    /// Returns true if no job is left.
    pub(super) const fn is_over(&self) -> bool {
        self.over >= self.jobs
    }

    const fn remaining(&self) -> u64 {
        self.jobs.saturating_sub(self.over)
    }

    /// Returns the sum of two. Single rates say nothing about the sum.
    pub(super) fn plus(self, other: Self) -> Self {
        Self {
            over: self.over + other.over,
            not_done: self.not_done + other.not_done,
            jobs: self.jobs + other.jobs,
            throughput: Throughput {
                ended: self.throughput.ended + other.throughput.ended,
                idle: self.throughput.idle.min(other.throughput.idle),
                ..self.throughput
            },
            allowed: None,
            eta: self.eta.max(other.eta),
            ..self
        }
    }

    /// Updates a bar on the terminal.
    pub(super) fn draw(&self, bar: &ProgressBar) {
        bar.set_length(self.jobs);
        bar.set_position(self.over);
        bar.set_prefix(self.name.clone());
        bar.set_message(self.facts());
    }

    /// Formats a line of a log.
    pub(super) fn render(&self) -> String {
        format!("{}: {}\n", self.name, self.facts())
    }

    fn facts(&self) -> String {
        let mut text = format!("{}/{}", self.over, self.jobs);
        // Writing to a string cannot fail.
        if self.not_done > 0 {
            let _infallible = write!(text, ", {} not done", self.not_done);
        }
        let tenths = u128::from(self.throughput.ended) * 10_000;
        let tenths = tenths / self.throughput.span.as_millis().max(1);
        let _infallible = write!(text, ", {}.{}/s", tenths / 10, tenths % 10);
        if let Some(allowed) = &self.allowed {
            let _infallible = write!(text, " of {allowed}");
        }
        if let Some(left) = self.eta.filter(|_| self.remaining() > 0) {
            let _infallible = write!(text, ", {} left", format_span(left));
        }
        for sentence in &self.waits {
            let _infallible = write!(text, "; {sentence}");
        }
        text
    }
}

/// Measurement of the throughput of one bar.
#[derive(Clone, Copy, Default)]
pub(super) struct BarRate {
    ended: u64,
    /// Instant of the last end.
    last: Duration,
}

impl BarRate {
    /// Records the number of ended jobs, and returns the throughput since the start.
    pub(super) fn record(&mut self, ended: u64, spent: Duration) -> Throughput {
        if ended != self.ended {
            (self.ended, self.last) = (ended, spent);
        }
        Throughput {
            ended,
            span: spent,
            idle: spent.saturating_sub(self.last),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // 25 of 100 in ten seconds, two of them failed: 2.5 a second. The engine says thirty seconds more.
    fn row(name: &str) -> TenantProgress {
        TenantProgress {
            name: name.to_owned(),
            over: 25,
            not_done: 2,
            jobs: 100,
            throughput: BarRate::default().record(25, Duration::from_secs(10)),
            allowed: None,
            eta: Some(Duration::from_secs(30)),
            waits: Vec::new(),
        }
    }

    #[test]
    fn a_line_says_how_far_how_fast_and_how_long() {
        assert_eq!(row("acme").render(), "acme: 25/100, 2 not done, 2.5/s, 30.0 s left\n");
        let both = row("acme").plus(row("bolt"));
        assert_eq!(both.render(), "acme: 50/200, 4 not done, 5.0/s, 30.0 s left\n");
    }

    #[test]
    fn idle_time_begins_with_the_last_end() {
        let mut rate = BarRate::default();
        rate.record(5, Duration::from_secs(1));
        let measured = rate.record(5, Duration::from_secs(51));
        assert_eq!(measured.idle, Duration::from_secs(50));
        assert_eq!(measured.span, Duration::from_secs(51));
    }
}
