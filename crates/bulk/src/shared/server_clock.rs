//! Estimate of a shared store's clock.
//!
//! Starts on a shared store are instants of the server's clock. The server decides a request between its send and
//! its response, which bounds the offset of the two clocks. The narrowest bounds of many requests count, and the
//! offset is their middle, if both directions take equally long. So a response that was read late still gives exact
//! start instants, and machines at different distances agree.

use std::time::Duration;

use outflow_core::Nanos;

/// Clock of a server, as far as its responses show.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ServerClock {
    bounds: Option<OffsetBounds>,
}

/// Bounds of the local clock's lead in nanoseconds, and the instant of their measurement.
#[derive(Clone, Copy, Debug)]
struct OffsetBounds {
    min: i128,
    max: i128,
    at: Nanos,
}

impl ServerClock {
    /// Adds a request that was sent and answered at these local instants, and decided at this server time.
    pub(crate) fn update(&mut self, sent: Nanos, received: Nanos, decided: Duration) {
        let server = nanos(decided);
        let measured = OffsetBounds {
            min: i128::from(sent.as_nanos()) - server,
            max: i128::from(received.as_nanos()) - server,
            at: received,
        };
        let narrowed = self.bounds.map(|bounds| bounds.narrowed(measured));
        // Bounds that exclude each other mean another server, or a clock that was set.
        let valid = narrowed.filter(|bounds| bounds.min <= bounds.max);
        self.bounds = Some(valid.unwrap_or(measured));
    }

    /// Converts a server time to the local clock.
    pub(crate) fn to_local(self, server: Duration) -> Option<Nanos> {
        let bounds = self.bounds?;
        let local = nanos(server) + i128::midpoint(bounds.min, bounds.max);
        Some(Nanos::from_nanos(u64::try_from(local).unwrap_or_default()))
    }
}

impl OffsetBounds {
    /// Returns the intersection, after the clocks had time to drift.
    fn narrowed(self, measured: Self) -> Self {
        let drift = nanos(measured.at.since(self.at)) / DRIFT;
        Self {
            min: (self.min - drift).max(measured.min),
            max: (self.max + drift).min(measured.max),
            at: measured.at,
        }
    }
}

fn nanos(span: Duration) -> i128 {
    i128::try_from(span.as_nanos()).unwrap_or(i128::MAX)
}

/// A clock that is adjusted drifts by one part in two thousand at most.
const DRIFT: i128 = 2_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Nanos {
        Nanos::from_millis(ms)
    }

    /// Adds a request with these one-way latencies; the server's clock is a day ahead.
    fn update_clock(clock: &mut ServerClock, sent: u64, latency: [u64; 2]) {
        let [there, back] = latency;
        let decided = Duration::from_millis(sent + there) + DAY;
        clock.update(ms(sent), ms(sent + there + back), decided);
    }

    /// Returns the error of the clock in microseconds.
    fn error(clock: &ServerClock, at: u64) -> i64 {
        let here = clock.to_local(Duration::from_millis(at) + DAY).expect("measured");
        let micros = i64::try_from(here.as_nanos() / 1_000).expect("soon");
        micros - i64::try_from(at * 1_000).expect("soon")
    }

    const DAY: Duration = Duration::from_hours(24);

    // 40 ms more in either direction change nothing.
    #[test]
    fn a_response_that_was_read_late_does_not_move_the_clock() {
        let mut clock = ServerClock::default();
        update_clock(&mut clock, 0, [1, 1]);
        update_clock(&mut clock, 100, [1, 41]);
        update_clock(&mut clock, 200, [41, 1]);
        assert!(error(&clock, 300).abs() <= 100, "{} us", error(&clock, 300));
    }

    // One is 1 ms away and the other 40: they agree to a tenth of a millisecond.
    #[test]
    fn machines_at_different_distances_agree() {
        let (mut near, mut far) = (ServerClock::default(), ServerClock::default());
        for n in 0..20 {
            update_clock(&mut near, n * 100, [1, 1]);
            update_clock(&mut far, n * 100, [40, 40]);
        }
        let between = error(&near, 2_500) - error(&far, 2_500);
        assert!(between.abs() <= 100, "{between} us");
    }

    // After a failover the clock is another one, an hour behind.
    #[test]
    fn a_clock_that_was_set_is_followed_at_once() {
        let mut clock = ServerClock::default();
        update_clock(&mut clock, 0, [1, 1]);
        let earlier = Duration::from_hours(23);
        clock.update(ms(100), ms(102), earlier + Duration::from_millis(101));
        let here = clock.to_local(earlier + Duration::from_millis(150));
        assert_eq!(here, Some(ms(150)));
    }

    // One part in ten thousand for a hundred seconds: 10 ms apart.
    #[test]
    fn a_drifting_clock_is_followed() {
        let mut clock = ServerClock::default();
        for n in 0..100 {
            let (sent, drift) = (n * 1_000, Duration::from_micros(n * 100));
            let decided = Duration::from_millis(sent + 1) + DAY + drift;
            clock.update(ms(sent), ms(sent + 2), decided);
        }
        let there = Duration::from_secs(100) + DAY + Duration::from_millis(10);
        let here = clock.to_local(there).expect("measured").as_nanos();
        assert!(here.abs_diff(100_000_000_000) <= 1_500_000, "{here}");
    }
}
