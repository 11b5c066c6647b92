//! Priority aging: a lower class that was passed over often enough is next, once.
//!
//! Each group and the whole API count separately. A group at its own limit dispatches seldom; the many
//! dispatches of other groups must neither use up nor fill its count.

use super::{CLASSES, PriorityClass};

/// Number of times each class was passed over by a higher one.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PriorityAging([u8; CLASSES.len()]);

impl PriorityAging {
    /// Returns the larger of both counts for each class.
    pub(super) fn max(self, other: Self) -> Self {
        let ([high, normal, low], [and_high, and_normal, and_low]) = (self.0, other.0);
        Self([high.max(and_high), normal.max(and_normal), low.max(and_low)])
    }

    /// Returns the higher class first, unless a lower one was passed over too often.
    pub(super) const fn order(self) -> [PriorityClass; CLASSES.len()] {
        let [_, normal, low] = self.0;
        match (normal >= MAX_PASSED_OVER, low >= MAX_PASSED_OVER) {
            (_, true) => [PriorityClass::Low, PriorityClass::High, PriorityClass::Normal],
            (true, false) => [PriorityClass::Normal, PriorityClass::High, PriorityClass::Low],
            (false, false) => CLASSES,
        }
    }

    /// Counts the lower classes with waiters as passed over.
    pub(super) fn record_dispatch(&mut self, dispatched: PriorityClass, waits: impl Fn(PriorityClass) -> bool) {
        for (class, passed_over) in CLASSES.into_iter().zip(&mut self.0) {
            if class == dispatched {
                *passed_over = 0;
            } else if class < dispatched && waits(class) {
                *passed_over = passed_over.saturating_add(1);
            }
        }
    }

    /// Resets the count of a class whose attempt to start failed.
    pub(super) fn reset(&mut self, tried: PriorityClass) {
        for (class, passed_over) in CLASSES.into_iter().zip(&mut self.0) {
            if class == tried {
                *passed_over = 0;
            }
        }
    }
}

/// At most this many calls of higher classes start before one of a lower class, which keeps a ninth.
pub(super) const MAX_PASSED_OVER: u8 = 8;
