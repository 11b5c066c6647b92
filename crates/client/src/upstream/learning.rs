//! What an answer says of the limits: in its headers, by refusing, by letting pass.

use http::HeaderMap;
use outflow_core::{AdaptiveMode, LimitChange, Outcome, OutcomeClass, RetryAfter};
use smol_str::SmolStr;

use super::super::fleet_share::{FleetShare, ShareEstimate};
use super::super::limits::{HintResult, Refused, ThrottleEvidence};
use super::super::permit::LimitFeedback;
use super::complete::SentAttempt;
use super::{AdmissionState, EventKind, Hinting, LimitMarks, Nanos};

impl AdmissionState {
    /// From now on so much of what uses these limits is seen here.
    pub(in crate::upstream) const fn sees(&mut self, part: FleetShare, now: Nanos) {
        self.seen = ShareEstimate::new(part, now);
    }

    /// What the server said of its limits.
    pub(super) fn read_hints(
        &mut self,
        sent: SentAttempt,
        headers: &HeaderMap,
        marks: Option<&LimitMarks>,
        (effect, now): (OutcomeClass, Nanos),
    ) {
        let hints = self.hints(headers);
        self.emit_malformed(headers, hints.malformed());
        if hints.iter().next().is_some() {
            self.hints = Hinting::Yes;
        }
        let refused = Refused::by(effect);
        for hint in hints.iter() {
            let (own, shared) = (marks.map(|all| &*all.own), marks.map(|all| &*all.shared));
            let heard = self.own(sent.lane, now).correct(now, hint, own, refused);
            let group = heard.map(|_| self.lane(sent.lane).name.clone());
            let heard = heard.or_else(|| self.shared.correct(now, hint, shared, refused));
            if let Some(heard) = heard {
                self.apply_hints(sent.lane, group, heard, now);
            }
        }
    }

    fn emit_malformed(&mut self, headers: &HeaderMap, hints: u32) {
        if !self.after.heard {
            return;
        }
        let garbage = matches!(self.retry_after(headers), Some(RetryAfter::Ignored(_)));
        let headers = hints.saturating_add(garbage.into());
        if headers > 0 {
            self.emit(EventKind::Malformed { headers });
        }
    }

    fn apply_hints(&mut self, lane: u32, group: Option<SmolStr>, heard: HintResult, now: Nanos) {
        if heard.correction.foreign > 0 {
            let units = heard.correction.foreign;
            self.emit(EventKind::Foreign { group, units });
        }
        match heard.reaction {
            LimitChange::Shrunk => self.shrunk(lane, now),
            LimitChange::Raised => self.grown(lane, now),
            LimitChange::SameWave | LimitChange::Unmoved => {}
        }
    }

    /// What follows for the limits: a refusal lowers them, a success lets them grow back.
    pub(super) fn learn(
        &mut self,
        sent: SentAttempt,
        outcome: &Outcome,
        now: Nanos,
    ) -> LimitFeedback {
        if self.rules.adaptive == AdaptiveMode::Off {
            return LimitFeedback::None;
        }
        let charge = match outcome.effect() {
            OutcomeClass::Success => {
                self.grow(sent, now);
                return LimitFeedback::None;
            }
            OutcomeClass::Throttled => ThrottleEvidence::Throttled { sent: sent.at },
            OutcomeClass::Banned => {
                let until = now.saturating_add(outcome.retry_after().unwrap_or_default());
                ThrottleEvidence::Banned {
                    sent: sent.at,
                    until,
                }
            }
            _ => return LimitFeedback::None,
        };
        let part = self.seen.current(now);
        let own = self.own(sent.lane, now).fullness(now);
        let reaction = if self.shared.fullness(now) > own {
            self.shared.accused(now, &charge, part)
        } else {
            self.own(sent.lane, now).accused(now, &charge, part)
        };
        if reaction == LimitChange::Shrunk {
            self.shrunk(sent.lane, now);
        }
        match (charge, reaction) {
            (ThrottleEvidence::Throttled { .. }, LimitChange::Shrunk | LimitChange::SameWave) => {
                LimitFeedback::Lowered
            }
            // A ban is not over when a limit is lower.
            (ThrottleEvidence::Throttled { .. } | ThrottleEvidence::Banned { .. }, _) => {
                LimitFeedback::None
            }
        }
    }

    fn grow(&mut self, sent: SentAttempt, now: Nanos) {
        self.circuit_for(sent.lane).caution.passed();
        let part = self.seen.current(now);
        let own = self.own(sent.lane, now).passed(now, sent.cost, part);
        let shared = self.shared.passed(now, sent.cost, part);
        if own || shared {
            self.grown(sent.lane, now);
        }
    }

    fn grown(&mut self, lane: u32, now: Nanos) {
        let ward = self.lane(lane).ward;
        self.retune(ward, now);
        self.emit_drift(now);
    }

    /// A limit shrank: what is still in flight was sent under the old one and says nothing new.
    fn shrunk(&mut self, lane: u32, now: Nanos) {
        let ward = self.lane(lane).ward;
        self.circuit_mut(ward).health.begin_wave(now);
        self.circuit_mut(ward).lowered(now);
        self.retune(ward, now);
        self.emit_drift(now);
    }

    fn emit_drift(&mut self, now: Nanos) {
        if !self.after.heard {
            return;
        }
        let shared = self.shared.drift_news(now).map(|drift| (None, drift));
        let mut news: Vec<_> = shared.collect();
        for lane in &mut self.lanes {
            let name = lane.name.clone();
            let own = lane.used_limits().into_iter();
            let own = own.flat_map(|limits| limits.drift_news(now));
            news.extend(own.map(|drift| (Some(name.clone()), drift)));
        }
        for (group, drift) in news {
            self.emit(EventKind::Drifting { group, drift });
        }
    }
}
