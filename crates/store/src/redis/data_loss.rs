//! Loss of a queue that was in use: reported to every caller, then reinitialized.
//!
//! If the first failing call reinitialized the queue, all other callers would find an empty queue
//! and take the work for done. If only an operator could reinitialize it, everything would stop
//! until one is present. So every call fails for longer than any caller pauses between two polls,
//! and the first call after that reinitializes the queue.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use outflow_sync::Mutex;
use tokio::time::Instant;

#[derive(Default)]
pub(super) struct DataLoss {
    lost_since: Mutex<Option<Instant>>,
    /// Allows the next handshake to create a queue that it does not find.
    may_create: AtomicBool,
    /// One caller reinitializes; the others wait for it.
    pub(super) reinitializing: tokio::sync::Mutex<()>,
}

/// State of the queue, as this process knows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum QueueState {
    /// No loss is known.
    Intact,
    /// The queue is lost, and some callers may not have seen it.
    LossReported,
    /// The queue is lost, every caller has seen it, and it may be reinitialized.
    Recoverable,
}

impl DataLoss {
    pub(super) fn queue_state(&self) -> QueueState {
        match *self.lost_since.lock() {
            None => QueueState::Intact,
            Some(at) if at.elapsed() < LOSS_GRACE => QueueState::LossReported,
            Some(_) => QueueState::Recoverable,
        }
    }

    /// Records the loss. The first report counts.
    pub(super) fn record(&self) {
        self.lost_since.lock().get_or_insert_with(Instant::now);
    }

    /// Allows the next handshake to reinitialize the queue.
    pub(super) fn allow_reinitialize(&self) {
        self.may_create.store(true, Ordering::Relaxed);
    }

    pub(super) fn may_reinitialize(&self) -> bool {
        self.may_create.load(Ordering::Relaxed)
    }

    /// Ends the loss: the queue exists again.
    pub(super) fn clear(&self) {
        self.may_create.store(false, Ordering::Relaxed);
        *self.lost_since.lock() = None;
    }
}

/// Callers that wait for jobs or ends poll at least every second. Twice that allows for a slow
/// call, and for a queue that works again within five seconds. Starts scheduled before the loss are
/// rarely further ahead.
const LOSS_GRACE: Duration = Duration::from_secs(2);
