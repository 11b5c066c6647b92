//! Progress of one tenant, or of several together.

use std::fmt::Write as _;
use std::time::Duration;

use indicatif::ProgressBar;
use outflow_bulk::JobRate;

use crate::terminal::spoken;

/// Progress of one tenant, or of several together.
pub(super) struct TenantProgress {
    pub(super) name: String,
    pub(super) over: u64,
    pub(super) not_done: u64,
    pub(super) jobs: u64,
    pub(super) pace: BarRate,
    pub(super) allowed: Option<JobRate>,
    /// How long limits make it last, however fast it went so far.
    pub(super) least: Duration,
}

impl TenantProgress {
    /// Whether nothing is left.
    pub(super) const fn is_over(&self) -> bool {
        self.over >= self.jobs
    }

    /// Both together. What each may use says nothing of the sum.
    pub(super) fn plus(self, other: Self) -> Self {
        Self {
            over: self.over + other.over,
            not_done: self.not_done + other.not_done,
            jobs: self.jobs + other.jobs,
            pace: self.pace.plus(other.pace),
            allowed: None,
            least: self.least.max(other.least),
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

    /// A line for a log.
    pub(super) fn render(&self) -> String {
        format!("{}: {}\n", self.name, self.facts())
    }

    fn facts(&self) -> String {
        let mut text = format!("{}/{}", self.over, self.jobs);
        // Writing to a string cannot fail.
        if self.not_done > 0 {
            let _whole = write!(text, ", {} not done", self.not_done);
        }
        let _whole = write!(text, ", {}", self.pace);
        if let Some(allowed) = &self.allowed {
            let _whole = write!(text, " of {allowed}");
        }
        let more = self.jobs.saturating_sub(self.over);
        if let Some(left) = self.pace.left(more, self.least) {
            let _whole = write!(text, ", {} left", spoken(left));
        }
        text
    }
}

/// How fast it goes: so many in so long.
#[derive(Clone, Copy, Default)]
pub(super) struct BarRate {
    jobs: u64,
    spent: Duration,
    /// When the last of them was over.
    last: Duration,
}

impl BarRate {
    /// What it has become, now that so many are over.
    pub(super) fn now(&mut self, jobs: u64, spent: Duration) -> Self {
        if jobs != self.jobs {
            self.last = spent;
        }
        (self.jobs, self.spent) = (jobs, spent);
        *self
    }

    fn plus(self, other: Self) -> Self {
        Self {
            jobs: self.jobs + other.jobs,
            spent: self.spent,
            last: self.last.max(other.last),
        }
    }

    /// How long so many more take, as fast as it went until the last was over; and at least so long. Whoever
    /// waits for a window comes nearer to the end while nothing goes, and whoever waits for no limit does not.
    fn left(self, more: u64, least: Duration) -> Option<Duration> {
        let left = self.by(self.last, more)?;
        let waited = self.spent.saturating_sub(self.last);
        match left.checked_sub(waited) {
            Some(left) => Some(left.max(least)),
            None if least.is_zero() => self.by(self.spent, more),
            None => Some(least),
        }
    }

    fn by(self, spent: Duration, more: u64) -> Option<Duration> {
        let nanos = spent.as_nanos() * u128::from(more);
        let nanos = nanos.checked_div(u128::from(self.jobs))?;
        (more > 0).then(|| Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX)))
    }
}

impl std::fmt::Display for BarRate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let tenths = u128::from(self.jobs) * 10_000 / self.spent.as_millis().max(1);
        write!(f, "{}.{}/s", tenths / 10, tenths % 10)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pace(jobs: u64, seconds: u64) -> BarRate {
        BarRate::default().now(jobs, Duration::from_secs(seconds))
    }

    // 25 of 100 in ten seconds, two of them failed: 2.5 a second, thirty seconds more.
    fn row(name: &str) -> TenantProgress {
        TenantProgress {
            name: name.to_owned(),
            over: 25,
            not_done: 2,
            jobs: 100,
            pace: pace(25, 10),
            allowed: None,
            least: Duration::ZERO,
        }
    }

    // The first window's worth went at once, and says nothing of the rest.
    #[test]
    fn what_limits_need_is_left_however_fast_it_went() {
        let slow = TenantProgress {
            least: Duration::from_mins(3),
            ..row("acme")
        };
        assert!(
            slow.render().ends_with("2.5/s, 3 min 0 s left\n"),
            "{}",
            slow.render()
        );
    }

    #[test]
    fn a_line_says_how_far_how_fast_and_how_long() {
        assert_eq!(
            row("acme").render(),
            "acme: 25/100, 2 not done, 2.5/s, 30.0 s left\n"
        );
        let both = row("acme").plus(row("bolt"));
        assert_eq!(
            both.render(),
            "acme: 50/200, 4 not done, 5.0/s, 30.0 s left\n"
        );
    }

    #[test]
    fn nothing_is_promised_before_something_was_done() {
        assert_eq!(pace(0, 1).left(5, Duration::ZERO), None);
        assert_eq!(pace(5, 1).left(0, Duration::ZERO), None);
    }

    // Five a minute, which went in the first second. Ten more take two windows, and a wait of 50 s is a part of
    // that. Without a limit a wait of 50 s says that the API became slow: ten as slow as five in 51 s.
    #[test]
    fn a_wait_for_a_window_is_no_slowness() {
        let mut pace = pace(5, 1);
        let waited = pace.now(5, Duration::from_secs(51));
        let least = Duration::from_secs(69);
        assert_eq!(waited.left(10, least), Some(least));
        let slow = waited.left(10, Duration::ZERO);
        assert_eq!(slow, Some(Duration::from_secs(102)));
    }
}
