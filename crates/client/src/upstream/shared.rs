//! The admission state behind its lock, and the effects that run once the lock is free.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use arc_swap::{ArcSwap, ArcSwapOption};
use outflow_core::{ClockPair, Nanos, Timer, TimerCallback};
use outflow_sync::Mutex;
use smol_str::SmolStr;

use super::effects::PendingEffects;
use super::endpoint::EndpointTable;
use super::permit::{AttemptResult, Verdict};
use super::routing::{self, GroupIndex, InvalidRules, RouteTable};
use super::sharing::LimitSharing;
use super::state::AdmissionState;
use crate::event::{Event, Events};
use crate::rules::Rules;

/// A timer that all threads share.
pub type SharedTimer = Arc<dyn Timer + Send + Sync>;

/// Admission of one API, shared by all callers.
pub(super) struct SharedState {
    pub(super) name: SmolStr,
    pub(super) timer: SharedTimer,
    pub(super) events: Events,
    /// Replaced after the state changed, so that the state knows all groups that it names.
    pub(super) routes: ArcSwap<RouteTable>,
    pub(super) endpoints: Arc<EndpointTable>,
    /// Held during a reconfiguration, so that two do not interleave.
    reconfiguring: Mutex<()>,
    state: Mutex<AdmissionState>,
    /// The epoch of the timer in which callbacks were requested.
    timer_epoch: AtomicU64,
    /// Only permits below this number may be revoked.
    revoked_below: Arc<AtomicU64>,
    /// The ledger of its limits, if processes share them.
    pub(super) sharing: ArcSwapOption<LimitSharing>,
    /// A reference to itself for the timer and the ledger.
    pub(super) weak: Weak<Self>,
}

impl SharedState {
    pub(super) fn new(
        name: SmolStr,
        rules: &Rules,
        timer: SharedTimer,
        events: Events,
    ) -> Result<Arc<Self>, InvalidRules> {
        let endpoints = Arc::<EndpointTable>::default();
        let routes = RouteTable::new(rules, GroupIndex::from_rules(rules), &endpoints)?;
        let mut state = AdmissionState::new(&routing::groups(rules), rules, timer.moment());
        state.pool.endpoints = Arc::clone(&endpoints);
        Ok(Arc::new_cyclic(|weak| Self {
            timer_epoch: AtomicU64::new(timer.epoch()),
            name,
            timer,
            events,
            routes: ArcSwap::from_pointee(routes),
            endpoints,
            reconfiguring: Mutex::new(()),
            revoked_below: state.pool.circuits.revoked_below(),
            state: Mutex::new(state),
            sharing: ArcSwapOption::empty(),
            weak: Weak::clone(weak),
        }))
    }

    #[inline]
    pub(super) fn now(&self) -> Nanos {
        self.timer.now()
    }

    /// Returns true if a permit was revoked. Few ever are, so the lock is taken only for candidates.
    pub(super) fn is_revoked(&self, id: u64, attempt: usize) -> bool {
        id < self.revoked_below.load(Ordering::Acquire) && self.with(|state, _| state.is_revoked(attempt))
    }

    /// Counts an attempt as sent and returns the instant.
    #[inline]
    pub(super) fn mark_sent(&self, attempt: usize) -> Nanos {
        self.with(|state, now| {
            state.mark_sent(attempt, now);
            now
        })
    }

    /// Settles the head and finishes the body in one turn.
    pub(super) fn settle(&self, attempt: usize, sent: Option<Nanos>, result: &AttemptResult<'_>) -> Option<Verdict> {
        self.with_result(result, |state, now| {
            let (verdict, response) = state.settle_head(attempt, sent, result, now)?;
            state.finish_body(response, now);
            Some(verdict)
        })
    }

    /// Applies other rules, which were checked.
    pub(super) fn reconfigure(&self, rules: &Rules) {
        let _alone = self.reconfiguring.lock();
        let (groups, moment) = (routing::groups(rules), self.timer.moment());
        let index = self.with(|state, now| state.reconfigure(&groups, rules, ClockPair { now, ..moment }));
        // Checked rules name each group once, and all of them have numbers now.
        if let Ok(routes) = RouteTable::new(rules, index, &self.endpoints) {
            self.routes.store(Arc::new(routes));
        }
    }

    /// Requests the timer for the waiters again if the clock lost it: in a forked child, the timer that was
    /// armed in the parent never fires.
    pub(super) fn renew_timer(&self) {
        let epoch = self.timer.epoch();
        if self.timer_epoch.swap(epoch, Ordering::Relaxed) != epoch {
            self.with(AdmissionState::restart_timer);
        }
    }

    /// Runs a turn under the lock, and its effects outside.
    #[inline]
    pub(super) fn with<T>(&self, turn: impl FnOnce(&mut AdmissionState, Nanos) -> T) -> T {
        let observed = self.events.has_observers();
        let mut state = self.state.lock();
        state.begin(observed);
        let now = self.timer.now();
        let result = turn(&mut state, now);
        let effects = state.pool.effects.finish();
        drop(state);
        if let Some(effects) = effects {
            self.run_effects(effects, now);
        }
        result
    }

    /// Runs a turn after a response, whose time the clock takes over.
    pub(super) fn with_result<T>(
        &self,
        result: &AttemptResult<'_>,
        turn: impl FnOnce(&mut AdmissionState, Nanos) -> T,
    ) -> T {
        self.with(|state, now| {
            if let Some(headers) = result.headers {
                state.pool.clock.update(&*self.timer, headers, now);
            }
            turn(state, now)
        })
    }

    #[cold]
    fn run_effects(&self, effects: PendingEffects, now: Nanos) {
        if let Some(at) = effects.fire_at {
            let callback: Weak<dyn TimerCallback> = Weak::<Self>::clone(&self.weak);
            self.timer.fire_at(at, callback);
        }
        for renewal in effects.renewals {
            self.send_renewal(renewal);
        }
        for waker in effects.wakes {
            catch_panic(|| waker.wake());
        }
        for waker in effects.retired {
            catch_panic(|| drop(waker));
        }
        for (trace, what) in effects.events {
            let event = Event {
                api: self.name.clone(),
                at: now,
                trace,
                what,
            };
            catch_panic(|| self.events.notify(&event));
        }
    }
}

/// Runs code of callers and observers. Its panic must not keep other waiters from being woken, nor the
/// caller of this turn from its result.
fn catch_panic(run: impl FnOnce()) {
    if catch_unwind(AssertUnwindSafe(run)).is_err() {
        tracing::error!("a waker or an observer panicked: the upstream goes on without it");
    }
}

impl TimerCallback for SharedState {
    fn fire(&self) {
        self.with(AdmissionState::fire_timer);
    }
}

impl fmt::Debug for SharedState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedState")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}
