//! Waiting and being called: whose turn it is, resuming, giving up.

use std::task::Waker;
use std::time::Duration;

use super::ask::{Pass, Reply};
use super::{CLASSES, Cause, Class, Cost, Gate, Nanos, Obstacle, Place, Refusal, What};

impl Gate {
    /// A call that waits asks what became of it.
    pub(in crate::upstream) fn look(&mut self, key: usize, now: Nanos, waker: &Waker) -> Reply {
        let Some(waiter) = self.waiters.get_mut(key) else {
            return Reply::No(NOT_YET);
        };
        match &mut waiter.place {
            Place::InLine { waker: kept, .. } => {
                kept.clone_from(waker);
                Reply::Wait(key)
            }
            Place::Called {
                from, waker: kept, ..
            } if *from > now => {
                *kept = Some(waker.clone());
                Reply::Wait(key)
            }
            Place::Called { flight, .. } => {
                let flight = *flight;
                self.resume(key, flight, now, waker)
            }
            Place::Arriving | Place::TurnedAway(_) => match self.waiters.remove(key).place {
                Place::TurnedAway(refusal) => Reply::No(*refusal),
                _ => Reply::No(NOT_YET),
            },
        }
    }

    /// The one who was called is here. If the state changed since, or its entry has expired in the
    /// meantime, it goes back to the head of its line.
    pub(super) fn resume(&mut self, key: usize, flight: usize, now: Nanos, waker: &Waker) -> Reply {
        if !self.still_good(flight, now) {
            self.hand_back(flight, now);
            self.return_to_line(key, waker.clone());
            self.call_those_who_may_go(now);
            return match self.waiters.get(key).map(|waiter| &waiter.place) {
                Some(Place::Called { .. } | Place::TurnedAway(_)) => self.look(key, now, waker),
                _ => Reply::Wait(key),
            };
        }
        let waiter = self.waiters.remove(key);
        self.paced.retain(|paced| *paced != key);
        Reply::Go(self.pass(flight, now.since(waiter.since)))
    }

    /// Whether a flight that was granted a moment ago may still go, stamped now.
    pub(super) fn still_good(&mut self, flight: usize, now: Nanos) -> bool {
        let Some(known) = self.flights.get_mut(flight) else {
            return false;
        };
        let (lane, cost, epoch) = (known.lane, known.cost, known.epoch);
        if epoch != self.ward_of(lane).epoch {
            return false;
        }
        self.restamp(flight, lane, cost, now)
    }

    /// Where entries count from their sending, they are stamped by who resumes and not by who calls:
    /// whoever is late to resume would otherwise send when its entry has long expired.
    pub(super) fn restamp(&mut self, flight: usize, lane: u32, cost: Cost, now: Nanos) -> bool {
        let stamped =
            self.lane(lane).limits.is_stamped_at_send() || self.shared.is_stamped_at_send();
        let Some(known) = self
            .flights
            .get_mut(flight)
            .filter(|known| stamped && known.granted < now)
        else {
            return true;
        };
        known.granted = now;
        let (own, shared) = (known.own.take(), known.shared.take());
        self.lane(lane).limits.refund(now, own);
        self.shared.refund(now, shared);
        let Ok((own, shared)) = self.grants(lane, cost, now) else {
            return false;
        };
        if let Some(known) = self.flights.get_mut(flight) {
            (known.own, known.shared) = (own, shared);
        }
        true
    }

    /// A call gives up before it went.
    pub(in crate::upstream) fn forget(&mut self, key: usize, now: Nanos) {
        let Some(waiter) = self.waiters.get(key) else {
            return;
        };
        match waiter.place {
            Place::InLine { .. } => {
                self.step_out(key, Place::Arriving);
            }
            Place::Called { flight, .. } => {
                self.paced.retain(|paced| *paced != key);
                self.hand_back(flight, now);
            }
            Place::Arriving | Place::TurnedAway(_) => {}
        }
        self.waiters.remove(key);
        self.call_those_who_may_go(now);
    }

