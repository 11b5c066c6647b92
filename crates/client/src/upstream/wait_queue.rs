//! Calls that wait for a permit.
//!
//! All waiters of an API live in one slab and are linked into one queue per group and priority. Joining,
//! leaving from the middle and taking the first cost the same few writes at any length. A waiter keeps
//! its slab entry until its future has read the result.

mod cancel;
mod deadlines;
mod dispatch;
mod enqueue;
mod estimate;
mod priority_aging;
mod queue;
mod request;

use std::task::Waker;

use outflow_core::{Cost, Nanos, Priority};
use slab::Slab;

pub(super) use estimate::{StartEstimate, WaitEstimator};
pub(super) use request::{AcquireRequest, AcquireResult, PermitParts, QueuePosition, WaitDeadline};

use super::endpoint::CallLabel;
use super::group_slot;
use crate::refusal::Refusal;
use crate::rules::HealthScope;
use deadlines::DeadlineQueue;
use priority_aging::PriorityAging;
use queue::WaitQueue;

/// All waiters of an API.
#[derive(Debug)]
pub(super) struct WaitQueues {
    waiters: Slab<Waiter>,
    groups: Vec<GroupQueues>,
    /// Deadlines of the waiters under each circuit.
    circuits: Vec<DeadlineQueue>,
    scope: HealthScope,
    /// Groups with waiters.
    busy: Vec<u32>,
    aging: PriorityAging,
    /// Dispatched waiters whose start is paced to a later instant.
    paced: Vec<usize>,
    /// Numbers of waiters that wait for an answer of the ledger alone, with their keys.
    impatient: Vec<(usize, u64)>,
    next_number: u64,
    /// The next number of a returning call, lower than that of any new call.
    next_return: u64,
}

/// One waiting call, or one that just stopped waiting.
#[derive(Debug)]
struct Waiter {
    state: WaiterState,
    group: u32,
    label: CallLabel,
    class: PriorityClass,
    cost: Cost,
    /// The order of arrival, which never changes.
    number: u64,
    since: Nanos,
    deadline: Nanos,
    /// True if the deadline queue has its deadline.
    tracked: bool,
    /// True if no attempt of the call was made.
    is_untried: bool,
    /// True if the call as a whole ends with its deadline, and not only its wait.
    ends_call: bool,
}

#[derive(Debug)]
enum WaiterState {
    /// In no queue yet, or no longer.
    Detached,
    Queued {
        waker: Waker,
        before: u32,
        after: u32,
    },
    /// Holds this attempt and may start from this instant on.
    Dispatched {
        attempt: usize,
        from: Nanos,
        waker: Option<Waker>,
    },
    Refused(Box<Refusal>),
}

/// Queues of one group, by priority.
#[derive(Clone, Copy, Debug, Default)]
struct GroupQueues {
    queues: [WaitQueue; CLASSES.len()],
    aging: PriorityAging,
}

/// A waiter's class: a higher one starts first, and equal ones start in the order of arrival.
type PriorityClass = Priority;

/// The classes from first to last.
const CLASSES: [PriorityClass; 3] = [PriorityClass::High, PriorityClass::Normal, PriorityClass::Low];

/// Number and total cost of the calls that start before another.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct QueueAhead {
    pub(super) count: u64,
    pub(super) cost: u64,
}

impl WaitQueues {
    pub(super) fn new(groups: usize, scope: HealthScope) -> Self {
        let circuits = match scope {
            HealthScope::Api => 1,
            HealthScope::Group => groups,
        };
        let mut queues = Self {
            waiters: Slab::new(),
            groups: Vec::new(),
            circuits: Vec::new(),
            scope,
            busy: Vec::new(),
            aging: PriorityAging::default(),
            paced: Vec::new(),
            impatient: Vec::new(),
            next_number: FIRST_NEW_NUMBER,
            next_return: 1,
        };
        queues.groups.resize_with(groups, GroupQueues::default);
        queues.circuits.resize_with(circuits, DeadlineQueue::default);
        queues
    }

    /// Gives a new group its queues. A former group of this number left them empty.
    pub(super) fn add_group(&mut self, group: u32) {
        let count = self.groups.len().max(group_slot(group).saturating_add(1));
        self.groups.resize_with(count, GroupQueues::default);
        if let Some(queues) = self.groups.get_mut(group_slot(group)) {
            *queues = GroupQueues::default();
        }
        if self.scope == HealthScope::Group {
            self.circuits.resize_with(count, DeadlineQueue::default);
            if let Some(deadlines) = self.circuits.get_mut(group_slot(group)) {
                *deadlines = DeadlineQueue::default();
            }
        }
    }

