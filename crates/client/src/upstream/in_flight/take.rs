//! Taking a permit: from health, the group's limits and those of the API, or from none of them.

use outflow_core::{Decision, HealthTicket, ReceiptSet};

use super::super::limits::ArrivalCount;
use super::super::wait_queue::PriorityClass;
use super::enqueue::CountsFrom;
use super::{
    AdmissionState, BlockReason, BlockedBy, Cost, ExcessCost, Hinting, InFlightAttempt, LimitMarks,
    Nanos, Overdraft,
};

impl AdmissionState {
    /// Takes a permit for a call of this lane, or says what stands in the way.
    #[inline]
    pub(super) fn take(&mut self, lane: u32, cost: Cost, now: Nanos) -> Result<usize, BlockedBy> {
        let ward = self.lane(lane).ward;
        let ticket = self.ticket(ward, now).map_err(BlockedBy::Ward)?;
        match self.grants(lane, cost, now) {
            Ok((own, shared)) => {
                let id = self.next_permit;
                self.next_permit += 1;
                let marks = self.marks(lane, now);
                self.set_out(ward, &ticket, now);
                self.emit_meter_events(lane);
                Ok(self.flights.insert(InFlightAttempt {
                    id,
                    lane,
                    origin: lane,
                    ward,
                    cost,
                    own,
                    shared,
                    ticket,
                    granted: now,
                    rest: ExcessCost::default(),
                    marks,
                }))
            }
            Err(obstacle) => {
                self.circuit_mut(ward).health.abandon(now, ticket);
                Err(obstacle)
            }
        }
    }

    pub(super) fn ticket(&mut self, ward: usize, now: Nanos) -> Result<HealthTicket, BlockReason> {
        // A timer that is due may lead to a state with a timer that is due; more often than there
        // are states it cannot.
        for _ in 0..8 {
            match self.circuit_mut(ward).admission(now) {
                Err(BlockReason::Overdue) => self.wake_circuit(ward, now),
                answer => return answer,
            }
        }
        Err(BlockReason::Overdue)
    }

    #[inline]
    pub(super) fn grants(
        &mut self,
        lane: u32,
        cost: Cost,
        now: Nanos,
    ) -> Result<(Option<ReceiptSet>, Option<ReceiptSet>), BlockedBy> {
        let own = match self.own(lane, now).take(now, cost) {
            Decision::Allow(grant) => grant,
            Decision::WaitUntil(at) => return Err(BlockedBy::Own(at)),
            Decision::Never => return Err(BlockedBy::Own(Nanos::MAX)),
        };
        let at = match self.shared.take(now, cost) {
            Decision::Allow(shared) => return Ok((own, shared)),
            Decision::WaitUntil(at) => at,
            Decision::Never => Nanos::MAX,
        };
        self.own(lane, now).refund(now, own);
        Err(BlockedBy::Shared(at))
    }

    /// One more of this ward is in flight.
    #[inline]
    fn set_out(&mut self, ward: usize, ticket: &HealthTicket, now: Nanos) {
        if self.ward_ref(ward).is_releasing(now) {
            let entropy = self.random.u64(..);
            self.circuit_mut(ward).gone(now, entropy);
        }
        let ward = self.circuit_mut(ward);
        ward.sets_out(now, ticket);
        let wakeup = ward.health.next_wakeup();
        self.consider(wakeup.unwrap_or(Nanos::MAX));
    }

    fn marks(&mut self, lane: u32, now: Nanos) -> Option<Box<LimitMarks>> {
        if self.hints == Hinting::NotYet {
            return None;
        }
        Some(Box::new(LimitMarks {
            own: self.own(lane, now).marks(now),
            shared: self.shared.marks(now),
        }))
    }

    /// Where entries count from their sending, they are stamped by who resumes and again by who sends,
    /// and not by who calls: whoever is late would otherwise send when its entry has long expired.
    pub(super) fn restamp(&mut self, flight: usize, now: Nanos) -> StampResult {
        let Some(known) = self.flights.get_mut(flight) else {
            return StampResult::Expired;
        };
        let (lane, cost) = (known.lane, known.cost);
        if known.granted >= now || known.send_at() >= now {
            return StampResult::Kept;
        }
        if self.stamped(lane) == CountsFrom::AtGrant {
            return StampResult::Kept;
        }
        let (own, shared) = self.set_out_again(flight, now);
        self.own(lane, now).refund(now, own);
        self.shared.refund(now, shared);
        let Ok((own, shared)) = self.grants(lane, cost, now) else {
            return StampResult::Expired;
        };
        if let Some(known) = self.flights.get_mut(flight) {
            (known.own, known.shared) = (own, shared);
        }
        StampResult::Renewed
    }

