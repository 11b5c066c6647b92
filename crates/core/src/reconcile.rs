//! Comparison of a server's hint with our own usage.
//!
//! A header is old when it is read: the server wrote it when our request arrived, and further
//! requests have left since. Taking it literally would count those as foreign or forget them. So
//! all own usage that the server can have counted is subtracted first. Only the rest was used by
//! other programs with this key: a lower bound. This module moves no meter and blocks no caller; it
//! returns corrections.
//!
//! Several responses in flight report the same foreign usage. So charged foreign usage counts as
//! ours from then on and is subtracted like the rest; a [`UsageLedger`] tracks it.

mod ledger;

use core::time::Duration;

pub use ledger::{UsageLedger, UsageMark};

use crate::{Accounting, Hint, Limit, Nanos, Rate};

/// Our side of the comparison, for the limit of the hint: all usage that needs no foreign program
/// to explain it. A [`UsageLedger`] adds it up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LocalUsage {
    /// The limit as we know it.
    pub limit: Limit,
    /// Usage that counted when the request with the hint was sent: this request, everything in
    /// flight, and foreign usage charged so far.
    pub counted_at_send: u64,
    /// Usage added since then, up to the response: taken by us or charged as foreign. Without the
    /// charges, each response in flight would charge it again.
    pub added_since: u64,
}

impl LocalUsage {
    /// Returns the most that the server can have counted without unknown foreign usage. It counted
    /// between our send and its response, so all it counted was counted here at the send or added
    /// since.
    const fn at_most(&self) -> u64 {
        self.counted_at_send.saturating_add(self.added_since)
    }

    const fn window(&self) -> Duration {
        self.limit.rate().per()
    }
}

/// Consequences of a hint.
///
/// ```
/// use outflow_core::{UsageCorrection, Dialects, Hints, Limit, Nanos, LocalUsage, ResponseTime, WallTime};
///
/// let headers: [(&str, &[u8]); 2] = [
///     ("X-RateLimit-Limit", b"60"),
///     ("X-RateLimit-Remaining", b"20"),
/// ];
/// let response_time = ResponseTime { date: None, wall: WallTime::EPOCH };
/// let hints = Hints::read(headers, Dialects::ALL, response_time);
/// let hint = hints.iter().next().expect("one hint");
/// let ours = LocalUsage {
///     limit: Limit::sliding("60/min".parse()?),
///     counted_at_send: 25,
///     added_since: 5,
/// };
/// let correction = UsageCorrection::new(hint, &ours, Nanos::ZERO);
/// assert_eq!(correction.foreign, 10, "the server counted 40, at most 30 of them ours");
/// # Ok::<(), outflow_core::InvalidRate>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UsageCorrection {
    /// Minimum usage by other programs with this key, beyond the charges so far.
    pub foreign: u64,
    /// Server's limit, where it reports one with a window of at most a day. Its return to our limit is news too.
    pub limit: Option<Rate>,
    /// Nothing is left: do not send before this instant, which is in the future.
    pub until: Option<Nanos>,
    /// End of the server's window, for a meter that follows it.
    pub realign: Option<Nanos>,
}

impl UsageCorrection {
    /// Compares a hint, read at `now`, with our limit that it describes.
    pub fn new(hint: &Hint, ours: &LocalUsage, now: Nanos) -> Self {
        Self {
            foreign: foreign(hint, ours),
            limit: limit(hint),
            until: until(hint, ours, now),
            realign: hint.resets_in.and_then(|span| now.checked_add(span)),
        }
    }
}

fn foreign(hint: &Hint, ours: &LocalUsage) -> u64 {
    if !counts_alike(hint, ours) {
        return 0;
    }
    let by_rest = || Some(ours.limit.capacity().saturating_sub(hint.remaining?));
    let same_span = hint.window == Some(ours.window());
    let used = hint.server_used().or_else(|| same_span.then(by_rest).flatten());
    used.unwrap_or(0).saturating_sub(ours.at_most())
}

/// Returns true if the server looks back no further than our meter. Otherwise it counts calls that
/// our meter dropped, and the difference proves no foreign usage. A limit counted from sending
/// drops a call earlier than the server, by its travel time. A server without a window is assumed
/// to have ours only if its limit is ours too. The time to its reset is no help: that is short at
/// the end of any window.
fn counts_alike(hint: &Hint, ours: &LocalUsage) -> bool {
    let fits = |span: Option<Duration>| span.is_none_or(|span| span <= ours.window());
    let advertised = hint.window.is_some() || hint.limit == Some(ours.limit.capacity());
    let by_arrival = ours.limit.accounting() != Accounting::Send;
    by_arrival && advertised && fits(hint.window) && fits(hint.resets_in)
}

