//! Ours, with the OS clock's time as a program would pass it.

use std::fmt::Debug;
use std::time::Duration;

use parking_lot::Mutex;

use outflow::{LimiterHandle, LimiterRegistry, SystemClock};
use outflow_core::{Accounting, Clock as _, ClockPair, Cost, Limit, MeterSet, Nanos, Rate, Receipt, SharedLimiter};

/// One shared limit and its clock.
pub(crate) struct Ours {
    clock: SystemClock,
    limiter: SharedLimiter,
}

impl Ours {
    /// Creates an exact sliding limit, on a system whose threads can yield.
    pub(crate) fn sliding(limit: u32, window: Duration) -> Self {
        Self::new(sliding(limit, window))
    }

    /// Creates a token bucket that saves its full quantity.
    pub(crate) fn bucket(limit: u32, window: Duration) -> Self {
        Self::new(sure(SharedLimiter::bucket(rate(limit, window), u64::from(limit))))
    }

    /// Creates several exact sliding limits under one lock.
    pub(crate) fn all_of(rules: &[(u32, Duration)]) -> Self {
        let rates: Vec<Rate> = rules.iter().map(|(limit, window)| rate(*limit, *window)).collect();
        Self::new(sure(SharedLimiter::with_rates(&rates)))
    }

    fn new(limiter: SharedLimiter) -> Self {
        Self {
            clock: SystemClock::new(),
            limiter: limiter.waiting_with(std::thread::yield_now),
        }
    }

    /// Reads the clock and takes.
    #[inline]
    pub(crate) fn take(&self, cost: Cost) -> Option<Receipt> {
        self.take_at(self.clock.now(), cost)
    }

    /// Takes at a given instant.
    #[inline]
    pub(crate) fn take_at(&self, now: Nanos, cost: Cost) -> Option<Receipt> {
        self.limiter.take(now, cost).allowed()
    }

    /// Logs the `nth` request with this cost; returns true if it was allowed.
    pub(crate) fn logs(&self, nth: u32, cost: u32) -> bool {
        self.take_at(nth_instant(nth), Cost::new(u64::from(cost))).is_some()
    }

    /// Reads the clock once, takes, and refunds the receipt.
    #[inline]
    pub(crate) fn take_and_refund(&self) -> bool {
        let now = self.clock.now();
        let receipt = self.limiter.take(now, Cost::ONE).allowed();
        receipt.is_some_and(|receipt| self.limiter.refund(now, receipt))
    }
}

/// Several limits behind the lock that a program would put around them.
pub(crate) struct OursTogether {
    clock: SystemClock,
    set: Mutex<MeterSet>,
}

impl OursTogether {
    /// Creates exact sliding limits that count at the moment of sending, as all the peers do.
    pub(crate) fn sliding(rules: &[(u32, Duration)]) -> Self {
        let limit = |(limit, window): &(u32, Duration)| Limit::sliding(rate(*limit, *window)).counted(Accounting::Send);
        let limits: Vec<Limit> = rules.iter().map(limit).collect();
        Self {
            clock: SystemClock::new(),
            set: Mutex::new(sure(MeterSet::new(&limits, ClockPair::default()))),
        }
    }

    #[inline]
    pub(crate) fn take(&self) -> bool {
        let now = self.clock.now();
        let mut set = self.set.lock();
        set.take(now, Cost::ONE).is_allow()
    }

    /// Logs the `nth` request with this cost; returns true if it was allowed.
    pub(crate) fn logs(&self, nth: u32, cost: u32) -> bool {
        let mut set = self.set.lock();
        set.take(nth_instant(nth), Cost::new(u64::from(cost))).is_allow()
    }
}

/// Returns instants a hundred nanoseconds apart: as fast as a program can call, and no two at once.
fn nth_instant(nth: u32) -> Nanos {
    Nanos::from_nanos(u64::from(nth) * 100)
}

/// A limit per name.
pub(crate) struct OursByName {
    clock: SystemClock,
    registry: LimiterRegistry,
}

impl OursByName {
    pub(crate) fn sliding(limit: u32, window: Duration) -> Self {
        Self {
            clock: SystemClock::new(),
            registry: LimiterRegistry::new(move |_| sliding(limit, window)),
        }
    }

    #[inline]
    pub(crate) fn take(&self, name: &str) -> bool {
        let taken = self.registry.take(name, self.clock.now(), Cost::ONE);
        taken.is_ok_and(|decision| decision.is_allow())
    }

    #[inline]
    pub(crate) fn take_by(&self, handle: &LimiterHandle) -> bool {
        handle.take(self.clock.now(), Cost::ONE).is_allow()
    }

    pub(crate) fn resolve(&self, name: &str) -> LimiterHandle {
        sure(self.registry.resolve(name))
    }
}

fn sliding(limit: u32, window: Duration) -> SharedLimiter {
    sure(SharedLimiter::sliding(rate(limit, window)))
}

fn rate(limit: u32, window: Duration) -> Rate {
    sure(Rate::new(u64::from(limit), window))
}

/// Unwraps a value that is built from valid constants.
#[expect(clippy::panic, reason = "a benchmark with a wrong constant must not run")]
fn sure<T, E: Debug>(built: Result<T, E>) -> T {
    built.unwrap_or_else(|error| panic!("a benchmark's constant is wrong: {error:?}"))
}
