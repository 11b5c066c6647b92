//! The table that maps an attempt's end to its handling.
//!
//! Health, retries and the circuit all use this table. Three classifiers would soon disagree. A row
//! names its match and the handling; an API overrides rows, and the last override that matches
//! wins. The table knows no budgets, deadlines or idempotency: a retryable attempt still needs a
//! permit for its retry.

use alloc::vec::Vec;

use crate::outcome::{AttemptEnd, AttemptReport, Fault, Outcome, OutcomeClass};

/// Handling of each end of an attempt.
///
/// ```
/// use outflow_core::{AttemptReport, OutcomeClass, Policy, Retryability, PolicyRule, Handling, RuleMatch};
///
/// let policy = Policy::default();
/// assert_eq!(policy.classify(&AttemptReport::status(503)).retry, Retryability::Worthwhile);
///
/// // An API where a 401 means that its session store is down.
/// let counting = Policy::with(&[PolicyRule {
///     when: RuleMatch::Status(401),
///     then: Handling::failing(OutcomeClass::OtherFailed).not_retryable(),
/// }]);
/// let judged = counting.classify(&AttemptReport::status(401));
/// assert_eq!(judged.outcome.effect(), OutcomeClass::OtherFailed);
/// assert_eq!(judged.retry, Retryability::Pointless);
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Policy {
    overrides: Vec<PolicyRule>,
}

impl Policy {
    /// Builds the default table with these rows laid over it; of two that match, the later one
    /// wins.
    pub fn with(overrides: &[PolicyRule]) -> Self {
        Self {
            overrides: overrides.to_vec(),
        }
    }

    /// Classifies an attempt. Allocates nothing.
    pub fn classify(&self, attempt: &AttemptReport) -> Classification {
        let treatment = self.treatment(attempt);
        let outcome = Outcome::from_class(treatment.effect);
        Classification {
            outcome: match (treatment.waiting, attempt.retry_after()) {
                (RetryAfterUse::Obey, Some(span)) => outcome.with_retry_after(span),
                (RetryAfterUse::Obey, None) | (RetryAfterUse::Ignore, _) => outcome,
            },
            retry: treatment.retry,
        }
    }

    /// Returns the handling of an attempt.
    pub fn treatment(&self, attempt: &AttemptReport) -> Handling {
        self.overrides
            .iter()
            .rev()
            .chain(DEFAULT_RULES.iter())
            .find(|rule| rule.when.matches(attempt))
            .map_or(Handling::NEUTRAL, |rule| rule.then)
    }
}

/// Classification of one attempt.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Classification {
    /// Effect on health.
    pub outcome: Outcome,
    /// Retryability of the attempt.
    pub retry: Retryability,
}

/// Row of the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PolicyRule {
    /// Match of the row.
    pub when: RuleMatch,
    /// Handling of a match.
    pub then: Handling,
}

/// Match of a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RuleMatch {
    /// This status.
    Status(u16),
    /// Any status from the first to the last, both included.
    Statuses(u16, u16),
    /// This status together with the signs of a rate limit.
    RateLimited(u16),
    /// This fault.
    Fault(Fault),
    /// The caller cancelled.
    Cancelled,
}

impl RuleMatch {
    fn matches(self, attempt: &AttemptReport) -> bool {
        match (self, attempt.ended()) {
            (Self::Status(wanted), AttemptEnd::Status(code)) => wanted == code,
            (Self::Statuses(first, last), AttemptEnd::Status(code)) => (first..=last).contains(&code),
            (Self::RateLimited(wanted), AttemptEnd::Status(code)) => wanted == code && attempt.is_rate_limited(),
            (Self::Fault(wanted), AttemptEnd::Fault(fault)) => wanted == fault,
            (Self::Cancelled, AttemptEnd::Cancelled) => true,
            _ => false,
        }
    }
}

/// Handling of a match.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Handling {
    /// Class of the outcome.
    pub effect: OutcomeClass,
    /// Retryability of the attempt.
    pub retry: Retryability,
    /// Use of the server's `Retry-After`.
    pub waiting: RetryAfterUse,
}

impl Handling {
    /// A success.
    pub const SUCCESS: Self = Self::without_retry(OutcomeClass::Success);
    /// Counts as neither good nor bad.
    pub const NEUTRAL: Self = Self::without_retry(OutcomeClass::Neutral);
    /// Counts as nothing, not even as a response.
    pub const CANCELLED: Self = Self::without_retry(OutcomeClass::Cancelled);
    /// Banned until the server's time. Further attempts only lengthen most bans.
    pub const BAN: Self = Self::without_retry(OutcomeClass::Banned).obeying();
    /// Throttled by the server.
    pub const THROTTLED: Self = Self::failing(OutcomeClass::Throttled).obeying();
    /// A throttle that is obeyed and retried but does not count against health. A plain circuit
    /// breaker treats a 429 so, because it reports our speed and not the server's state.
    pub const SLOW_DOWN: Self = Self::failing(OutcomeClass::Neutral).obeying();

