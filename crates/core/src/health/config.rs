//! Configuration of the health machine, checked as a whole.
//!
//! Users write [`HealthSettings`]; the machine runs on [`HealthConfig`], which can only be built
//! from valid settings. Durations, shares and factors are types, so that no field needs its unit in
//! its name.

use core::time::Duration;

use super::invalid_config::InvalidHealth;
use crate::{Rate, Share};

/// All settings of the machine, as written. Every one can be changed at run time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HealthSettings {
    /// Maximum age of an outcome that counts.
    pub window: Duration,
    /// Number of latest outcomes that count.
    pub window_length: u16,
    /// Minimum number of outcomes before their ratio counts.
    pub min_samples: u16,
    /// Share of failures at which Normal is left.
    pub p_throttle: Share,
    /// Streak at which Normal is left.
    pub n_throttle: u32,
    /// Outcomes that form a streak.
    pub streak: StreakRule,
    /// Target of a transition from Normal after failures.
    pub escalation: Escalation,
    /// Share of failures below which Throttle may return to Normal.
    pub p_recover: Share,
    /// Number of successes that Throttle needs to return to Normal.
    pub s_recover: u32,
    /// Streak at which Throttle becomes Sleep.
    pub n_cacheonly: u32,
    /// Share of failures at which Throttle becomes Sleep, if it lasts.
    pub p_sleep: Share,
    /// Time for which it must last.
    pub p_sleep_held: Duration,
    /// Time for which a ratio must persist before it is believed.
    pub confirm_after: Duration,
    /// The longest `Retry-After` that is waited out without leaving the state.
    pub short_retry_after: Duration,
    /// The longest `Retry-After` that is obeyed. [`WaitBounds`](crate::WaitBounds) already bounds a
    /// header where it is read; this is the last defence, for outcomes from other sources. Choose
    /// it no shorter than that cap, or the reported and the actual wait differ.
    pub max_retry_after: Duration,
    /// The shortest Sleep without a server's time; the server may ask for less.
    pub sleep_min: Duration,
    /// The longest Sleep without a server's time; the server may ask for more.
    pub sleep_max: Duration,
    /// Random extension of a Sleep as a share of its cooldown, so that several processes do not
    /// wake together.
    pub sleep_jitter: Share,
    /// Growth of the cooldown with each failed recovery.
    pub cooldown_factor: RateFactor,
    /// Share of each rate that is left in Throttle.
    pub throttle_share: Share,
    /// Minimum speed in Throttle of every rate that had it.
    pub throttle_floor: Rate,
    /// Maximum number of requests in flight in Normal.
    pub concurrency: u32,
    /// Number of probes that must succeed.
    pub probe_success: u32,
    /// Number of neutral responses that weigh like one successful probe: this number times
    /// `probe_success`, and no failure, lead to Normal. An API that answers every probe with 404
    /// neither throttles nor fails; waiting for a success would probe it for ever.
    pub neutral_per_success: u32,
    /// Maximum number of probes in flight, at most 8.
    pub probe_concurrency: u32,
    /// Maximum rate of probes.
    pub probe_rate: Rate,
    /// Time after which a probe without a response counts as failed. Choose it longer than one
    /// attempt can take.
    pub probe_timeout: Duration,
    /// Growth of the rate at each step of the ramp after a recovery.
    pub ramp_factor: RateFactor,
    /// Duration of each step of the ramp.
    pub ramp_every: Duration,
    /// Number of failed recoveries in a row that lead to `CacheOnly`; `None` disables it.
    pub cache_only_after: Option<u32>,
    /// Period after which an automatic `CacheOnly` tries to recover. A state that began without an
    /// operator must not need one to end, so there is a period by default. `None` leaves the exit
    /// to an operator, for an API that must not be called again unattended. A forced `CacheOnly`
    /// has no period.
    pub auto_recover: Option<Duration>,
    /// The longest random delay added to a release after a server's wait.
    pub release_jitter: Duration,
}

impl HealthSettings {
    /// A plain circuit breaker: no Throttle between closed and open, any failure extends the
    /// streak, and three probes decide after thirty seconds.
    pub const BREAKER: Self = Self {
        p_throttle: Share::percent(50),
        n_throttle: 5,
        streak: StreakRule::Failures,
        escalation: Escalation::Sleep,
        sleep_min: Duration::from_secs(30),
        sleep_jitter: Share::NONE,
        probe_success: 3,
        probe_concurrency: 3,
        cache_only_after: None,
        ..Self::ADAPTIVE
    };

