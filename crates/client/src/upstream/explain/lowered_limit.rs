//! A limit whose rate in effect is below the configured one.

use std::fmt;
use std::time::Duration;

use outflow_core::{HealthSnapshot, HealthState, Nanos, RampStage, Rate};

use super::ReadableSpan;

/// Limit in effect below its configured rate, with the cause and the way back.
///
/// ```
/// use std::time::Duration;
/// use outflow::{LoweredBy, LoweredLimit};
///
/// let lowered = LoweredLimit {
///     effective: "19/s".parse()?,
///     configured: "35/s".parse()?,
///     by: LoweredBy::Ramp,
///     lasting: Duration::from_secs(4),
///     back_in: Some(Duration::from_secs(6)),
/// };
/// assert_eq!(
///     lowered.to_string(),
///     "19/s of the configured 35/s: a ramp after a recovery began 4.0 s ago; back in 6.0 s"
/// );
/// # Ok::<(), outflow::core::InvalidRate>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LoweredLimit {
    /// The rate in effect.
    pub effective: Rate,
    /// The configured rate.
    pub configured: Rate,
    /// The cause.
    pub by: LoweredBy,
    /// The time since it was lowered.
    pub lasting: Duration,
    /// The time until the configured rate is back, if a timer decides it.
    pub back_in: Option<Duration>,
}

/// Cause of a lowered limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LoweredBy {
    /// Throttle responses, or headers that advertise less.
    Evidence,
    /// An operator's override.
    Operator,
    /// The health state Throttle.
    Throttle,
    /// The ramp after a recovery.
    Ramp,
    /// The rate of probes.
    Probes,
}

impl LoweredBy {
    /// Returns the cause in one word.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Evidence => "evidence",
            Self::Operator => "operator",
            Self::Throttle => "throttle",
            Self::Ramp => "ramp",
            Self::Probes => "probes",
        }
    }
}

/// The rates of one limit: as configured, as evidence leaves it, and as health leaves that.
#[derive(Clone, Copy, Debug)]
pub(in crate::upstream) struct LimitRates {
    pub(in crate::upstream) configured: Rate,
    pub(in crate::upstream) adapted: Rate,
    pub(in crate::upstream) effective: Rate,
    /// The duration of the drift that evidence caused.
    pub(in crate::upstream) drifting: Option<Duration>,
    /// The number of processes that use it now.
    pub(in crate::upstream) processes: usize,
}

impl LimitRates {
    /// Returns true if less than the configured rate is in effect.
    pub(in crate::upstream) fn are_lowered(&self) -> bool {
        self.effective.cmp_speed(self.configured).is_lt()
    }

    /// Returns the lowered limit, if it is one. `health` is that of its circuit, if it follows one.
    pub(in crate::upstream) fn lowered(&self, health: Option<&HealthSnapshot>, now: Nanos) -> Option<LoweredLimit> {
        if !self.are_lowered() {
            return None;
        }
        let by_health = health.filter(|_| self.effective.cmp_speed(self.adapted).is_lt());
        let (by, lasting, back_in) = match by_health {
            Some(health) => health_cause(health, now),
            None => (LoweredBy::Evidence, self.drifting.unwrap_or_default(), None),
        };
        Some(LoweredLimit {
            effective: self.effective,
            configured: self.configured,
            by,
            lasting,
            back_in,
        })
    }
}

fn health_cause(health: &HealthSnapshot, now: Nanos) -> (LoweredBy, Duration, Option<Duration>) {
    let lasting = now.since(health.since);
    if health.hold.is_some() {
        return (LoweredBy::Operator, lasting, None);
    }
    match (health.state, health.ramp) {
        (HealthState::Normal, RampStage::Ramping { end, .. }) => {
            (LoweredBy::Ramp, lasting, end.map(|end| end.since(now)))
        }
        (HealthState::Normal | HealthState::Throttle, _) => (LoweredBy::Throttle, lasting, None),
        (HealthState::HalfOpen | HealthState::Sleep | HealthState::CacheOnly, _) => (LoweredBy::Probes, lasting, None),
    }
}

impl LoweredLimit {
    /// Returns the cause and the way back, without the rates.
    pub(super) const fn cause(&self) -> LoweringCause<'_> {
        LoweringCause(self)
    }
}

impl fmt::Display for LoweredLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            effective, configured, ..
        } = self;
        write!(f, "{effective} of the configured {configured}: {}", self.cause())
    }
}

/// Cause of a lowered limit, as text.
pub(super) struct LoweringCause<'a>(&'a LoweredLimit);

impl fmt::Display for LoweringCause<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let span = ReadableSpan(self.0.lasting);
        match (self.0.by, self.0.back_in) {
            (LoweredBy::Evidence, _) => write!(
                f,
                "the API has allowed less for {span}; the limit grows back while calls pass"
            ),
            (LoweredBy::Operator, _) => write!(f, "an operator forced it {span} ago; `outflow health release` ends it"),
            (LoweredBy::Throttle, _) => write!(f, "Throttle began {span} ago; it ends when calls succeed"),
            (LoweredBy::Ramp, None) => write!(f, "a ramp after a recovery began {span} ago"),
            (LoweredBy::Ramp, Some(left)) => write!(
                f,
                "a ramp after a recovery began {span} ago; back in {}",
                ReadableSpan(left)
            ),
            (LoweredBy::Probes, _) => f.write_str("only probes go until they succeed"),
        }
    }
}