    /// Counts as `effect` and is retryable.
    pub const fn failing(effect: OutcomeClass) -> Self {
        Self {
            effect,
            retry: Retryability::Worthwhile,
            waiting: RetryAfterUse::Ignore,
        }
    }

    /// Obeys the server's `Retry-After`.
    #[must_use]
    pub const fn obeying(mut self) -> Self {
        self.waiting = RetryAfterUse::Obey;
        self
    }

    /// Disables retries.
    #[must_use]
    pub const fn not_retryable(mut self) -> Self {
        self.retry = Retryability::Pointless;
        self
    }

    const fn without_retry(effect: OutcomeClass) -> Self {
        Self::failing(effect).not_retryable()
    }
}

/// Prospect of another attempt.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Retryability {
    /// Another attempt could end better.
    Worthwhile,
    /// Another attempt would end the same way, or nothing needs to improve.
    Pointless,
}

/// Use of a `Retry-After`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RetryAfterUse {
    /// It is obeyed.
    Obey,
    /// It is ignored: on a redirect or a success it has another meaning.
    Ignore,
}

const fn row(when: RuleMatch, then: Handling) -> PolicyRule {
    PolicyRule { when, then }
}

/// The default table; the first row that matches wins. Ends without a row (1xx, other 4xx, codes
/// beyond 599) are neutral.
const DEFAULT_RULES: [PolicyRule; 16] = [
    row(RuleMatch::Statuses(200, 399), Handling::SUCCESS),
    row(RuleMatch::Status(429), Handling::THROTTLED),
    row(RuleMatch::Status(418), Handling::BAN),
    row(RuleMatch::RateLimited(403), Handling::BAN),
    // The only server error with a defined wait.
    row(
        RuleMatch::Status(503),
        Handling::failing(OutcomeClass::ServerFailed).obeying(),
    ),
    // A loop of gateways: no server is failing, and another attempt would repeat the loop.
    row(RuleMatch::Status(508), Handling::NEUTRAL),
    row(
        RuleMatch::Statuses(500, 599),
        Handling::failing(OutcomeClass::ServerFailed),
    ),
    network(Fault::ConnectTimeout),
    network(Fault::ReadTimeout),
    network(Fault::Dns),
    network(Fault::Reset),
    network(Fault::TlsHandshake),
    network(Fault::TruncatedBody),
    row(
        RuleMatch::Fault(Fault::TlsCertificate),
        Handling::failing(OutcomeClass::NetworkFailed).not_retryable(),
    ),
    row(
        RuleMatch::Fault(Fault::InvalidResponse),
        Handling::failing(OutcomeClass::NetworkFailed).not_retryable(),
    ),
    row(RuleMatch::Cancelled, Handling::CANCELLED),
];

