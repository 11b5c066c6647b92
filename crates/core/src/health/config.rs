//! The variables of the health machine, checked together.
//!
//! [`HealthSettings`] is what people write; [`HealthConfig`] is what the machine runs on, and can
//! only be had from settings that make sense. Every mistake is told at once: fixing a file one error
//! at a time is a conversation nobody wants with a program.

use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

use super::probe::MOST_PROBES;
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
    pub streak: Streak,
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
    /// The longest `Retry-After` that is obeyed.
    pub max_retry_after: Duration,
    /// The shortest Sleep.
    pub sleep_min: Duration,
    /// The longest Sleep of our own choosing; the server's own word may be longer.
    pub sleep_max: Duration,
    /// How much longer than its cooldown a Sleep may randomly be, so that several machines do not
    /// wake together.
    pub sleep_jitter: Share,
    /// By how much the cooldown grows with each recovery that fails.
    pub cooldown_factor: Factor,
    /// The share of each rate that is left in Throttle.
    pub throttle_share: Share,
    /// The speed that Throttle leaves to every rate that had it.
    pub throttle_floor: Rate,
    /// How many requests may be in flight in Normal.
    pub concurrency: u32,
    /// How many probes must succeed.
    pub probe_success: u32,
    /// How many probes may be out together, at most 8.
    pub probe_concurrency: u32,
    /// The fastest that probes are sent.
    pub probe_rate: Rate,
    /// How long a probe may stay out before it counts as failed. Choose it longer than one attempt
    /// can take.
    pub probe_timeout: Duration,
    /// By how much the rate grows at each step of the ramp after a recovery.
    pub ramp_factor: Factor,
    /// How long each step of the ramp lasts.
    pub ramp_every: Duration,
    /// How many recoveries in a row must fail for `CacheOnly`; `None` never goes there by itself.
    pub cache_only_after: Option<u32>,
    /// How often `CacheOnly` tries to recover by itself; `None` waits for an operator.
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
        streak: Streak::Failures,
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
        streak: Streak::Throttled,
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
        cooldown_factor: Factor::percent(200),
        throttle_share: Share::percent(50),
        throttle_floor: FIVE_A_SECOND,
        concurrency: 4,
        probe_success: 5,
        probe_concurrency: 1,
        probe_rate: THREE_A_SECOND,
        // An attempt may take ten seconds; half as much again covers its cancellation.
        probe_timeout: Duration::from_secs(15),
        ramp_factor: Factor::percent(110),
        ramp_every: Duration::from_mins(5),
        cache_only_after: Some(5),
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
    /// With every [`HealthMistake`] that the settings make.
    pub fn new(settings: HealthSettings) -> Result<Self, InvalidHealth> {
        let mistakes: Vec<_> = HealthMistake::ALL
            .into_iter()
            .filter(|mistake| mistake.is_made_by(&settings))
            .collect();
        if mistakes.is_empty() {
            Ok(Self(settings))
        } else {
            Err(InvalidHealth(mistakes))
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
pub enum Streak {
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
pub struct Factor(u32);

impl Factor {
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

/// All that is wrong with some settings.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InvalidHealth(Vec<HealthMistake>);

impl InvalidHealth {
    /// Every mistake, in the order of the settings.
    pub fn all(&self) -> &[HealthMistake] {
        &self.0
    }
}

impl fmt::Display for InvalidHealth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().enumerate().try_for_each(|(at, mistake)| {
            let separator = if at == 0 { "" } else { "; " };
            write!(f, "{separator}{mistake}")
        })
    }
}

impl core::error::Error for InvalidHealth {}

/// One thing that is wrong with some settings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HealthMistake {
    /// The error window spans no time.
    NoWindow,
    /// More samples are asked for than the window holds, or none.
    SamplesOutsideWindow,
    /// A share of failures of 0 % would trip on success.
    TripsOnNothing,
    /// A streak of 0 would trip on nothing.
    NoStreak,
    /// `p_recover` is above `p_throttle`: the states would chase each other.
    RecoversAboveThrottle,
    /// `p_throttle` is above `p_sleep`.
    ThrottlesAboveSleep,
    /// Throttle is left after no success at all.
    NoRecovery,
    /// `short_retry_after` is above `max_retry_after`.
    ShortAboveMax,
    /// `sleep_min` is zero.
    NoSleep,
    /// `sleep_min` is above `sleep_max`.
    SleepMinAboveMax,
    /// The cooldown shrinks with each failure.
    CooldownShrinks,
    /// Throttle would leave nothing.
    ThrottlesToNothing,
    /// No request may be in flight.
    NoConcurrency,
    /// No probe could ever decide.
    NoProbes,
    /// The number of probes out together is not 1 to 8.
    ProbeConcurrencyOutOfRange,
    /// A probe fails the moment it is sent.
    NoProbeTime,
    /// The ramp grows by less than 1 % a step, or takes no time.
    NoRamp,
    /// `CacheOnly` after no failure at all.
    CacheOnlyAtOnce,
    /// `CacheOnly` would recover without pause.
    AutoRecoverAtOnce,
}

impl HealthMistake {
    const ALL: [Self; 19] = [
        Self::NoWindow,
        Self::SamplesOutsideWindow,
        Self::TripsOnNothing,
        Self::NoStreak,
        Self::RecoversAboveThrottle,
        Self::ThrottlesAboveSleep,
        Self::NoRecovery,
        Self::ShortAboveMax,
        Self::NoSleep,
        Self::SleepMinAboveMax,
        Self::CooldownShrinks,
        Self::ThrottlesToNothing,
        Self::NoConcurrency,
        Self::NoProbes,
        Self::ProbeConcurrencyOutOfRange,
        Self::NoProbeTime,
        Self::NoRamp,
        Self::CacheOnlyAtOnce,
        Self::AutoRecoverAtOnce,
    ];

    fn is_made_by(self, s: &HealthSettings) -> bool {
        match self {
            Self::NoWindow => s.window.is_zero() || s.window_length == 0,
            Self::SamplesOutsideWindow => s.min_samples == 0 || s.min_samples > s.window_length,
            Self::TripsOnNothing => s.p_throttle == Share::NONE || s.p_recover == Share::NONE,
            Self::NoStreak => s.n_throttle == 0 || s.n_cacheonly == 0,
            Self::RecoversAboveThrottle => s.p_recover > s.p_throttle,
            Self::ThrottlesAboveSleep => s.p_throttle > s.p_sleep,
            Self::NoRecovery => s.s_recover == 0,
            Self::ShortAboveMax => s.short_retry_after > s.max_retry_after,
            Self::NoSleep => s.sleep_min.is_zero(),
            Self::SleepMinAboveMax => s.sleep_min > s.sleep_max,
            Self::CooldownShrinks => s.cooldown_factor < Factor::ONE,
            Self::ThrottlesToNothing => s.throttle_share == Share::NONE,
            Self::NoConcurrency => s.concurrency == 0,
            Self::NoProbes => s.probe_success == 0,
            Self::ProbeConcurrencyOutOfRange => !(1..=MOST_PROBES).contains(&s.probe_concurrency),
            Self::NoProbeTime => s.probe_timeout.is_zero(),
            Self::NoRamp => s.ramp_factor < SLOWEST_RAMP || s.ramp_every.is_zero(),
            Self::CacheOnlyAtOnce => s.cache_only_after == Some(0),
            Self::AutoRecoverAtOnce => s.auto_recover.is_some_and(|every| every.is_zero()),
        }
    }
}

impl fmt::Display for HealthMistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoWindow => "window and window_length must be above 0",
            Self::SamplesOutsideWindow => "min_samples must be 1 to window_length",
            Self::TripsOnNothing => "p_throttle and p_recover must be above 0",
            Self::NoStreak => "n_throttle and n_cacheonly must be at least 1",
            Self::RecoversAboveThrottle => "p_recover must not be above p_throttle",
            Self::ThrottlesAboveSleep => "p_throttle must not be above p_sleep",
            Self::NoRecovery => "s_recover must be at least 1",
            Self::ShortAboveMax => "short_retry_after must not be above max_retry_after",
            Self::NoSleep => "sleep_min must be above 0",
            Self::SleepMinAboveMax => "sleep_min must not be above sleep_max",
            Self::CooldownShrinks => "cooldown_factor must be at least 1",
            Self::ThrottlesToNothing => "throttle_share must be above 0",
            Self::NoConcurrency => "concurrency must be at least 1",
            Self::NoProbes => "probe_success must be at least 1",
            Self::ProbeConcurrencyOutOfRange => "probe_concurrency must be 1 to 8",
            Self::NoProbeTime => "probe_timeout must be above 0",
            Self::NoRamp => "ramp_factor must be at least 1.01 and ramp_every above 0",
            Self::CacheOnlyAtOnce => "cache_only_after must be at least 1, or left out for never",
            Self::AutoRecoverAtOnce => "auto_recover must be above 0, or left out for never",
        })
    }
}

