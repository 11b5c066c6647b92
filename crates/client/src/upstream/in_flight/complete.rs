//! How an attempt ended: when it arrived, what that says of the API's health, and when it is over.

use std::time::Duration;

use http::HeaderMap;
use outflow_core::{
    AttemptEnd, AttemptReport, HealthTicket, Hints, Outcome, OutcomeClass, RequestTiming,
    ResponseTime, RetryAfter, WaitBounds,
};

use super::super::limits::ArrivalCount;
use super::super::permit::{AttemptResult, LimitFeedback, Verdict};
use super::{AdmissionState, Cost, EventKind, InFlightAttempt, Nanos};

/// A call whose answer has begun and whose body has not ended.
#[derive(Debug)]
pub(in crate::upstream) struct ResponseInProgress {
    id: u64,
    lane: u32,
    ward: usize,
    /// Kept for the end of the body where all was well so far.
    ticket: Option<HealthTicket>,
}

/// What is known of a call that was sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct SentAttempt {
    pub(super) id: u64,
    pub(super) lane: u32,
    pub(super) cost: Cost,
    pub(super) at: Nanos,
}

impl InFlightAttempt {
    /// When it is to be sent: now, or a little later where a limit is paced.
    pub(super) fn send_at(&self) -> Nanos {
        let at = |grant: &Option<super::ReceiptSet>| grant.as_ref().map(super::ReceiptSet::send_at);
        at(&self.own).max(at(&self.shared)).unwrap_or(self.granted)
    }
}

impl AdmissionState {
    /// A permit is given back by whoever held it.
    pub(in crate::upstream) fn refund(&mut self, flight: usize, now: Nanos) {
        if self.after.heard
            && let Some(known) = self.flights.get(flight)
        {
            let (permit, lane) = (known.id, known.lane);
            let group = self.lane(lane).name.clone();
            self.emit(EventKind::Refunded { group, permit });
        }
        self.hand_back(flight, now);
        self.call_those_who_may_go(now);
    }

    /// An attempt was answered, or will not be. What is left of it is its body.
    pub(in crate::upstream) fn answered(
        &mut self,
        flight: usize,
        sent: Option<Nanos>,
        answer: &AttemptResult<'_>,
        now: Nanos,
    ) -> Option<(Verdict, ResponseInProgress)> {
        let mut flight = self.flights.try_remove(flight)?;
        let sent = SentAttempt {
            id: flight.id,
            lane: flight.lane,
            cost: flight.cost,
            at: sent.unwrap_or(flight.granted),
        };
        self.land(&mut flight, sent, answer, now);
        let attempt = self.attempt(answer);
        let judged = self.rules.policy.classify(&attempt);
        let effect = judged.outcome.effect();
        let mut open = ResponseInProgress {
            id: sent.id,
            lane: sent.lane,
            ward: flight.ward,
            ticket: Some(flight.ticket),
        };
        // Health first: a limit that shrinks begins a new wave, and what began it belongs to the old.
        if effect != OutcomeClass::Success {
            self.record(&mut open, judged.outcome, now);
        }
        // What is told of a refusal counts that refusal.
        self.emit_settled(sent, attempt, effect, now);
        if let Some(headers) = answer.headers() {
            self.read_hints(sent, headers, flight.marks.as_deref(), (effect, now));
        }
        let lesson = self.learn(sent, &judged.outcome, now);
        self.call_if_freed(now);
        let verdict = Verdict {
            effect,
            retry: judged.retry,
            retry_after: judged.outcome.retry_after(),
            lesson,
        };
        Some((verdict, open))
    }

    /// The body ended, or its reader left: all was well.
    pub(in crate::upstream) fn ended(&mut self, mut open: ResponseInProgress, now: Nanos) {
        self.record(&mut open, Outcome::SUCCESS, now);
        self.leave(&open, now);
    }

    /// The body broke.
    pub(in crate::upstream) fn broke(
        &mut self,
        mut open: ResponseInProgress,
        answer: &AttemptResult<'_>,
        now: Nanos,
    ) -> Verdict {
        let attempt = self.attempt(answer);
        let judged = self.rules.policy.classify(&attempt);
        let effect = judged.outcome.effect();
        self.record(&mut open, judged.outcome, now);
        self.emit_broken(&open, attempt, effect, now);
        self.leave(&open, now);
        Verdict {
            effect,
            retry: judged.retry,
            retry_after: None,
            lesson: LimitFeedback::None,
        }
    }

    /// A body that may never end has begun to flow: that is all a probe wants to know.
    pub(in crate::upstream) fn flowing(&mut self, open: &mut ResponseInProgress, now: Nanos) {
        self.record(open, Outcome::SUCCESS, now);
        self.call_if_freed(now);
    }

    fn leave(&mut self, open: &ResponseInProgress, now: Nanos) {
        let ward = self.circuit_mut(open.ward);
        ward.in_flight = ward.in_flight.saturating_sub(1);
        self.call_if_freed(now);
    }

    fn record(&mut self, open: &mut ResponseInProgress, outcome: Outcome, now: Nanos) {
        let Some(ticket) = open.ticket.take() else {
            return;
        };
        let entropy = self.random.u64(..);
        let ward = self.circuit_mut(open.ward);
        let change = ward.health.record(now, ticket, outcome, entropy);
        self.changed(open.ward, change, now);
    }