    /// The default machine of five states.
    pub const ADAPTIVE: Self = Self {
        window: Duration::from_secs(30),
        window_length: 300,
        // One failure of one is 100 %; eleven of fifty must be enough.
        min_samples: 20,
        p_throttle: Share::percent(20),
        n_throttle: 3,
        streak: StreakRule::Throttled,
        escalation: Escalation::Throttle,
        p_recover: Share::percent(10),
        s_recover: 10,
        n_cacheonly: 5,
        p_sleep: Share::percent(60),
        p_sleep_held: Duration::from_mins(5),
        // At 35 calls a second two outcomes are 28 ms apart, which confirms nothing.
        confirm_after: Duration::from_millis(250),
        short_retry_after: Duration::from_secs(5),
        // A quota that returns tomorrow is obeyed; a longer time is an error or an attack.
        max_retry_after: Duration::from_hours(24),
        sleep_min: Duration::from_secs(2),
        sleep_max: Duration::from_mins(5),
        sleep_jitter: Share::percent(25),
        cooldown_factor: RateFactor::percent(200),
        throttle_share: Share::percent(50),
        throttle_floor: FIVE_A_SECOND,
        concurrency: 4,
        probe_success: 5,
        // Twenty responses at three a second take 7 s, which is less than one probe timeout.
        neutral_per_success: 4,
        probe_concurrency: 1,
        probe_rate: THREE_A_SECOND,
        // An attempt may take ten seconds; half as much again covers its cancellation.
        probe_timeout: Duration::from_secs(15),
        ramp_factor: RateFactor::percent(110),
        ramp_every: Duration::from_mins(5),
        cache_only_after: Some(5),
        // Five failed recoveries take a minute or more. One try in a quarter of an hour is rare
        // enough for an API that is down and soon enough for its users.
        auto_recover: Some(Duration::from_mins(15)),
        release_jitter: Duration::from_secs(1),
    };
}

impl Default for HealthSettings {
    fn default() -> Self {
        Self::ADAPTIVE
    }
}

/// Valid settings.
///
/// ```
/// use outflow_core::{HealthConfig, HealthConfigError, HealthSettings, Share};
///
/// let crossed = HealthSettings {
///     p_recover: Share::percent(30),
///     probe_success: 0,
///     ..HealthSettings::default()
/// };
/// let errors = HealthConfig::new(crossed).unwrap_err();
/// assert_eq!(
///     errors.all(),
///     [HealthConfigError::RecoversAboveThrottle, HealthConfigError::NoProbes]
/// );
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HealthConfig(HealthSettings);

impl HealthConfig {
    /// Checks settings as a whole.
    ///
    /// # Errors
    /// With every [`HealthConfigError`](super::HealthConfigError) in the settings.
    pub fn new(settings: HealthSettings) -> Result<Self, InvalidHealth> {
        match InvalidHealth::from_settings(&settings) {
            Some(invalid) => Err(invalid),
            None => Ok(Self(settings)),
        }
    }

    /// Returns the profile of [`HealthSettings::BREAKER`].
    pub const fn breaker() -> Self {
        Self(HealthSettings::BREAKER)
    }

    /// Returns the settings.
    pub const fn settings(&self) -> &HealthSettings {
        &self.0
    }
}

impl Default for HealthConfig {
    fn default() -> Self {
        Self(HealthSettings::ADAPTIVE)
    }
}

named_enum! {
    /// Outcomes that form a streak.
    pub enum StreakRule {
        /// Throttled calls; any other outcome that counts ends the streak.
        Throttled = "throttled",
        /// Failures of any kind; a success ends it.
        Failures = "failures",
    }
}

named_enum! {
    /// Target of a transition from Normal after failures.
    pub enum Escalation {
        /// To a reduced rate.
        Throttle = "throttle",
        /// To a full stop, as a circuit breaker does.
        Sleep = "sleep",
    }
}

/// Multiplier, in parts per million.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct RateFactor(u32);

impl RateFactor {
    /// Changes nothing.
    pub const ONE: Self = Self(1_000_000);

    /// Builds a factor from hundredths: 200 doubles. The largest is 4 294.
    pub const fn percent(percent: u32) -> Self {
        Self(percent.saturating_mul(10_000))
    }

    /// Builds a factor from millionths: 1 500 000 adds a half.
    pub const fn parts_per_million(parts: u32) -> Self {
        Self(parts)
    }

    /// Returns the factor in millionths.
    pub const fn as_parts_per_million(self) -> u32 {
        self.0
    }

    /// Returns `value` times this factor, rounded down and saturating.
    pub(crate) fn times(self, value: u64) -> u64 {
        u64::try_from(u128::from(value) * u128::from(self.0) / 1_000_000).unwrap_or(u64::MAX)
    }
}

/// Below this the API is slow enough, and only its concurrency is cut.
const FIVE_A_SECOND: Rate = Rate::per_second_const(5);

/// Enough to decide within two seconds, too little to harm.
const THREE_A_SECOND: Rate = Rate::per_second_const(3);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_factor_counts_millionths() {
        assert_eq!(RateFactor::percent(150).as_parts_per_million(), 1_500_000);
        assert_eq!(RateFactor::parts_per_million(7).as_parts_per_million(), 7);
    }
}
