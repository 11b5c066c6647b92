//! What changes for everybody: a state, a cooldown, a timer, the end.

use std::sync::atomic::Ordering;
use std::time::Duration;

use http::HeaderMap;
use http::header::RETRY_AFTER;
use outflow_core::{Clock, ClockPair, HealthChange, HealthOverride, HealthTransition};

use super::super::limits;
use super::{AdmissionState, EventKind, Lifecycle, Nanos, RefusalReason, WaiterState, WhenAsleep};
use crate::event::HealthGauges;

impl AdmissionState {
    /// The timer rang.
    pub(in crate::upstream) fn ring(&mut self, now: Nanos) {
        self.alarm.rang(now);
        self.wake_circuits(now);
        self.call_paced(now);
        self.call_those_who_may_go(now);
        // A deadline of now is kept by going now, and missed by all who did not. Whoever stood behind
        // one of those may be next.
        for ward in 0..self.wards.len() {
            self.turn_away_the_late(ward, now.saturating_add(INSTANT), now);
        }
        self.call_those_who_may_go(now);
        let next = self.wards.iter().map(super::Circuit::next_wakeup).min();
        self.consider(next.unwrap_or(Nanos::MAX));
    }

    pub(super) fn wake_circuits(&mut self, now: Nanos) {
        for ward in 0..self.wards.len() {
            self.wake_circuit(ward, now);
        }
    }

    /// Serves a ward's timer, if it is due.
    #[inline]
    pub(super) fn wake_circuit(&mut self, ward: usize, now: Nanos) {
        let due = self.ward_ref(ward).health.next_wakeup();
        if due.is_none_or(|due| due > now) {
            return;
        }
        let entropy = self.random.u64(..);
        let moved = self.circuit_mut(ward).health.wake(now, entropy);
        match moved {
            Some(transition) => self.moved(ward, transition, now),
            None => self.retune(ward, now),
        }
    }

    /// An outcome, or an operator, changed something.
    pub(super) fn changed(&mut self, ward: usize, change: HealthChange, now: Nanos) {
        match change {
            HealthChange::None => {}
            HealthChange::Cooling { until } => self.cooled(ward, until, now),
            HealthChange::Moved(transition) => self.moved(ward, transition, now),
        }
        let wakeup = self.ward_ref(ward).next_wakeup();
        self.consider(wakeup);
    }

    fn moved(&mut self, ward: usize, transition: HealthTransition, now: Nanos) {
        self.retune(ward, now);
        let entropy = self.random.u64(..);
        let known = self.circuit_mut(ward);
        if let Some(until) = known.health.snapshot(now).cooling_until {
            known.cool(until, entropy);
        }
        if self.after.heard {
            let (group, vitals) = (self.ward_group(ward), self.vitals(ward, now));
            self.emit(EventKind::Moved {
                group,
                transition,
                vitals,
            });
        }
        self.recall(ward, now);
        if self.circuit_mut(ward).health.snapshot(now).circuit == outflow_core::CircuitState::Open {
            self.call_off(ward);
        }
        self.rouse(ward, now);
    }

    fn cooled(&mut self, ward: usize, until: Nanos, now: Nanos) {
        self.held_until = Nanos::ZERO;
        let entropy = self.random.u64(..);
        self.circuit_mut(ward).cool(until, entropy);
        if self.after.heard {
            let (group, vitals) = (self.ward_group(ward), self.vitals(ward, now));
            let wait = until.since(now);
            self.emit(EventKind::Cooling {
                group,
                until,
                wait,
                vitals,
            });
        }
        self.recall(ward, now);
        self.call_off(ward);
        self.turn_away_the_late(ward, until, now);
    }

    /// Nobody is to go who has not gone yet, a permit in hand or not.
    fn call_off(&mut self, ward: usize) {
        let number = self.next_permit;
        self.circuit_mut(ward).called_off = number;
        self.called_off.fetch_max(number, Ordering::Release);
    }

    /// Whether nobody was to go any more after this permit was given.
    pub(in crate::upstream) fn is_called_off(&self, flight: usize) -> bool {
        self.flights
            .get(flight)
            .is_some_and(|known| known.id < self.ward_ref(known.ward).called_off)
    }

    /// While nothing goes, those who would wait in vain are told at once.
    fn rouse(&mut self, ward: usize, now: Nanos) {
        let snapshot = self.circuit_mut(ward).health.snapshot(now);
        if snapshot.circuit != outflow_core::CircuitState::Open {
            return;
        }
        let wait = snapshot.until.map(|until| until.since(now));
        if self.rules.when_asleep == WhenAsleep::Wait
            && let Some(until) = snapshot.until
        {
            return self.turn_away_the_late(ward, until, now);
        }
        for key in self.those_in_line(ward) {
            let cause = RefusalReason::Blocked {
                state: snapshot.state,
            };
            self.turn_away(key, cause, wait, now);
        }
    }

    fn those_in_line(&self, ward: usize) -> Vec<usize> {
        let waiting = self.waiters.iter().filter(|(_, waiter)| {
            let inside = self.lane_ref(waiter.lane).ward == ward;
            inside && matches!(waiter.place, WaiterState::InLine { .. })
        });
        waiting.map(|(key, _)| key).collect()
    }

