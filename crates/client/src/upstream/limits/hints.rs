//! What a server says of these limits, against what was counted here.

use outflow_core::{
    CountBy, Evidence, Hint, Limit, LimitChange, LocalUsage, Nanos, UsageCorrection, UsageMark,
};

use super::limit_state::LimitState;
use super::{HintResult, Refused, ScopeLimits};

impl ScopeLimits {
    /// Where things stand as a call is sent, for the headers of its answer.
    pub(in crate::upstream) fn marks(&mut self, now: Nanos) -> Vec<UsageMark> {
        let standings = self.meters.standings(now);
        let marked = |((_, standing), moving): ((_, _), &LimitState)| moving.ledger.mark(&standing);
        standings.zip(&self.moving).map(marked).collect()
    }

    /// Compares a hint with the limit it is about. That nothing is left is news only after a refusal
    /// or where strangers had a part in it: otherwise our own meter knows it, and more exactly.
    pub(in crate::upstream) fn correct(
        &mut self,
        now: Nanos,
        hint: &Hint,
        marks: Option<&[UsageMark]>,
        refused: Refused,
    ) -> Option<HintResult> {
        let place = self.meant(hint)?;
        let (limit, moving) = (self.configured.get(place)?, self.moving.get_mut(place)?);
        let mark = marks.and_then(|marks| marks.get(place));
        let mut correction = match mark {
            Some(mark) => moving.ledger.correct(hint, limit, *mark, now),
            None => UsageCorrection::new(hint, &unmarked(*limit), now),
        };
        if correction.foreign > 0 {
            self.meters.charge(now, place, correction.foreign);
        }
        if refused == Refused::Yes || correction.foreign > 0 {
            let until = correction.until.unwrap_or_default();
            if until > self.parked {
                (self.parked, self.parked_by) = (until, Some(limit.rate()));
            }
        }
        let told = correction.limit.map(Evidence::Limit);
        let reaction = told.map_or(LimitChange::Unmoved, |told| {
            moving.learned.evidence(now, told)
        });
        // What answers took is our own use, and no news of strangers.
        if limit.measure() == CountBy::OutputTokens {
            correction.foreign = 0;
        }
        Some(HintResult {
            correction,
            reaction,
        })
    }

    /// The limit that a hint is about: of those that count what it counts the one of its window, or
    /// of its size, or the only one. Where calls are counted apart from costs, requests are calls.
    fn meant(&self, hint: &Hint) -> Option<usize> {
        let told = |limit: &Limit| limit.measure().is_reported_in(hint.unit);
        let precise = |limit: &Limit| told(limit) && limit.measure() != CountBy::Cost;
        let any_precise = self.configured.iter().any(precise);
        let heard = |limit: &Limit| told(limit) && precise(limit) == any_precise;
        let by_window = |limit: &Limit| hint.window == Some(limit.rate().per());
        let by_size = |limit: &Limit| hint.window.is_none() && hint.limit == Some(limit.capacity());
        let place = |is: &dyn Fn(&Limit) -> bool| {
            let mut limits = self.configured.iter();
            limits.position(|limit| heard(limit) && is(limit))
        };
        let several = self.configured.iter().filter(|limit| heard(limit)).count() > 1;
        let only = || place(&|_| !several);
        place(&by_window).or_else(|| place(&by_size)).or_else(only)
    }
}

/// Nothing is known of what was sent before this call: nobody else can be told from ourselves.
const fn unmarked(limit: Limit) -> LocalUsage {
    LocalUsage {
        limit,
        counted_at_send: u64::MAX,
        added_since: 0,
    }
}
