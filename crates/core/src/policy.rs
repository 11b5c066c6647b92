//! The one table that says what an attempt's end means.
//!
//! Health, retries and the circuit all ask this table. Three classifiers would agree on the day they
//! were written and not on the next. A row names what it matches and how that is treated; an API
//! overrides rows, and the last override that matches wins. It decides nothing about budgets,
//! deadlines or idempotency: "worth another attempt" is not yet leave to make one.

use alloc::vec::Vec;

use crate::outcome::{Attempt, Effect, Ended, Fault, Outcome, Signs};

/// How each end of an attempt is treated.
///
/// ```
/// use outflow_core::{Attempt, Effect, Policy, Retry, Rule, Treatment, When};
///
/// let usual = Policy::default();
/// assert_eq!(usual.classify(&Attempt::status(503)).retry, Retry::Worthwhile);
///
/// // An API where a 401 means that its session store is down.
/// let counting = Policy::with(&[Rule {
///     when: When::Status(401),
///     then: Treatment::failing(Effect::OtherFailed).never_again(),
/// }]);
/// let judged = counting.classify(&Attempt::status(401));
/// assert_eq!(judged.outcome.effect(), Effect::OtherFailed);
/// assert_eq!(judged.retry, Retry::Pointless);
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Policy {
    overrides: Vec<Rule>,
}

impl Policy {
    /// The usual table with these rows laid over it; of two that match, the later one wins.
    pub fn with(overrides: &[Rule]) -> Self {
        Self {
            overrides: overrides.to_vec(),
        }
    }

    /// Judges an attempt. Allocates nothing.
    pub fn classify(&self, attempt: &Attempt) -> Classified {
        let treatment = self.treatment(attempt);
        let outcome = Outcome::of(treatment.effect);
        Classified {
            outcome: match (treatment.waiting, attempt.retry_after()) {
                (Waiting::Obey, Some(span)) => outcome.asking_to_wait(span),
                (Waiting::Obey, None) | (Waiting::Ignore, _) => outcome,
            },
            retry: treatment.retry,
        }
    }

    /// How an attempt that ended so is treated.
    pub fn treatment(&self, attempt: &Attempt) -> Treatment {
        self.overrides
            .iter()
            .rev()
            .chain(USUAL.iter())
            .find(|rule| rule.when.matches(attempt))
            .map_or(Treatment::NEUTRAL, |rule| rule.then)
    }
}

/// What the table makes of one attempt.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Classified {
    /// What it does to health.
    pub outcome: Outcome,
    /// Whether another attempt could end better.
    pub retry: Retry,
}

/// One row of the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rule {
    /// What the row is about.
    pub when: When,
    /// What is done about it.
    pub then: Treatment,
}

/// What a row matches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum When {
    /// This status.
    Status(u16),
    /// Any status from the first to the last, both included.
    Statuses(u16, u16),
    /// This status together with the signs of a rate limit.
    RateLimited(u16),
    /// This fault.
    Fault(Fault),
    /// The caller gave up.
    Cancelled,
}

impl When {
    fn matches(self, attempt: &Attempt) -> bool {
        match (self, attempt.ended()) {
            (Self::Status(wanted), Ended::Status(code)) => wanted == code,
            (Self::Statuses(first, last), Ended::Status(code)) => (first..=last).contains(&code),
            (Self::RateLimited(wanted), Ended::Status(code)) => {
                wanted == code && attempt.signs() == Signs::RateLimit
            }
            (Self::Fault(wanted), Ended::Fault(fault)) => wanted == fault,
            (Self::Cancelled, Ended::Cancelled) => true,
            _ => false,
        }
    }
}

/// What a row does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Treatment {
    /// What it counts as.
    pub effect: Effect,
    /// Whether another attempt could end better.
    pub retry: Retry,
    /// Whether the server's `Retry-After` is obeyed.
    pub waiting: Waiting,
}

impl Treatment {
    /// A success.
    pub const SUCCESS: Self = Self::without_retry(Effect::Success);
    /// Counts as neither good nor bad.
    pub const NEUTRAL: Self = Self::without_retry(Effect::Neutral);
    /// Counts as nothing, not even as an answer.
    pub const CANCELLED: Self = Self::without_retry(Effect::Cancelled);
    /// Shut out until the server's time. Knocking again only lengthens most bans.
    pub const BAN: Self = Self::without_retry(Effect::Banned).obeying();
    /// Refused for the server's limits.
    pub const THROTTLED: Self = Self::failing(Effect::Throttled).obeying();
    /// A refusal that is obeyed and tried again but held against nobody: what a plain circuit
    /// breaker makes of a 429, which tells of our speed and not of the server's state.
    pub const SLOW_DOWN: Self = Self::failing(Effect::Neutral).obeying();