    /// Puts into effect what is left of the limits under this ward.
    pub(super) fn retune(&mut self, ward: usize, now: Nanos) {
        self.held_until = Nanos::ZERO;
        let moment = self.moment(now);
        let whole = self.rules.scope == super::HealthScope::Api;
        let Self {
            wards,
            shared,
            lanes,
            ..
        } = self;
        let Some(known) = wards.get(ward) else {
            return;
        };
        for lane in lanes.iter_mut().filter(|lane| lane.ward == ward) {
            if let Some(limits) = lane.used_limits() {
                limits.retune(moment, Some(&known.health));
            }
        }
        // What several healths share follows none of them, only the evidence.
        shared.retune(moment, whole.then_some(&known.health));
    }

    /// Holds the state of every ward, or of one group's.
    pub(in crate::upstream) fn force(
        &mut self,
        lane: Option<u32>,
        hold: HealthOverride,
        now: Nanos,
    ) {
        for ward in self.circuits_for(lane) {
            let change = self.circuit_mut(ward).health.force(now, hold);
            self.operated(ward, Some(change), now);
        }
    }

    /// Lets go of what an operator held.
    pub(in crate::upstream) fn release(&mut self, lane: Option<u32>, now: Nanos) {
        for ward in self.circuits_for(lane) {
            let change = self.circuit_mut(ward).health.release(now);
            self.operated(ward, change, now);
        }
    }

    fn operated(&mut self, ward: usize, moved: Option<HealthTransition>, now: Nanos) {
        if let Some(transition) = moved {
            self.changed(ward, HealthChange::Moved(transition), now);
        }
        self.retune(ward, now);
        self.call_those_who_may_go(now);
    }

    fn circuits_for(&self, lane: Option<u32>) -> Vec<usize> {
        match lane {
            Some(lane) => vec![self.lane_ref(self.current(lane)).ward],
            None => (0..self.wards.len()).collect(),
        }
    }

    /// Lets nobody in any more, for the client ends.
    pub(in crate::upstream) fn close(&mut self, now: Nanos) {
        self.shut(Lifecycle::Closed, now);
    }

    /// Lets nobody in any more, for the configuration no longer knows the API.
    pub(in crate::upstream) fn remove(&mut self, now: Nanos) {
        self.shut(Lifecycle::Removed, now);
    }

    /// Lets callers in again, if the API had only been removed.
    pub(in crate::upstream) fn restore(&mut self) {
        if self.entry == Lifecycle::Removed {
            self.entry = Lifecycle::Open;
        }
    }

    /// Turns away all who wait, and everybody who comes.
    fn shut(&mut self, entry: Lifecycle, now: Nanos) {
        self.entry = entry;
        let Some(cause) = self.closed_for_good() else {
            return;
        };
        for ward in 0..self.wards.len() {
            self.recall(ward, now);
            for key in self.those_in_line(ward) {
                self.turn_away(key, cause.clone(), None, now);
            }
        }
    }

    /// Why nobody is let in, if nobody is.
    #[inline]
    pub(super) const fn closed_for_good(&self) -> Option<RefusalReason> {
        match self.entry {
            Lifecycle::Open => None,
            Lifecycle::Closed => Some(RefusalReason::ShuttingDown),
            Lifecycle::Removed => Some(RefusalReason::Removed),
        }
    }

    /// The civil time, which only a few rules need and nobody reads for each call: between two looks
    /// it goes on as the other clock does. Where a server may have named a date, it is read.
    pub(in crate::upstream) fn read_wall_clock(
        &mut self,
        clock: &dyn Clock,
        headers: &HeaderMap,
        now: Nanos,
    ) {
        if now.since(self.wall_read) < A_GLANCE && !headers.contains_key(RETRY_AFTER) {
            self.wall_seen = self.moment(now);
            return;
        }
        self.wall_read = now;
        self.wall_seen = ClockPair {
            now,
            wall: clock.wall(),
        };
    }

    /// Now on both timelines, as far as the civil clock was not set since it was last read.
    pub(super) fn moment(&self, now: Nanos) -> ClockPair {
        super::moment(self.wall_seen, now)
    }

    pub(super) fn vitals(&mut self, ward: usize, now: Nanos) -> HealthGauges {
        let snapshot = self.circuit_mut(ward).health.snapshot(now);
        let rate = self.slowest(ward, now);
        let sleep = snapshot
            .until
            .filter(|_| snapshot.circuit == outflow_core::CircuitState::Open);
        HealthGauges {
            state: snapshot.state,
            streak: snapshot.streak,
            error_ppm: snapshot.counts.failure_ppm(),
            rate: rate.map_or(0.0, outflow_core::Rate::as_per_second),
            concurrency: self.ward_ref(ward).health.concurrency(),
            sleep: sleep.map(|until| until.since(now)),
            retry_after: snapshot.cooling_until.map(|until| until.since(now)),
        }
    }

    /// The slowest rate that calls under this ward keep to.
    fn slowest(&mut self, ward: usize, now: Nanos) -> Option<outflow_core::Rate> {
        let Self {
            wards,
            shared,
            lanes,
            ..
        } = self;
        let health = &wards.get(ward)?.health;
        let lanes = lanes.iter_mut().filter(|lane| lane.ward == ward);
        let own = lanes.filter_map(|lane| lane.slowest(now, health));
        limits::slowest(own.chain(shared.slowest(now)))
    }

    /// Whether there is no one in flight: what shutting down waits for.
    pub(in crate::upstream) fn is_idle(&self) -> bool {
        self.wards.iter().all(|ward| ward.in_flight == 0)
    }
}

/// Nobody sets a clock and expects all to know within a tenth of a second.
const A_GLANCE: Duration = Duration::from_millis(100);

/// What lies between an instant and the next.
const INSTANT: Duration = Duration::from_nanos(1);
