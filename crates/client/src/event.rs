//! What happens at the door, told to whoever listens.
//!
//! Events are values with names from closed sets: no path, header or body is ever in one, except the
//! path of a finished call, without its query. Nobody listening costs one load: an event is built
//! only for an ear. Observers are called where things happen and must not block; a slow one drops or
//! hands over. This is the one stream that logs, metrics, the live page and the user's own code read.

mod words;

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use outflow_core::{Attempt, Cost, Drift, Effect, MeterEvent, Nanos, State, Transition, WallTime};
use smol_str::SmolStr;

pub use words::{Lookup, Reason, Status};

use crate::cache::DiskState;
use crate::http::Unresolved;
use crate::refusal::{Explanation, Refusal};

/// Something that happened, at an API.
#[derive(Clone, Debug)]
pub struct Event {
    /// The API.
    pub api: SmolStr,
    /// When, in monotonic time.
    pub at: Nanos,
    /// What.
    pub what: What,
}

/// What happened.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum What {
    /// A call began to wait for its permit.
    Waiting {
        /// Its group.
        group: SmolStr,
        /// What it costs.
        cost: Cost,
        /// What it waits for.
        explanation: Explanation,
    },
    /// A call may go.
    Admitted {
        /// Its group.
        group: SmolStr,
        /// The permit's number.
        permit: u64,
        /// What it costs.
        cost: Cost,
        /// How long it waited.
        waited: Duration,
    },
    /// A call may not go.
    Refused {
        /// Its group.
        group: SmolStr,
        /// Why.
        refusal: Refusal,
        /// How long it had waited.
        waited: Duration,
    },
    /// An attempt ended.
    Settled {
        /// Its group.
        group: SmolStr,
        /// The permit's number.
        permit: u64,
        /// How it ended.
        attempt: Attempt,
        /// What that counts as.
        effect: Effect,
        /// From sending to the first byte of the answer, if one came.
        round_trip: Option<Duration>,
        /// What the log line tells with it, where it ended badly.
        vitals: Option<Vitals>,
    },
    /// A permit was given back unused.
    Refunded {
        /// Its group.
        group: SmolStr,
        /// The permit's number.
        permit: u64,
    },
    /// The state changed; `group` is named where each group has its own.
    Moved {
        /// The group, if it has a state of its own.
        group: Option<SmolStr>,
        /// The move.
        transition: Transition,
        /// What the log line tells with it.
        vitals: Vitals,
    },
    /// The server asked everybody to wait.
    Cooling {
        /// The group, if it has a state of its own.
        group: Option<SmolStr>,
        /// Until when.
        until: Nanos,
        /// How long that is.
        wait: Duration,
        /// What the log line tells with it.
        vitals: Vitals,
    },
    /// A meter tells something; `group` is `None` for the limits of the whole API.
    Meter {
        /// The group.
        group: Option<SmolStr>,
        /// What it tells.
        event: MeterEvent,
    },
    /// The limit in effect is not the configured one, or is again.
    Drifting {
        /// The group.
        group: Option<SmolStr>,
        /// By how much; `None` when it is over.
        drift: Option<Drift>,
    },
    /// A threshold of use was reached and held, or left.
    Usage {
        /// The group.
        group: Option<SmolStr>,
        /// Whether it was reached.
        raised: bool,
        /// The share of the limit in use, of a million.
        used_ppm: u32,
    },
    /// The meters take more memory than the rules think good, or no longer do.
    Memory {
        /// Whether they do.
        raised: bool,
        /// How much they take.
        bytes: u64,
    },
    /// Headers about limits could not be understood.
    Malformed {
        /// How many.
        headers: u32,
    },
    /// Someone else used the same key.
    Foreign {
        /// The group.
        group: Option<SmolStr>,
        /// How much, at least.
        units: u64,
    },
    /// A failed attempt will be repeated.
    Retrying {
        /// Which attempt failed, from 1.
        attempt: u32,
        /// How long until the next.
        delay: Duration,
        /// Why it failed.
        reason: Reason,
    },
    /// An attempt found no address for its name.
    Unresolved {
        /// Why.
        why: Unresolved,
    },
    /// The cache was asked.
    Cache {
        /// What it had.
        lookup: Lookup,
    },
    /// The cache's directory is not used, can no longer be written, or can again.
    Disk {
        /// Whether it is used.
        state: DiskState,
    },
    /// A call is over, whatever came of it.
    Finished(Box<Finished>),
    /// Background work began, ended or was restarted.
    Task {
        /// Its name.
        name: &'static str,
        /// What became of it.
        state: TaskState,
    },
}

