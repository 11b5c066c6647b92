//! Those who wait, in the order in which they came.
//!
//! All waiters of an API live in one slab and are linked into a line per group and priority, so that
//! joining, leaving from the middle and taking the first cost the same few writes however many wait.
//! A waiter keeps its place in the slab until its future has seen what became of it.

use std::task::Waker;

use outflow_core::{Cost, Nanos, Priority};
use slab::Slab;

use super::group::{NEWCOMER, QueueAhead};
use crate::refusal::Refusal;

/// One who waits, or did until a moment ago.
#[derive(Debug)]
pub(super) struct Waiter {
    pub(super) place: WaiterState,
    pub(super) lane: u32,
    pub(super) class: PriorityClass,
    pub(super) cost: Cost,
    /// The order of arrival, which never changes.
    pub(super) number: u64,
    pub(super) since: Nanos,
    pub(super) deadline: Nanos,
    /// Whether its ward knows the deadline.
    pub(super) expected: bool,
}

/// Where a waiter stands.
#[derive(Debug)]
pub(super) enum WaiterState {
    /// On its way to its line.
    Arriving,
    /// In line.
    InLine {
        waker: Waker,
        before: u32,
        after: u32,
    },
    /// Called: this flight is its own, from this instant on.
    Called {
        flight: usize,
        from: Nanos,
        waker: Option<Waker>,
    },
    /// Turned away.
    TurnedAway(Box<Refusal>),
}

/// A waiter's class: those of a better one go first, those of the same in order of arrival.
pub(super) type PriorityClass = Priority;

/// The classes from first to last.
pub(super) const CLASSES: [PriorityClass; 3] = [
    PriorityClass::High,
    PriorityClass::Normal,
    PriorityClass::Low,
];

/// A line of waiters.
#[derive(Clone, Copy, Debug)]
pub(super) struct WaitQueue {
    first: u32,
    last: u32,
    length: u32,
    /// What they cost together.
    cost: u64,
}

impl Default for WaitQueue {
    fn default() -> Self {
        Self {
            first: NOBODY,
            last: NOBODY,
            length: 0,
            cost: 0,
        }
    }
}

impl WaitQueue {
    pub(super) fn first(&self) -> Option<usize> {
        known(self.first)
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.first == NOBODY
    }

    pub(super) const fn length(&self) -> u32 {
        self.length
    }

    /// All who stand here.
    pub(super) fn everybody(&self) -> QueueAhead {
        QueueAhead {
            count: self.length.into(),
            cost: self.cost,
        }
    }

    /// Lets a waiter stand at the end of the line.
    pub(super) fn join(&mut self, waiters: &mut Slab<Waiter>, key: usize, waker: Waker) {
        let last = self.last;
        self.stand(
            waiters,
            key,
            QueueIter {
                waker,
                before: last,
                after: NOBODY,
            },
        );
    }

    /// Lets a waiter who had been called stand where it stood: before all who came after it. Others
    /// may have come back before it, so that is not always the head.
    pub(super) fn return_to(&mut self, waiters: &mut Slab<Waiter>, key: usize, waker: Waker) {
        let number = waiters.get(key).map_or(0, |waiter| waiter.number);
        let (mut before, mut after) = (NOBODY, self.first);
        while let Some(next) = next_before(waiters, after, number) {
            (before, after) = (after, next);
        }
        self.stand(
            waiters,
            key,
            QueueIter {
                waker,
                before,
                after,
            },
        );
    }

    fn stand(&mut self, waiters: &mut Slab<Waiter>, key: usize, at: QueueIter) {
        let me = short(key);
        match link(waiters, at.before) {
            Some((_, after)) => *after = me,
            None => self.first = me,
        }
        match link(waiters, at.after) {
            Some((before, _)) => *before = me,
            None => self.last = me,
        }
        if let Some(waiter) = waiters.get_mut(key) {
            self.length += 1;
            self.cost = self.cost.saturating_add(waiter.cost.units());
            waiter.place = WaiterState::InLine {
                waker: at.waker,
                before: at.before,
                after: at.after,
            };
        }
    }

    /// Takes a waiter out of the line, wherever it stands, and leaves it with `place`.
    pub(super) fn leave(
        &mut self,
        waiters: &mut Slab<Waiter>,
        key: usize,
        place: WaiterState,
    ) -> Option<Waker> {
        let waiter = waiters.get_mut(key)?;
        let WaiterState::InLine { .. } = waiter.place else {
            return None;
        };
        let cost = waiter.cost.units();
        let WaiterState::InLine {
            waker,
            before,
            after,
        } = std::mem::replace(&mut waiter.place, place)
        else {
            return None;
        };
        match link(waiters, before) {
            Some((_, next)) => *next = after,
            None => self.first = after,
        }
        match link(waiters, after) {
            Some((previous, _)) => *previous = before,
            None => self.last = before,
        }
        self.length -= 1;
        self.cost = self.cost.saturating_sub(cost);
        Some(waker)
    }

    /// Those who came before this number, counted one by one unless that is everybody.
    pub(super) fn before(&self, waiters: &Slab<Waiter>, number: u64) -> QueueAhead {
        if number == NEWCOMER {
            return self.everybody();
        }
        let mut ahead = QueueAhead::default();
        let mut at = self.first;
        while let Some(next) = next_before(waiters, at, number) {
            let cost = known(at).and_then(|key| waiters.get(key));
            ahead.count += 1;
            ahead.cost = (ahead.cost).saturating_add(cost.map_or(0, |one| one.cost.units()));
            at = next;
        }
        ahead
    }
}

/// Who stands behind `key`, if that one came before this number.
fn next_before(waiters: &Slab<Waiter>, key: u32, number: u64) -> Option<u32> {
    let waiter = waiters.get(known(key)?)?;
    match waiter.place {
        WaiterState::InLine { after, .. } if waiter.number < number => Some(after),
        _ => None,
    }
}

struct QueueIter {
    waker: Waker,
    before: u32,
    after: u32,
}

fn link(waiters: &mut Slab<Waiter>, key: u32) -> Option<(&mut u32, &mut u32)> {
    match &mut waiters.get_mut(known(key)?)?.place {
        WaiterState::InLine { before, after, .. } => Some((before, after)),
        WaiterState::Arriving | WaiterState::Called { .. } | WaiterState::TurnedAway(_) => None,
    }
}

fn known(key: u32) -> Option<usize> {
    (key != NOBODY).then(|| usize::try_from(key).unwrap_or(usize::MAX))
}

/// More than four thousand million cannot wait: the queue is bounded far below.
fn short(key: usize) -> u32 {
    u32::try_from(key).unwrap_or(NOBODY)
}

const NOBODY: u32 = u32::MAX;
