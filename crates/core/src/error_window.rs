//! The recent outcomes of an API, and the number of failures among them.
//!
//! An outcome counts while it is at most the window's span old **and** among the last `length`. Age
//! alone would let a busy API be judged by far too many calls; number alone would judge a quiet API
//! by yesterday.
//!
//! Counts are updated as outcomes come and go, so recording costs one push and a query compares
//! whole numbers. Neutral outcomes are not entered: a flood of 404s would push the failures out.

use alloc::collections::VecDeque;
use core::time::Duration;

use crate::outcome::OutcomeClass;
use crate::time::span_nanos;
use crate::{Nanos, Share};

/// Window over the outcomes that count.
///
/// ```
/// use core::time::Duration;
/// use outflow_core::{OutcomeClass, ErrorWindow, Nanos, Share};
///
/// let mut window = ErrorWindow::new(Duration::from_secs(30), 300, Nanos::ZERO);
/// for second in 1..=4 {
///     window.record(Nanos::from_secs(second), OutcomeClass::Success);
/// }
/// window.record(Nanos::from_secs(5), OutcomeClass::Throttled);
/// assert_eq!((window.failures(), window.total()), (1, 5));
/// assert!(window.at_least(Share::percent(20)));
/// ```
#[derive(Clone, Debug)]
pub struct ErrorWindow {
    /// Oldest first.
    entries: VecDeque<WindowEntry>,
    /// Number of entries of each mark, by its code.
    counts: [u32; 5],
    opened: u64,
    /// Latest time seen, counted from opening.
    latest: u64,
    span: u64,
    length: usize,
}

impl ErrorWindow {
    /// Builds an empty window over the last `length` outcomes no older than `span`. All memory is
    /// allocated now. A length of 0 counts as 1.
    pub fn new(span: Duration, length: u16, now: Nanos) -> Self {
        let length = usize::from(length.max(1));
        Self {
            entries: VecDeque::with_capacity(length),
            counts: [0; 5],
            opened: now.as_nanos(),
            latest: 0,
            span: span_nanos(span),
            length,
        }
    }

    /// Records an outcome, unless it is neutral. A time before the latest one counts as the latest.
    #[inline]
    pub fn record(&mut self, now: Nanos, effect: OutcomeClass) {
        let Some(mark) = EntryMark::from_class(effect) else {
            return;
        };
        let age = self.expire(now);
        if self.entries.len() >= self.length {
            self.forget_oldest();
        }
        let entry = WindowEntry::new(age, mark);
        if let Some(count) = self.counts.get_mut(entry.code()) {
            *count += 1;
        }
        self.entries.push_back(entry);
    }

    /// Drops outcomes that are too old.
    pub fn refresh(&mut self, now: Nanos) {
        self.expire(now);
    }

    /// Removes all outcomes and restarts at `now`.
    pub fn clear(&mut self, now: Nanos) {
        self.entries.clear();
        self.counts = [0; 5];
        self.opened = now.as_nanos();
        self.latest = 0;
    }

    /// Changes span and length, keeping the outcomes that still count.
    pub fn resize(&mut self, span: Duration, length: u16, now: Nanos) {
        self.span = span_nanos(span);
        self.length = usize::from(length.max(1));
        self.expire(now);
        while self.entries.len() > self.length {
            self.forget_oldest();
        }
        self.entries
            .reserve_exact(self.length.saturating_sub(self.entries.len()));
    }

    /// Returns the number of outcomes that count.
    pub fn total(&self) -> u32 {
        // The length has 16 bits.
        u32::try_from(self.entries.len()).unwrap_or(u32::MAX)
    }

    /// Returns the number of failures.
    pub fn failures(&self) -> u32 {
        let [successes, ..] = self.counts;
        self.total() - successes
    }

    /// Returns the number of each class.
    pub const fn counts(&self) -> OutcomeCounts {
        let [success, throttled, server, network, other] = self.counts;
        OutcomeCounts {
            success,
            throttled,
            server,
            network,
            other,
        }
    }

    /// Returns true if failures are at least this share of all; an empty window has none.
    pub fn at_least(&self, share: Share) -> bool {
        let total = self.total();
        total > 0 && !share.is_above(self.failures().into(), total.into())
    }

    /// Drops old outcomes and returns the time since opening, which never runs backwards.
    #[inline]
    fn expire(&mut self, now: Nanos) -> u64 {
        let age = now.as_nanos().saturating_sub(self.opened);
        self.latest = age.clamp(self.latest, WindowEntry::LAST);
        while let Some(oldest) = self.entries.front()
            && self.latest - oldest.age() > self.span
        {
            self.forget_oldest();
        }
        self.latest
    }

    fn forget_oldest(&mut self) {
        if let Some(oldest) = self.entries.pop_front()
            && let Some(count) = self.counts.get_mut(oldest.code())
        {
            *count -= 1;
        }
    }
}

/// Number of outcomes of each class in a window.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct OutcomeCounts {
    /// Successes, 2xx and 3xx.
    pub success: u32,
    /// Throttled calls, bans included.
    pub throttled: u32,
    /// Server failures, 5xx.
    pub server: u32,
    /// Network failures.
    pub network: u32,
    /// Other failures that were configured to count.
    pub other: u32,
}

impl OutcomeCounts {
    /// Returns the share of failures among all that count, in parts per million; 0 if nothing
    /// counts.
    pub fn failure_ppm(&self) -> u32 {
        let failed = [self.throttled, self.server, self.network, self.other];
        let failed: u64 = failed.iter().map(|count| u64::from(*count)).sum();
        let all = failed + u64::from(self.success);
        let parts = (failed * 1_000_000).checked_div(all).unwrap_or(0);
        u32::try_from(parts).unwrap_or(u32::MAX)
    }
}

