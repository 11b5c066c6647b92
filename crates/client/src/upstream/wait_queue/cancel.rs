//! Leaving the line, or coming back to it: giving up, being turned away, being called back.

use std::task::Waker;
use std::time::Duration;

use super::enqueue::AcquireResult;
use super::{AdmissionState, Nanos, RefusalReason, WaiterState};

impl AdmissionState {
    /// A call gives up before it went.
    pub(in crate::upstream) fn forget(&mut self, key: usize, now: Nanos) {
        let stepped_out = self.step_out(key, WaiterState::Arriving);
        self.after
            .retired
            .extend(stepped_out.map(|(_, waker)| waker));
        let Some(waiter) = self.waiters.try_remove(key) else {
            return;
        };
        if let WaiterState::Called { flight, .. } = waiter.place {
            self.paced.retain(|paced| *paced != key);
            self.hand_back(flight, now);
        }
        self.retire(waiter.place);
        self.call_those_who_may_go(now);
    }

    /// Takes a waiter out of its line and leaves it with `place`. Answers its lane and how to wake
    /// it, if it stood in line.
    pub(super) fn step_out(&mut self, key: usize, place: WaiterState) -> Option<(u32, Waker)> {
        let waiter = self.waiters.get(key)?;
        let (lane, class) = (waiter.lane, waiter.class);
        let Self { lanes, waiters, .. } = self;
        let known = lanes.get_mut(super::place(lane))?;
        let waker = known.line_mut(class).leave(waiters, key, place)?;
        if known.is_empty() {
            self.busy.retain(|busy| *busy != lane);
        }
        self.circuit_for(lane).waiting -= 1;
        self.tidy_deadlines(lane);
        Some((lane, waker))
    }

    fn tidy_deadlines(&mut self, lane: u32) {
        let ward = self.lane(lane).ward;
        let Self { wards, waiters, .. } = self;
        if let Some(ward) = wards.get_mut(ward) {
            ward.tidy_deadlines(|number, key| {
                let waiter = waiters.get(key);
                waiter.is_some_and(|waiter| waiter.number == number)
            });
        }
    }

    /// Calls everybody back who was called in this ward and has not resumed: what they were called
    /// under has changed. They were woken, so each of them will look and find itself in line again.
    pub(super) fn recall(&mut self, ward: usize, now: Nanos) {
        let called = self.waiters.iter().filter(|(_, waiter)| {
            let inside = self.lane_ref(waiter.lane).ward == ward;
            inside && matches!(waiter.place, WaiterState::Called { .. })
        });
        let called: Vec<usize> = called.map(|(key, _)| key).collect();
        for key in called {
            self.return_to_line(key, None, now);
        }
    }

    /// Gives back what a waiter was called with and lets it stand where it stood.
    pub(super) fn return_to_line(&mut self, key: usize, waker: Option<&Waker>, now: Nanos) {
        let Some(waiter) = self.waiters.get_mut(key) else {
            return;
        };
        let (lane, class) = (waiter.lane, waiter.class);
        let place = std::mem::replace(&mut waiter.place, WaiterState::Arriving);
        let WaiterState::Called {
            flight,
            waker: kept,
            ..
        } = place
        else {
            waiter.place = place;
            return;
        };
        self.paced.retain(|paced| *paced != key);
        self.hand_back(flight, now);
        // One who was woken and has not looked yet needs no waker until it does.
        let waker = waker.cloned().or_else(|| kept.clone());
        let waker = waker.unwrap_or_else(|| Waker::noop().clone());
        self.after.retired.extend(kept);
        self.mark_busy(lane);
        let Self { lanes, waiters, .. } = self;
        if let Some(lane) = lanes.get_mut(super::place(lane)) {
            lane.line_mut(class).return_to(waiters, key, waker);
        }
        self.circuit_for(lane).waiting += 1;
        self.expect(key);
    }

    pub(super) fn mark_busy(&mut self, lane: u32) {
        if !self.busy.contains(&lane) {
            self.busy.push(lane);
        }
    }

    /// Has the ward see to it that a waiter is told when its deadline has come.
    pub(super) fn expect(&mut self, key: usize) {
        let Some(waiter) = self.waiters.get_mut(key).filter(|known| !known.expected) else {
            return;
        };
        waiter.expected = true;
        let (lane, deadline, number) = (waiter.lane, waiter.deadline, waiter.number);
        let ward = self.circuit_for(lane);
        ward.expect_by(deadline, number, key);
        let first = ward.first_deadline();
        self.consider(first);
    }

    /// Turns away those whose deadline is before `end`.
    pub(super) fn turn_away_the_late(&mut self, ward: usize, end: Nanos, now: Nanos) {
        while let Some((number, key)) = self.circuit_mut(ward).late(end) {
            let Self { lanes, waiters, .. } = self;
            // Its group may have become part of another, where it is expected too.
            let is_here = |lane| {
                let lane = lanes.get(super::place(lane));
                lane.is_some_and(|lane| lane.ward == ward)
            };
            let known =
                |waiter: &&mut super::Waiter| waiter.number == number && is_here(waiter.lane);
            if let Some(waiter) = waiters.get_mut(key).filter(known) {
                waiter.expected = false;
                self.turn_away_late(key, now);
            }
        }
    }

    /// Turns away one who cannot go in time, and tells it when it could if it asked again.
    pub(super) fn turn_away_late(&mut self, key: usize, now: Nanos) {
        let Some(caller) = self.caller(key) else {
            return;
        };
        let Some((_, waker)) = self.step_out(key, WaiterState::Arriving) else {
            return;
        };
        let forecast = self.forecast(caller, now);
        let wait = forecast.eta.map(|at| at.since(now));
        self.after.wakes.push(waker);
        self.dismiss(key, RefusalReason::TooLate(forecast.why), wait, now);
    }

    /// Turns away one who waits in line.
    pub(super) fn turn_away(
        &mut self,
        key: usize,
        cause: RefusalReason,
        retry_after: Option<Duration>,
        now: Nanos,
    ) {
        if let Some((_, waker)) = self.step_out(key, WaiterState::Arriving) {
            self.after.wakes.push(waker);
            self.dismiss(key, cause, retry_after, now);
        }
    }

    fn dismiss(
        &mut self,
        key: usize,
        cause: RefusalReason,
        retry_after: Option<Duration>,
        now: Nanos,
    ) {
        let Some(waiter) = self.waiters.get(key) else {
            return;
        };
        let (lane, span) = (waiter.lane, now.since(waiter.since));
        let AcquireResult::No(refusal) = self.refuse(lane, cause, retry_after, span) else {
            return;
        };
        if let Some(waiter) = self.waiters.get_mut(key) {
            waiter.place = WaiterState::TurnedAway(Box::new(refusal));
        }
    }

    /// Lets go of a waker once the lock is free: with it a task may end, and with the task others
    /// who wait here.
    pub(super) fn retire(&mut self, place: WaiterState) {
        if let WaiterState::InLine { waker, .. }
        | WaiterState::Called {
            waker: Some(waker), ..
        } = place
        {
            self.after.retired.push(waker);
        }
    }

    pub(in crate::upstream) fn waiting(&self) -> usize {
        self.wards.iter().map(|ward| ward.waiting).sum()
    }
}
