//! What an answer changes: arrival, health, what the server said of its limits, what was learned.

use std::time::Duration;

use http::HeaderMap;
use outflow_core::{
    Attempt, Effect, Ended, Hints, Journey, Outcome, Reaction, ResponseTime, RetryAfter, Ticket,
    WaitBounds,
};

use super::super::limits::{Charge, Heard, Refused};
use super::super::permit::{Answer, Verdict};
use super::{Flight, Gate, Hinting, Marks, Nanos, What};

/// A call whose answer has begun and whose body has not ended.
#[derive(Debug)]
pub(in crate::upstream) struct Open {
    ward: usize,
    /// Kept for the end of the body where all was well so far.
    ticket: Option<Ticket>,
}

/// When an answer came, and whether it was a refusal.
#[derive(Clone, Copy)]
struct Told {
    at: Nanos,
    refused: Refused,
}

impl Flight {
    /// When it is to be sent: now, or a little later where a limit is paced.
    pub(super) fn send_at(&self) -> Nanos {
        let at = |grant: &Option<super::Grant>| grant.as_ref().map(super::Grant::send_at);
        at(&self.own).max(at(&self.shared)).unwrap_or(self.granted)
    }
}

impl Gate {
    /// Gives back a permit whose call never left.
    pub(in crate::upstream) fn hand_back(&mut self, flight: usize, now: Nanos) {
        let Some(flight) = self.flights.try_remove(flight) else {
            return;
        };
        let ward = self.lane(flight.lane).ward;
        self.lane(flight.lane).limits.refund(now, flight.own);
        self.shared.refund(now, flight.shared);
        let ward = self.ward(ward);
        ward.health.abandon(now, flight.ticket);
        ward.in_flight = ward.in_flight.saturating_sub(1);
    }

    /// The same, by whoever held the permit.
    pub(in crate::upstream) fn refund(&mut self, flight: usize, now: Nanos) {
        if self.after.heard
            && let Some(known) = self.flights.get(flight)
        {
            let (permit, lane) = (known.id, known.lane);
            let group = self.lane(lane).name.clone();
            self.tell(What::Refunded { group, permit });
        }
        self.hand_back(flight, now);
        self.call_those_who_may_go(now);
    }

    /// An attempt was answered, or will not be. What is left of it is its body.
    pub(in crate::upstream) fn answered(
        &mut self,
        flight: usize,
        sent: Option<Nanos>,
        answer: &Answer<'_>,
        now: Nanos,
    ) -> Option<(Verdict, Open)> {
        let mut flight = self.flights.try_remove(flight)?;
        let sent = sent.unwrap_or(flight.granted);
        let ward = self.lane(flight.lane).ward;
        let marks = flight.marks.take();
        self.land(&mut flight, sent, answer, now);
        let attempt = self.attempt(answer);
        let judged = self.rules.policy.classify(&attempt);
        if let Some(headers) = answer.headers() {
            let refused = Refused::by(judged.outcome.effect());
            self.hear(
                &flight,
                headers,
                marks.as_deref(),
                Told { at: now, refused },
            );
        }
        self.learn(&flight, sent, &judged.outcome, now);
        let effect = judged.outcome.effect();
        self.tell_settled(&flight, attempt, effect, sent, now);
        let verdict = Verdict {
            effect,
            retry: judged.retry,
            retry_after: judged.outcome.retry_after(),
        };
        let mut open = Open {
            ward,
            ticket: Some(flight.ticket),
        };
        if effect != Effect::Success {
            self.record(&mut open, judged.outcome, now);
        }
        self.call_those_who_may_go(now);
        Some((verdict, open))
    }

    /// The body ended, or its reader left: all was well.
    pub(in crate::upstream) fn ended(&mut self, mut open: Open, now: Nanos) {
        self.record(&mut open, Outcome::SUCCESS, now);
        self.leave(&open, now);
    }

