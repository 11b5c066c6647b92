//! A queue that was lost while it was in use: told to everybody, then begun anew.
//!
//! Begun anew at once, one caller would hear of the loss, and all others would find an empty queue and take
//! it for work that is done. Begun anew by somebody's hand, everything would stand still until somebody is
//! there. So every call fails for longer than anybody pauses between two looks, and the first one after
//! that begins the queue by itself.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

#[derive(Default)]
pub(super) struct DataLoss {
    noticed: Mutex<Option<Instant>>,
    /// Whether the next greeting begins anew what it does not find.
    anew: AtomicBool,
    /// One begins it; the others wait for that one.
    pub(super) beginning: tokio::sync::Mutex<()>,
}

/// How it stands with a queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum QueueState {
    /// It is there, as far as is known.
    Whole,
    /// It is gone, and not everybody has heard of it.
    Mourned,
    /// It is gone, everybody knows, and it may begin anew.
    Over,
}

impl DataLoss {
    pub(super) fn standing(&self) -> QueueState {
        match *self.noticed() {
            None => QueueState::Whole,
            Some(at) if at.elapsed() < MOURNING => QueueState::Mourned,
            Some(_) => QueueState::Over,
        }
    }

    /// It is gone. The first who says so counts.
    pub(super) fn notice(&self) {
        self.noticed().get_or_insert_with(Instant::now);
    }

    /// The next greeting may begin it anew.
    pub(super) fn allow(&self) {
        self.anew.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_allowed(&self) -> bool {
        self.anew.load(Ordering::Relaxed)
    }

    /// It is there again.
    pub(super) fn end(&self) {
        self.anew.store(false, Ordering::Relaxed);
        *self.noticed() = None;
    }

    fn noticed(&self) -> MutexGuard<'_, Option<Instant>> {
        self.noticed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whoever waits for jobs, or for their end, looks at least every second; twice that leaves room for a slow
/// call, and for a queue that works again within five seconds. Starts that were promised before the loss
/// lie no further ahead, as a rule.
const MOURNING: Duration = Duration::from_secs(2);