    /// Returns true if no call waits.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.busy.is_empty()
    }

    /// Returns the groups with waiters.
    pub(super) fn busy_groups(&self) -> &[u32] {
        &self.busy
    }

    /// Returns the group of a waiter.
    pub(super) fn group_of(&self, key: usize) -> Option<u32> {
        self.waiters.get(key).map(|waiter| waiter.group)
    }

    /// Returns the number of waiters of all groups.
    pub(super) fn waiting(&self) -> usize {
        self.circuits.iter().map(|circuit| circuit.waiting).sum()
    }

    /// Returns the number of waiters under a circuit.
    pub(super) fn waiting_under(&self, circuit: usize) -> usize {
        self.circuits.get(circuit).map_or(0, |one| one.waiting)
    }

    /// Returns the number of waiters of a group.
    pub(super) fn waiting_in(&self, group: u32) -> u64 {
        let queues = &self.group(group).queues;
        queues.iter().map(|queue| u64::from(queue.length())).sum()
    }

    /// Returns the heap memory in bytes.
    pub(super) fn memory(&self) -> usize {
        let deadlines: usize = self.circuits.iter().map(DeadlineQueue::memory).sum();
        self.waiters.capacity() * size_of::<Waiter>() + deadlines
    }

    /// Returns unused memory.
    pub(super) fn prune(&mut self) {
        self.circuits.iter_mut().for_each(DeadlineQueue::prune);
        self.waiters.shrink_to_fit();
    }

    #[expect(clippy::indexing_slicing, reason = "this state assigned the group's number")]
    fn group(&self, group: u32) -> &GroupQueues {
        &self.groups[group_slot(group)]
    }

    #[expect(clippy::indexing_slicing, reason = "this state assigned the group's number")]
    fn group_mut(&mut self, group: u32) -> &mut GroupQueues {
        &mut self.groups[group_slot(group)]
    }

    fn class_of(&self, key: usize) -> PriorityClass {
        let waiter = self.waiters.get(key);
        waiter.map_or(PriorityClass::Normal, |waiter| waiter.class)
    }
}

impl GroupQueues {
    fn queue(&self, class: PriorityClass) -> &WaitQueue {
        let [high, normal, low] = &self.queues;
        match class {
            PriorityClass::High => high,
            PriorityClass::Normal => normal,
            PriorityClass::Low => low,
        }
    }

    fn queue_mut(&mut self, class: PriorityClass) -> &mut WaitQueue {
        let [high, normal, low] = &mut self.queues;
        match class {
            PriorityClass::High => high,
            PriorityClass::Normal => normal,
            PriorityClass::Low => low,
        }
    }

    /// Returns the first waiter and its rank among the heads of other groups.
    fn head(&self, api_aging: PriorityAging) -> Option<(usize, usize)> {
        let order = self.aging.max(api_aging).order();
        let mut ranks = order.into_iter().enumerate();
        ranks.find_map(|(rank, class)| Some((rank, self.queue(class).first()?)))
    }

    /// Returns the first waiter without an attempt, and its rank.
    fn first_untried(&self, waiters: &Slab<Waiter>, api_aging: PriorityAging) -> Option<(usize, usize)> {
        let order = self.aging.max(api_aging).order();
        let mut ranks = order.into_iter().enumerate();
        ranks.find_map(|(rank, class)| Some((rank, self.queue(class).first_untried(waiters)?)))
    }

    /// Records that the first waiter of a class was dispatched.
    fn record_dispatch(&mut self, class: PriorityClass) {
        let waits = self.queues.map(|queue| !queue.is_empty());
        self.aging.record_dispatch(class, |one| {
            CLASSES
                .into_iter()
                .zip(waits)
                .any(|(class, waits)| class == one && waits)
        });
    }

    fn is_empty(&self) -> bool {
        self.queues.iter().all(WaitQueue::is_empty)
    }

    /// Returns true if all waiters are of one class.
    fn is_one_queue(&self) -> bool {
        let queues = self.queues.iter();
        queues.filter(|queue| !queue.is_empty()).count() == 1
    }

    /// Returns the waiters that start before one of this class and number. For a waiter in the middle
    /// of a queue this takes a walk; for a new call the sums are known.
    fn ahead(&self, waiters: &Slab<Waiter>, class: PriorityClass, number: u64) -> QueueAhead {
        let same = self.queue(class).ahead_of(waiters, number);
        let better = CLASSES.into_iter().filter(|one| *one > class);
        let better = better.fold(QueueAhead::default(), |sum, class| sum.and(self.queue(class).total()));
        let turns = same.count.saturating_add(1);
        same.and(better.first(turns.saturating_mul(priority_aging::MAX_PASSED_OVER.into())))
    }
}

impl QueueAhead {
    pub(super) fn and(self, other: Self) -> Self {
        Self {
            count: self.count.saturating_add(other.count),
            cost: self.cost.saturating_add(other.cost),
        }
    }

    /// Returns the first `count` of them, at their average cost.
    fn first(self, count: u64) -> Self {
        if count >= self.count {
            return self;
        }
        let cost = u128::from(self.cost) * u128::from(count) / u128::from(self.count.max(1));
        Self {
            count,
            cost: u64::try_from(cost).unwrap_or(u64::MAX),
        }
    }
}

/// The number of a call that has yet to arrive: every waiter is ahead of it.
const NEWCOMER: u64 = u64::MAX;

/// The lower half of all numbers is for returning calls, which start before all others.
const FIRST_NEW_NUMBER: u64 = 1 << 63;
