//! Marks of one connection: what its requests and its driver noticed about it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

/// Marks of a connection. Clones share them; the pool, the driver and each request in flight hold one.
#[derive(Clone, Default)]
pub(crate) struct ConnectionMarks(Arc<Marks>);

#[derive(Default)]
struct Marks {
    suspect: AtomicBool,
    several: AtomicBool,
    broken: AtomicBool,
    answered: AtomicBool,
    closed_to_streams: AtomicBool,
    refused: Notify,
}

impl ConnectionMarks {
    /// Bars the connection from new requests.
    pub(crate) fn raise_suspicion(&self) {
        self.0.suspect.store(true, Ordering::Release);
    }

    pub(super) fn is_suspect(&self) -> bool {
        self.0.suspect.load(Ordering::Acquire)
    }

    /// Notes that the pool hands the connection out. If a request holds it already, two are in flight at once.
    pub(super) fn on_taken(&self) {
        // The pool and the driver hold one clone each.
        if Arc::strong_count(&self.0) > 2 {
            self.0.several.store(true, Ordering::Release);
        }
    }

    /// Returns the number of requests that a fault of the connection can come from.
    pub(crate) fn occupancy(&self) -> Occupancy {
        if self.0.several.load(Ordering::Acquire) {
            Occupancy::Several
        } else {
            Occupancy::One
        }
    }

    /// Notes that the server broke HTTP as a whole: no request is to blame.
    pub(super) fn note_broken(&self) {
        self.0.broken.store(true, Ordering::Release);
    }

    pub(super) fn is_broken(&self) -> bool {
        self.0.broken.load(Ordering::Acquire)
    }

    /// Notes the head of a response.
    pub(super) fn note_response(&self) {
        self.0.answered.store(true, Ordering::Release);
    }

    /// Notes that the server allows no streams. If it never responded, its requests end now.
    pub(super) fn note_closed_to_streams(&self) {
        self.raise_suspicion();
        self.0.closed_to_streams.store(true, Ordering::Release);
        if !self.0.answered.load(Ordering::Acquire) {
            self.0.refused.notify_waiters();
        }
    }

    pub(super) fn is_closed_to_streams(&self) -> bool {
        self.0.closed_to_streams.load(Ordering::Acquire)
    }

    /// Waits until a server that never responded allows no streams.
    pub(super) async fn refused(&self) {
        self.0.refused.notified().await;
    }
}

/// Requests that a connection carried at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Occupancy {
    /// Never more than one: a fault is in the response to it.
    One,
    /// Several at some time: a fault may be in the response to another one.
    Several,
}
