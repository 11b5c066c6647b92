//! Which part of all that a shared store gives out comes to this machine.
//!
//! A door sees its own calls only, and has to know how many there were besides when its API refuses one. The
//! store counts what it gives to anybody, so what it gave between two claims of ours and was not ours was
//! others'. Over some seconds, because who comes first is chance; and not for ever, because machines come
//! and go.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use outflow::FleetShare;
use outflow_core::Nanos;

/// What came here of everything.
#[derive(Debug, Default)]
pub(crate) struct FleetStarts {
    books: Mutex<Option<StartCounts>>,
}

#[derive(Clone, Copy, Debug)]
struct StartCounts {
    /// When the span under way began, and what had been given out by then.
    since: Nanos,
    from: u64,
    /// What has been given out by now, and what of it since then came here.
    given: u64,
    ours: u64,
    /// Ours and all of the span before.
    before: (u64, u64),
}

impl FleetStarts {
    /// A claim brought so many, and by then the store had given out so many to everybody.
    pub(crate) fn record(&self, now: Nanos, ours: u64, given: u64) -> FleetShare {
        let mut kept = self.books.lock().unwrap_or_else(PoisonError::into_inner);
        let first = StartCounts {
            since: now,
            from: given.saturating_sub(ours),
            given,
            ours: 0,
            before: (0, 0),
        };
        // A store that begins anew counts anew, and one that was taken over leaves numbers out.
        let goes_on =
            |books: &StartCounts| (books.from..books.given.saturating_add(LEAP)).contains(&given);
        let known = kept.filter(goes_on);
        let books = known.unwrap_or(first).and(now, ours, given);
        *kept = Some(books);
        books.part()
    }
}

impl StartCounts {
    fn and(mut self, now: Nanos, ours: u64, given: u64) -> Self {
        self.given = self.given.max(given);
        self.ours = self.ours.saturating_add(ours);
        if now.since(self.since) >= SPAN {
            self.before = (self.ours, self.given - self.from);
            (self.since, self.from, self.ours) = (now, self.given, 0);
        }
        self
    }

    const fn part(self) -> FleetShare {
        let all = self.before.1.saturating_add(self.given - self.from);
        FleetShare::new(self.before.0.saturating_add(self.ours), all)
    }
}

/// More than any fleet starts between two claims of ours, and less than is left out at a takeover.
const LEAP: u64 = 10_000_000;

/// Long enough for some starts even of a slow API, and short enough to notice soon who left.
const SPAN: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    // Three machines take turns for half a minute; then the others leave.
    #[test]
    fn what_others_were_given_is_not_ours() {
        let takings = FleetStarts::default();
        let mut given = 1_000;
        let mut part = FleetShare::ALL;
        for second in 0..30 {
            given += 30;
            part = takings.record(Nanos::from_secs(second), 10, given);
        }
        assert_eq!(part, FleetShare::new(1, 3));
        for second in 30..42 {
            given += 10;
            part = takings.record(Nanos::from_secs(second), 10, given);
        }
        assert_eq!(part, FleetShare::ALL);
    }

    #[test]
    fn a_store_that_begins_anew_counts_anew() {
        let takings = FleetStarts::default();
        takings.record(Nanos::from_secs(1), 10, 5_000);
        assert_eq!(takings.record(Nanos::from_secs(2), 3, 3), FleetShare::ALL);
        assert_eq!(
            takings.record(Nanos::from_secs(3), 3, 12),
            FleetShare::new(1, 2)
        );
        let leap = 1_000_000_000;
        assert_eq!(
            takings.record(Nanos::from_secs(4), 3, leap),
            FleetShare::ALL
        );
        let part = takings.record(Nanos::from_secs(5), 3, leap + 9);
        assert_eq!(part, FleetShare::new(1, 2));
    }
}
