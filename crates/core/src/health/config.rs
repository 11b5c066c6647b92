//! Configuration of the health machine, checked as a whole.
//!
//! Users write [`HealthSettings`]; the machine runs on [`HealthConfig`], which can only be built
//! from valid settings. Durations, shares and factors are types, so that no field needs its unit in
//! its name.

use core::time::Duration;

use super::invalid_config::InvalidHealth;
use super::rules::{CooldownRule, Escalation, ProbeInstant, ProbePatience, RampRule, ThrottleExit};
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
    /// Minimum number of failures before their ratio counts.
    pub min_failures: u16,
    /// Share of failures at which Normal is left.
    pub p_throttle: Share,
    /// Number of throttled calls in a row at which Normal is left.
    pub n_throttle: Option<u32>,
    /// Number of failures of any kind in a row that lead to Sleep.
    pub n_failures: Option<u32>,
    /// Target of a transition from Normal after failures.
    pub escalation: Escalation,
    /// Share of failures below which Throttle may return to Normal.
    pub p_recover: Share,
    /// Number of successes that Throttle needs to return to Normal.
    pub s_recover: u32,
    /// State that follows Throttle when calls succeed again.
    pub throttle_exit: ThrottleExit,
    /// Number of throttled calls in a row at which Throttle becomes Sleep.
    pub n_cacheonly: Option<u32>,
    /// Share of failures at which Throttle becomes Sleep, if it lasts.
    pub p_sleep: Option<Share>,
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
    /// The longest Sleep without a server's time; the server may ask for more. Jitter is added to a
    /// Sleep that is a share, and kept within this bound if it doubles.
    pub sleep_max: Duration,
    /// Random extension of a Sleep as a share of its cooldown, so that several processes do not
    /// wake together.
    pub sleep_jitter: Share,
    /// Duration of a Sleep without a server's time.
    pub cooldown: CooldownRule,
    /// Growth of the cooldown with each failed recovery, if it doubles.
    pub cooldown_factor: RateFactor,
    /// Share of the time since Normal was left that a Sleep takes, if it is a share.
    pub sleep_share: Share,
    /// Share of each rate that is left in Throttle.
    pub throttle_share: Share,
    /// Minimum speed in Throttle of every rate that had it.
    pub throttle_floor: Rate,
    /// Maximum number of requests in flight in Normal; `None` lets the limits bind instead.
    pub concurrency: Option<u32>,
    /// Number of probes that must succeed.
    pub probe_success: u32,
    /// Number of neutral responses that weigh like one successful probe: this number times
    /// `probe_success`, and no failure, lead to Normal. An API that answers every probe with 404
    /// neither throttles nor fails; waiting for a success would probe it for ever.
    pub neutral_per_success: u32,
    /// Maximum number of probes in flight before the first success.
    pub probe_start: u32,
    /// Maximum number of probes in flight after the first success, at most 8.
    pub probe_concurrency: u32,
    /// Maximum rate of probes.
    pub probe_rate: Option<Rate>,
    /// Time after which a probe without a response counts as failed. Choose it longer than one
    /// attempt can take.
    pub probe_timeout: Duration,
    /// Time that a probe is given, up to its timeout.
    pub probe_patience: ProbePatience,
    /// Instant from which the Sleep after a failed probe counts.
    pub probe_from: ProbeInstant,
    /// Growth of the rate at each step of the ramp after a recovery.
    pub ramp_factor: RateFactor,
    /// Duration of each step of the ramp.
    pub ramp_every: Duration,
    /// Outages after which the rate grows by a ramp.
    pub ramp_after: RampRule,
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
    /// The default machine of five states, which serves callers again soon after an outage. A Sleep
    /// is a share of the outage, so that a short outage ends quickly and a long one costs few probes.
    pub const ADAPTIVE: Self = Self {
        window: Duration::from_secs(30),
        window_length: 300,
        // Four calls in flight that take ten seconds each never reach twenty outcomes in the window.
        min_samples: 8,
        min_failures: 8,
        p_throttle: Share::percent(20),
        n_throttle: None,
        // Five would leave Normal too often at a quarter of failures, and save three calls.
        n_failures: Some(8),
        escalation: Escalation::Throttle,
        p_recover: Share::percent(10),
        s_recover: 10,
        throttle_exit: ThrottleExit::Normal,
        n_cacheonly: None,
        p_sleep: None,
        p_sleep_held: Duration::from_mins(5),
        confirm_after: Duration::from_millis(250),
        short_retry_after: Duration::from_secs(5),
        max_retry_after: Duration::from_hours(24),
        sleep_min: Duration::from_secs(1),
        sleep_max: Duration::from_secs(30),
        sleep_jitter: Share::percent(25),
        cooldown: CooldownRule::Share,
        cooldown_factor: RateFactor::percent(200),
        // With its jitter a Sleep takes a twentieth of the outage at most.
        sleep_share: Share::percent(4),
        throttle_share: Share::percent(50),
        throttle_floor: FIVE_A_SECOND,
        concurrency: None,
        probe_success: 3,
        // An API that answers every probe with 404 neither throttles nor fails.
        neutral_per_success: 1,
        probe_start: 1,
        probe_concurrency: 2,
        probe_rate: None,
        probe_timeout: Duration::from_secs(15),
        probe_patience: ProbePatience::Latency,
        probe_from: ProbeInstant::Sending,
        // Eight steps from half to full speed: ten seconds.
        ramp_factor: RateFactor::percent(110),
        ramp_every: Duration::from_millis(1_250),
        ramp_after: RampRule::Throttles,
        cache_only_after: None,
        auto_recover: Some(Duration::from_mins(15)),
        release_jitter: Duration::from_secs(1),
    };

    /// A machine that yields early and returns slowly, for APIs that ban fast clients.
    pub const CAUTIOUS: Self = Self {
        window: Duration::from_secs(30),
        window_length: 300,
        // One failure of one is 100 %; eleven of fifty must be enough.
        min_samples: 20,
        min_failures: 0,
        p_throttle: Share::percent(20),
        n_throttle: Some(3),
        n_failures: None,
        escalation: Escalation::Throttle,
        p_recover: Share::percent(10),
        s_recover: 10,
        throttle_exit: ThrottleExit::HalfOpen,
        n_cacheonly: Some(5),
        p_sleep: Some(Share::percent(60)),
        p_sleep_held: Duration::from_mins(5),
        // At 35 calls a second two outcomes are 28 ms apart, which confirms nothing.
        confirm_after: Duration::from_millis(250),
        short_retry_after: Duration::from_secs(5),
        // A quota that returns tomorrow is obeyed; a longer time is an error or an attack.
        max_retry_after: Duration::from_hours(24),
        sleep_min: Duration::from_secs(2),
        sleep_max: Duration::from_mins(5),
        sleep_jitter: Share::percent(25),
        cooldown: CooldownRule::Doubling,
        cooldown_factor: RateFactor::percent(200),
        sleep_share: Share::percent(5),
        throttle_share: Share::percent(50),
        throttle_floor: FIVE_A_SECOND,
        concurrency: Some(4),
        probe_success: 5,
        // Twenty responses at three a second take 7 s, which is less than one probe timeout.
        neutral_per_success: 4,
        probe_start: 1,
        probe_concurrency: 1,
        probe_rate: Some(THREE_A_SECOND),
        // An attempt may take ten seconds; half as much again covers its cancellation.
        probe_timeout: Duration::from_secs(15),
        probe_patience: ProbePatience::Fixed,
        probe_from: ProbeInstant::Failure,
        ramp_factor: RateFactor::percent(110),
        ramp_every: Duration::from_mins(5),
        ramp_after: RampRule::Always,
        cache_only_after: Some(5),
        auto_recover: None,
        release_jitter: Duration::from_secs(1),
    };

    /// A plain circuit breaker: no Throttle between closed and open, and three trial calls decide
    /// after thirty seconds.
    pub const BREAKER: Self = Self {
        window: Duration::from_secs(30),
        window_length: 300,
        min_samples: 20,
        min_failures: 0,
        p_throttle: Share::percent(50),
        n_throttle: None,
        n_failures: Some(5),
        escalation: Escalation::Sleep,
        p_recover: Share::percent(10),
        s_recover: 10,
        throttle_exit: ThrottleExit::HalfOpen,
        n_cacheonly: None,
        p_sleep: None,
        p_sleep_held: Duration::from_mins(5),
        confirm_after: Duration::from_millis(250),
        short_retry_after: Duration::from_secs(5),
        max_retry_after: Duration::from_hours(24),
        sleep_min: Duration::from_secs(30),
        sleep_max: Duration::from_secs(30),
        sleep_jitter: Share::NONE,
        cooldown: CooldownRule::Doubling,
        cooldown_factor: RateFactor::ONE,
        sleep_share: Share::percent(5),
        throttle_share: Share::percent(50),
        throttle_floor: FIVE_A_SECOND,
        concurrency: None,
        probe_success: 3,
        neutral_per_success: 4,
        probe_start: 3,
        probe_concurrency: 3,
        probe_rate: Some(THREE_A_SECOND),
        probe_timeout: Duration::from_secs(15),
        probe_patience: ProbePatience::Fixed,
        probe_from: ProbeInstant::Failure,
        ramp_factor: RateFactor::percent(110),
        ramp_every: Duration::from_mins(5),
        ramp_after: RampRule::Never,
        cache_only_after: None,
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

    /// Returns the profile of [`HealthSettings::CAUTIOUS`].
    pub const fn cautious() -> Self {
        Self(HealthSettings::CAUTIOUS)
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
