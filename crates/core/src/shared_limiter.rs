//! One exact limit that many threads share.
//!
//! A ring of the last N sendings decides with one comparison: a request passes if the sending N
//! back has left the window. A refusal costs one atomic load and takes no lock. Changes hold a
//! one-byte lock for a few instructions; the ring is made of atomics, so this needs no `unsafe`. In
//! prototypes with eight threads on free cores (`docs/benchmarks.md`), a mutex around a queue and a
//! lock-free ring took four to five times longer than a backing-off spin lock.
//!
//! It counts sendings only. Use another type where arrivals count, where limits of several kinds
//! must pass together, or where one slot per unit would waste memory:
//! [`MeterSet`](crate::MeterSet).

mod bucket;
mod ring;
mod ring_set;
mod spin_lock;

use core::fmt;

use bucket::SharedBucket;
use ring::SharedRing;
use ring_set::SharedRings;
use spin_lock::SpinLock;

use crate::meter::WindowStart;
use crate::{Cost, Decision, InvalidLimit, Nanos, Rate, Receipt};

/// Exact limit shared by threads through `&self`.
///
/// ```
/// use outflow_core::{Cost, Decision, SharedLimiter, Nanos};
///
/// let limiter = SharedLimiter::sliding("2/s".parse()?)?;
/// let first = limiter.take(Nanos::ZERO, Cost::ONE).allowed().expect("untouched");
/// assert!(limiter.take(Nanos::from_millis(1), Cost::ONE).is_allow());
/// assert_eq!(limiter.take(Nanos::from_millis(2), Cost::ONE), Decision::WaitUntil(Nanos::from_secs(1)));
/// assert!(limiter.refund(Nanos::from_millis(3), first));
/// assert!(limiter.take(Nanos::from_millis(3), Cost::ONE).is_allow());
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
#[derive(Debug)]
// One cache line: a neighbour's takes would otherwise evict it, and half of it would be a second
// miss where there are many limiters.
#[repr(align(64))]
pub struct SharedLimiter {
    lock: SpinLock,
    state: LimiterState,
}

#[derive(Debug)]
enum LimiterState {
    Ring(SharedRing),
    Rings(SharedRings),
    Bucket(SharedBucket),
}

impl SharedLimiter {
    /// Builds an exact sliding window. It allocates 8 bytes per unit of the quantity at once.
    ///
    /// # Errors
    /// If the quantity is above [`MAX_SHARED_UNITS`].
    pub fn sliding(rate: Rate) -> Result<Self, LimitTooLarge> {
        Ok(Self::from_state(LimiterState::Ring(ring(rate)?)))
    }

    /// Builds several exact sliding windows that a request must pass all at once; if one refuses,
    /// none changes, and the wait is the longest of theirs.
    ///
    /// ```
    /// use outflow_core::{Cost, Decision, SharedLimiter, Nanos};
    ///
    /// let limiter = SharedLimiter::with_rates(&["2/s".parse()?, "3/min".parse()?])?;
    /// assert!(limiter.take(Nanos::ZERO, Cost::new(2)).is_allow());
    /// assert!(limiter.take(Nanos::from_secs(1), Cost::ONE).is_allow());
    /// let fourth = limiter.take(Nanos::from_secs(2), Cost::ONE);
    /// assert_eq!(fourth, Decision::WaitUntil(Nanos::from_secs(60)));
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If a quantity is above [`MAX_SHARED_UNITS`].
    pub fn with_rates(rates: &[Rate]) -> Result<Self, LimitTooLarge> {
        let rings: Result<_, _> = rates.iter().map(|rate| ring(*rate)).collect();
        Ok(Self::from_state(LimiterState::Rings(SharedRings::new(rings?))))
    }

    /// Builds a token bucket that refills at `rate` and saves up to `burst`.
    ///
    /// # Errors
    /// If `burst` is zero.
    pub fn bucket(rate: Rate, burst: u64) -> Result<Self, InvalidLimit> {
        if burst == 0 {
            return Err(InvalidLimit::NoBurst);
        }
        Ok(Self::from_state(LimiterState::Bucket(SharedBucket::new(rate, burst))))
    }