/// Time of an outcome since its window opened, and its mark; packed, so that three hundred of them
/// stay within 2.4 KB.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct WindowEntry(u64);

impl WindowEntry {
    /// The latest time that fits next to a mark, 73 years after opening. Later, the window goes by
    /// number alone.
    const LAST: u64 = u64::MAX >> Self::MARK_BITS;
    const MARK_BITS: u32 = 3;

    const fn new(age: u64, mark: EntryMark) -> Self {
        Self(age << Self::MARK_BITS | mark.code())
    }

    const fn age(self) -> u64 {
        self.0 >> Self::MARK_BITS
    }

    /// Returns the code of its mark.
    fn code(self) -> usize {
        let [low, ..] = self.0.to_le_bytes();
        usize::from(low & 0b111)
    }
}

/// Class of an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum EntryMark {
    Success,
    Throttled,
    Server,
    Network,
    Other,
}

impl EntryMark {
    const fn from_class(effect: OutcomeClass) -> Option<Self> {
        match effect {
            OutcomeClass::Success => Some(Self::Success),
            OutcomeClass::Throttled | OutcomeClass::Banned => Some(Self::Throttled),
            OutcomeClass::ServerFailed => Some(Self::Server),
            OutcomeClass::NetworkFailed => Some(Self::Network),
            OutcomeClass::OtherFailed => Some(Self::Other),
            OutcomeClass::Neutral | OutcomeClass::Cancelled => None,
        }
    }

    /// Returns its index in the counts.
    const fn code(self) -> u64 {
        match self {
            Self::Success => 0,
            Self::Throttled => 1,
            Self::Server => 2,
            Self::Network => 3,
            Self::Other => 4,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPAN: Duration = Duration::from_secs(30);

    fn window() -> ErrorWindow {
        ErrorWindow::new(SPAN, 300, Nanos::ZERO)
    }

    // 35 calls a second for a minute, one every 28 571 428 ns: the number decides, and 300 of them
    // are the last 8.6 s.
    #[test]
    fn a_busy_api_is_judged_by_its_last_outcomes() {
        let mut window = window();
        for call in 0..60 * 35 {
            let effect = if call < 60 * 35 - 300 {
                OutcomeClass::ServerFailed
            } else {
                OutcomeClass::Success
            };
            window.record(Nanos::from_nanos(call * 28_571_428), effect);
        }
        assert_eq!((window.failures(), window.total()), (0, 300));
    }

    // One call a second: the age decides, and both ends of 30 s count, which makes 31.
    #[test]
    fn a_quiet_api_is_judged_by_its_last_seconds() {
        let mut window = window();
        for second in 0..100 {
            window.record(Nanos::from_secs(second), OutcomeClass::NetworkFailed);
        }
        assert_eq!(window.total(), 31);
        window.refresh(Nanos::from_secs(129));
        assert_eq!(window.total(), 1, "exactly 30 s old still counts");
        window.refresh(Nanos::from_nanos(129_000_000_001));
        assert_eq!(window.total(), 0, "a nanosecond older does not");
    }

    // A hundred times more 404s than other outcomes leave 30 of 100 visible.
    #[test]
    fn a_flood_of_neutral_outcomes_hides_no_failure() {
        let mut window = window();
        for call in 0..100 {
            let effect = if call % 10 < 3 {
                OutcomeClass::Throttled
            } else {
                OutcomeClass::Success
            };
            window.record(Nanos::from_millis(call * 10), effect);
            for _ in 0..100 {
                window.record(Nanos::from_millis(call * 10), OutcomeClass::Neutral);
            }
        }
        assert_eq!((window.failures(), window.total()), (30, 100));
        assert!(window.at_least(Share::percent(30)));
        assert!(!window.at_least(Share::parts_per_million(300_001)));
    }

    #[test]
    fn an_empty_window_has_no_failures() {
        assert!(!window().at_least(Share::NONE));
    }

    #[test]
    fn recording_allocates_nothing() {
        let mut window = window();
        let reserved = window.entries.capacity();
        for call in 0..10_000 {
            window.record(Nanos::from_millis(call), OutcomeClass::Success);
        }
        assert_eq!(window.entries.capacity(), reserved);
        assert_eq!(size_of::<WindowEntry>(), 8);
    }

    #[test]
    fn the_ends_of_the_timeline_are_safe() {
        let mut window = window();
        window.record(Nanos::MAX, OutcomeClass::Throttled);
        window.record(Nanos::ZERO, OutcomeClass::Success);
        window.record(Nanos::MAX, OutcomeClass::Success);
        assert_eq!((window.failures(), window.total()), (1, 3));
        window.resize(Duration::MAX, u16::MAX, Nanos::MAX);
        window.resize(Duration::ZERO, 0, Nanos::MAX);
        assert_eq!(window.total(), 1);
    }

    #[test]
    fn every_class_is_counted_and_expires() {
        let mut window = window();
        let effects = [
            (1, OutcomeClass::Success),
            (2, OutcomeClass::Throttled),
            (3, OutcomeClass::ServerFailed),
            (4, OutcomeClass::NetworkFailed),
            (5, OutcomeClass::OtherFailed),
            (6, OutcomeClass::Banned),
        ];
        for (count, effect) in effects {
            for _ in 0..count {
                window.record(Nanos::ZERO, effect);
            }
        }
        let expected = OutcomeCounts {
            success: 1,
            throttled: 8,
            server: 3,
            network: 4,
            other: 5,
        };
        assert_eq!(window.counts(), expected);
        window.refresh(Nanos::from_secs(31));
        assert_eq!(window.counts(), OutcomeCounts::default());
    }
}