    /// The body broke.
    pub(in crate::upstream) fn broke(
        &mut self,
        mut open: Open,
        answer: &Answer<'_>,
        now: Nanos,
    ) -> Verdict {
        let attempt = self.attempt(answer);
        let judged = self.rules.policy.classify(&attempt);
        self.record(&mut open, judged.outcome, now);
        self.leave(&open, now);
        Verdict {
            effect: judged.outcome.effect(),
            retry: judged.retry,
            retry_after: None,
        }
    }

    /// A body that may never end has begun to flow: that is all a probe wants to know.
    pub(in crate::upstream) fn flowing(&mut self, open: &mut Open, now: Nanos) {
        self.record(open, Outcome::SUCCESS, now);
        self.call_those_who_may_go(now);
    }

    fn leave(&mut self, open: &Open, now: Nanos) {
        let ward = self.ward(open.ward);
        ward.in_flight = ward.in_flight.saturating_sub(1);
        self.call_those_who_may_go(now);
    }

    fn record(&mut self, open: &mut Open, outcome: Outcome, now: Nanos) {
        let Some(ticket) = open.ticket.take() else {
            return;
        };
        let entropy = self.random.u64(..);
        let change = self
            .ward(open.ward)
            .health
            .record(now, ticket, outcome, entropy);
        self.changed(open.ward, change, now);
    }

    /// Tells the limits when the call arrived, as late as that can have been.
    fn land(&mut self, flight: &mut Flight, sent: Nanos, answer: &Answer<'_>, now: Nanos) {
        let (own, shared) = (flight.own.take(), flight.shared.take());
        if answer.is_unsent() {
            self.lane(flight.lane).limits.refund(now, own);
            self.shared.refund(now, shared);
            return;
        }
        let (journey, floor) = self.journey(sent, answer, now);
        self.lane(flight.lane)
            .limits
            .settle(now, own, journey, floor);
        self.shared.settle(now, shared, journey, floor);
    }

    fn journey(
        &mut self,
        sent: Nanos,
        answer: &Answer<'_>,
        now: Nanos,
    ) -> (Journey, Option<Duration>) {
        match answer.ended() {
            Ended::Status(_) => {
                let floor = self.trips.observe(now, now.since(sent));
                (
                    Journey::Answered {
                        sent,
                        answered: now,
                    },
                    floor,
                )
            }
            Ended::Fault(_) | Ended::Cancelled => {
                let until = sent.saturating_add(self.rules.timeout).max(now);
                (Journey::Lost { until }, self.trips.floor(now))
            }
        }
    }

    /// The facts of an answer, its headers read.
    fn attempt(&self, answer: &Answer<'_>) -> Attempt {
        let attempt = answer.attempt();
        let Some(headers) = answer.headers() else {
            return attempt;
        };
        let after = headers.get_all(http::header::RETRY_AFTER);
        let values = after.iter().map(http::HeaderValue::as_bytes);
        let read = RetryAfter::read_all(values, self.came(headers), WaitBounds::default());
        let wait = read.and_then(|read| read.wait());
        let attempt = wait.map_or(attempt, |wait| attempt.asking_to_wait(wait));
        if answer.shows_a_limit() || wait.is_some() {
            return attempt.with_rate_limit_signs();
        }
        attempt
    }

