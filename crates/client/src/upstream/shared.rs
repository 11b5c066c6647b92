//! The gate with its lock, and what is done once the lock is free.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::Waker;

use arc_swap::ArcSwap;
use outflow_core::{ClockPair, Nanos, Timer, TimerCallback};
use smol_str::SmolStr;

use super::permit::{AttemptResult, Verdict};
use super::routing::{self, RouteTable};
use super::state::{
    AcquireRequest, AcquireResult, AdmissionState, PendingEffects, ResponseInProgress,
};
use crate::event::{Event, Events};
use crate::refusal::WaitEstimate;
use crate::rules::Rules;

/// A timer that every thread may use.
pub type SharedTimer = Arc<dyn Timer + Send + Sync>;

/// One API's gate behind its lock.
pub(super) struct SharedState {
    pub(super) name: SmolStr,
    pub(super) timer: SharedTimer,
    pub(super) events: Events,
    /// What callers need before they ask. A new one is laid here after the gate has changed: all the
    /// lanes that it names are there then.
    pub(super) known: ArcSwap<RouteTable>,
    /// Held by whoever changes the rules, so that two changes do not cross.
    pub(super) changing: Mutex<()>,
    gate: Mutex<AdmissionState>,
    /// Permits below this number may have been called off, and no others.
    called_off: Arc<AtomicU64>,
    /// Itself, for the timer to find and to let go.
    me: Weak<Self>,
}

impl SharedState {
    pub(super) fn new(
        name: SmolStr,
        (known, gate): (RouteTable, AdmissionState),
        timer: SharedTimer,
        events: Events,
    ) -> Arc<Self> {
        Arc::new_cyclic(|me| Self {
            name,
            timer,
            events,
            known: ArcSwap::from_pointee(known),
            changing: Mutex::new(()),
            called_off: gate.called_off(),
            gate: Mutex::new(gate),
            me: Weak::clone(me),
        })
    }

    #[inline]
    pub(super) fn now(&self) -> Nanos {
        self.timer.now()
    }

    #[inline]
    pub(super) fn enqueue(&self, caller: AcquireRequest, waker: &Waker) -> AcquireResult {
        self.with(|gate, now| gate.enqueue(caller, now, waker))
    }

    pub(super) fn poll(&self, key: usize, waker: &Waker) -> AcquireResult {
        self.with(|gate, now| gate.poll(key, now, waker))
    }

    pub(super) fn forget(&self, key: usize) {
        self.with(|gate, now| gate.forget(key, now));
    }

    /// Whether a permit was called off. Nearly none ever is, so the gate is asked only about one that
    /// could be.
    pub(super) fn is_called_off(&self, id: u64, flight: usize) -> bool {
        id < self.called_off.load(Ordering::Acquire)
            && self.with(|gate, _| gate.is_called_off(flight))
    }

    /// A call is being sent: when that is.
    #[inline]
    pub(super) fn sending(&self, flight: usize) -> Nanos {
        self.with(|gate, now| {
            gate.sending(flight, now);
            now
        })
    }

    pub(super) fn refund(&self, flight: usize) {
        self.with(|gate, now| gate.refund(flight, now));
    }

    pub(super) fn explain(&self, key: usize) -> Option<WaitEstimate> {
        self.with(|gate, now| gate.explain(key, now))
    }

    pub(super) fn answered(
        &self,
        flight: usize,
        sent: Option<Nanos>,
        answer: &AttemptResult<'_>,
    ) -> Option<(Verdict, ResponseInProgress)> {
        self.with(|gate, now| {
            if let Some(headers) = answer.headers() {
                gate.read_wall_clock(&*self.timer, headers, now);
            }
            gate.answered(flight, sent, answer, now)
        })
    }

    /// Answered and over, in one turn.
    pub(super) fn settled(
        &self,
        flight: usize,
        sent: Option<Nanos>,
        answer: &AttemptResult<'_>,
    ) -> Option<Verdict> {
        self.with(|gate, now| {
            if let Some(headers) = answer.headers() {
                gate.read_wall_clock(&*self.timer, headers, now);
            }
            let (verdict, open) = gate.answered(flight, sent, answer, now)?;
            gate.ended(open, now);
            Some(verdict)
        })
    }

    pub(super) fn ended(&self, open: ResponseInProgress) {
        self.with(|gate, now| gate.ended(open, now));
    }

    pub(super) fn broke(&self, open: ResponseInProgress, answer: &AttemptResult<'_>) -> Verdict {
        self.with(|gate, now| gate.broke(open, answer, now))
    }

    pub(super) fn flowing(&self, open: &mut ResponseInProgress) {
        self.with(|gate, now| gate.flowing(open, now));
    }

    /// Keeps to other rules from now on, which fit together.
    pub(super) fn reconfigure(&self, rules: &Rules) {
        let _alone = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let (groups, moment) = (routing::groups(rules), self.timer.moment());
        let seats =
            self.with(|gate, now| gate.reconfigure(&groups, rules, ClockPair { now, ..moment }));
        // Rules that fit together name each group once, and all of them were just seated.
        if let Ok(known) = RouteTable::new(rules, seats) {
            self.known.store(Arc::new(known));
        }
    }

    /// Does something under the lock, and what follows from it outside.
    #[inline]
    pub(super) fn with<T>(&self, turn: impl FnOnce(&mut AdmissionState, Nanos) -> T) -> T {
        let heard = self.events.has_observers();
        let mut gate = self.lock();
        gate.begin(heard);
        let now = self.timer.now();
        let answer = turn(&mut gate, now);
        let after = gate.finish();
        drop(gate);
        if let Some(after) = after {
            self.follow(after, now);
        }
        answer
    }

    #[cold]
    fn follow(&self, after: PendingEffects, now: Nanos) {
        if let Some(at) = after.ring_at {
            let me: Weak<dyn TimerCallback> = Weak::<Self>::clone(&self.me);
            self.timer.ring_at(at, me);
        }
        for waker in after.wakes {
            alone(|| waker.wake());
        }
        for waker in after.retired {
            alone(|| drop(waker));
        }
        for what in after.told {
            let event = Event {
                api: self.name.clone(),
                at: now,
                what,
            };
            alone(|| self.events.notify(&event));
        }
    }

    /// Nothing under the lock leaves it half changed, so a panic elsewhere is no reason to stop.
    fn lock(&self) -> MutexGuard<'_, AdmissionState> {
        self.gate.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs code of others, whose panic is its own affair: whoever else is to be woken still is, and the
/// caller whose turn this was still gets its answer.
fn alone(run: impl FnOnce()) {
    if catch_unwind(AssertUnwindSafe(run)).is_err() {
        tracing::error!("a waker or an observer panicked: the door goes on without it");
    }
}

impl TimerCallback for SharedState {
    fn fire(&self) {
        self.with(AdmissionState::ring);
    }
}

impl fmt::Debug for SharedState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Door")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}
