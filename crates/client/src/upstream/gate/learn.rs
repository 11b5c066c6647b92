//! What an answer says of the limits: in its headers, by refusing, by letting pass.

use http::HeaderMap;
use outflow_core::{Adaptive, Effect, Outcome, Reaction, RetryAfter};
use smol_str::SmolStr;

use super::super::limits::{Charge, Heard, Refused};
use super::super::part::{Part, Seen};
use super::super::permit::Lesson;
use super::settle::Sent;
use super::{Gate, Hinting, Marks, Nanos, What};

impl Gate {
    /// From now on so much of what uses these limits is seen here.
    pub(in crate::upstream) const fn sees(&mut self, part: Part, now: Nanos) {
        self.seen = Seen::told(part, now);
    }

    /// What the server said of its limits.
    pub(super) fn hear(
        &mut self,
        sent: Sent,
        headers: &HeaderMap,
        marks: Option<&Marks>,
        (effect, now): (Effect, Nanos),
    ) {
        let hints = self.hints(headers);
        self.tell_malformed(headers, hints.malformed());
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
                self.heed(sent.lane, group, heard, now);
            }
        }
    }

    fn tell_malformed(&mut self, headers: &HeaderMap, hints: u32) {
        if !self.after.heard {
            return;
        }
        let garbage = matches!(self.retry_after(headers), Some(RetryAfter::Ignored(_)));
        let headers = hints.saturating_add(garbage.into());
        if headers > 0 {
            self.tell(What::Malformed { headers });
        }
    }

    fn heed(&mut self, lane: u32, group: Option<SmolStr>, heard: Heard, now: Nanos) {
        if heard.correction.foreign > 0 {
            let units = heard.correction.foreign;
            self.tell(What::Foreign { group, units });
        }
        match heard.reaction {
            Reaction::Shrunk => self.shrunk(lane, now),
            Reaction::Raised => self.grown(lane, now),
            Reaction::SameWave | Reaction::Unmoved => {}
        }
    }

    /// What follows for the limits: a refusal lowers them, a success lets them grow back.
    pub(super) fn learn(&mut self, sent: Sent, outcome: &Outcome, now: Nanos) -> Lesson {
        if self.rules.adaptive == Adaptive::Off {
            return Lesson::None;
        }
        let charge = match outcome.effect() {
            Effect::Success => {
                self.grow(sent, now);
                return Lesson::None;
            }
            Effect::Throttled => Charge::Throttled { sent: sent.at },
            Effect::Banned => {
                let until = now.saturating_add(outcome.retry_after().unwrap_or_default());
                Charge::Banned {
                    sent: sent.at,
                    until,
                }
            }
            _ => return Lesson::None,
        };
        let part = self.seen.at(now);
        let own = self.own(sent.lane, now).fullness(now);
        let reaction = if self.shared.fullness(now) > own {
            self.shared.accused(now, &charge, part)
        } else {
            self.own(sent.lane, now).accused(now, &charge, part)
        };
        if reaction == Reaction::Shrunk {
            self.shrunk(sent.lane, now);
        }
        match (charge, reaction) {
            (Charge::Throttled { .. }, Reaction::Shrunk | Reaction::SameWave) => Lesson::Lowered,
            // A ban is not over when a limit is lower.
            (Charge::Throttled { .. } | Charge::Banned { .. }, _) => Lesson::None,
        }
    }

    fn grow(&mut self, sent: Sent, now: Nanos) {
        self.ward_of(sent.lane).caution.passed();
        let part = self.seen.at(now);
        let own = self.own(sent.lane, now).passed(now, sent.cost, part);
        let shared = self.shared.passed(now, sent.cost, part);
        if own || shared {
            self.grown(sent.lane, now);
        }
    }

    fn grown(&mut self, lane: u32, now: Nanos) {
        let ward = self.lane(lane).ward;
        self.retune(ward, now);
        self.tell_drift(now);
    }

    /// A limit shrank: what is still in flight was sent under the old one and says nothing new.
    fn shrunk(&mut self, lane: u32, now: Nanos) {
        let ward = self.lane(lane).ward;
        self.ward(ward).health.begin_wave(now);
        self.ward(ward).lowered(now);
        self.retune(ward, now);
        self.tell_drift(now);
    }

    fn tell_drift(&mut self, now: Nanos) {
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
            self.tell(What::Drifting { group, drift });
        }
    }
}