    /// Calls everybody who may go, in order.
    pub(in crate::upstream) fn call_those_who_may_go(&mut self, now: Nanos) {
        let mut next = Nanos::MAX;
        let mut skipped = Skipped::default();
        while let Some((lane, key)) = self.whose_turn(&skipped) {
            let cost = self
                .waiters
                .get(key)
                .map_or(Cost::ZERO, |waiter| waiter.cost);
            match self.take(lane, cost, now) {
                Ok(flight) => self.call(key, flight, now),
                Err(obstacle) => {
                    next = next.min(obstacle.until());
                    match obstacle {
                        Obstacle::Own(_) => skipped.lanes.push(lane),
                        Obstacle::Ward(_) => skipped.wards.push(self.lane(lane).ward),
                        Obstacle::Shared(_) => break,
                    }
                }
            }
        }
        self.consider(next);
    }

    fn whose_turn(&self, skipped: &Skipped) -> Option<(u32, usize)> {
        let order = self.order();
        let lanes = self.busy.iter().filter(|lane| {
            !skipped.lanes.contains(lane) && !skipped.wards.contains(&self.lane_ref(**lane).ward)
        });
        let heads = lanes.filter_map(|lane| {
            let (rank, key) = self.lane_ref(*lane).head(order)?;
            Some((rank, self.waiters.get(key)?.number, *lane, key))
        });
        heads.min().map(|(_, _, lane, key)| (lane, key))
    }

    /// The better class first, unless one was passed over too often.
    pub(super) fn order(&self) -> [Class; CLASSES.len()] {
        let [_, normal, low] = self.passed_over;
        match (normal >= PATIENCE, low >= PATIENCE) {
            (_, true) => [Class::Low, Class::High, Class::Normal],
            (true, false) => [Class::Normal, Class::High, Class::Low],
            (false, false) => CLASSES,
        }
    }

    fn call(&mut self, key: usize, flight: usize, now: Nanos) {
        self.count_passed_over(key);
        let from = self.flights.get(flight).map_or(now, super::Flight::send_at);
        let called = Place::Called {
            flight,
            from,
            waker: None,
        };
        let waker = self.step_out(key, called);
        if from > now {
            self.pace(key, from, waker);
        } else if let Some(waker) = waker {
            self.after.wakes.push(waker);
        }
    }

    pub(super) fn pace(&mut self, key: usize, from: Nanos, waker: Option<Waker>) {
        if let Some(Place::Called { waker: kept, .. }) =
            self.waiters.get_mut(key).map(|waiter| &mut waiter.place)
        {
            *kept = waker;
        }
        self.paced.push(key);
        self.consider(from);
    }

    /// Wakes those whose paced instant has come.
    pub(super) fn call_paced(&mut self, now: Nanos) {
        let mut later = Nanos::MAX;
        for index in 0..self.paced.len() {
            let key = self.paced.get(index).copied();
            let Some(waiter) = key.and_then(|key| self.waiters.get_mut(key)) else {
                continue;
            };
            if let Place::Called { from, waker, .. } = &mut waiter.place {
                if *from > now {
                    later = later.min(*from);
                } else if let Some(waker) = waker.take() {
                    self.after.wakes.push(waker);
                }
            }
        }
        let waiters = &self.waiters;
        self.paced.retain(|key| {
            let place = waiters.get(*key).map(|waiter| &waiter.place);
            matches!(place, Some(Place::Called { waker: Some(_), .. }))
        });
        self.consider(later);
    }

    pub(super) fn count_passed_over(&mut self, key: usize) {
        let Some(called) = self.waiters.get(key).map(|waiter| waiter.class) else {
            return;
        };
        for (class, passed) in CLASSES.into_iter().zip(&mut self.passed_over) {
            let waits = self.busy.iter().any(|lane| {
                let lane = self.lanes.get(super::place(*lane));
                lane.is_some_and(|lane| !lane.line(class).is_empty())
            });
            *passed = match class {
                same if same == called => 0,
                worse if worse < called && waits => passed.saturating_add(1),
                _ => *passed,
            };
        }
    }

