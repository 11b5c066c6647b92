//! Recent throughput of actions.
//!
//! An action that was paused for an hour, or whose engine was down overnight, was slow since its start. That says
//! nothing about the rest. So each query leaves a mark, and the next one measures from the mark of a minute before.

use std::collections::HashMap;
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

#[derive(Clone, Copy, Debug)]
struct EndMarks {
    from: EndMark,
    /// Replaces `from` when that is too old.
    next: EndMark,
    /// First query that saw the current number.
    last: EndMark,
}

impl EndMarks {
    const fn new(mark: EndMark) -> Self {
        Self {
            from: mark,
            next: mark,
            last: mark,
        }
    }

    fn add(&mut self, mark: EndMark) {
        match mark.at.since(self.next.at) {
            age if age >= 2 * WINDOW => *self = Self::new(mark),
            age if age >= WINDOW => (self.from, self.next) = (self.next, mark),
            _ => {}
        }
        if mark.ended != self.last.ended {
            self.last = mark;
        }
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
        let marks = all.entry(action.clone()).or_insert(EndMarks::new(mark));
        marks.add(mark);
        let recent = Throughput {
            ended: ended.saturating_sub(marks.from.ended),
            span: now.since(marks.from.at),
            idle: now.since(marks.last.at),
        };
        if recent.ended > 0 && recent.span >= MIN_SPAN {
            return Some(recent);
        }
        since_start.map(|span| Throughput {
            ended,
            span,
            idle: recent.idle,
        })
    }

    /// Restarts the measurement of a paused action: its earlier speed says nothing about the rest.
    pub(crate) fn restart(&self, action: &Name, now: Nanos, ended: u64) {
        if let Some(marks) = self.marks.lock().get_mut(action) {
            *marks = EndMarks::new(EndMark { at: now, ended });
        }
    }
}

/// Long enough for some ends of a slow API, and short enough to forget earlier speeds.
const WINDOW: Duration = Duration::from_mins(1);

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
        assert!(measured.span <= 2 * WINDOW, "{measured:?}");
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