    /// Tells the limits when the call arrived, as late as that can have been.
    fn land(
        &mut self,
        flight: &mut InFlightAttempt,
        sent: SentAttempt,
        answer: &AttemptResult<'_>,
        now: Nanos,
    ) {
        let (own, shared) = (flight.own.take(), flight.shared.take());
        if answer.is_unsent() {
            self.held_until = Nanos::ZERO;
            self.rest_landed(sent.lane, flight.rest, ArrivalCount::Never, now);
            self.own(sent.lane, now).refund(now, own);
            self.shared.refund(now, shared);
            return;
        }
        self.rest_landed(sent.lane, flight.rest, ArrivalCount::Counts, now);
        let (journey, floor) = self.journey(sent.at, answer, now);
        let limits = self.own(sent.lane, now);
        limits.settle(now, own, journey, floor);
        self.shared.settle(now, shared, journey, floor);
    }

    fn journey(
        &mut self,
        sent: Nanos,
        answer: &AttemptResult<'_>,
        now: Nanos,
    ) -> (RequestTiming, Option<Duration>) {
        match answer.ended() {
            AttemptEnd::Status(_) => {
                let floor = self.trips.observe(now, now.since(sent));
                (
                    RequestTiming::Answered {
                        sent,
                        answered: now,
                    },
                    floor,
                )
            }
            AttemptEnd::Fault(_) | AttemptEnd::Cancelled => {
                let until = sent.saturating_add(self.rules.timeout).max(now);
                (RequestTiming::Lost { until }, self.trips.floor(now))
            }
        }
    }

    /// The facts of an answer, its headers read.
    fn attempt(&self, answer: &AttemptResult<'_>) -> AttemptReport {
        let attempt = answer.attempt();
        let read = answer
            .headers()
            .and_then(|headers| self.retry_after(headers));
        let wait = read.and_then(|read| read.wait());
        if wait.is_none() && answer.ended() == AttemptEnd::Status(403) {
            return self.forbidden(answer);
        }
        let attempt = wait.map_or(attempt, |wait| attempt.with_retry_after(wait));
        if answer.shows_a_limit() || wait.is_some() {
            return attempt.with_rate_limit_signs();
        }
        attempt
    }

    /// A 403 without `Retry-After` is a ban all the same where its headers say that nothing is left:
    /// some providers refuse so, and name the wait only as the reset of their window.
    fn forbidden(&self, answer: &AttemptResult<'_>) -> AttemptReport {
        let hints = answer.headers().map(|headers| self.hints(headers));
        let empty = hints.as_ref().and_then(|hints| {
            let mut all = hints.iter();
            all.find(|hint| hint.remaining == Some(0))
        });
        let attempt = answer.attempt();
        match (empty, answer.shows_a_limit()) {
            (None, false) => attempt,
            (None, true) => attempt.with_rate_limit_signs(),
            (Some(hint), _) => {
                let longest = WaitBounds::default().max_honour();
                let wait = hint.resets_in.map(|span| span.min(longest));
                let attempt = wait.map_or(attempt, |wait| attempt.with_retry_after(wait));
                attempt.with_rate_limit_signs()
            }
        }
    }

    /// What the headers say of limits.
    pub(super) fn hints(&self, headers: &HeaderMap) -> Hints {
        let pairs = headers
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_bytes()));
        Hints::read(pairs, self.rules.dialects, self.came(headers))
    }

    pub(super) fn retry_after(&self, headers: &HeaderMap) -> Option<RetryAfter> {
        if !headers.contains_key(http::header::RETRY_AFTER) {
            return None;
        }
        let after = headers.get_all(http::header::RETRY_AFTER);
        let values = after.iter().map(http::HeaderValue::as_bytes);
        RetryAfter::read_all(values, self.came(headers), WaitBounds::default())
    }

    pub(super) fn came<'a>(&self, headers: &'a HeaderMap) -> ResponseTime<'a> {
        let date = headers
            .get(http::header::DATE)
            .map(http::HeaderValue::as_bytes);
        ResponseTime {
            date,
            wall: self.wall_seen.wall,
        }
    }

    fn emit_broken(
        &mut self,
        open: &ResponseInProgress,
        attempt: AttemptReport,
        effect: OutcomeClass,
        now: Nanos,
    ) {
        if self.after.heard {
            let (group, vitals) = (
                self.lane(open.lane).name.clone(),
                self.vitals(open.ward, now),
            );
            self.emit(EventKind::Broken {
                group,
                permit: open.id,
                attempt,
                effect,
                vitals,
            });
        }
    }

    fn emit_settled(
        &mut self,
        sent: SentAttempt,
        attempt: AttemptReport,
        effect: OutcomeClass,
        now: Nanos,
    ) {
        if !self.after.heard {
            return;
        }
        let answered = matches!(attempt.ended(), AttemptEnd::Status(_));
        let group = self.lane(sent.lane).name.clone();
        let ward = self.lane(sent.lane).ward;
        let badly = !matches!(
            effect,
            OutcomeClass::Success | OutcomeClass::Neutral | OutcomeClass::Cancelled
        );
        let vitals = badly.then(|| self.vitals(ward, now));
        self.emit(EventKind::Settled {
            group,
            permit: sent.id,
            attempt,
            effect,
            round_trip: answered.then(|| now.since(sent.at)),
            vitals,
        });
        self.emit_meter_events(sent.lane);
    }
}