    /// Sets the function that a thread calls when another one holds the lock for long: the holder
    /// has then lost its processor. Pass the system's `yield`; by default it spins.
    #[must_use]
    pub fn waiting_with(mut self, pause: fn()) -> Self {
        self.lock = SpinLock::pausing_with(pause);
        self
    }

    /// Takes `cost` if all of it fits now, or takes nothing.
    #[inline]
    pub fn take(&self, now: Nanos, cost: Cost) -> Decision<Receipt> {
        let (at, units) = (now.as_nanos(), cost.units());
        let taken = match &self.state {
            _ if units == 0 => Decision::Allow((at, 0)),
            LimiterState::Ring(ring) => ring.take(&self.lock, at, units).map(|at| (at, 0)),
            LimiterState::Rings(rings) => rings.take(&self.lock, at, units).map(|at| (at, 0)),
            LimiterState::Bucket(bucket) => bucket.take(&self.lock, at, units),
        };
        taken.map(|(at, mark)| Receipt::new(Nanos::from_nanos(at), cost, WindowStart::FromSend).marked(mark))
    }

    /// Removes the consumption if it still counts, and returns true if it did.
    pub fn refund(&self, now: Nanos, receipt: Receipt) -> bool {
        match &self.state {
            _ if receipt.cost() == Cost::ZERO => false,
            LimiterState::Ring(ring) => ring.refund(&self.lock, now.as_nanos(), &receipt),
            LimiterState::Rings(rings) => rings.refund(&self.lock, now.as_nanos(), &receipt),
            LimiterState::Bucket(bucket) => bucket.refund(&self.lock, now.as_nanos(), &receipt),
        }
    }

    /// Returns the remaining quota at `now`.
    pub fn remaining(&self, now: Nanos) -> u64 {
        match &self.state {
            LimiterState::Ring(ring) => ring.remaining(&self.lock, now.as_nanos()),
            LimiterState::Rings(rings) => rings.remaining(&self.lock, now.as_nanos()),
            LimiterState::Bucket(bucket) => bucket.remaining(&self.lock, now.as_nanos()),
        }
    }

    fn from_state(state: LimiterState) -> Self {
        Self {
            lock: SpinLock::default(),
            state,
        }
    }
}

fn ring(rate: Rate) -> Result<SharedRing, LimitTooLarge> {
    match u32::try_from(rate.quantity()) {
        Ok(units) if units <= MAX_SHARED_UNITS => Ok(SharedRing::new(units, rate.per_nanos())),
        _ => Err(LimitTooLarge),
    }
}

/// Largest quantity of a shared sliding limit: 128 MiB of slots.
pub const MAX_SHARED_UNITS: u32 = 1 << 24;

/// A sliding quantity above [`MAX_SHARED_UNITS`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LimitTooLarge;

impl fmt::Display for LimitTooLarge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "a shared sliding limit can have {MAX_SHARED_UNITS} units at most: use a bucket, or a \
             meter set, which keeps one entry a request"
        )
    }
}

impl core::error::Error for LimitTooLarge {}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_limiter_is_one_cache_line() {
        assert_eq!(size_of::<SharedLimiter>(), 64);
    }

    #[test]
    fn a_limit_too_large_for_slots_is_refused() {
        let rate = |quantity| Rate::per_second(quantity).expect("positive");
        let max = u64::from(MAX_SHARED_UNITS);
        assert_eq!(SharedLimiter::sliding(rate(max + 1)).err(), Some(LimitTooLarge));
        assert_eq!(SharedLimiter::sliding(rate(u64::MAX)).err(), Some(LimitTooLarge));
        assert_eq!(SharedLimiter::bucket(rate(1), 0).err(), Some(InvalidLimit::NoBurst));
    }

    #[test]
    fn a_zero_cost_takes_and_refunds_nothing() {
        let limiter = SharedLimiter::sliding(Rate::per_second(1).expect("positive")).expect("small");
        let nothing = limiter.take(Nanos::ZERO, Cost::ZERO).allowed().expect("always");
        assert!(!limiter.refund(Nanos::ZERO, nothing));
        assert_eq!(limiter.remaining(Nanos::ZERO), 1);
    }
}
