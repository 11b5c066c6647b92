//! A call asks: it goes, waits in line, or is refused at once.

use std::task::Waker;
use std::time::Duration;

use super::{
    AdmissionState, Cost, EventKind, Nanos, PriorityClass, Refusal, RefusalReason, Waiter,
    WaiterState,
};
use crate::refusal::{WaitEstimate, WaitReason};
use crate::rules::WaitMode;

/// A call that asks to go.
#[derive(Clone, Copy, Debug)]
pub(in crate::upstream) struct AcquireRequest {
    pub(in crate::upstream) lane: u32,
    pub(in crate::upstream) cost: Cost,
    pub(in crate::upstream) class: PriorityClass,
    pub(in crate::upstream) term: WaitDeadline,
    pub(in crate::upstream) mode: WaitMode,
    pub(in crate::upstream) standing: QueueStanding,
}

/// Whether a call has had its turn before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::upstream) enum QueueStanding {
    New,
    /// It was sent under a limit that was too high.
    Returning,
}

/// By when a call must have gone.
#[derive(Clone, Copy, Debug)]
pub(in crate::upstream) enum WaitDeadline {
    By(Nanos),
    Within(Duration),
}

impl AcquireRequest {
    /// By when it must have gone, if it began to wait now.
    fn deadline(&self, now: Nanos) -> Nanos {
        match self.term {
            WaitDeadline::By(deadline) => deadline,
            WaitDeadline::Within(span) => now.saturating_add(span),
        }
    }
}

/// What a call is told when it first asks, or asks again.
#[derive(Debug)]
pub(in crate::upstream) enum AcquireResult {
    /// It may go.
    Go(PermitParts),
    /// It waits under this number.
    Wait(usize),
    /// It may not.
    No(Refusal),
}

/// Leave to go, not yet a permit.
#[derive(Clone, Copy, Debug)]
pub(in crate::upstream) struct PermitParts {
    pub(in crate::upstream) flight: usize,
    pub(in crate::upstream) id: u64,
    pub(in crate::upstream) waited: Duration,
    pub(in crate::upstream) stamped: CountsFrom,
}

/// From where a call counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::upstream) enum CountsFrom {
    /// A limit counts from the sending, so the gate has to hear of it.
    AtSending,
    /// The sending changes nothing.
    AtGrant,
}

impl AdmissionState {
    /// A call asks for the first time.
    pub(in crate::upstream) fn enqueue(
        &mut self,
        mut caller: AcquireRequest,
        now: Nanos,
        waker: &Waker,
    ) -> AcquireResult {
        caller.lane = self.current(caller.lane);
        if let Some(cause) = self.closed_for_good() {
            return self.refuse(caller.lane, cause, None, Duration::ZERO);
        }
        if let Some(limit) = self.impossible(caller.lane, caller.cost) {
            return self.refuse(
                caller.lane,
                RefusalReason::Never { limit },
                None,
                Duration::ZERO,
            );
        }
        // A state that ends calls those back who were called in it, and they come first.
        let ward = self.lane(caller.lane).ward;
        self.wake_circuit(ward, now);
        if caller.mode == WaitMode::Reject {
            self.circuit_mut(ward).caution.end();
        }
        if self.busy.is_empty()
            && let Ok(flight) = self.take(caller.lane, caller.cost, now)
        {
            return self.set_off(caller, flight, now, waker);
        }
        self.line_up(caller, now, waker)
    }

    /// It cannot go past those who wait: it stands in line as they do, and whoever may go is called.
    /// If that was in vain, there may be a reason not to stay.
    fn line_up(&mut self, caller: AcquireRequest, now: Nanos, waker: &Waker) -> AcquireResult {
        let forecast = self.forecast(caller, now);
        if let Some(state) = self.fails_fast(caller.lane, now) {
            let wait = forecast.eta.map(|at| at.since(now));
            return self.refuse(
                caller.lane,
                RefusalReason::Blocked { state },
                wait,
                Duration::ZERO,
            );
        }
        let key = self.join(caller, now, waker.clone());
        self.call_those_who_may_go(now);
        match self.poll(key, now, waker) {
            AcquireResult::Wait(key) => self.stay(caller, key, forecast, now),
            reply => reply,
        }
    }

