//! Mutex that ignores poisoning.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Mutex whose lock never fails.
///
/// Poisoning marks data that a panicking thread may have left half changed. Code under these locks
/// makes no change that a panic could interrupt halfway, so the data of a poisoned lock is sound.
#[derive(Debug, Default)]
pub(crate) struct Lock<T>(Mutex<T>);

impl<T> Lock<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
