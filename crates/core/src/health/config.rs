//! The variables of the health machine, checked together.
//!
//! [`HealthSettings`] is what people write; [`HealthConfig`] is what the machine runs on, and can
//! only be had from settings that make sense. Durations, shares and factors are types, so that no
//! variable needs its unit in its name.

use core::time::Duration;

use super::invalid_config::InvalidHealth;
use crate::{Rate, Share};

/// All variables of the machine, as written. Every one can be changed while it runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HealthSettings {
    /// How old an outcome may be and still count.
    pub window: Duration,
    /// How many of the latest outcomes count.
    pub window_length: u16,
    /// How many outcomes must count before their ratio can be held against the API.
    pub min_samples: u16,
    /// The share of failures at which Normal is left.
    pub p_throttle: Share,
    /// The streak at which Normal is left.
    pub n_throttle: u32,
    /// What makes a streak.
    pub streak: StreakRule,
    /// Where Normal goes in trouble.
    pub escalation: Escalation,
    /// The share of failures below which Throttle may be left for the better.
    pub p_recover: Share,
    /// The successes it takes to leave Throttle for the better.
    pub s_recover: u32,
    /// The streak at which Throttle gives way to Sleep.
    pub n_cacheonly: u32,
    /// The share of failures at which Throttle gives way to Sleep, if held for long.
    pub p_sleep: Share,
    /// How long it must be held.
    pub p_sleep_held: Duration,
    /// How long a ratio must persist before it is believed.
    pub confirm_after: Duration,
    /// The longest `Retry-After` that is waited out without leaving the state.
    pub short_retry_after: Duration,
    /// The longest `Retry-After` that is obeyed, whoever read it. A header is brought within its
    /// floor and its cap by [`WaitBounds`](crate::WaitBounds), where it is read; this is the last
    /// defence, for outcomes that came another way. Choose it no shorter than that cap, or the
    /// server is told one time and kept to another.
    pub max_retry_after: Duration,
    /// The shortest Sleep of our own choosing; the server's own word may be shorter.
    pub sleep_min: Duration,
    /// The longest Sleep of our own choosing; the server's own word may be longer.
    pub sleep_max: Duration,
    /// How much longer than its cooldown a Sleep may randomly be, so that several machines do not
    /// wake together.
    pub sleep_jitter: Share,
    /// By how much the cooldown grows with each recovery that fails.
    pub cooldown_factor: RateFactor,
    /// The share of each rate that is left in Throttle.
    pub throttle_share: Share,
    /// The speed that Throttle leaves to every rate that had it.
    pub throttle_floor: Rate,
    /// How many requests may be in flight in Normal.
    pub concurrency: u32,
    /// How many probes must succeed.
    pub probe_success: u32,
    /// How many neutral answers weigh as much as one success of a probe: so many times
    /// `probe_success` of them, and no failure, end in Normal. An API that answers every probe with
    /// 404 neither throttles nor fails, and waiting for a success would probe it for ever.
    pub neutral_per_success: u32,
    /// How many probes may be out together, at most 8.
    pub probe_concurrency: u32,
    /// The fastest that probes are sent.
    pub probe_rate: Rate,
    /// How long a probe may stay out before it counts as failed. Choose it longer than one attempt
    /// can take.
    pub probe_timeout: Duration,
    /// By how much the rate grows at each step of the ramp after a recovery.
    pub ramp_factor: RateFactor,
    /// How long each step of the ramp lasts.
    pub ramp_every: Duration,
    /// How many recoveries in a row must fail for `CacheOnly`; `None` never goes there by itself.
    pub cache_only_after: Option<u32>,
    /// How often a `CacheOnly` that was entered by itself tries to recover by itself. What no person
    /// began must not need a person to end, so there is a period unless it is taken away: `None`
    /// leaves the way out to an operator, for an API that must not be called again unseen. A
    /// `CacheOnly` that an operator holds has no period.
    pub auto_recover: Option<Duration>,
    /// The longest random delay added to a release after a wait the server asked for.
    pub release_jitter: Duration,
}

impl HealthSettings {
    /// A plain circuit breaker: no Throttle between closed and open, any failure makes a streak,
    /// and three trial calls decide after thirty seconds.
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

