//! How fast actions went lately.
//!
//! An action that was paused for an hour, or whose engine was away for a night, was slow since it began and says
//! nothing by that of how long the rest takes. So whoever asks how far an action is leaves a mark, and the next
//! to ask reckons from the mark of a minute before.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use outflow_core::Nanos;
use outflow_store::Name;

/// Marks of the actions that somebody asked after.
#[derive(Debug, Default)]
pub(crate) struct ThroughputTracker {
    marks: Mutex<HashMap<Name, EndMarks>>,
}

/// How many were over at an instant.
#[derive(Clone, Copy, Debug)]
struct EndMark {
    at: Nanos,
    over: u64,
}

#[derive(Clone, Copy, Debug)]
struct EndMarks {
    from: EndMark,
    /// Takes the place of the other when that is too old.
    next: EndMark,
}

/// So many ended in so long.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct EndRate {
    pub(crate) over: u64,
    pub(crate) span: Duration,
}

impl EndMarks {
    const fn begin(mark: EndMark) -> Self {
        Self {
            from: mark,
            next: mark,
        }
    }
}

impl EndRate {
    /// How long so many more take.
    pub(crate) fn until_over(self, open: u64) -> Duration {
        let nanos = self.span.as_nanos() * u128::from(open) / u128::from(self.over.max(1));
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

impl ThroughputTracker {
    /// So many of an action are over by now: how fast that went lately, if anything ended since the last mark.
    pub(crate) fn feel(&self, action: &Name, now: Nanos, over: u64) -> Option<EndRate> {
        let mark = EndMark { at: now, over };
        let mut all = self.marks();
        if all.len() >= MOST && !all.contains_key(action) {
            all.clear();
        }
        let marks = all.entry(action.clone()).or_insert(EndMarks::begin(mark));
        match now.since(marks.next.at) {
            age if age >= 2 * MINUTE => *marks = EndMarks::begin(mark),
            age if age >= MINUTE => (marks.from, marks.next) = (marks.next, mark),
            _ => {}
        }
        let speed = EndRate {
            over: over.saturating_sub(marks.from.over),
            span: now.since(marks.from.at),
        };
        (speed.over > 0 && speed.span >= SHORTEST).then_some(speed)
    }

    /// An action stands still: how fast it was before says nothing of how fast it goes on.
    pub(crate) fn stop(&self, action: &Name, now: Nanos, over: u64) {
        if let Some(marks) = self.marks().get_mut(action) {
            *marks = EndMarks::begin(EndMark { at: now, over });
        }
    }

    fn marks(&self) -> MutexGuard<'_, HashMap<Name, EndMarks>> {
        self.marks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Long enough to hold some ends of a slow API, and short enough to forget what was before.
const MINUTE: Duration = Duration::from_mins(1);

/// Less than this is chance.
const SHORTEST: Duration = Duration::from_secs(2);

/// Some hundred bytes each; nobody looks at more, and whoever is forgotten is known again with the next look.
const MOST: usize = 1_000;

#[cfg(test)]
mod tests {
    use super::*;

    // Ten a second for ten minutes, then an hour of rest, then five a second.
    #[test]
    fn a_rest_is_not_held_against_what_comes_after() {
        let (pulses, action) = (
            ThroughputTracker::default(),
            Name::new("a").expect("a name"),
        );
        let mut speed = None;
        for second in 0..=600 {
            speed = pulses.feel(&action, Nanos::from_secs(second), second * 10);
        }
        let speed = speed.expect("known");
        assert_eq!(speed.over, speed.span.as_secs() * 10);
        assert!(speed.span <= 2 * MINUTE, "{speed:?}");
        pulses.stop(&action, Nanos::from_secs(4_200), 6_000);
        let none = pulses.feel(&action, Nanos::from_secs(4_201), 6_005);
        assert_eq!(none, None, "too soon to say");
        let speed = pulses.feel(&action, Nanos::from_secs(4_210), 6_050);
        let ten = Duration::from_secs(10);
        assert_eq!(
            speed,
            Some(EndRate {
                over: 50,
                span: ten
            })
        );
    }

    // Nobody asked for an hour, in which it may have stood still.
    #[test]
    fn an_old_mark_is_no_mark() {
        let (pulses, action) = (
            ThroughputTracker::default(),
            Name::new("a").expect("a name"),
        );
        pulses.feel(&action, Nanos::from_secs(0), 0);
        let later = Nanos::from_secs(3_600);
        assert_eq!(pulses.feel(&action, later, 10), None);
        let speed = pulses.feel(&action, Nanos::from_secs(3_605), 60);
        assert_eq!(speed.map(|speed| speed.over), Some(50));
    }

    #[test]
    fn nothing_is_known_before_something_ended() {
        let (pulses, action) = (
            ThroughputTracker::default(),
            Name::new("a").expect("a name"),
        );
        for second in 0..10 {
            assert_eq!(pulses.feel(&action, Nanos::from_secs(second), 7), None);
        }
    }
}
