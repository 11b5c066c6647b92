//! What time it is at a shared store.
//!
//! Starts on a shared store are instants of the server's clock, and here there is another. A question was
//! decided somewhere between being asked and being answered, so the two clocks differ by no less than the one
//! and no more than the other; of many questions the narrowest bounds count, and in their middle lies the
//! difference, wherever a way there is as long as the way back. Whoever read an answer late, because it got no
//! processor for a while, still knows when its jobs are to start. So do machines that are not equally far away.

use std::time::Duration;

use outflow_core::Nanos;

/// The clock of a server, as far as its answers tell.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ServerClock {
    known: Option<OffsetBounds>,
}

/// By how many nanoseconds the clock here is ahead, and when that was found.
#[derive(Clone, Copy, Debug)]
struct OffsetBounds {
    least: i128,
    most: i128,
    at: Nanos,
}

impl ServerClock {
    /// A question that was asked and answered at these instants was decided at this one there.
    pub(crate) fn update(&mut self, (asked, answered): (Nanos, Nanos), decided: Duration) {
        let there = nanos(decided);
        let heard = OffsetBounds {
            least: i128::from(asked.as_nanos()) - there,
            most: i128::from(answered.as_nanos()) - there,
            at: answered,
        };
        let narrower = self.known.map(|known| known.narrowed(heard));
        // Bounds that exclude each other: it is another server, or its clock was set.
        let sound = narrower.filter(|bounds| bounds.least <= bounds.most);
        self.known = Some(sound.unwrap_or(heard));
    }

    /// When it is that instant there.
    pub(crate) fn here(&self, there: Duration) -> Option<Nanos> {
        let known = self.known?;
        let here = nanos(there) + i128::midpoint(known.least, known.most);
        Some(Nanos::from_nanos(u64::try_from(here).unwrap_or_default()))
    }
}

impl OffsetBounds {
    /// What both say, after the clocks had time to go apart.
    fn narrowed(self, heard: Self) -> Self {
        let apart = nanos(heard.at.since(self.at)) / DRIFT;
        Self {
            least: (self.least - apart).max(heard.least),
            most: (self.most + apart).min(heard.most),
            at: heard.at,
        }
    }
}

fn nanos(span: Duration) -> i128 {
    i128::try_from(span.as_nanos()).unwrap_or(i128::MAX)
}

/// A clock that is being set right goes wrong by one part in two thousand at most.
const DRIFT: i128 = 2_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Nanos {
        Nanos::from_millis(ms)
    }

    /// The server's clock is a day ahead; the way takes this long, there and back.
    fn update_clock(clock: &mut ServerClock, asked: u64, (there, back): (u64, u64)) {
        let decided = Duration::from_millis(asked + there) + DAY;
        clock.update((ms(asked), ms(asked + there + back)), decided);
    }

    /// How far the clock is wrong about an instant, in milliseconds.
    fn error(clock: &ServerClock, at: u64) -> i64 {
        let here = clock.here(Duration::from_millis(at) + DAY).expect("heard");
        let micros = i64::try_from(here.as_nanos() / 1_000).expect("soon");
        micros - i64::try_from(at * 1_000).expect("soon")
    }

    const DAY: Duration = Duration::from_hours(24);

    // An answer that took 40 ms longer on either way changes nothing.
    #[test]
    fn an_answer_that_was_read_late_does_not_move_the_clock() {
        let mut clock = ServerClock::default();
        update_clock(&mut clock, 0, (1, 1));
        update_clock(&mut clock, 100, (1, 41));
        update_clock(&mut clock, 200, (41, 1));
        assert!(error(&clock, 300).abs() <= 100, "{} us", error(&clock, 300));
    }

    // One is 1 ms away and the other 40: both mean the same instant, to a tenth of a millisecond.
    #[test]
    fn machines_that_are_not_equally_far_away_agree() {
        let (mut near, mut far) = (ServerClock::default(), ServerClock::default());
        for n in 0..20 {
            update_clock(&mut near, n * 100, (1, 1));
            update_clock(&mut far, n * 100, (40, 40));
        }
        let between = error(&near, 2_500) - error(&far, 2_500);
        assert!(between.abs() <= 100, "{between} us");
    }

    // After a failover the clock is another one, an hour behind.
    #[test]
    fn a_clock_that_was_set_is_believed_at_once() {
        let mut clock = ServerClock::default();
        update_clock(&mut clock, 0, (1, 1));
        let earlier = Duration::from_hours(23);
        clock.update((ms(100), ms(102)), earlier + Duration::from_millis(101));
        let here = clock.here(earlier + Duration::from_millis(150));
        assert_eq!(here, Some(ms(150)));
    }

    // A hundred seconds without a word at one part in ten thousand: 10 ms apart, and followed.
    #[test]
    fn clocks_that_go_apart_are_followed() {
        let mut clock = ServerClock::default();
        for n in 0..100 {
            let (asked, drift) = (n * 1_000, Duration::from_micros(n * 100));
            let decided = Duration::from_millis(asked + 1) + DAY + drift;
            clock.update((ms(asked), ms(asked + 2)), decided);
        }
        let there = Duration::from_secs(100) + DAY + Duration::from_millis(10);
        let here = clock.here(there).expect("heard").as_nanos();
        assert!(here.abs_diff(100_000_000_000) <= 1_500_000, "{here}");
    }
}
