//! Instants for which an upstream armed its timer.
//!
//! The list keeps every armed instant that has not passed, the latest first: each was earlier than all
//! others when it was added. With only the earliest, a later instant that is still armed would be armed
//! again after each firing.

use std::time::Duration;

use outflow_core::Nanos;

/// Firings that are still to come.
#[derive(Debug, Default)]
pub(super) struct ArmedTimer {
    armed: Vec<Nanos>,
    last_fired: Nanos,
}

impl ArmedTimer {
    /// Requests a firing at this instant. `pending` is the firing that the clock does not know yet.
    pub(super) fn arm(&mut self, at: Nanos, pending: &mut Option<Nanos>) {
        let at = at.max(self.last_fired.saturating_add(SPACING));
        if self.armed.last().is_some_and(|next| *next <= at) {
            return;
        }
        if pending.is_some() {
            self.armed.pop();
        }
        self.armed.push(at);
        *pending = Some(at);
    }

    /// Removes the passed instants. A firing before every armed instant was early and consumes the next.
    pub(super) fn fired(&mut self, now: Nanos) {
        self.last_fired = now;
        let to_come = self.armed.partition_point(|at| *at > now);
        let early = usize::from(to_come == self.armed.len());
        self.armed.truncate(to_come.saturating_sub(early));
    }
}

/// Entries of one burst expire a few microseconds apart. Firing for each would cost more than the
/// wait it saves; fifty microseconds are half a per cent of the shortest window in use.
const SPACING: Duration = Duration::from_micros(50);