    /// Counts as `effect` and is worth another attempt.
    pub const fn failing(effect: Effect) -> Self {
        Self {
            effect,
            retry: Retry::Worthwhile,
            waiting: Waiting::Ignore,
        }
    }

    /// The same, obeying the server's `Retry-After`.
    #[must_use]
    pub const fn obeying(mut self) -> Self {
        self.waiting = Waiting::Obey;
        self
    }

    /// The same, without another attempt.
    #[must_use]
    pub const fn never_again(mut self) -> Self {
        self.retry = Retry::Pointless;
        self
    }

    const fn without_retry(effect: Effect) -> Self {
        Self::failing(effect).never_again()
    }
}

/// Whether another attempt could end better.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Retry {
    /// It could.
    Worthwhile,
    /// It would end the same way, or there is nothing to improve.
    Pointless,
}

/// What becomes of a `Retry-After`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Waiting {
    /// It is obeyed.
    Obey,
    /// It is none that binds us: on a redirect or a success it means something else.
    Ignore,
}

const fn row(when: When, then: Treatment) -> Rule {
    Rule { when, then }
}

/// The usual table; the first row that matches wins. What no row names (1xx, other 4xx, codes
/// beyond 599) is neutral.
const USUAL: [Rule; 15] = [
    row(When::Statuses(200, 399), Treatment::SUCCESS),
    row(When::Status(429), Treatment::THROTTLED),
    row(When::Status(418), Treatment::BAN),
    row(When::RateLimited(403), Treatment::BAN),
    // The one server error that may say how long it lasts.
    row(
        When::Status(503),
        Treatment::failing(Effect::ServerFailed).obeying(),
    ),
    // A circle of gateways: nobody is ill, and another attempt would only go round again.
    row(When::Status(508), Treatment::NEUTRAL),
    row(
        When::Statuses(500, 599),
        Treatment::failing(Effect::ServerFailed),
    ),
    network(Fault::ConnectTimeout),
    network(Fault::ReadTimeout),
    network(Fault::Dns),
    network(Fault::Reset),
    network(Fault::TlsHandshake),
    network(Fault::TruncatedBody),
    row(
        When::Fault(Fault::TlsCertificate),
        Treatment::failing(Effect::NetworkFailed).never_again(),
    ),
    row(When::Cancelled, Treatment::CANCELLED),
];

