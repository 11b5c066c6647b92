//! A mutex that ignores poisoning.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// A mutex whose guard is available after a panic of another holder.
///
/// Use it for data that is valid after every single statement: a panic then leaves nothing half done, and
/// a second panic in each later caller would only spread the first.
#[derive(Debug, Default)]
pub struct Lock<T>(Mutex<T>);

impl<T> Lock<T> {
    /// Creates a lock around a value.
    pub const fn new(value: T) -> Self {
        Self(Mutex::new(value))
    }

    /// Waits for the lock and returns its guard.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the value, without locking.
    pub fn into_inner(self) -> T {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}