/// The numbers beside a change of state.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Vitals {
    /// The state, after whatever happened.
    pub state: State,
    /// Refusals in a row.
    pub streak: u32,
    /// The share of failures in the window, of a million.
    pub error_ppm: u32,
    /// The slowest rate in effect, in calls a second; 0 if nothing is limited.
    pub rate: f64,
    /// How many calls may be in flight.
    pub concurrency: u32,
    /// How long nothing goes, if nothing does.
    pub sleep: Option<Duration>,
    /// What the server asked for.
    pub retry_after: Option<Duration>,
}

impl Default for Vitals {
    /// Healthy, unlimited, and nothing seen.
    fn default() -> Self {
        Self {
            state: State::Normal,
            streak: 0,
            error_ppm: 0,
            rate: 0.0,
            concurrency: 0,
            sleep: None,
            retry_after: None,
        }
    }
}

/// A finished call, with all that its log line says.
#[derive(Clone, Debug)]
pub struct Finished {
    /// When it ended, in civil time.
    pub ts: WallTime,
    /// Its group.
    pub group: SmolStr,
    /// Its method, from the methods that are known; `OTHER` for the rest.
    pub method: &'static str,
    /// Its path, without query, cut to 256 bytes.
    pub path: SmolStr,
    /// How it ended.
    pub status: Status,
    /// The code, if an answer came.
    pub code: Option<u16>,
    /// Why it failed, if it did.
    pub reason: Option<Reason>,
    /// From the call to its end.
    pub latency: Duration,
    /// How many attempts were made.
    pub attempts: u32,
    /// The state at its end.
    pub state: State,
    /// How long it waited for permits.
    pub waited: Duration,
    /// A number for this call.
    pub request_id: SmolStr,
    /// The trace it belongs to.
    pub trace_id: Option<SmolStr>,
}

/// What became of background work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TaskState {
    /// It runs.
    Running,
    /// It panicked and will be started again.
    Restarting {
        /// How often it was started again so far.
        restarts: u32,
        /// How long until it is.
        delay: Duration,
    },
    /// It ended.
    Ended,
}

/// Somebody who listens.
pub trait Observer: Send + Sync {
    /// Is told of an event. It must not block: it is called on the way of a request. If it panics,
    /// the request goes on.
    fn observe(&self, event: &Event);
}

/// Where events are told. Clones tell the same observers.
#[derive(Clone, Default)]
pub struct Events {
    inner: Arc<Inner>,
}

#[derive(Default)]
struct Inner {
    heard: AtomicBool,
    observers: ArcSwap<Vec<Arc<dyn Observer>>>,
}

impl Events {
    /// Nobody listens yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Tells an observer of everything from now on.
    pub fn subscribe(&self, observer: Arc<dyn Observer>) {
        self.inner.observers.rcu(|known| {
            let mut all = Vec::clone(known);
            all.push(Arc::clone(&observer));
            all
        });
        self.inner.heard.store(true, Ordering::Release);
    }

    /// Tells an observer nothing any more.
    pub fn unsubscribe(&self, observer: &Arc<dyn Observer>) {
        self.inner.observers.rcu(|known| {
            let mut all = Vec::clone(known);
            all.retain(|one| !Arc::ptr_eq(one, observer));
            all
        });
    }

    /// Lets go of all observers.
    pub(crate) fn silence(&self) {
        self.inner.observers.store(Arc::default());
        self.inner.heard.store(false, Ordering::Release);
    }

    /// Whether anybody listens.
    #[inline]
    pub fn are_heard(&self) -> bool {
        self.inner.heard.load(Ordering::Acquire)
    }

    /// Tells what happened, if anybody listens.
    #[inline]
    pub fn emit(&self, event: impl FnOnce() -> Event) {
        if self.are_heard() {
            self.tell(&event());
        }
    }

    /// Tells what happened. An observer that panics loses that event and nothing else: neither the
    /// call it was told of nor the observers behind it. The program's panic hook has heard of it.
    pub fn tell(&self, event: &Event) {
        for observer in self.inner.observers.load().iter() {
            let _unread = catch_unwind(AssertUnwindSafe(|| observer.observe(event)));
        }
    }
}

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let observers = self.inner.observers.load().len();
        f.debug_struct("Events")
            .field("observers", &observers)
            .finish()
    }
}
