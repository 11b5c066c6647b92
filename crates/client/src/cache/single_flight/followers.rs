//! Leader, followers and result of one flight.
//!
//! One lock guards a few fields and is never held while a waker runs. A flight without a leader
//! wakes one follower at a time, and the first to poll takes the lead.

use std::collections::BTreeMap;
use std::task::{Poll, Waker};

use outflow_sync::{Mutex, MutexGuard};

/// Followers of one flight.
pub(super) struct Followers<T> {
    inner: Mutex<FollowerList<T>>,
}

struct FollowerList<T> {
    has_leader: bool,
    result: Option<FlightResult<T>>,
    /// True once the leader's request no longer waits for a permit.
    is_sent: bool,
    /// Followers in order of arrival, with their wakers.
    followers: BTreeMap<u64, Option<Waker>>,
    next: u64,
}

/// Result of a flight.
#[derive(Clone)]
pub(super) enum FlightResult<T> {
    Shared(T),
    Withheld,
}

impl<T> Followers<T> {
    /// Returns a flight with a leader and no follower.
    pub(super) fn new() -> Self {
        let inner = FollowerList {
            has_leader: true,
            result: None,
            is_sent: false,
            followers: BTreeMap::new(),
            next: 0,
        };
        Self {
            inner: Mutex::new(inner),
        }
    }

    /// Takes the lead if there is no leader. Returns true on success.
    pub(super) fn try_lead(&self) -> bool {
        self.inner.lock().try_lead()
    }

    /// Adds a follower, if the maximum allows.
    pub(super) fn add(&self, max: usize) -> Option<u64> {
        let mut inner = self.inner.lock();
        if inner.followers.len() >= max {
            return None;
        }
        inner.next += 1;
        let id = inner.next;
        inner.followers.insert(id, None);
        Some(id)
    }

    /// Marks the leader's request as sent.
    pub(super) fn mark_sent(&self) {
        self.inner.lock().is_sent = true;
    }

    /// Returns true if the leader's request was sent.
    pub(super) fn is_sent(&self) -> bool {
        self.inner.lock().is_sent
    }

    /// Ends the leader's role and wakes the first follower to take it.
    pub(super) fn release_lead(&self) {
        let mut inner = self.inner.lock();
        if inner.result.is_none() {
            inner.has_leader = false;
            inner.is_sent = false;
        }
        wake(inner.next_waker(), inner);
    }

    /// Removes a follower. If it was woken to lead, the next one is woken.
    pub(super) fn remove(&self, id: u64) {
        let mut inner = self.inner.lock();
        inner.followers.remove(&id);
        wake(inner.next_waker(), inner);
    }

    /// Ends the flight and wakes every follower.
    pub(super) fn finish(&self, result: FlightResult<T>) {
        let mut inner = self.inner.lock();
        inner.result = Some(result);
        let wakers: Vec<_> = inner.followers.values_mut().filter_map(Option::take).collect();
        drop(inner);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Returns true if there is neither leader nor follower.
    pub(super) fn is_empty(&self) -> bool {
        let inner = self.inner.lock();
        !inner.has_leader && inner.followers.is_empty()
    }
}

impl<T: Clone> Followers<T> {
    /// Polls for a follower: the result, pending, or `None` if it leads now.
    pub(super) fn poll(&self, id: u64, waker: &Waker) -> Poll<Option<FlightResult<T>>> {
        let mut inner = self.inner.lock();
        if let Some(result) = &inner.result {
            return Poll::Ready(Some(result.clone()));
        }
        if inner.try_lead() {
            inner.followers.remove(&id);
            return Poll::Ready(None);
        }
        inner.followers.insert(id, Some(waker.clone()));
        Poll::Pending
    }
}

impl<T> FollowerList<T> {
    fn try_lead(&mut self) -> bool {
        !std::mem::replace(&mut self.has_leader, true)
    }

    /// Returns the follower to wake if there is no leader. It stays listed until it polls.
    fn next_waker(&mut self) -> Option<Waker> {
        if self.has_leader || self.result.is_some() {
            return None;
        }
        self.followers.values().flatten().next().cloned()
    }
}

/// Wakes after releasing the lock: a waker may run anything.
fn wake<T>(waker: Option<Waker>, inner: MutexGuard<'_, FollowerList<T>>) {
    drop(inner);
    if let Some(waker) = waker {
        waker.wake();
    }
}
