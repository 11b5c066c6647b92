//! Recent throughput of actions.
//!
//! An action that was paused for an hour, or whose engine was down overnight, was slow since its start. That says
//! nothing about the rest. So queries leave marks, and the next one measures the fastest span since one of them.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use outflow_core::Nanos;
use outflow_store::Name;
use outflow_sync::Mutex;

/// Number of jobs that ended in a span.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Throughput {
    /// Number of ended jobs.
    pub ended: u64,
    /// Span in which they ended.
    pub span: Duration,
    /// End of the span in which no job ended.
    pub idle: Duration,
}

/// Marks of the actions that were queried.
#[derive(Debug, Default)]
pub(crate) struct ThroughputTracker {
    marks: Mutex<HashMap<Name, EndMarks>>,
}

/// Number of ended jobs at an instant.
#[derive(Clone, Copy, Debug)]
struct EndMark {
    at: Nanos,
    ended: u64,
}

#[derive(Clone, Debug)]
struct EndMarks {
    /// Marks of the last minutes, the oldest first.
    marks: VecDeque<EndMark>,
    /// First query that saw the current number.
    last: EndMark,
}

impl EndMarks {
    fn new(mark: EndMark) -> Self {
        Self {
            marks: VecDeque::from([mark]),
            last: mark,
        }
    }

    fn add(&mut self, mark: EndMark) {
        match self.marks.back().map(|newest| mark.at.since(newest.at)) {
            Some(age) if age < MARK_DISTANCE => {}
            Some(age) if age < MAX_GAP => self.marks.push_back(mark),
            _ => *self = Self::new(mark),
        }
        while self.marks.len() > 1
            && self
                .marks
                .front()
                .is_some_and(|oldest| mark.at.since(oldest.at) > MAX_SPAN)
        {
            self.marks.pop_front();
        }
        if mark.ended != self.last.ended {
            self.last = mark;
        }
    }

    /// Returns the throughput of the span in which most jobs ended for its length. A window that has only begun, or a
    /// pause before, makes other spans look slow.
    fn fastest(&self, mark: EndMark) -> Option<Throughput> {
        let since = |from: &EndMark| Throughput {
            ended: mark.ended.saturating_sub(from.ended),
            span: mark.at.since(from.at),
            idle: mark.at.since(self.last.at),
        };
        let long = self.marks.iter().filter(|from| mark.at.since(from.at) >= MEASURED_SPAN);
        let oldest = self.marks.front().filter(|from| mark.at.since(from.at) >= MIN_SPAN);
        let candidates = long.chain(oldest).map(since).filter(|measured| measured.ended > 0);
        candidates.min_by_key(|measured| measured.scale(measured.span.saturating_sub(measured.idle), MANY))
    }
}

impl Throughput {
    /// Returns the time of `jobs` at a speed of all ended jobs in this span.
    pub(crate) fn scale(self, span: Duration, jobs: u64) -> Duration {
        let nanos = span.as_nanos() * u128::from(jobs) / u128::from(self.ended.max(1));
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

impl ThroughputTracker {
    /// Records the number of ended jobs, and returns the recent throughput. If too little ended recently, returns the
    /// throughput since the start.
    pub(crate) fn record(
        &self,
        action: &Name,
        now: Nanos,
        ended: u64,
        since_start: Option<Duration>,
    ) -> Option<Throughput> {
        let mark = EndMark { at: now, ended };
        let mut all = self.marks.lock();
        if all.len() >= MAX_ACTIONS && !all.contains_key(action) {
            all.clear();
        }
        let marks = all.entry(action.clone()).or_insert_with(|| EndMarks::new(mark));
        marks.add(mark);
        marks.fastest(mark).or_else(|| {
            since_start.map(|span| Throughput {
                ended,
                span,
                idle: now.since(marks.last.at),
            })
        })
    }

    /// Restarts the measurement of a paused action: its earlier speed says nothing about the rest.
    pub(crate) fn restart(&self, action: &Name, now: Nanos, ended: u64) {
        if let Some(marks) = self.marks.lock().get_mut(action) {
            *marks = EndMarks::new(EndMark { at: now, ended });
        }
    }
}

/// Short enough to forget earlier speeds, and long enough for three windows of a minute.
pub(super) const MAX_SPAN: Duration = Duration::from_mins(3);

/// Long enough for some ends of a slow API.
pub(super) const MEASURED_SPAN: Duration = Duration::from_secs(20);

/// Sixty marks in the longest span.
const MARK_DISTANCE: Duration = Duration::from_secs(3);

/// An action without a query for longer may have been paused meanwhile.
const MAX_GAP: Duration = Duration::from_mins(2);

/// Number of jobs by which speeds are compared.
const MANY: u64 = 1_000_000;

/// A shorter span measures chance.
const MIN_SPAN: Duration = Duration::from_secs(2);

/// Some hundred bytes each; a forgotten action is measured again from its next query.
const MAX_ACTIONS: usize = 1_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn action() -> Name {
        Name::new("a").expect("a name")
    }

    fn record(tracker: &ThroughputTracker, second: u64, ended: u64) -> Option<Throughput> {
        tracker.record(&action(), Nanos::from_secs(second), ended, None)
    }

    // Ten a second for ten minutes, then an hour of pause, then five a second.
    #[test]
    fn a_pause_does_not_slow_the_measured_throughput() {
        let tracker = ThroughputTracker::default();
        let last = (0..=600).map(|second| record(&tracker, second, second * 10));
        let measured = last.last().flatten().expect("measured");
        assert_eq!(measured.ended, measured.span.as_secs() * 10);
        assert!(measured.span <= MAX_SPAN, "{measured:?}");
        tracker.restart(&action(), Nanos::from_secs(4_200), 6_000);
        assert_eq!(record(&tracker, 4_201, 6_005), None, "too soon");
        let expected = Throughput {
            ended: 50,
            span: Duration::from_secs(10),
            idle: Duration::ZERO,
        };
        assert_eq!(record(&tracker, 4_210, 6_050), Some(expected));
    }

    // No query for an hour, in which the action may have been paused.
    #[test]
    fn an_old_mark_does_not_count() {
        let tracker = ThroughputTracker::default();
        record(&tracker, 0, 0);
        assert_eq!(record(&tracker, 3_600, 10), None);
        let measured = record(&tracker, 3_605, 60);
        assert_eq!(measured.map(|measured| measured.ended), Some(50));
    }

    // 600 a minute, all in its first second. In the middle of the fourth burst the last minute has 300 of them, and
    // the last two 900.
    #[test]
    fn a_window_that_has_only_begun_is_no_slowness() {
        let tracker = ThroughputTracker::default();
        for second in 0..180 {
            record(&tracker, second, 600 * (1 + second / 60));
        }
        let measured = record(&tracker, 180, 2_100).expect("measured");
        let each_minute = measured.ended * 60 / measured.span.as_secs();
        assert!(each_minute >= 600, "{measured:?}");
    }

    #[test]
    fn nothing_is_measured_before_a_job_ended() {
        let tracker = ThroughputTracker::default();
        for second in 0..10 {
            assert_eq!(record(&tracker, second, 7), None);
        }
    }

    #[test]
    fn idle_time_begins_with_the_last_end() {
        let tracker = ThroughputTracker::default();
        record(&tracker, 0, 0);
        record(&tracker, 4, 8);
        let measured = record(&tracker, 10, 8).expect("measured");
        assert_eq!((measured.ended, measured.idle.as_secs()), (8, 6));
    }
}
