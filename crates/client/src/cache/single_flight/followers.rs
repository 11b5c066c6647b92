//! The seats of one flight: who leads, who follows, and how it ended.
//!
//! One lock around a few fields, never held while a waker is called. The lead is vacant or taken; a
//! vacant lead wakes one follower at a time, and whoever looks first takes it.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

/// The seats of one flight.
pub(super) struct Followers<T> {
    inner: Mutex<FollowerList<T>>,
}

struct FollowerList<T> {
    lead: FlightLead,
    landed: Option<FlightResult<T>>,
    /// Whether the leader waits for nobody here any more.
    departed: bool,
    /// Followers in the order in which they came, with whom to wake.
    followers: BTreeMap<u64, Option<Waker>>,
    next: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum FlightLead {
    Taken,
    Vacant,
}

/// How a flight ended.
#[derive(Clone)]
pub(super) enum FlightResult<T> {
    Shared(T),
    Apart,
}

impl<T> Followers<T> {
    /// A flight that has a leader and no follower.
    pub(super) fn led() -> Self {
        let inner = FollowerList {
            lead: FlightLead::Taken,
            landed: None,
            departed: false,
            followers: BTreeMap::new(),
            next: 0,
        };
        Self {
            inner: Mutex::new(inner),
        }
    }

    /// Takes the lead if it is vacant, and says whether it was.
    pub(super) fn take_the_lead(&self) -> bool {
        self.locked().take_the_lead()
    }

    /// Takes a follower's seat, if one is left.
    pub(super) fn sit(&self, most: usize) -> Option<u64> {
        let mut inner = self.locked();
        if inner.followers.len() >= most {
            return None;
        }
        inner.next += 1;
        let seat = inner.next;
        inner.followers.insert(seat, None);
        Some(seat)
    }

    /// The leader has what it waited for, and is on its way.
    pub(super) fn depart(&self) {
        self.locked().departed = true;
    }

    /// Whether whoever leads is on its way.
    pub(super) fn has_departed(&self) -> bool {
        self.locked().departed
    }

    /// Nobody leads any more: the first follower is woken, to take the lead.
    pub(super) fn leave_the_lead(&self) {
        let mut inner = self.locked();
        if inner.landed.is_none() {
            inner.lead = FlightLead::Vacant;
            inner.departed = false;
        }
        wake(inner.next_in_line(), inner);
    }

    /// A follower gives up. If it was the one woken to lead, the next is.
    pub(super) fn stand_up(&self, seat: u64) {
        let mut inner = self.locked();
        inner.followers.remove(&seat);
        wake(inner.next_in_line(), inner);
    }

    /// Ends the flight and tells every follower.
    pub(super) fn land(&self, landed: FlightResult<T>) {
        let mut inner = self.locked();
        inner.landed = Some(landed);
        let wakers: Vec<_> = inner
            .followers
            .values_mut()
            .filter_map(Option::take)
            .collect();
        drop(inner);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Whether nobody leads or follows.
    pub(super) fn is_empty(&self) -> bool {
        let inner = self.locked();
        inner.lead == FlightLead::Vacant && inner.followers.is_empty()
    }

    fn locked(&self) -> MutexGuard<'_, FollowerList<T>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Clone> Followers<T> {
    /// What a follower sees: how it ended, nothing yet, or `None`: it leads now.
    pub(super) fn poll(&self, seat: u64, waker: &Waker) -> Poll<Option<FlightResult<T>>> {
        let mut inner = self.locked();
        if let Some(landed) = &inner.landed {
            return Poll::Ready(Some(landed.clone()));
        }
        if inner.take_the_lead() {
            inner.followers.remove(&seat);
            return Poll::Ready(None);
        }
        inner.followers.insert(seat, Some(waker.clone()));
        Poll::Pending
    }
}

impl<T> FollowerList<T> {
    fn take_the_lead(&mut self) -> bool {
        let vacant = self.lead == FlightLead::Vacant;
        self.lead = FlightLead::Taken;
        vacant
    }

    /// Whom to wake if the lead is vacant. It stays in its seat until it looks.
    fn next_in_line(&mut self) -> Option<Waker> {
        if self.lead == FlightLead::Taken || self.landed.is_some() {
            return None;
        }
        self.followers.values().flatten().next().cloned()
    }
}

/// Wakes without the lock: a waker may run anything.
fn wake<T>(waker: Option<Waker>, inner: MutexGuard<'_, FollowerList<T>>) {
    drop(inner);
    if let Some(waker) = waker {
        waker.wake();
    }
}
