//! Limits that all apply to the same calls.
//!
//! A limit of `n` per window lets call `k * n + m` start `k` windows after call `m`, and the shorter windows decide
//! when that one starts. So the longest window is divided first, and the rest by the next: 999 calls at 10/s and
//! 500/min are one minute and then 499 calls at 10/s. A limit that shorter windows never let fill is left out.

use std::time::Duration;

use outflow::core::{Cost, Limit, LimitKind};

use crate::progress::workload::WorkAmount;
use crate::scheduler::pacing;

/// Limits of one owner, the longest window first.
pub(super) struct LimitChain {
    limits: Vec<ChainedLimit>,
    jobs: u64,
    /// Distance between two starts.
    distance: Duration,
    /// Time that the first calls need in addition, while each counts from its response.
    warm_up: Duration,
}

struct ChainedLimit {
    limit: Limit,
    /// Time until a start counts no more.
    window: Duration,
    /// Amount of all work in units of this limit.
    amount: WorkAmount,
}

/// Whole windows before a call, and its number in its window.
struct WindowPosition {
    before: Duration,
    jobs: u64,
    units: u64,
}

impl LimitChain {
    /// Builds the chain of limits that count this work, if a call takes this long. Limits that count nothing of it
    /// are left out.
    pub(super) fn new<'a>(limits: impl IntoIterator<Item = &'a Limit>, amount: WorkAmount, latency: Duration) -> Self {
        let (mut chained, mut distance, mut warm_up) = (Vec::new(), Duration::ZERO, Duration::ZERO);
        for limit in limits {
            let (rate, unit_cost) = (limit.rate(), limit.measure().unit_cost());
            let units = unit_cost.total_units(amount.jobs, amount.units);
            if units == 0 {
                continue;
            }
            let mean = Cost::new(units.div_ceil(amount.jobs.max(1)));
            distance = distance.max(pacing::spread(rate, mean));
            if rate.per() < COUNTED_FROM_RESPONSE {
                let windows = scale(amount.jobs.min(FIRST_RESPONSES), mean.units(), rate.quantity()) - 1;
                warm_up = warm_up.max(latency.saturating_mul(u32::try_from(windows).unwrap_or(u32::MAX)));
            }
            chained.push(ChainedLimit {
                limit: *limit,
                window: rate.per().saturating_add(counted_after(rate.per(), latency)),
                amount: WorkAmount { units, ..amount },
            });
        }
        chained.sort_by_key(|limit| std::cmp::Reverse(limit.window));
        Self {
            limits: chained,
            jobs: amount.jobs,
            distance,
            warm_up,
        }
    }

    /// Returns the longest window up to this one.
    pub(super) fn longest_window(&self, max: Duration) -> Duration {
        let windows = self.limits.iter().map(|limit| limit.window);
        windows.filter(|window| *window <= max).max().unwrap_or_default()
    }

    /// Returns the time until the last call starts, if the first one is the first call of its API.
    pub(super) fn span_from_start(&self) -> Duration {
        self.span().saturating_add(self.warm_up)
    }

    /// Returns the time until the last call starts, if all limits are unused.
    pub(super) fn span(&self) -> Duration {
        self.span_of(&self.limits, self.jobs)
    }

    /// Returns the time until the last call starts. The next one waits for `first`, and `wait` returns the wait for
    /// units of one limit: the part of a window that is in use has to return first.
    pub(super) fn span_after(&self, first: Duration, wait: impl Fn(&Limit, u64) -> Option<Duration>) -> Duration {
        let spans = self.limits.iter().enumerate().map(|(index, chained)| {
            let position = chained.position(self.jobs);
            let wait = |units| wait(&chained.limit, units).unwrap_or_default().max(first);
            // The rest of the last window goes at the rate of shorter limits, as its units return.
            let shorter = self.limits.get(index + 1..).unwrap_or_default();
            let rest = self.span_of(shorter, position.jobs);
            let last = wait(position.units).max(wait(1).saturating_add(rest));
            position.before.saturating_add(last)
        });
        spans.max().unwrap_or_default().max(self.span())
    }

    fn span_of(&self, limits: &[ChainedLimit], jobs: u64) -> Duration {
        let Some((longest, shorter)) = limits.split_first() else {
            let starts = u32::try_from(jobs.saturating_sub(1)).unwrap_or(u32::MAX);
            return self.distance.saturating_mul(starts.min(MAX_SPREAD));
        };
        let position = longest.position(jobs);
        let divided = self.span_of(shorter, position.jobs);
        let divided = position.before.saturating_add(divided);
        if shorter.is_empty() {
            return divided;
        }
        divided.max(self.span_of(shorter, jobs))
    }
}

