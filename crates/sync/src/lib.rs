//! The mutex of all crates.
//!
//! It is std's mutex without poisoning. Poisoning marks data that a panicking thread may have left half
//! changed. Code under these locks makes no change that a panic could interrupt halfway, so the data of a
//! poisoned lock is valid, and a second panic in each later caller would only spread the first.
//!
//! `parking_lot` has such a mutex, but a waiter that is woken under load costs more processor time with it.

#![expect(clippy::disallowed_types, reason = "the one place that handles poisoning")]

use std::sync::PoisonError;
use std::time::Duration;

pub use std::sync::MutexGuard;

/// Mutex whose guard is available after a panic of another holder.
///
/// ```
/// use outflow_sync::Mutex;
///
/// let count = Mutex::new(1);
/// *count.lock() += 1;
/// assert_eq!(count.into_inner(), 2);
/// ```
#[derive(Debug, Default)]
pub struct Mutex<T>(std::sync::Mutex<T>);

impl<T> Mutex<T> {
    /// Creates a mutex around a value.
    pub const fn new(value: T) -> Self {
        Self(std::sync::Mutex::new(value))
    }

    /// Waits for the mutex and returns its guard.
    #[inline]
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the value, without locking.
    pub fn into_inner(self) -> T {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Condition that holders of a [`Mutex`] wait for.
#[derive(Debug, Default)]
pub struct Condvar(std::sync::Condvar);

impl Condvar {
    /// Wakes one waiter.
    pub fn notify_one(&self) {
        self.0.notify_one();
    }

    /// Wakes all waiters.
    pub fn notify_all(&self) {
        self.0.notify_all();
    }

    /// Waits for a wakeup, with the mutex unlocked meanwhile.
    pub fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        self.0.wait(guard).unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a wakeup, at most for this time.
    pub fn wait_for<'a, T>(&self, guard: MutexGuard<'a, T>, span: Duration) -> MutexGuard<'a, T> {
        let woken = self.0.wait_timeout(guard, span);
        woken.unwrap_or_else(PoisonError::into_inner).0
    }

    /// Waits while the condition holds, at most for this time.
    pub fn wait_while<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        span: Duration,
        condition: impl FnMut(&mut T) -> bool,
    ) -> MutexGuard<'a, T> {
        let woken = self.0.wait_timeout_while(guard, span, condition);
        woken.unwrap_or_else(PoisonError::into_inner).0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_of_a_holder_leaves_the_mutex_usable() {
        let mutex = Mutex::new(1);
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let mut value = mutex.lock();
            *value = 2;
            panic!("while it is held");
        }));
        assert!(panicked.is_err());
        assert_eq!(*mutex.lock(), 2);
    }

    #[test]
    fn a_waiter_gets_the_guard_back() {
        let (mutex, condition) = (Mutex::new(false), Condvar::default());
        std::thread::scope(|threads| {
            threads.spawn(|| {
                *mutex.lock() = true;
                condition.notify_all();
            });
            let mut is_set = mutex.lock();
            while !*is_set {
                is_set = condition.wait(is_set);
            }
        });
        assert!(*condition.wait_for(mutex.lock(), Duration::ZERO));
        assert!(*condition.wait_while(mutex.lock(), Duration::MAX, |is_set| !*is_set));
    }
}