    fn came<'a>(&self, headers: &'a HeaderMap) -> ResponseTime<'a> {
        let date = headers
            .get(http::header::DATE)
            .map(http::HeaderValue::as_bytes);
        ResponseTime {
            date,
            wall: self.wall,
        }
    }

    /// What the server said of its limits.
    fn hear(&mut self, flight: &Flight, headers: &HeaderMap, marks: Option<&Marks>, told: Told) {
        let (lane, now, refused) = (flight.lane, told.at, told.refused);
        let pairs = headers
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_bytes()));
        let hints = Hints::read(pairs, self.rules.dialects, self.came(headers));
        if hints.malformed() > 0 {
            self.tell(What::Malformed {
                headers: hints.malformed(),
            });
        }
        let Some(marks) = marks else {
            if hints.iter().next().is_some() {
                self.hints = Hinting::Yes;
            }
            return;
        };
        for hint in hints.iter() {
            let own = self
                .lane(lane)
                .limits
                .correct(now, hint, &marks.own, refused);
            let group = own.is_some().then(|| self.lane(lane).name.clone());
            let heard = own.or_else(|| self.shared.correct(now, hint, &marks.shared, refused));
            if let Some(heard) = heard {
                self.heed(lane, group, heard, now);
            }
        }
    }

    fn heed(&mut self, lane: u32, group: Option<smol_str::SmolStr>, heard: Heard, now: Nanos) {
        if heard.correction.foreign > 0 {
            let units = heard.correction.foreign;
            self.tell(What::Foreign { group, units });
        }
        if heard.reaction == Reaction::Shrunk {
            let ward = self.lane(lane).ward;
            self.shrunk(ward, now);
        }
    }

    /// What follows for the limits: a refusal lowers them, a success lets them grow back.
    fn learn(&mut self, flight: &Flight, sent: Nanos, outcome: &Outcome, now: Nanos) {
        if self.rules.adaptive == outflow_core::Adaptive::Off {
            return;
        }
        let charge = match outcome.effect() {
            Effect::Success => return self.grow(flight, now),
            Effect::Throttled => Charge::Throttled { sent },
            Effect::Banned => {
                let until = now.saturating_add(outcome.retry_after().unwrap_or_default());
                Charge::Banned { sent, until }
            }
            _ => return,
        };
        let own = self.lane(flight.lane).limits.fullness(now);
        let reaction = if self.shared.fullness(now) > own {
            self.shared.accused(now, &charge)
        } else {
            self.lane(flight.lane).limits.accused(now, &charge)
        };
        if reaction == Reaction::Shrunk {
            let ward = self.lane(flight.lane).ward;
            self.shrunk(ward, now);
        }
    }

    fn grow(&mut self, flight: &Flight, now: Nanos) {
        let own = self.lane(flight.lane).limits.passed(now, flight.cost);
        let shared = self.shared.passed(now, flight.cost);
        if own || shared {
            let ward = self.lane(flight.lane).ward;
            self.retune(ward, now);
            self.tell_drift(now);
        }
    }

    fn shrunk(&mut self, ward: usize, now: Nanos) {
        self.ward(ward).health.begin_wave(now);
        self.retune(ward, now);
        self.tell_drift(now);
    }

    fn tell_drift(&mut self, now: Nanos) {
        if !self.after.heard {
            return;
        }
        let mut drifts: Vec<_> = self.shared.drifts(now).map(|drift| (None, drift)).collect();
        for lane in &self.lanes {
            let named = lane
                .limits
                .drifts(now)
                .map(|drift| (Some(lane.name.clone()), drift));
            drifts.extend(named);
        }
        if drifts.is_empty() {
            self.tell(What::Drifting {
                group: None,
                drift: None,
            });
        }
        for (group, drift) in drifts {
            self.tell(What::Drifting {
                group,
                drift: Some(drift),
            });
        }
    }

    fn tell_settled(
        &mut self,
        flight: &Flight,
        attempt: Attempt,
        effect: Effect,
        sent: Nanos,
        now: Nanos,
    ) {
        if !self.after.heard {
            return;
        }
        let answered = matches!(attempt.ended(), Ended::Status(_));
        let group = self.lane(flight.lane).name.clone();
        let ward = self.lane(flight.lane).ward;
        let badly = !matches!(
            effect,
            Effect::Success | Effect::Neutral | Effect::Cancelled
        );
        let vitals = badly.then(|| self.vitals(ward, now));
        self.tell(What::Settled {
            group,
            permit: flight.id,
            attempt,
            effect,
            round_trip: answered.then(|| now.since(sent)),
            vitals,
        });
        self.tell_meters(flight.lane);
    }
}
