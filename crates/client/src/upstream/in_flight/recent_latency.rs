//! The lowest latency of the latest successes.
//!
//! It is kept while there are no successes, so that it is known when an outage ends. It forgets quickly:
//! while an API is slow, a call that has only the time of better days left is hopeless.

use std::time::Duration;

/// Lowest latency of the last sixteen to thirty-two successes.
#[derive(Debug, Default)]
pub(in crate::upstream) struct RecentLatency {
    before: Option<Duration>,
    current: Option<Duration>,
    count: u8,
}

impl RecentLatency {
    /// Records the latency of a success.
    pub(super) fn observe(&mut self, latency: Duration) {
        if self.count == BATCH {
            (self.before, self.current, self.count) = (self.current, None, 0);
        }
        self.current = Some(self.current.map_or(latency, |lowest| lowest.min(latency)));
        self.count += 1;
    }

    /// Returns the lowest latency, if there was a success.
    pub(in crate::upstream) fn lowest(&self) -> Option<Duration> {
        match (self.before, self.current) {
            (Some(before), Some(current)) => Some(before.min(current)),
            (before, current) => before.or(current),
        }
    }
}

/// Few enough for a second of traffic, and enough that one slow response does not matter.
const BATCH: u8 = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_api_is_known_after_two_batches() {
        let mut latency = RecentLatency::default();
        assert_eq!(latency.lowest(), None);
        latency.observe(Duration::from_millis(50));
        for _ in 0..31 {
            latency.observe(Duration::from_millis(250));
            assert_eq!(latency.lowest(), Some(Duration::from_millis(50)));
        }
        latency.observe(Duration::from_millis(250));
        assert_eq!(latency.lowest(), Some(Duration::from_millis(250)));
    }
}
