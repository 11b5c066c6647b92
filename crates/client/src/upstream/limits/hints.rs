//! Hints of a server about the limits, compared with the local usage.

use outflow_core::{CountBy, Evidence, Hint, Limit, LimitChange, LocalUsage, Nanos, UsageCorrection, UsageMark};

use super::limit_state::LimitState;
use super::{HintResult, ScopeLimits, ScopeWait};

impl ScopeLimits {
    /// Marks the usage when an attempt is sent, to compare it with the hints of the response.
    pub(in crate::upstream) fn mark_usage(&mut self, now: Nanos) -> Vec<UsageMark> {
        let limits = self.meters.statuses(now);
        let mark = |((_, status), state): ((_, _), &LimitState)| state.ledger.mark(&status);
        limits.zip(&self.states).map(mark).collect()
    }

    /// Compares a hint with its limit and corrects the usage. An empty quota matters only after a
    /// throttle response or foreign usage: the local meter knows its own usage more exactly.
    pub(in crate::upstream) fn apply_hint(
        &mut self,
        now: Nanos,
        hint: &Hint,
        marks: Option<&[UsageMark]>,
        throttled: bool,
    ) -> Option<HintResult> {
        let index = self.find_hinted(hint)?;
        let (limit, state) = (self.configured.get(index)?, self.states.get_mut(index)?);
        let mark = marks.and_then(|marks| marks.get(index));
        let mut correction = match mark {
            Some(mark) => state.ledger.correct(hint, limit, *mark, now),
            None => UsageCorrection::new(hint, &unmarked_usage(*limit), now),
        };
        correction.foreign = self.without_peers(index, correction.foreign, now);
        if correction.foreign > 0 {
            self.charge_strangers(now, index, correction.foreign);
        }
        let (limit, state) = (self.configured.get(index)?, self.states.get_mut(index)?);
        let until = correction.until.unwrap_or_default();
        let waits = (throttled || correction.foreign > 0) && until > self.cooldown.until;
        if waits {
            self.cooldown = ScopeWait {
                until,
                limit: Some(limit.rate()),
            };
        }
        let advertised = correction.limit.map(Evidence::Limit);
        let reaction = advertised.map_or(LimitChange::Unmoved, |evidence| state.adaptive.evidence(now, evidence));
        // Tokens of responses are local usage, not foreign.
        if limit.measure() == CountBy::OutputTokens {
            correction.foreign = 0;
        }
        Some(HintResult {
            correction,
            reaction,
            waits,
        })
    }

    /// Returns the limit of a hint: of those with its unit the one with its window, or with its size, or
    /// the only one. Where calls are counted apart from costs, requests are calls.
    fn find_hinted(&self, hint: &Hint) -> Option<usize> {
        let has_unit = |limit: &Limit| limit.measure().is_reported_in(hint.unit);
        let precise = |limit: &Limit| has_unit(limit) && limit.measure() != CountBy::Cost;
        let any_precise = self.configured.iter().any(precise);
        let matches = |limit: &Limit| has_unit(limit) && precise(limit) == any_precise;
        let by_window = |limit: &Limit| hint.window == Some(limit.rate().per());
        let by_size = |limit: &Limit| hint.window.is_none() && hint.limit == Some(limit.capacity());
        let find = |is: &dyn Fn(&Limit) -> bool| {
            let mut limits = self.configured.iter();
            limits.position(|limit| matches(limit) && is(limit))
        };
        let several = self.configured.iter().filter(|limit| matches(limit)).count() > 1;
        let only = || find(&|_| !several);
        find(&by_window).or_else(|| find(&by_size)).or_else(only)
    }
}

/// Returns a usage without a mark: foreign usage cannot be separated from it.
const fn unmarked_usage(limit: Limit) -> LocalUsage {
    LocalUsage {
        limit,
        counted_at_send: u64::MAX,
        added_since: 0,
    }
}
