//! Effects of a turn under the lock that run once the lock is free: wakes, events, the timer.

use std::task::Waker;

use outflow_core::Nanos;

use super::sharing::PendingRenewal;
use super::timer::ArmedTimer;
use crate::event::EventKind;
use crate::trace::TraceId;

/// Collects the effects of each turn.
#[derive(Debug, Default)]
pub(super) struct EffectQueue {
    pending: PendingEffects,
    pub(super) timer: ArmedTimer,
    pub(super) observed: bool,
}

/// Effects of one turn.
#[derive(Debug, Default)]
pub(super) struct PendingEffects {
    pub(super) wakes: Vec<Waker>,
    /// Wakers to drop. A drop may end a task, and with it other waiters of this upstream.
    pub(super) retired: Vec<Waker>,
    pub(super) events: Vec<(TraceId, EventKind)>,
    pub(super) fire_at: Option<Nanos>,
    pub(super) renewals: Vec<PendingRenewal>,
}

impl EffectQueue {
    /// Ends the turn and returns its effects, if there are any.
    #[inline]
    pub(super) fn finish(&mut self) -> Option<PendingEffects> {
        let pending = &self.pending;
        let silent = pending.events.is_empty() && pending.fire_at.is_none() && pending.renewals.is_empty();
        if silent && pending.wakes.is_empty() && pending.retired.is_empty() {
            return None;
        }
        Some(std::mem::take(&mut self.pending))
    }

    /// Returns true if events reach an observer.
    #[inline]
    pub(super) const fn has_observers(&self) -> bool {
        self.observed
    }

    /// Emits an event of the API.
    #[inline]
    pub(super) fn emit(&mut self, event: EventKind) {
        self.emit_call(TraceId::NONE, event);
    }

    /// Emits an event of a call, which belongs to this trace.
    #[inline]
    pub(super) fn emit_call(&mut self, trace: TraceId, event: EventKind) {
        if self.observed {
            self.pending.events.push((trace, event));
        }
    }

    pub(super) fn wake(&mut self, waker: impl IntoIterator<Item = Waker>) {
        self.pending.wakes.extend(waker);
    }

    pub(super) fn retire(&mut self, waker: impl IntoIterator<Item = Waker>) {
        self.pending.retired.extend(waker);
    }

    /// Sends a renewal of a lease.
    pub(super) fn renew(&mut self, renewal: PendingRenewal) {
        self.pending.renewals.push(renewal);
    }

    /// Arms the timer for this instant unless it fires earlier anyway; `Nanos::MAX` is never.
    #[inline]
    pub(super) fn arm_timer(&mut self, at: Nanos) {
        if at < Nanos::MAX {
            self.timer.arm(at, &mut self.pending.fire_at);
        }
    }
}
