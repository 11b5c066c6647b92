//! Leaving a queue, returning to it, and deadlines.

use std::task::Waker;

use outflow_core::Nanos;

use super::super::circuit::circuit_index;
use super::super::group_slot;
use super::deadlines::DeadlineQueue;
use super::{WaitQueues, Waiter, WaiterState};

impl WaitQueues {
    /// Removes a queued waiter from its queue, sets its state and returns its waker.
    pub(super) fn leave(&mut self, key: usize, state: WaiterState) -> Option<Waker> {
        let waiter = self.waiters.get(key)?;
        let (group, class) = (waiter.group, waiter.class);
        let Self { groups, waiters, .. } = self;
        let queues = groups.get_mut(group_slot(group))?;
        let waker = queues.queue_mut(class).remove(waiters, key, state)?;
        if queues.is_empty() {
            self.busy.retain(|busy| *busy != group);
        }
        let circuit = circuit_index(self.scope, group);
        let Self { circuits, waiters, .. } = self;
        if let Some(deadlines) = circuits.get_mut(circuit) {
            deadlines.waiting -= 1;
            deadlines.drop_stale(|number, key| {
                let waiter = waiters.get(key);
                waiter.is_some_and(|waiter| waiter.number == number)
            });
        }
        Some(waker)
    }

    /// Puts a detached waiter back to its position. Returns the first deadline if its own was untracked.
    pub(super) fn requeue(&mut self, key: usize, waker: Waker) -> Option<Nanos> {
        let waiter = self.waiters.get(key)?;
        let (group, class) = (waiter.group, waiter.class);
        self.mark_busy(group);
        let Self { groups, waiters, .. } = self;
        if let Some(queues) = groups.get_mut(group_slot(group)) {
            let queue = queues.queue_mut(class);
            queue.insert_by_number(waiters, key, waker);
        }
        self.track_deadline(key)
    }

    /// Counts a group's new waiter.
    pub(super) fn mark_busy(&mut self, group: u32) {
        if !self.busy.contains(&group) {
            self.busy.push(group);
        }
        self.deadlines_mut(group).waiting += 1;
    }

    /// Tracks a waiter's deadline. Returns the first deadline of its circuit if it was not tracked.
    pub(super) fn track_deadline(&mut self, key: usize) -> Option<Nanos> {
        let waiter = self.waiters.get_mut(key).filter(|waiter| !waiter.tracked)?;
        waiter.tracked = true;
        let (group, deadline, number) = (waiter.group, waiter.deadline, waiter.number);
        let deadlines = self.deadlines_mut(group);
        deadlines.push(deadline, number, key);
        Some(deadlines.first())
    }

    /// Returns the earliest deadline under a circuit, or `Nanos::MAX`.
    pub(in crate::upstream) fn first_deadline(&self, circuit: usize) -> Nanos {
        let deadlines = self.circuits.get(circuit);
        deadlines.map_or(Nanos::MAX, DeadlineQueue::first)
    }

    /// Removes the next waiter under a circuit from the deadline queue, if its deadline is before `end`.
    pub(super) fn pop_late(&mut self, circuit: usize, end: Nanos) -> Option<usize> {
        let scope = self.scope;
        while let Some((number, key)) = self.circuits.get_mut(circuit)?.pop_before(end) {
            // Its group may have merged into another, which tracks it too.
            let is_here =
                |waiter: &&mut Waiter| waiter.number == number && circuit_index(scope, waiter.group) == circuit;
            if let Some(waiter) = self.waiters.get_mut(key).filter(is_here) {
                waiter.tracked = false;
                return Some(key);
            }
        }
        None
    }

    /// Returns the waiters of a circuit in some state.
    pub(super) fn find_under(&self, circuit: usize, is: impl Fn(&WaiterState) -> bool) -> Vec<usize> {
        let found = self
            .waiters
            .iter()
            .filter(|(_, waiter)| circuit_index(self.scope, waiter.group) == circuit && is(&waiter.state));
        found.map(|(key, _)| key).collect()
    }

    /// Returns the queued waiters of a group whose deadline is before `end`.
    pub(super) fn find_late(&self, group: u32, end: Nanos) -> Vec<usize> {
        let is_late = |waiter: &Waiter| {
            waiter.group == group && waiter.deadline < end && matches!(waiter.state, WaiterState::Queued { .. })
        };
        let late = self.waiters.iter().filter(|(_, waiter)| is_late(waiter));
        late.map(|(key, _)| key).collect()
    }

    /// Returns the waiters that the predicate on group and cost selects.
    pub(in crate::upstream) fn find_waiters<T>(
        &self,
        select: impl Fn(u32, outflow_core::Cost) -> Option<T>,
    ) -> Vec<(usize, T)> {
        let waiters = self.waiters.iter();
        let found = waiters.filter_map(|(key, waiter)| Some((key, select(waiter.group, waiter.cost)?)));
        found.collect()
    }

    /// Moves a waiter to another group, among the waiters of its time. Returns the first deadline there.
    pub(in crate::upstream) fn move_waiter(&mut self, key: usize, to: u32) -> Option<Nanos> {
        let waker = self.leave(key, WaiterState::Detached);
        let waiter = self.waiters.get_mut(key)?;
        waiter.group = to;
        waiter.tracked = false;
        self.requeue(key, waker?)
    }

    #[expect(clippy::indexing_slicing, reason = "this state assigned the group's number")]
    fn deadlines_mut(&mut self, group: u32) -> &mut DeadlineQueue {
        &mut self.circuits[circuit_index(self.scope, group)]
    }
}
