//! A health state with the reason that led to it and its end.

use std::fmt;
use std::time::Duration;

use outflow_core::{HealthSnapshot, HealthState, Nanos, OutcomeCounts, TransitionFigures, TransitionReason};
use smol_str::SmolStr;

use super::ReadableSpan;

/// Health state that binds calls, with its reason and its end.
///
/// ```
/// use outflow::StateCause;
/// use outflow::core::HealthState;
///
/// let cause = StateCause::new(HealthState::Sleep);
/// assert_eq!(cause.to_string(), "the API is in Sleep, which no timer ends: use `outflow health set`");
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct StateCause {
    /// The state.
    pub state: HealthState,
    /// The reason of the transition to it.
    pub reason: Option<TransitionReason>,
    /// The outcomes that led to it.
    pub figures: TransitionFigures,
    /// The time since it began.
    pub lasting: Duration,
    /// The time until a timer ends it, if one will.
    pub left: Option<Duration>,
    /// The author of the override, if an operator forces the state.
    pub forced_by: Option<OverrideNote>,
}

/// Author and reason of an override.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct OverrideNote {
    /// The author, if it is known.
    pub who: Option<SmolStr>,
    /// The reason that the author gave.
    pub reason: Option<SmolStr>,
}

impl OverrideNote {
    /// Creates the note of an author.
    pub fn new(who: impl Into<SmolStr>, reason: Option<SmolStr>) -> Self {
        Self {
            who: Some(who.into()),
            reason,
        }
    }
}

impl StateCause {
    /// Creates the cause of a state of which nothing else is known.
    pub fn new(state: HealthState) -> Self {
        Self {
            state,
            reason: None,
            figures: TransitionFigures::default(),
            lasting: Duration::ZERO,
            left: None,
            forced_by: None,
        }
    }

    /// Reads the cause from a snapshot. `note` is that of the last override.
    pub(in crate::upstream) fn from_snapshot(health: &HealthSnapshot, note: &OverrideNote, now: Nanos) -> Self {
        Self {
            state: health.state,
            reason: health.reason,
            figures: health.figures,
            lasting: now.since(health.since),
            left: health.until.map(|until| until.since(now)),
            forced_by: health.hold.map(|_| note.clone()),
        }
    }

    fn fmt_forced(&self, note: &OverrideNote, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an operator")?;
        if let Some(who) = &note.who {
            write!(f, " ({who})")?;
        }
        write!(f, " forced {} {} ago", self.state, ReadableSpan(self.lasting))?;
        if let Some(reason) = &note.reason {
            write!(f, ", with the reason {reason:?}")?;
        }
        f.write_str(": `outflow health release` ends it")
    }

    fn fmt_end(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.state, self.left) {
            (HealthState::Sleep | HealthState::CacheOnly, Some(left)) => {
                write!(f, " for another {}", ReadableSpan(left))
            }
            (HealthState::Sleep | HealthState::CacheOnly, None) => f.write_str(", which no timer ends"),
            (HealthState::HalfOpen, _) => f.write_str(", where only probes go until they succeed"),
            (HealthState::Throttle, _) => f.write_str(", with fewer calls at once until calls succeed"),
            (HealthState::Normal, _) => Ok(()),
        }
    }

    fn fmt_reason(&self, reason: TransitionReason, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TransitionFigures {
            streak,
            failures,
            counts,
        } = self.figures;
        let (percent, kind) = (counts.failure_ppm() / 10_000, failure_kind(counts));
        let text = match reason {
            TransitionReason::ErrorRatio => return write!(f, "{percent} % of its last calls failed{kind}"),
            TransitionReason::ErrorRatioHeld => return write!(f, "{percent} % of its calls failed for long{kind}"),
            TransitionReason::Streak if streak >= failures => {
                return write!(f, "it throttled {streak} calls in a row");
            }
            TransitionReason::Streak => return write!(f, "{failures} calls in a row failed{kind}"),
            TransitionReason::ProbeFailed => return write!(f, "a probe failed{kind}"),
            TransitionReason::RetryAfter => "it asked for this wait",
            TransitionReason::Banned => "it banned this client",
            TransitionReason::SuccessWindowOk => "its calls succeed again",
            TransitionReason::SleepOver if kind.is_empty() => "its Sleep is over",
            TransitionReason::SleepOver => return write!(f, "its Sleep after failures{kind} is over"),
            TransitionReason::ProbesOk | TransitionReason::ProbesAnswered => "its probes succeeded",
            TransitionReason::ProbeTimedOut => "a probe got no response in time",
            TransitionReason::LateResponse => "a late probe succeeded",
            TransitionReason::RecoveriesExhausted => "too many recoveries failed",
            TransitionReason::AutoRecover => "it tries to recover",
            TransitionReason::Forced | TransitionReason::Released => "an operator released it",
        };
        f.write_str(text)
    }
}

/// Returns the kind of most failures.
fn failure_kind(counts: OutcomeCounts) -> &'static str {
    let kinds = [
        (counts.throttled, " (429)"),
        (counts.server, " (5xx)"),
        (counts.network, " (network)"),
    ];
    let most = kinds.into_iter().max_by_key(|(count, _)| *count);
    most.filter(|(count, _)| *count > 0).map_or("", |(_, kind)| kind)
}

impl fmt::Display for StateCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(note) = &self.forced_by {
            return self.fmt_forced(note, f);
        }
        write!(f, "the API is in {}", self.state)?;
        self.fmt_end(f)?;
        match self.reason {
            Some(reason) => {
                f.write_str(": ")?;
                self.fmt_reason(reason, f)
            }
            None if self.left.is_none() && self.state >= HealthState::Sleep => {
                f.write_str(": use `outflow health set`")
            }
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cause(state: HealthState, reason: TransitionReason) -> StateCause {
        StateCause {
            reason: Some(reason),
            lasting: Duration::from_secs(12),
            ..StateCause::new(state)
        }
    }

    #[test]
    fn a_sleep_names_its_figures_and_its_end() {
        let figures = TransitionFigures {
            failures: 8,
            ..TransitionFigures::default()
        };
        let sleep = StateCause {
            figures,
            left: Some(Duration::from_millis(6_807)),
            ..cause(HealthState::Sleep, TransitionReason::Streak)
        };
        assert_eq!(
            sleep.to_string(),
            "the API is in Sleep for another 6.8 s: 8 calls in a row failed"
        );
    }

    #[test]
    fn a_throttle_names_its_share_of_failures() {
        let counts = OutcomeCounts {
            success: 30,
            server: 10,
            ..OutcomeCounts::default()
        };
        let mut throttle = cause(HealthState::Throttle, TransitionReason::ErrorRatio);
        throttle.figures.counts = counts;
        assert_eq!(
            throttle.to_string(),
            "the API is in Throttle, with fewer calls at once until calls succeed: 25 % of its last calls failed (5xx)"
        );
    }

    #[test]
    fn an_override_names_its_author_and_reason() {
        let forced = StateCause {
            forced_by: Some(OverrideNote::new("127.0.0.1", Some("deploy".into()))),
            ..cause(HealthState::CacheOnly, TransitionReason::Forced)
        };
        assert_eq!(
            forced.to_string(),
            "an operator (127.0.0.1) forced CacheOnly 12.0 s ago, with the reason \"deploy\": \
             `outflow health release` ends it"
        );
    }
}
