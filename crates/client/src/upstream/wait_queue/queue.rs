//! One queue of waiters, linked through their slab entries.

use std::task::Waker;

use slab::Slab;

use super::{NEWCOMER, QueueAhead, Waiter, WaiterState};

/// Waiters of one group and class, in the order of arrival.
#[derive(Clone, Copy, Debug)]
pub(super) struct WaitQueue {
    first: u32,
    last: u32,
    length: u32,
    /// Total cost of its waiters.
    cost: u64,
}

impl Default for WaitQueue {
    fn default() -> Self {
        Self {
            first: NO_KEY,
            last: NO_KEY,
            length: 0,
            cost: 0,
        }
    }
}

impl WaitQueue {
    pub(super) fn first(&self) -> Option<usize> {
        slab_key(self.first)
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.first == NO_KEY
    }

    pub(super) const fn length(&self) -> u32 {
        self.length
    }

    /// Returns the count and cost of all waiters.
    pub(super) fn total(&self) -> QueueAhead {
        QueueAhead {
            count: self.length.into(),
            cost: self.cost,
        }
    }

    /// Appends a waiter.
    pub(super) fn push_back(&mut self, waiters: &mut Slab<Waiter>, key: usize, waker: Waker) {
        self.insert(waiters, key, waker, (self.last, NO_KEY));
    }

    /// Inserts a waiter by its number: before all that came after it. Others may have returned before
    /// it, so that is not always the head.
    pub(super) fn insert_by_number(&mut self, waiters: &mut Slab<Waiter>, key: usize, waker: Waker) {
        let number = waiters.get(key).map_or(0, |waiter| waiter.number);
        let (mut before, mut after) = (NO_KEY, self.first);
        while let Some(next) = next_before(waiters, after, number) {
            (before, after) = (after, next);
        }
        self.insert(waiters, key, waker, (before, after));
    }

    fn insert(&mut self, waiters: &mut Slab<Waiter>, key: usize, waker: Waker, (before, after): (u32, u32)) {
        let me = short_key(key);
        match neighbours(waiters, before) {
            Some((_, next)) => *next = me,
            None => self.first = me,
        }
        match neighbours(waiters, after) {
            Some((previous, _)) => *previous = me,
            None => self.last = me,
        }
        if let Some(waiter) = waiters.get_mut(key) {
            self.length += 1;
            self.cost = self.cost.saturating_add(waiter.cost.units());
            waiter.state = WaiterState::Queued { waker, before, after };
        }
    }

    /// Removes a waiter from any position, sets its state and returns its waker.
    pub(super) fn remove(&mut self, waiters: &mut Slab<Waiter>, key: usize, state: WaiterState) -> Option<Waker> {
        let waiter = waiters.get_mut(key)?;
        let WaiterState::Queued { .. } = waiter.state else {
            return None;
        };
        let cost = waiter.cost.units();
        let WaiterState::Queued { waker, before, after } = std::mem::replace(&mut waiter.state, state) else {
            return None;
        };
        match neighbours(waiters, before) {
            Some((_, next)) => *next = after,
            None => self.first = after,
        }
        match neighbours(waiters, after) {
            Some((previous, _)) => *previous = before,
            None => self.last = before,
        }
        self.length -= 1;
        self.cost = self.cost.saturating_sub(cost);
        Some(waker)
    }

    /// Returns the first waiter without an attempt.
    pub(super) fn first_untried(&self, waiters: &Slab<Waiter>) -> Option<usize> {
        let mut key = slab_key(self.first)?;
        loop {
            let waiter = waiters.get(key)?;
            if waiter.is_untried {
                return Some(key);
            }
            let WaiterState::Queued { after, .. } = waiter.state else {
                return None;
            };
            key = slab_key(after)?;
        }
    }

    /// Returns the waiters that came before this number.
    pub(super) fn ahead_of(&self, waiters: &Slab<Waiter>, number: u64) -> QueueAhead {
        if number == NEWCOMER {
            return self.total();
        }
        let mut ahead = QueueAhead::default();
        let mut key = self.first;
        while let Some(next) = next_before(waiters, key, number) {
            let waiter = slab_key(key).and_then(|key| waiters.get(key));
            ahead.count += 1;
            ahead.cost = (ahead.cost).saturating_add(waiter.map_or(0, |one| one.cost.units()));
            key = next;
        }
        ahead
    }
}

/// Returns the waiter behind `key`, if `key` came before this number.
fn next_before(waiters: &Slab<Waiter>, key: u32, number: u64) -> Option<u32> {
    let waiter = waiters.get(slab_key(key)?)?;
    match waiter.state {
        WaiterState::Queued { after, .. } if waiter.number < number => Some(after),
        _ => None,
    }
}

fn neighbours(waiters: &mut Slab<Waiter>, key: u32) -> Option<(&mut u32, &mut u32)> {
    match &mut waiters.get_mut(slab_key(key)?)?.state {
        WaiterState::Queued { before, after, .. } => Some((before, after)),
        WaiterState::Detached | WaiterState::Dispatched { .. } | WaiterState::Refused(_) => None,
    }
}

fn slab_key(key: u32) -> Option<usize> {
    (key != NO_KEY).then(|| usize::try_from(key).unwrap_or(usize::MAX))
}

/// The queue bound is far below four thousand million waiters.
fn short_key(key: usize) -> u32 {
    u32::try_from(key).unwrap_or(NO_KEY)
}

const NO_KEY: u32 = u32::MAX;