    /// The usual machine of five states.
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
        // A quota that returns tomorrow is obeyed; a longer time is a mistake or an attack.
        max_retry_after: Duration::from_hours(24),
        sleep_min: Duration::from_secs(2),
        sleep_max: Duration::from_mins(5),
        sleep_jitter: Share::percent(25),
        cooldown_factor: RateFactor::percent(200),
        throttle_share: Share::percent(50),
        throttle_floor: FIVE_A_SECOND,
        concurrency: 4,
        probe_success: 5,
        // Twenty answers at three a second take 7 s, which is less than one probe may hang.
        neutral_per_success: 4,
        probe_concurrency: 1,
        probe_rate: THREE_A_SECOND,
        // An attempt may take ten seconds; half as much again covers its cancellation.
        probe_timeout: Duration::from_secs(15),
        ramp_factor: RateFactor::percent(110),
        ramp_every: Duration::from_mins(5),
        cache_only_after: Some(5),
        // Five failed recoveries take a minute or more, so one try in a quarter of an hour is rare
        // enough for an API that is down and soon enough for the people who wait for it.
        auto_recover: Some(Duration::from_mins(15)),
        release_jitter: Duration::from_secs(1),
    };
}

impl Default for HealthSettings {
    fn default() -> Self {
        Self::ADAPTIVE
    }
}

/// Settings that make sense together.
///
/// ```
/// use outflow_core::{HealthConfig, HealthMistake, HealthSettings, Share};
///
/// let upside_down = HealthSettings {
///     p_recover: Share::percent(30),
///     probe_success: 0,
///     ..HealthSettings::default()
/// };
/// let mistakes = HealthConfig::new(upside_down).unwrap_err();
/// assert_eq!(
///     mistakes.all(),
///     [HealthMistake::RecoversAboveThrottle, HealthMistake::NoProbes]
/// );
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HealthConfig(HealthSettings);

impl HealthConfig {
    /// Checks settings as a whole.
    ///
    /// # Errors
    /// With every [`HealthConfigError`](super::HealthConfigError) that the settings make.
    pub fn new(settings: HealthSettings) -> Result<Self, InvalidHealth> {
        match InvalidHealth::from_settings(&settings) {
            Some(invalid) => Err(invalid),
            None => Ok(Self(settings)),
        }
    }

    /// The profile of [`HealthSettings::BREAKER`].
    pub const fn breaker() -> Self {
        Self(HealthSettings::BREAKER)
    }

    /// The settings it was made of.
    pub const fn settings(&self) -> &HealthSettings {
        &self.0
    }
}

impl Default for HealthConfig {
    fn default() -> Self {
        Self(HealthSettings::ADAPTIVE)
    }
}

/// What makes a streak.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StreakRule {
    /// Refusals for the server's limits; any other outcome that counts ends it.
    Throttled,
    /// Failures of any kind; a success ends it.
    Failures,
}

/// Where Normal goes in trouble.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Escalation {
    /// To half speed.
    Throttle,
    /// Straight to a stop, as a circuit breaker does.
    Sleep,
}

/// A number to multiply by, in parts per million.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct RateFactor(u32);

impl RateFactor {
    /// Changes nothing.
    pub const ONE: Self = Self(1_000_000);

    /// So many hundredths: 200 doubles. The largest is 4 294.
    pub const fn percent(percent: u32) -> Self {
        Self(percent.saturating_mul(10_000))
    }

    /// So many millionths: 1 500 000 makes half as much again.
    pub const fn parts_per_million(parts: u32) -> Self {
        Self(parts)
    }

    /// The factor in millionths.
    pub const fn as_parts_per_million(self) -> u32 {
        self.0
    }

    /// `value` times this, rounded down, or the largest number.
    pub(crate) fn times(self, value: u64) -> u64 {
        u64::try_from(u128::from(value) * u128::from(self.0) / 1_000_000).unwrap_or(u64::MAX)
    }
}

/// Below this the API is slow enough, and only its concurrency is cut.
const FIVE_A_SECOND: Rate = Rate::per_second_const(5);

/// Enough to find out within two seconds, too little to hurt.
const THREE_A_SECOND: Rate = Rate::per_second_const(3);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_factor_is_told_in_millionths() {
        assert_eq!(RateFactor::percent(150).as_parts_per_million(), 1_500_000);
        assert_eq!(RateFactor::parts_per_million(7).as_parts_per_million(), 7);
    }
}