const fn network(fault: Fault) -> Rule {
    row(
        When::Fault(fault),
        Treatment::failing(Effect::NetworkFailed),
    )
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::*;

    const WAIT: Duration = Duration::from_secs(7);

    // One line per cell: what ended, what it counts as, whether it is tried again, whether a
    // Retry-After of 7 s is obeyed. 226, 399, 501, 505 and 599 are the ends and gaps of the ranges.
    #[test]
    fn every_cell_of_the_usual_table_holds() {
        use Effect::{Banned, Cancelled, NetworkFailed, Neutral, ServerFailed, Success, Throttled};
        use Retry::{Pointless, Worthwhile};
        use Waiting::{Ignore, Obey};
        let signed = Attempt::status(403).with_rate_limit_signs();
        let cells = [
            (Attempt::status(100), Neutral, Pointless, Ignore),
            (Attempt::status(199), Neutral, Pointless, Ignore),
            (Attempt::status(200), Success, Pointless, Ignore),
            (Attempt::status(204), Success, Pointless, Ignore),
            (Attempt::status(226), Success, Pointless, Ignore),
            (Attempt::status(301), Success, Pointless, Ignore),
            (Attempt::status(304), Success, Pointless, Ignore),
            (Attempt::status(399), Success, Pointless, Ignore),
            (Attempt::status(400), Neutral, Pointless, Ignore),
            (Attempt::status(401), Neutral, Pointless, Ignore),
            (Attempt::status(403), Neutral, Pointless, Ignore),
            (signed, Banned, Pointless, Obey),
            (Attempt::status(404), Neutral, Pointless, Ignore),
            (Attempt::status(408), Neutral, Pointless, Ignore),
            (Attempt::status(418), Banned, Pointless, Obey),
            (Attempt::status(422), Neutral, Pointless, Ignore),
            (Attempt::status(429), Throttled, Worthwhile, Obey),
            (Attempt::status(451), Neutral, Pointless, Ignore),
            (Attempt::status(500), ServerFailed, Worthwhile, Ignore),
            (Attempt::status(501), ServerFailed, Worthwhile, Ignore),
            (Attempt::status(508), Neutral, Pointless, Ignore),
            (Attempt::status(502), ServerFailed, Worthwhile, Ignore),
            (Attempt::status(503), ServerFailed, Worthwhile, Obey),
            (Attempt::status(504), ServerFailed, Worthwhile, Ignore),
            (Attempt::status(505), ServerFailed, Worthwhile, Ignore),
            (Attempt::status(599), ServerFailed, Worthwhile, Ignore),
            (Attempt::status(600), Neutral, Pointless, Ignore),
            (Attempt::status(0), Neutral, Pointless, Ignore),
            (Attempt::status(u16::MAX), Neutral, Pointless, Ignore),
            (
                Attempt::fault(Fault::ConnectTimeout),
                NetworkFailed,
                Worthwhile,
                Ignore,
            ),
            (
                Attempt::fault(Fault::ReadTimeout),
                NetworkFailed,
                Worthwhile,
                Ignore,
            ),
            (
                Attempt::fault(Fault::Dns),
                NetworkFailed,
                Worthwhile,
                Ignore,
            ),
            (
                Attempt::fault(Fault::Reset),
                NetworkFailed,
                Worthwhile,
                Ignore,
            ),
            (
                Attempt::fault(Fault::TlsHandshake),
                NetworkFailed,
                Worthwhile,
                Ignore,
            ),
            (
                Attempt::fault(Fault::TlsCertificate),
                NetworkFailed,
                Pointless,
                Ignore,
            ),
            (
                Attempt::fault(Fault::TruncatedBody),
                NetworkFailed,
                Worthwhile,
                Ignore,
            ),
            (Attempt::cancelled(), Cancelled, Pointless, Ignore),
        ];
        for (attempt, effect, retry, waiting) in cells {
            let judged = Policy::default().classify(&attempt.asking_to_wait(WAIT));
            let obeyed = (waiting == Obey).then_some(WAIT);
            assert_eq!(judged.outcome.effect(), effect, "{attempt:?}");
            assert_eq!(judged.retry, retry, "{attempt:?}");
            assert_eq!(judged.outcome.retry_after(), obeyed, "{attempt:?}");
        }
    }

    #[test]
    fn nothing_to_obey_is_nothing_obeyed() {
        let judged = Policy::default().classify(&Attempt::status(429));
        assert_eq!(judged.outcome, Outcome::THROTTLED);
    }

    // The other reading of the same table: refused credentials count, a refusal for speed does not.
    #[test]
    fn an_override_changes_its_row_and_no_other() {
        let policy = Policy::with(&[
            Rule {
                when: When::Statuses(400, 403),
                then: Treatment::failing(Effect::OtherFailed).never_again(),
            },
            Rule {
                when: When::Status(429),
                then: Treatment::SLOW_DOWN,
            },
            Rule {
                when: When::Cancelled,
                then: Treatment::SUCCESS,
            },
        ]);
        let effect = |attempt: Attempt| policy.classify(&attempt).outcome.effect();
        assert_eq!(effect(Attempt::status(401)), Effect::OtherFailed);
        assert_eq!(effect(Attempt::status(403)), Effect::OtherFailed);
        assert_eq!(effect(Attempt::status(404)), Effect::Neutral);
        assert_eq!(effect(Attempt::status(500)), Effect::ServerFailed);
        assert_eq!(effect(Attempt::cancelled()), Effect::Success);
        let slowed = policy.classify(&Attempt::status(429).asking_to_wait(WAIT));
        assert_eq!(slowed.outcome, Outcome::NEUTRAL.asking_to_wait(WAIT));
        assert_eq!(slowed.retry, Retry::Worthwhile);
    }

    #[test]
    fn of_two_overrides_the_later_wins() {
        let rule = |then| Rule {
            when: When::Status(404),
            then,
        };
        let policy = Policy::with(&[rule(Treatment::BAN), rule(Treatment::SUCCESS)]);
        assert_eq!(policy.treatment(&Attempt::status(404)), Treatment::SUCCESS);
    }
}
