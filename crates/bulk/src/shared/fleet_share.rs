//! This machine's share of all starts on a shared store.
//!
//! An upstream sees its own calls only, but must know the total when its API throttles. The store counts all
//! starts, so starts between two of our claims that are not ours belong to other machines. The share is measured
//! over some seconds, because single claims are chance, and forgets old spans, because machines come and go.

use std::time::Duration;

use outflow::FleetShare;
use outflow_core::Nanos;
use outflow_sync::Mutex;

/// Counter of own and of all starts.
#[derive(Debug, Default)]
pub(crate) struct FleetStarts {
    counts: Mutex<Option<StartCounts>>,
}

#[derive(Clone, Copy, Debug)]
struct StartCounts {
    /// Start of the current span, and the store's count at that time.
    since: Nanos,
    base: u64,
    /// The store's current count, and own starts in the current span.
    all: u64,
    own: u64,
    /// Own and all starts of the span before.
    previous: (u64, u64),
}

impl FleetStarts {
    /// Records the jobs of a claim and the store's count of all starts by then.
    pub(crate) fn record(&self, now: Nanos, own: u64, all: u64) -> FleetShare {
        let mut guard = self.counts.lock();
        let first = StartCounts {
            since: now,
            base: all.saturating_sub(own),
            all,
            own: 0,
            previous: (0, 0),
        };
        // An emptied store counts from zero, and a failover skips numbers.
        let continues = |counts: &StartCounts| (counts.base..counts.all.saturating_add(MAX_STEP)).contains(&all);
        let counts = guard.filter(continues).unwrap_or(first);
        let counts = counts.plus(now, own, all);
        *guard = Some(counts);
        counts.share()
    }
}

impl StartCounts {
    fn plus(mut self, now: Nanos, own: u64, all: u64) -> Self {
        self.all = self.all.max(all);
        self.own = self.own.saturating_add(own);
        if now.since(self.since) >= SPAN {
            self.previous = (self.own, self.all - self.base);
            (self.since, self.base, self.own) = (now, self.all, 0);
        }
        self
    }

    const fn share(self) -> FleetShare {
        let all = self.previous.1.saturating_add(self.all - self.base);
        FleetShare::new(self.previous.0.saturating_add(self.own), all)
    }
}

/// More than a fleet starts between two of our claims, and less than a failover skips.
const MAX_STEP: u64 = 10_000_000;

/// Long enough for some starts of a slow API, and short enough to notice machines that left.
const SPAN: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    // Three machines claim in turn for half a minute; then the others leave.
    #[test]
    fn starts_of_other_machines_are_not_ours() {
        let fleet = FleetStarts::default();
        let mut all = 1_000;
        let mut share = FleetShare::ALL;
        for second in 0..30 {
            all += 30;
            share = fleet.record(Nanos::from_secs(second), 10, all);
        }
        assert_eq!(share, FleetShare::new(1, 3));
        for second in 30..42 {
            all += 10;
            share = fleet.record(Nanos::from_secs(second), 10, all);
        }
        assert_eq!(share, FleetShare::ALL);
    }

    #[test]
    fn an_emptied_store_restarts_the_share() {
        let fleet = FleetStarts::default();
        fleet.record(Nanos::from_secs(1), 10, 5_000);
        assert_eq!(fleet.record(Nanos::from_secs(2), 3, 3), FleetShare::ALL);
        assert_eq!(fleet.record(Nanos::from_secs(3), 3, 12), FleetShare::new(1, 2));
        let leap = 1_000_000_000;
        assert_eq!(fleet.record(Nanos::from_secs(4), 3, leap), FleetShare::ALL);
        let share = fleet.record(Nanos::from_secs(5), 3, leap + 9);
        assert_eq!(share, FleetShare::new(1, 2));
    }
}