/// Without its window a number is no rate. A quota of more than a day is not one to spread calls by: one header would
/// space them by days, and a client that uses the quota up early obeys the throttle that follows.
fn limit(hint: &Hint) -> Option<Rate> {
    let window = hint.window.filter(|window| *window <= MAX_BLOCK)?;
    Rate::new(hint.limit?, window).ok()
}

fn until(hint: &Hint, ours: &LocalUsage, now: Nanos) -> Option<Nanos> {
    let by_use = || Some(hint.used? >= hint.limit?);
    let exhausted = hint.remaining.map(|left| left == 0).or_else(by_use)?;
    let rest = hint.resets_in.or(hint.window).unwrap_or(ours.window());
    let at = now.saturating_add(rest.min(MAX_BLOCK));
    (exhausted && at > now).then_some(at)
}

/// The longest that one header is believed; after that, one call asks again.
const MAX_BLOCK: Duration = Duration::from_hours(24);

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;
    use crate::{Dialects, Hints, ResponseTime, WallTime};

    fn hint(headers: &[(&str, &str)]) -> Hint {
        let response_time = ResponseTime {
            date: None,
            wall: WallTime::from_unix_secs(1_700_000_000),
        };
        let pairs = headers.iter().map(|(name, value)| (*name, value.as_bytes()));
        let hints = Hints::read(pairs, Dialects::ALL, response_time);
        *hints.iter().next().expect("one hint")
    }

    fn ours(rate: &str, counted_at_send: u64, added_since: u64) -> LocalUsage {
        LocalUsage {
            limit: Limit::sliding(rate.parse().expect("valid")),
            counted_at_send,
            added_since,
        }
    }

    const NOW: Nanos = Nanos::from_secs(100);

    // Upbit reports only the remaining quota, which refers to our limit.
    #[test]
    fn remaining_without_a_limit_refers_to_our_limit() {
        let hint = hint(&[("Remaining-Req", "group=order; min=1; sec=2")]);
        assert_eq!(UsageCorrection::new(&hint, &ours("12/s", 3, 1), NOW).foreign, 6);
        assert_eq!(UsageCorrection::new(&hint, &ours("12/s", 9, 2), NOW).foreign, 0);
    }

    // GitHub's hour against our minute: a call 59 minutes ago is not foreign.
    #[test]
    fn a_longer_window_yields_no_foreign_usage() {
        let by_window = hint(&[("X-RateLimit-Limit-Hour", "100"), ("X-RateLimit-Remaining-Hour", "9")]);
        let by_reset = hint(&[
            ("X-RateLimit-Limit", "100"),
            ("X-RateLimit-Remaining", "9"),
            ("X-RateLimit-Reset", "61"),
        ]);
        for hint in [by_window, by_reset] {
            assert_eq!(UsageCorrection::new(&hint, &ours("100/min", 1, 0), NOW).foreign, 0);
        }
        let shorter = hint(&[("X-RateLimit-Limit", "100"), ("X-RateLimit-Remaining", "9")]);
        assert_eq!(UsageCorrection::new(&shorter, &ours("100/min", 1, 0), NOW).foreign, 90);
    }

    // 600 a minute, one second before its end, against our 10 a second: the 599 used are our own of
    // the last minute. A single remaining or used number says even less.
    #[test]
    fn a_hint_without_a_window_yields_no_foreign_usage() {
        let (limit, reset) = (("X-RateLimit-Limit", "600"), ("X-RateLimit-Reset", "1"));
        let left = ("X-RateLimit-Remaining", "1");
        for headers in [&[limit, left, reset][..], &[limit, left], &[left, reset], &[left]] {
            let correction = UsageCorrection::new(&hint(headers), &ours("10/s", 2, 0), NOW);
            let concluded = (correction.foreign, correction.limit);
            assert_eq!(concluded, (0, None), "{headers:?}");
        }
    }

    // Sent at 0, arrived at 100 ms, asked at 1 s: the server still counts a call that we do not.
    #[test]
    fn a_limit_counted_from_sending_yields_no_foreign_usage() {
        let hint = hint(&[("X-RateLimit-Limit", "10"), ("X-RateLimit-Remaining", "8")]);
        let by_arrival = ours("10/s", 1, 0);
        assert_eq!(UsageCorrection::new(&hint, &by_arrival, NOW).foreign, 1);
        let by_sending = LocalUsage {
            limit: by_arrival.limit.counted(Accounting::Send),
            ..by_arrival
        };
        assert_eq!(UsageCorrection::new(&hint, &by_sending, NOW).foreign, 0);
    }

    // The rest of a second is not the rest of our minute.
    #[test]
    fn remaining_of_a_shorter_window_does_not_apply_to_ours() {
        let hint = hint(&[("Remaining-Req", "group=order; min=1; sec=2")]);
        assert_eq!(UsageCorrection::new(&hint, &ours("12/min", 3, 1), NOW).foreign, 0);
    }

    #[test]
    fn a_limit_needs_its_window() {
        let advertised = |headers: &[(&str, &str)]| {
            let correction = UsageCorrection::new(&hint(headers), &ours("50/s", 0, 0), NOW);
            correction.limit.map(|rate| alloc::format!("{rate}"))
        };
        let ietf = [("RateLimit-Policy", "\"a\";q=42;w=1")];
        assert_eq!(advertised(&ietf).as_deref(), Some("42/s"));
        let ours = [("RateLimit-Policy", "\"a\";q=50;w=1")];
        assert_eq!(advertised(&ours).as_deref(), Some("50/s"));
        let none_at_all = [("RateLimit-Policy", "\"a\";q=0;w=1")];
        assert_eq!(advertised(&none_at_all), None);
        let plain = [("X-RateLimit-Limit", "42")];
        assert_eq!(advertised(&plain), None, "42 of what");
        let a_day = [("RateLimit-Policy", "\"a\";q=42;w=86400")];
        assert_eq!(advertised(&a_day).as_deref(), Some("42/d"));
        let longer = [("RateLimit-Policy", "\"a\";q=42;w=86401")];
        assert_eq!(advertised(&longer), None, "calls would wait for days");
        assert_eq!(advertised(&[("X-RateLimit-Remaining", "0")]), None);
    }

    #[test]
    fn the_size_of_a_bucket_is_not_its_rate() {
        let shopify = hint(&[("X-Shopify-Shop-Api-Call-Limit", "32/80")]);
        for (burst, foreign) in [(80, 2), (40, 0)] {
            let bucket = Limit::bucket("2/s".parse().expect("valid"), burst).expect("valid");
            let ours = LocalUsage {
                limit: bucket,
                counted_at_send: 30,
                added_since: 0,
            };
            let correction = UsageCorrection::new(&shopify, &ours, NOW);
            let concluded = (correction.limit, correction.foreign);
            assert_eq!(concluded, (None, foreign), "a bucket of {burst}");
        }
    }

    // With a reset, with only a window, with neither, and with an unbelievable reset.
    #[test]
    fn an_empty_quota_blocks_until_units_return() {
        let until = |headers: &[(&str, &str)]| {
            let correction = UsageCorrection::new(&hint(headers), &ours("60/min", 0, 0), NOW);
            correction.until.map(|at| at.since(NOW).as_secs())
        };
        let left = ("X-RateLimit-Remaining", "0");
        assert_eq!(until(&[left, ("X-RateLimit-Reset", "7")]), Some(7));
        assert_eq!(until(&[left, ("X-RateLimit-Reset", "0")]), None, "it is there again");
        assert_eq!(until(&[left]), Some(60));
        assert_eq!(until(&[("Remaining-Req", "group=a; sec=0")]), Some(1));
        assert_eq!(until(&[left, ("X-RateLimit-Reset", "999999999")]), Some(86_400));
        assert_eq!(
            until(&[("X-RateLimit-Limit", "5"), ("X-RateLimit-Used", "5")]),
            Some(60)
        );
        assert_eq!(until(&[("X-RateLimit-Remaining", "1")]), None);
    }

    #[test]
    fn extremes_do_not_overflow() {
        let all = u64::MAX.to_string();
        let hint = hint(&[("X-RateLimit-Used", &all), ("X-RateLimit-Reset", "999999999")]);
        let ours = ours("18446744073709551615/d", u64::MAX, u64::MAX);
        let correction = UsageCorrection::new(&hint, &ours, Nanos::MAX);
        assert_eq!((correction.foreign, correction.realign), (0, None));
        let whole = self::hint(&[("X-RateLimit-Used", &all), ("X-RateLimit-Limit", &all)]);
        assert_eq!(UsageCorrection::new(&whole, &ours, Nanos::MAX).foreign, 0);
    }
}
