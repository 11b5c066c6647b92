//! How long a lower class lets better ones go first.
//!
//! A better class goes first, but not for ever: whoever was passed over often enough is next, once.
//! It is kept for each group and for the whole API: a group whose own limit is reached seldom has a
//! turn, and the many turns of others must neither use up nor fill the patience of those in it.

use super::wait_queue::{CLASSES, PriorityClass};

/// How often each class was passed over by a better one.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PriorityAging([u8; CLASSES.len()]);

impl PriorityAging {
    /// Both together: who has lost it here or there has lost it.
    pub(super) fn and(self, other: Self) -> Self {
        let ([high, normal, low], [and_high, and_normal, and_low]) = (self.0, other.0);
        Self([high.max(and_high), normal.max(and_normal), low.max(and_low)])
    }

    /// The better class first, unless one was passed over too often.
    pub(super) const fn order(self) -> [PriorityClass; CLASSES.len()] {
        let [_, normal, low] = self.0;
        match (normal >= MOST, low >= MOST) {
            (_, true) => [
                PriorityClass::Low,
                PriorityClass::High,
                PriorityClass::Normal,
            ],
            (true, false) => [
                PriorityClass::Normal,
                PriorityClass::High,
                PriorityClass::Low,
            ],
            (false, false) => CLASSES,
        }
    }

    /// One of a class was called while others wait.
    pub(super) fn called(&mut self, called: PriorityClass, waits: impl Fn(PriorityClass) -> bool) {
        for (class, passed) in CLASSES.into_iter().zip(&mut self.0) {
            if class == called {
                *passed = 0;
            } else if class < called && waits(class) {
                *passed = passed.saturating_add(1);
            }
        }
    }

    /// A class had its turn, if in vain.
    pub(super) fn tried(&mut self, tried: PriorityClass) {
        for (class, passed) in CLASSES.into_iter().zip(&mut self.0) {
            if class == tried {
                *passed = 0;
            }
        }
    }
}

/// So many of better classes go at most before each one of a lower class, which keeps a ninth.
pub(super) const MOST: u8 = 8;