const fn network(fault: Fault) -> PolicyRule {
    row(RuleMatch::Fault(fault), Handling::failing(OutcomeClass::NetworkFailed))
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::*;

    const WAIT: Duration = Duration::from_secs(7);

    // One line per cell: the end, its class, its retryability, and if a Retry-After of 7 s is
    // obeyed. 226, 399, 501, 505 and 599 are the ends and gaps of the ranges.
    #[test]
    fn every_cell_of_the_default_table_holds() {
        use OutcomeClass::{Banned, Cancelled, NetworkFailed, Neutral, ServerFailed, Success, Throttled};
        use RetryAfterUse::{Ignore, Obey};
        use Retryability::{Pointless, Worthwhile};
        let signed = AttemptReport::status(403).with_rate_limit_signs();
        let cells = [
            (AttemptReport::status(100), Neutral, Pointless, Ignore),
            (AttemptReport::status(199), Neutral, Pointless, Ignore),
            (AttemptReport::status(200), Success, Pointless, Ignore),
            (AttemptReport::status(204), Success, Pointless, Ignore),
            (AttemptReport::status(226), Success, Pointless, Ignore),
            (AttemptReport::status(301), Success, Pointless, Ignore),
            (AttemptReport::status(304), Success, Pointless, Ignore),
            (AttemptReport::status(399), Success, Pointless, Ignore),
            (AttemptReport::status(400), Neutral, Pointless, Ignore),
            (AttemptReport::status(401), Neutral, Pointless, Ignore),
            (AttemptReport::status(403), Neutral, Pointless, Ignore),
            (signed, Banned, Pointless, Obey),
            (AttemptReport::status(404), Neutral, Pointless, Ignore),
            (AttemptReport::status(408), Neutral, Pointless, Ignore),
            (AttemptReport::status(418), Banned, Pointless, Obey),
            (AttemptReport::status(422), Neutral, Pointless, Ignore),
            (AttemptReport::status(429), Throttled, Worthwhile, Obey),
            (AttemptReport::status(451), Neutral, Pointless, Ignore),
            (AttemptReport::status(500), ServerFailed, Worthwhile, Ignore),
            (AttemptReport::status(501), ServerFailed, Worthwhile, Ignore),
            (AttemptReport::status(508), Neutral, Pointless, Ignore),
            (AttemptReport::status(502), ServerFailed, Worthwhile, Ignore),
            (AttemptReport::status(503), ServerFailed, Worthwhile, Obey),
            (AttemptReport::status(504), ServerFailed, Worthwhile, Ignore),
            (AttemptReport::status(505), ServerFailed, Worthwhile, Ignore),
            (AttemptReport::status(599), ServerFailed, Worthwhile, Ignore),
            (AttemptReport::status(600), Neutral, Pointless, Ignore),
            (AttemptReport::status(0), Neutral, Pointless, Ignore),
            (AttemptReport::status(u16::MAX), Neutral, Pointless, Ignore),
            (
                AttemptReport::fault(Fault::ConnectTimeout),
                NetworkFailed,
                Worthwhile,
                Ignore,
            ),
            (
                AttemptReport::fault(Fault::ReadTimeout),
                NetworkFailed,
                Worthwhile,
                Ignore,
            ),
            (AttemptReport::fault(Fault::Dns), NetworkFailed, Worthwhile, Ignore),
            (AttemptReport::fault(Fault::Reset), NetworkFailed, Worthwhile, Ignore),
            (
                AttemptReport::fault(Fault::TlsHandshake),
                NetworkFailed,
                Worthwhile,
                Ignore,
            ),
            (
                AttemptReport::fault(Fault::TlsCertificate),
                NetworkFailed,
                Pointless,
                Ignore,
            ),
            (
                AttemptReport::fault(Fault::TruncatedBody),
                NetworkFailed,
                Worthwhile,
                Ignore,
            ),
            (
                AttemptReport::fault(Fault::InvalidResponse),
                NetworkFailed,
                Pointless,
                Ignore,
            ),
            (AttemptReport::cancelled(), Cancelled, Pointless, Ignore),
        ];
        for (attempt, effect, retry, waiting) in cells {
            let judged = Policy::default().classify(&attempt.with_retry_after(WAIT));
            let obeyed = (waiting == Obey).then_some(WAIT);
            assert_eq!(judged.outcome.effect(), effect, "{attempt:?}");
            assert_eq!(judged.retry, retry, "{attempt:?}");
            assert_eq!(judged.outcome.retry_after(), obeyed, "{attempt:?}");
        }
    }

    #[test]
    fn without_a_retry_after_there_is_no_wait() {
        let judged = Policy::default().classify(&AttemptReport::status(429));
        assert_eq!(judged.outcome, Outcome::THROTTLED);
    }

    // The opposite reading of the table: refused credentials count, a throttle does not.
    #[test]
    fn an_override_changes_its_row_and_no_other() {
        let policy = Policy::with(&[
            PolicyRule {
                when: RuleMatch::Statuses(400, 403),
                then: Handling::failing(OutcomeClass::OtherFailed).not_retryable(),
            },
            PolicyRule {
                when: RuleMatch::Status(429),
                then: Handling::SLOW_DOWN,
            },
            PolicyRule {
                when: RuleMatch::Cancelled,
                then: Handling::SUCCESS,
            },
        ]);
        let effect = |attempt: AttemptReport| policy.classify(&attempt).outcome.effect();
        assert_eq!(effect(AttemptReport::status(401)), OutcomeClass::OtherFailed);
        assert_eq!(effect(AttemptReport::status(403)), OutcomeClass::OtherFailed);
        assert_eq!(effect(AttemptReport::status(404)), OutcomeClass::Neutral);
        assert_eq!(effect(AttemptReport::status(500)), OutcomeClass::ServerFailed);
        assert_eq!(effect(AttemptReport::cancelled()), OutcomeClass::Success);
        let slowed = policy.classify(&AttemptReport::status(429).with_retry_after(WAIT));
        assert_eq!(slowed.outcome, Outcome::NEUTRAL.with_retry_after(WAIT));
        assert_eq!(slowed.retry, Retryability::Worthwhile);
    }

    #[test]
    fn of_two_overrides_the_later_wins() {
        let rule = |then| PolicyRule {
            when: RuleMatch::Status(404),
            then,
        };
        let policy = Policy::with(&[rule(Handling::BAN), rule(Handling::SUCCESS)]);
        assert_eq!(policy.treatment(&AttemptReport::status(404)), Handling::SUCCESS);
    }
}