    /// A call that was taken at once but is paced waits for its instant like anybody who was called.
    fn set_off(
        &mut self,
        caller: AcquireRequest,
        flight: usize,
        now: Nanos,
        waker: &Waker,
    ) -> AcquireResult {
        let from = self
            .flights
            .get(flight)
            .map_or(now, super::InFlightAttempt::send_at);
        if from <= now {
            return AcquireResult::Go(self.pass(flight, Duration::ZERO, now));
        }
        let key = self.arrive(caller, now);
        if let Some(waiter) = self.waiters.get_mut(key) {
            waiter.place = WaiterState::Called {
                flight,
                from,
                waker: None,
            };
        }
        self.pace(key, from, waker.clone());
        let forecast = WaitEstimate {
            why: WaitReason::Turn,
            position: 0,
            eta: Some(from),
        };
        self.stay(caller, key, forecast, now)
    }

    /// Lets a newcomer wait, unless it would wait in vain or says that it does not wait.
    fn stay(
        &mut self,
        caller: AcquireRequest,
        key: usize,
        forecast: WaitEstimate,
        now: Nanos,
    ) -> AcquireResult {
        let deadline = caller.deadline(now);
        let late = deadline <= now || forecast.eta.is_some_and(|at| at > deadline);
        let cause = if caller.mode == WaitMode::Reject {
            RefusalReason::Busy(forecast.why)
        } else if late {
            RefusalReason::TooLate(forecast.why)
        } else if caller.standing == QueueStanding::New && self.waiting() > self.rules.queue {
            RefusalReason::QueueFull
        } else {
            self.expect(key);
            self.emit_waiting(caller, forecast);
            return AcquireResult::Wait(key);
        };
        self.forget(key, now);
        let wait = forecast.eta.map(|at| at.since(now));
        self.refuse(caller.lane, cause, wait, Duration::ZERO)
    }

    fn join(&mut self, caller: AcquireRequest, now: Nanos, waker: Waker) -> usize {
        let key = self.arrive(caller, now);
        self.circuit_for(caller.lane).waiting += 1;
        self.mark_busy(caller.lane);
        let Self { lanes, waiters, .. } = self;
        if let Some(lane) = lanes.get_mut(super::place(caller.lane)) {
            let line = lane.line_mut(caller.class);
            match caller.standing {
                QueueStanding::New => line.join(waiters, key, waker),
                QueueStanding::Returning => line.return_to(waiters, key, waker),
            }
        }
        key
    }

    fn arrive(&mut self, caller: AcquireRequest, now: Nanos) -> usize {
        let next = match caller.standing {
            QueueStanding::New => &mut self.next_number,
            QueueStanding::Returning => &mut self.next_return,
        };
        let number = *next;
        *next += 1;
        self.waiters.insert(Waiter {
            place: WaiterState::Arriving,
            lane: caller.lane,
            class: caller.class,
            cost: caller.cost,
            number,
            since: now,
            deadline: caller.deadline(now),
            expected: false,
        })
    }

    fn emit_waiting(&mut self, caller: AcquireRequest, explanation: WaitEstimate) {
        if self.after.heard {
            let group = self.lane(caller.lane).name.clone();
            self.emit(EventKind::Waiting {
                group,
                cost: caller.cost,
                explanation,
            });
        }
    }

    pub(super) fn refuse(
        &mut self,
        lane: u32,
        cause: RefusalReason,
        retry_after: Option<Duration>,
        waited: Duration,
    ) -> AcquireResult {
        self.lane(lane).refused += 1;
        let refusal = Refusal { cause, retry_after };
        if self.after.heard {
            let group = self.lane(lane).name.clone();
            self.emit(EventKind::Refused {
                group,
                refusal: refusal.clone(),
                waited,
            });
        }
        AcquireResult::No(refusal)
    }
}
