//! When the timer rings next.
//!
//! All instants that were asked for and have not come are kept, the latest first: each was earlier
//! than all before it when it was asked for, or it would not have been. Remembering only the earliest
//! would ask again for a later one that is still to ring, and every such ring would ask once more.

use std::time::Duration;

use outflow_core::Nanos;

/// The rings that are still to come.
#[derive(Debug)]
pub(super) struct ArmedTimer {
    asked: Vec<Nanos>,
    rung: Nanos,
}

impl ArmedTimer {
    pub(super) const fn new() -> Self {
        Self {
            asked: Vec::new(),
            rung: Nanos::ZERO,
        }
    }

    /// Wants a ring at this instant. `new` is the ring that the timer is yet to be asked for.
    pub(super) fn consider(&mut self, at: Nanos, new: &mut Option<Nanos>) {
        let at = at.max(self.rung.saturating_add(SPACING));
        if self.asked.last().is_some_and(|next| *next <= at) {
            return;
        }
        if new.is_some() {
            self.asked.pop();
        }
        self.asked.push(at);
        *new = Some(at);
    }

    /// The timer rang. If it was before any instant that was asked for, it was too early, and that
    /// ring is not to come again.
    pub(super) fn rang(&mut self, now: Nanos) {
        self.rung = now;
        let to_come = self.asked.partition_point(|at| *at > now);
        let early = usize::from(to_come == self.asked.len());
        self.asked.truncate(to_come.saturating_sub(early));
    }
}

/// Entries of one burst expire a few microseconds apart. Ringing for each would cost more than the
/// wait that is saved; fifty microseconds are half a per cent of the shortest window in use.
const SPACING: Duration = Duration::from_micros(50);
