//! throttle-net: an exact log behind a mutex, composites, keyed buckets and a breaker. It reads the OS clock by
//! itself.

use std::sync::Arc;
use std::time::Duration;

use throttle_net::{
    Bulkhead, CircuitBreaker, Decision, Hybrid, Limiter, ManualClock, PerKey, SlidingWindowLog, Throttle, Trip,
};

/// Name in the tables.
pub(crate) const LOG: &str = "throttle-net SlidingWindowLog";

/// Its breaker around a limiter that limits nothing.
pub(crate) type Breaker = CircuitBreaker<Unlimited>;

pub(crate) fn log(limit: u32, window: Duration) -> SlidingWindowLog {
    SlidingWindowLog::new(limit, window)
}

/// Builds the exact log on a manual clock.
pub(crate) fn log_at(limit: u32, window: Duration) -> (SlidingWindowLog<Arc<ManualClock>>, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::new());
    let log = SlidingWindowLog::new(limit, window).with_clock(Arc::clone(&clock));
    (log, clock)
}

/// Its token bucket.
pub(crate) fn bucket(limit: u32, window: Duration) -> Throttle {
    Throttle::per_duration(limit, window)
}

/// Builds three exact logs, all or nothing.
pub(crate) fn hybrid(rules: &[(u32, Duration)]) -> Hybrid {
    rules
        .iter()
        .fold(Hybrid::builder(), |hybrid, (limit, window)| {
            hybrid.limiter(log(*limit, *window))
        })
        .build()
}

/// Builds a bucket per name; it has no keyed log.
pub(crate) fn keyed(limit: u32, window: Duration) -> PerKey<String> {
    PerKey::per_duration(limit, window)
}

/// Builds a breaker over the last 100 calls that opens at half of them.
pub(crate) fn breaker() -> Breaker {
    breaker_around(Unlimited)
}

fn breaker_around<L: Limiter>(limiter: L) -> CircuitBreaker<L> {
    CircuitBreaker::builder()
        .trip(Trip::Ratio {
            window: 100,
            ratio: 0.5,
            min_calls: 10,
        })
        .cooldown(Duration::from_hours(1))
        .build(limiter)
}

/// Exact log, breaker and bulkhead, as its users combine them.
pub(crate) struct Stack {
    bulkhead: Bulkhead,
    breaker: CircuitBreaker<SlidingWindowLog>,
}

impl Stack {
    pub(crate) fn new(limit: u32, window: Duration, in_flight: u32) -> Self {
        Self {
            bulkhead: Bulkhead::new(in_flight),
            breaker: breaker_around(log(limit, window)),
        }
    }

    /// Makes a successful call; returns false if it was refused.
    #[inline]
    pub(crate) fn call(&self) -> bool {
        let Some(_place) = self.bulkhead.try_acquire() else {
            return false;
        };
        match self.breaker.try_acquire() {
            Ok(Some(permit)) => {
                permit.success();
                true
            }
            Ok(None) | Err(_) => false,
        }
    }
}

/// A limiter that allows everything, so that a breaker is measured alone.
pub(crate) struct Unlimited;

impl Limiter for Unlimited {
    fn peek(&self, _cost: u32) -> Decision {
        Decision::Acquired
    }

    fn acquire_cost(&self, _cost: u32) -> Decision {
        Decision::Acquired
    }

    fn available(&self) -> u32 {
        u32::MAX
    }

    fn capacity(&self) -> u32 {
        u32::MAX
    }
}