    /// Takes a waiter out of its line and leaves it with `place`.
    pub(super) fn step_out(&mut self, key: usize, place: Place) -> Option<Waker> {
        let waiter = self.waiters.get(key)?;
        let (lane, class) = (waiter.lane, waiter.class);
        let Self { lanes, waiters, .. } = self;
        let known = lanes.get_mut(super::place(lane))?;
        let waker = known.line_mut(class).leave(waiters, key, place);
        if waker.is_some() {
            let empty = known.is_empty();
            if empty {
                self.busy.retain(|busy| *busy != lane);
            }
            self.ward_of(lane).waiting -= 1;
            self.tidy_deadlines(lane);
        }
        waker
    }

    pub(super) fn tidy_deadlines(&mut self, lane: u32) {
        let ward = self.lane(lane).ward;
        let Self { wards, waiters, .. } = self;
        if let Some(ward) = wards.get_mut(ward) {
            ward.tidy_deadlines(|number, key| {
                waiters
                    .get(key)
                    .is_some_and(|waiter| waiter.number == number)
            });
        }
    }

    pub(super) fn return_to_line(&mut self, key: usize, waker: Waker) {
        let Some(waiter) = self.waiters.get(key) else {
            return;
        };
        let (lane, class, deadline, number) =
            (waiter.lane, waiter.class, waiter.deadline, waiter.number);
        self.paced.retain(|paced| *paced != key);
        self.mark_busy(lane);
        let Self { lanes, waiters, .. } = self;
        if let Some(lane) = lanes.get_mut(super::place(lane)) {
            lane.line_mut(class).return_to(waiters, key, waker);
        }
        let ward = self.ward_of(lane);
        ward.waiting += 1;
        ward.expect_by(deadline, number, key);
        self.consider(deadline);
    }

    pub(super) fn mark_busy(&mut self, lane: u32) {
        if !self.busy.contains(&lane) {
            self.busy.push(lane);
        }
    }

    pub(super) fn turn_away(
        &mut self,
        key: usize,
        cause: Cause,
        retry_after: Option<Duration>,
        now: Nanos,
    ) {
        let Some(waiter) = self.waiters.get(key) else {
            return;
        };
        let (lane, span) = (waiter.lane, now.since(waiter.since));
        let Reply::No(refusal) = self.refuse(lane, cause, retry_after, span) else {
            return;
        };
        if let Some(waker) = self.step_out(key, Place::TurnedAway(Box::new(refusal))) {
            self.after.wakes.push(waker);
        }
    }

    pub(super) fn pass(&mut self, flight: usize, waited: Duration) -> Pass {
        let id = self.flights.get(flight).map_or(0, |flight| flight.id);
        if self.after.heard
            && let Some(flight) = self.flights.get(flight)
        {
            let (permit, cost, lane) = (flight.id, flight.cost, flight.lane);
            let group = self.lane(lane).name.clone();
            self.tell(What::Admitted {
                group,
                permit,
                cost,
                waited,
            });
        }
        Pass { flight, id, waited }
    }

    pub(in crate::upstream) fn waiting(&self) -> usize {
        self.wards.iter().map(|ward| ward.waiting).sum()
    }
}

/// Lanes and wards that let nobody go in this round.
#[derive(Default)]
struct Skipped {
    lanes: Vec<u32>,
    wards: Vec<usize>,
}

/// So many others go before one of a lower class does: it keeps a ninth at least.
const PATIENCE: u8 = 8;

/// Stands where a waiter's answer will be; nobody ever sees it.
pub(super) const NOT_YET: Refusal = Refusal {
    cause: Cause::ShuttingDown,
    retry_after: None,
};