/// A ramp of less than 1 % a step would take thousands of steps, each a wake-up.
const SLOWEST_RAMP: Factor = Factor::percent(101);

/// Below this the API is slow enough, and only its concurrency is cut.
const FIVE_A_SECOND: Rate = Rate::per_second_const(5);

/// Enough to find out within two seconds, too little to hurt.
const THREE_A_SECOND: Rate = Rate::per_second_const(3);

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;

    fn mistakes(change: impl FnOnce(&mut HealthSettings)) -> Vec<HealthMistake> {
        let mut settings = HealthSettings::default();
        change(&mut settings);
        HealthConfig::new(settings).map_or_else(|invalid| invalid.0, |_| Vec::new())
    }

    #[test]
    fn the_profiles_make_sense() {
        for profile in [HealthSettings::ADAPTIVE, HealthSettings::BREAKER] {
            assert!(HealthConfig::new(profile).is_ok());
        }
    }

    #[test]
    fn each_mistake_is_found_alone() {
        use HealthMistake as M;
        let none = Duration::ZERO;
        let found = [
            (mistakes(|s| s.window = none), M::NoWindow),
            (mistakes(|s| s.min_samples = 0), M::SamplesOutsideWindow),
            (mistakes(|s| s.min_samples = 301), M::SamplesOutsideWindow),
            (mistakes(|s| s.p_recover = Share::NONE), M::TripsOnNothing),
            (mistakes(|s| s.n_throttle = 0), M::NoStreak),
            (mistakes(|s| s.n_cacheonly = 0), M::NoStreak),
            (
                mistakes(|s| s.p_recover = Share::percent(21)),
                M::RecoversAboveThrottle,
            ),
            (
                mistakes(|s| s.p_throttle = Share::percent(61)),
                M::ThrottlesAboveSleep,
            ),
            (mistakes(|s| s.s_recover = 0), M::NoRecovery),
            (
                mistakes(|s| s.short_retry_after = Duration::MAX),
                M::ShortAboveMax,
            ),
            (mistakes(|s| s.sleep_min = none), M::NoSleep),
            (
                mistakes(|s| s.sleep_min = Duration::from_secs(301)),
                M::SleepMinAboveMax,
            ),
            (
                mistakes(|s| s.cooldown_factor = Factor::percent(99)),
                M::CooldownShrinks,
            ),
            (
                mistakes(|s| s.throttle_share = Share::NONE),
                M::ThrottlesToNothing,
            ),
            (mistakes(|s| s.concurrency = 0), M::NoConcurrency),
            (mistakes(|s| s.probe_success = 0), M::NoProbes),
            (
                mistakes(|s| s.probe_concurrency = 0),
                M::ProbeConcurrencyOutOfRange,
            ),
            (
                mistakes(|s| s.probe_concurrency = 9),
                M::ProbeConcurrencyOutOfRange,
            ),
            (mistakes(|s| s.probe_timeout = none), M::NoProbeTime),
            (mistakes(|s| s.ramp_factor = Factor::ONE), M::NoRamp),
            (mistakes(|s| s.ramp_every = none), M::NoRamp),
            (
                mistakes(|s| s.cache_only_after = Some(0)),
                M::CacheOnlyAtOnce,
            ),
            (
                mistakes(|s| s.auto_recover = Some(none)),
                M::AutoRecoverAtOnce,
            ),
        ];
        for (all, expected) in found {
            assert_eq!(all, [expected], "{expected}");
        }
    }

    #[test]
    fn all_mistakes_are_told_in_one_message() {
        let settings = HealthSettings {
            concurrency: 0,
            sleep_min: Duration::ZERO,
            ..HealthSettings::default()
        };
        let told = HealthConfig::new(settings).expect_err("two mistakes");
        assert_eq!(
            told.to_string(),
            "sleep_min must be above 0; concurrency must be at least 1"
        );
    }
}
