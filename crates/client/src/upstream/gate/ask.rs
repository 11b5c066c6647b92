//! A call asks: it goes, waits in line, or is refused at once.

use std::task::Waker;
use std::time::Duration;

use super::{Cause, Class, Cost, Entry, Gate, Nanos, Obstacle, Place, Refusal, Waiter, What};
use crate::refusal::Why;
use crate::rules::Mode;

/// A call that asks to go.
#[derive(Clone, Copy, Debug)]
pub(in crate::upstream) struct Caller {
    pub(in crate::upstream) lane: u32,
    pub(in crate::upstream) cost: Cost,
    pub(in crate::upstream) class: Class,
    pub(in crate::upstream) deadline: Option<Nanos>,
    pub(in crate::upstream) max_wait: Duration,
    pub(in crate::upstream) mode: Mode,
}

impl Caller {
    /// By when it must have gone, if it began to wait now.
    fn deadline(&self, now: Nanos) -> Nanos {
        self.deadline
            .unwrap_or_else(|| now.saturating_add(self.max_wait))
    }
}

/// What a call is told when it first asks, or asks again.
#[derive(Debug)]
pub(in crate::upstream) enum Reply {
    /// It may go.
    Go(Pass),
    /// It waits under this number.
    Wait(usize),
    /// It may not.
    No(Refusal),
}

/// Leave to go, not yet a permit.
#[derive(Clone, Copy, Debug)]
pub(in crate::upstream) struct Pass {
    pub(in crate::upstream) flight: usize,
    pub(in crate::upstream) id: u64,
    pub(in crate::upstream) waited: Duration,
}

impl Gate {
    /// A call asks for the first time.
    pub(in crate::upstream) fn ask(
        &mut self,
        caller: Caller,
        now: Nanos,
        waker: Option<&Waker>,
    ) -> Reply {
        if self.entry == Entry::Closed {
            return self.refuse(caller.lane, Cause::ShuttingDown, None, Duration::ZERO);
        }
        let blocked = if self.busy.is_empty() {
            match self.take(caller.lane, caller.cost, now) {
                Ok(flight) => return self.depart_or_pace(caller, flight, now, waker),
                Err(obstacle) => Some(obstacle),
            }
        } else {
            None
        };
        self.line_up(caller, blocked, now, waker)
    }

    pub(super) fn line_up(
        &mut self,
        caller: Caller,
        blocked: Option<Obstacle>,
        now: Nanos,
        waker: Option<&Waker>,
    ) -> Reply {
        if let Some(limit) = self.impossible(caller.lane, caller.cost) {
            return self.refuse(caller.lane, Cause::Never { limit }, None, Duration::ZERO);
        }
        let deadline = caller.deadline(now);
        let forecast = self.forecast(caller, blocked, now);
        let wait = forecast.eta.map(|at| at.since(now));
        if let Some(state) = self.fails_fast(caller.lane, now) {
            return self.refuse(caller.lane, Cause::Blocked { state }, wait, Duration::ZERO);
        }
        let Some(waker) = waker.filter(|_| caller.mode == Mode::Wait) else {
            return self.refuse(caller.lane, Cause::Busy(forecast.why), wait, Duration::ZERO);
        };
        if forecast.eta.is_some_and(|at| at > deadline) || deadline <= now {
            return self.refuse(
                caller.lane,
                Cause::TooLate(forecast.why),
                wait,
                Duration::ZERO,
            );
        }
        if self.waiting() >= self.rules.queue {
            return self.refuse(caller.lane, Cause::QueueFull, wait, Duration::ZERO);
        }
        let key = self.join(caller, now, waker.clone());
        self.call_those_who_may_go(now);
        let reply = self.look(key, now, waker);
        if matches!(reply, Reply::Wait(_)) && self.after.heard {
            let group = self.lane(caller.lane).name.clone();
            self.tell(What::Waiting {
                group,
                cost: caller.cost,
                explanation: forecast,
            });
        }
        reply
    }

    pub(super) fn join(&mut self, caller: Caller, now: Nanos, waker: Waker) -> usize {
        let (number, deadline) = (self.next_number, caller.deadline(now));
        self.next_number += 1;
        let key = self.waiters.insert(Waiter {
            place: Place::Arriving,
            lane: caller.lane,
            class: caller.class,
            cost: caller.cost,
            number,
            since: now,
            deadline,
        });
        let ward = self.ward_of(caller.lane);
        ward.waiting += 1;
        ward.expect_by(deadline, number, key);
        let first = ward.first_deadline();
        self.mark_busy(caller.lane);
        let Self { lanes, waiters, .. } = self;
        if let Some(lane) = lanes.get_mut(super::place(caller.lane)) {
            lane.line_mut(caller.class).join(waiters, key, waker);
        }
        self.consider(first);
        key
    }

    /// A call that was taken at once but is paced waits for its instant like anybody who was called.
    pub(super) fn depart_or_pace(
        &mut self,
        caller: Caller,
        flight: usize,
        now: Nanos,
        waker: Option<&Waker>,
    ) -> Reply {
        let deadline = caller.deadline(now);
        let from = self.flights.get(flight).map_or(now, super::Flight::send_at);
        if from <= now {
            return Reply::Go(self.pass(flight, Duration::ZERO));
        }
        let Some(waker) = waker.filter(|_| from <= deadline) else {
            self.hand_back(flight, now);
            let why = Why::Turn;
            let cause = if waker.is_some() {
                Cause::TooLate(why)
            } else {
                Cause::Busy(why)
            };
            return self.refuse(caller.lane, cause, Some(from.since(now)), Duration::ZERO);
        };
        let number = self.next_number;
        self.next_number += 1;
        let key = self.waiters.insert(Waiter {
            place: Place::Called {
                flight,
                from,
                waker: None,
            },
            lane: caller.lane,
            class: caller.class,
            cost: caller.cost,
            number,
            since: now,
            deadline,
        });
        self.pace(key, from, Some(waker.clone()));
        Reply::Wait(key)
    }

    pub(super) fn refuse(
        &mut self,
        lane: u32,
        cause: Cause,
        retry_after: Option<Duration>,
        waited: Duration,
    ) -> Reply {
        self.lane(lane).refused += 1;
        let refusal = Refusal { cause, retry_after };
        if self.after.heard {
            let group = self.lane(lane).name.clone();
            self.tell(What::Refused {
                group,
                refusal: refusal.clone(),
                waited,
            });
        }
        Reply::No(refusal)
    }
}