impl ChainedLimit {
    fn position(&self, jobs: u64) -> WindowPosition {
        let WorkAmount {
            jobs: all,
            units: of_all,
        } = self.amount;
        let units = scale(jobs, of_all, all).max(1);
        let quantity = self.limit.rate().quantity().max(1);
        let (before, left) = match self.limit.kind() {
            LimitKind::Sliding | LimitKind::Fixed | LimitKind::Aligned => {
                let windows = (units - 1) / quantity;
                let left = (units - 1) % quantity + 1;
                (self.window.as_nanos().saturating_mul(windows.into()), left)
            }
            LimitKind::Bucket { burst } => {
                let late = u128::from(units.saturating_sub(burst));
                let nanos = self.window.as_nanos().saturating_mul(late);
                (nanos / u128::from(quantity), units.min(burst))
            }
        };
        WindowPosition {
            before: Duration::from_nanos(u64::try_from(before).unwrap_or(u64::MAX)),
            jobs: scale(left, all, of_all).max(1),
            units: left,
        }
    }
}

/// Returns the time after its window for which a start still counts: a long window counts from the response, a short
/// one has a guard.
fn counted_after(window: Duration, latency: Duration) -> Duration {
    if window >= COUNTED_FROM_RESPONSE {
        latency
    } else {
        GUARD
    }
}

/// Returns `number * times / of`, rounded up.
fn scale(number: u64, times: u64, of: u64) -> u64 {
    let all = u128::from(number) * u128::from(times);
    u64::try_from(all.div_ceil(u128::from(of.max(1)))).unwrap_or(u64::MAX)
}

/// Windows of this length and more count a call from its response, by default.
const COUNTED_FROM_RESPONSE: Duration = Duration::from_secs(10);

/// Number of responses after which short windows count from the arrival of a call.
const FIRST_RESPONSES: u64 = 50;

/// Default guard of the limits.
const GUARD: Duration = Duration::from_millis(2);

/// Starts of one window; more starts than this take whole windows.
const MAX_SPREAD: u32 = 1_000_000;

#[cfg(test)]
mod tests {
    use outflow::core::CountBy;

    use super::*;

    fn limit(rate: &str) -> Limit {
        Limit::sliding(rate.parse().expect("a rate"))
    }

    fn span(rates: &[&str], jobs: u64) -> f64 {
        let limits: Vec<_> = rates.iter().map(|rate| limit(rate)).collect();
        let amount = WorkAmount { jobs, units: jobs };
        LimitChain::new(&limits, amount, Duration::ZERO).span().as_secs_f64()
    }

    // 15 at 10/s: five in the second second, a tenth apart. 999 at 10/s and 500/min: a minute, then 499 at 10/s. A
    // thousand a minute never fill at 10/s.
    #[test]
    fn the_longest_window_is_divided_first() {
        let near = |seconds: f64, expected: f64| (seconds - expected).abs() < expected * 0.004;
        assert!(near(span(&["10/s"], 15), 1.4));
        assert!(near(span(&["10/s", "500/min"], 999), 109.8));
        assert!(near(span(&["10/s", "1000/min"], 6_000), 599.9));
        assert!(near(span(&["500/min"], 15_000), 29.0 * 60.0 + 1.0));
        assert!(span(&["500/min"], 1).abs() < 0.001);
    }

    // 600 a minute, all of them used twenty seconds ago: the next 600 start in forty seconds, and 600 more a minute
    // later. Half of them, spread evenly over the minute, wait for their own part of it.
    #[test]
    fn a_used_window_returns_first() {
        let chain = |jobs| {
            let amount = WorkAmount { jobs, units: jobs };
            LimitChain::new([&limit("600/min")], amount, Duration::ZERO)
        };
        let span_after = |jobs: u64, first: u64, wait: fn(u64) -> u64| {
            let wait = |_: &Limit, units| Some(Duration::from_millis(wait(units)));
            chain(jobs).span_after(Duration::from_secs(first), wait)
        };
        let burst = span_after(1_200, 0, |_| 40_000).as_secs_f64();
        assert!((100.9..101.1).contains(&burst), "{burst}");
        assert_eq!(
            span_after(899, 0, |units| 100 * units),
            Duration::from_millis(60_000 + 29_900)
        );
        assert_eq!(span_after(601, 7, |_| 0), Duration::from_secs(67), "it sleeps");
    }

    // 30 calls of 2,000 tokens at 30,000 tokens a minute: 15 a minute; 500 calls a minute bound nothing.
    #[test]
    fn costs_count_where_a_limit_counts_them() {
        let limits = [
            limit("30000/min").measured_in(CountBy::Tokens),
            limit("500/min").measured_in(CountBy::Calls),
        ];
        let amount = WorkAmount {
            jobs: 31,
            units: 62_000,
        };
        let span = LimitChain::new(&limits, amount, Duration::ZERO).span();
        assert_eq!(span.as_secs(), 120);
    }

    // A minute that counts from the response is longer by the time of a call.
    #[test]
    fn a_long_window_counts_from_the_response() {
        let amount = WorkAmount { jobs: 601, units: 601 };
        let chain = LimitChain::new([&limit("600/min")], amount, Duration::from_millis(300));
        assert_eq!(chain.span(), Duration::from_millis(60_300));
    }
}