    /// A call counts from now in its ward, and gives up what it took of the limits before.
    fn set_out_again(
        &mut self,
        flight: usize,
        now: Nanos,
    ) -> (Option<ReceiptSet>, Option<ReceiptSet>) {
        let Self { flights, wards, .. } = self;
        let Some(known) = flights.get_mut(flight) else {
            return (None, None);
        };
        let from = std::mem::replace(&mut known.granted, now);
        if let Some(ward) = wards.get_mut(known.ward) {
            ward.sets_out_again(&known.ticket, from, now);
        }
        (known.own.take(), known.shared.take())
    }

    #[inline]
    pub(super) fn stamped(&self, lane: u32) -> CountsFrom {
        let own = self.lane_ref(lane).is_stamped_at_send();
        if own || self.shared.is_stamped_at_send() {
            return CountsFrom::AtSending;
        }
        CountsFrom::AtGrant
    }

    /// A call is being sent, which may be long after it was let go: from here on it counts. One that
    /// took longer than its entries last is sent all the same, and those after it wait for that.
    pub(in crate::upstream) fn sending(&mut self, flight: usize, now: Nanos) {
        match self.restamp(flight, now) {
            StampResult::Kept => {}
            StampResult::Renewed => {
                self.forget_the_rest(flight, now);
                self.count_the_rest(flight, now);
                self.call_if_freed(now);
            }
            StampResult::Expired => {
                self.forget_the_rest(flight, now);
                self.count_all(flight, now);
            }
        }
    }

    fn forget_the_rest(&mut self, flight: usize, now: Nanos) {
        if let Some(known) = self.flights.get_mut(flight) {
            let (lane, rest) = (known.lane, std::mem::take(&mut known.rest));
            self.rest_landed(lane, rest, ArrivalCount::Never, now);
        }
    }

    fn count_all(&mut self, flight: usize, now: Nanos) {
        let Some(known) = self.flights.get_mut(flight) else {
            return;
        };
        let (lane, all) = (known.lane, Overdraft::full(known.cost));
        known.rest = ExcessCost {
            own: all,
            shared: all,
        };
        self.own(lane, now).overhang(now, all);
        self.shared.overhang(now, all);
    }

    /// Gives back a permit whose call never left.
    pub(super) fn hand_back(&mut self, flight: usize, now: Nanos) {
        let Some(flight) = self.flights.try_remove(flight) else {
            return;
        };
        self.own(flight.lane, now).refund(now, flight.own);
        self.shared.refund(now, flight.shared);
        self.rest_landed(flight.lane, flight.rest, ArrivalCount::Never, now);
        let ward = self.circuit_mut(flight.ward);
        ward.stays(now, flight.ticket, flight.granted);
    }

    /// Counts what a call costs beyond what it could take: limits were lowered below its cost.
    #[inline]
    pub(super) fn count_the_rest(&mut self, flight: usize, now: Nanos) {
        let Some(known) = self.flights.get_mut(flight) else {
            return;
        };
        let (lane, cost) = (known.lane, known.cost);
        let rest = |grant: &Option<ReceiptSet>| {
            let taken = grant.as_ref().map_or(cost, ReceiptSet::cost);
            Overdraft::beyond(taken, cost)
        };
        let (own, shared) = (rest(&known.own), rest(&known.shared));
        if !own.is_nothing() || !shared.is_nothing() {
            known.rest = ExcessCost { own, shared };
            self.own(lane, now).overhang(now, own);
            self.shared.overhang(now, shared);
        }
    }

    pub(super) fn rest_landed(
        &mut self,
        lane: u32,
        rest: ExcessCost,
        landed: ArrivalCount,
        now: Nanos,
    ) {
        let limits = self.own(lane, now);
        limits.overhang_landed(now, rest.own, landed);
        self.shared.overhang_landed(now, rest.shared, landed);
    }

    pub(super) fn class_of(&self, key: usize) -> PriorityClass {
        let waiter = self.waiters.get(key);
        waiter.map_or(PriorityClass::Normal, |waiter| waiter.class)
    }
}

/// What became of the entries of one who was called, when it resumed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum StampResult {
    /// They are as they were.
    Kept,
    /// They count from now.
    Renewed,
    /// They have expired, and there is no room for others.
    Expired,
}
