//! Every possible error in the settings of a health machine.
//!
//! All conditions are checked, so that all errors are reported at once: a user should not have to
//! fix a file one error at a time.

use alloc::vec::Vec;
use core::fmt;

use super::config::{HealthSettings, RateFactor};
use super::probe::MAX_PROBES;
use crate::Share;

/// All errors in some settings.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InvalidHealth(Vec<HealthConfigError>);

impl InvalidHealth {
    /// Collects the errors in these settings, if there are any.
    pub(super) fn from_settings(settings: &HealthSettings) -> Option<Self> {
        let errors = HealthConfigError::find_all(settings);
        (!errors.is_empty()).then_some(Self(errors))
    }

    /// Returns every error, in the order of the settings.
    pub fn all(&self) -> &[HealthConfigError] {
        &self.0
    }
}

impl fmt::Display for InvalidHealth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().enumerate().try_for_each(|(at, error)| {
            let separator = if at == 0 { "" } else { "; " };
            write!(f, "{separator}{error}")
        })
    }
}

impl core::error::Error for InvalidHealth {}

error_enum! {
    /// One error in the settings.
    pub enum HealthConfigError {
        /// The error window spans no time.
        NoWindow = "window and window_length must be above 0",
        /// The window holds fewer samples than required, or none are required.
        SamplesOutsideWindow = "min_samples and min_failures must be at most window_length, and min_samples at least 1",
        /// A failure share of 0 % would trip on success.
        TripsOnNothing = "p_throttle and p_recover must be above 0",
        /// A streak of 0 would trip at once.
        NoStreak = "n_throttle, n_failures and n_cacheonly must be at least 1, or \"never\"",
        /// `p_recover` is above `p_throttle`: the states would alternate.
        RecoversAboveThrottle = "p_recover must not be above p_throttle",
        /// `p_throttle` is above `p_sleep`.
        ThrottlesAboveSleep = "p_throttle must not be above p_sleep",
        /// Throttle would be left without any success.
        NoRecovery = "s_recover must be at least 1",
        /// `short_retry_after` is above `max_retry_after`.
        ShortAboveMax = "short_retry_after must not be above max_retry_after",
        /// `sleep_min` is zero.
        NoSleep = "sleep_min must be above 0",
        /// `sleep_min` is above `sleep_max`.
        SleepMinAboveMax = "sleep_min must not be above sleep_max",
        /// The cooldown shrinks with each failure.
        CooldownShrinks = "cooldown_factor must be at least 1",
        /// Throttle would leave no rate.
        ThrottlesToNothing = "throttle_share must be above 0",
        /// No request may be in flight.
        NoConcurrency = "concurrency must be at least 1",
        /// Normal would return without any success or response.
        NoProbes = "probe_success and neutral_per_success must be at least 1",
        /// The number of concurrent probes is not 1 to 8.
        ProbeConcurrencyOutOfRange = "probe_start and probe_concurrency must be 1 to 8",
        /// A probe would fail the moment it is sent.
        NoProbeTime = "probe_timeout must be above 0",
        /// The ramp grows by less than 1 % a step, or takes no time.
        NoRamp = "ramp_factor must be at least 1.01 and ramp_every above 0",
        /// `CacheOnly` would start without any failure.
        CacheOnlyAtOnce = "cache_only_after must be at least 1, or left out for never",
        /// `CacheOnly` would recover without pause.
        AutoRecoverAtOnce = "auto_recover must be above 0, or left out for never",
    }
}

impl HealthConfigError {
    /// Finds the errors of settings.
    fn find_all(s: &HealthSettings) -> Vec<Self> {
        let checks = [
            (Self::NoWindow, s.window.is_zero() || s.window_length == 0),
            (
                Self::SamplesOutsideWindow,
                s.min_samples == 0 || s.min_samples.max(s.min_failures) > s.window_length,
            ),
            (
                Self::TripsOnNothing,
                s.p_throttle == Share::NONE || s.p_recover == Share::NONE,
            ),
            (
                Self::NoStreak,
                [s.n_throttle, s.n_failures, s.n_cacheonly].contains(&Some(0)),
            ),
            (Self::RecoversAboveThrottle, s.p_recover > s.p_throttle),
            (
                Self::ThrottlesAboveSleep,
                s.p_sleep.is_some_and(|share| s.p_throttle > share),
            ),
            (Self::NoRecovery, s.s_recover == 0),
            (Self::ShortAboveMax, s.short_retry_after > s.max_retry_after),
            (Self::NoSleep, s.sleep_min.is_zero()),
            (Self::SleepMinAboveMax, s.sleep_min > s.sleep_max),
            (Self::CooldownShrinks, s.cooldown_factor < RateFactor::ONE),
            (Self::ThrottlesToNothing, s.throttle_share == Share::NONE),
            (Self::NoConcurrency, s.concurrency == Some(0)),
            (Self::NoProbes, s.probe_success == 0 || s.neutral_per_success == 0),
            (
                Self::ProbeConcurrencyOutOfRange,
                [s.probe_start, s.probe_concurrency]
                    .iter()
                    .any(|count| !(1..=MAX_PROBES).contains(count)),
            ),
            (Self::NoProbeTime, s.probe_timeout.is_zero()),
            (Self::NoRamp, s.ramp_factor < SLOWEST_RAMP || s.ramp_every.is_zero()),
            (Self::CacheOnlyAtOnce, s.cache_only_after == Some(0)),
            (
                Self::AutoRecoverAtOnce,
                s.auto_recover.is_some_and(|every| every.is_zero()),
            ),
        ];
        let found = checks.into_iter().filter(|(_, is_made)| *is_made);
        found.map(|(error, _)| error).collect()
    }
}

/// A ramp of less than 1 % a step would take thousands of steps, each a wake-up.
const SLOWEST_RAMP: RateFactor = RateFactor::percent(101);

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use core::time::Duration;

    use super::*;
    use crate::HealthConfig;

    fn errors(change: impl FnOnce(&mut HealthSettings)) -> Vec<HealthConfigError> {
        let mut settings = HealthSettings::CAUTIOUS;
        change(&mut settings);
        HealthConfig::new(settings).map_or_else(|invalid| invalid.all().to_vec(), |_| Vec::new())
    }

    #[test]
    fn the_profiles_are_valid() {
        for profile in [
            HealthSettings::ADAPTIVE,
            HealthSettings::CAUTIOUS,
            HealthSettings::BREAKER,
        ] {
            assert!(HealthConfig::new(profile).is_ok());
        }
    }

    #[test]
    fn each_error_is_found_alone() {
        use HealthConfigError as M;
        let none = Duration::ZERO;
        let found = [
            (errors(|s| s.window = none), M::NoWindow),
            (errors(|s| s.min_samples = 0), M::SamplesOutsideWindow),
            (errors(|s| s.min_samples = 301), M::SamplesOutsideWindow),
            (errors(|s| s.p_recover = Share::NONE), M::TripsOnNothing),
            (errors(|s| s.min_failures = 301), M::SamplesOutsideWindow),
            (errors(|s| s.n_throttle = Some(0)), M::NoStreak),
            (errors(|s| s.n_failures = Some(0)), M::NoStreak),
            (errors(|s| s.n_cacheonly = Some(0)), M::NoStreak),
            (errors(|s| s.p_recover = Share::percent(21)), M::RecoversAboveThrottle),
            (errors(|s| s.p_throttle = Share::percent(61)), M::ThrottlesAboveSleep),
            (errors(|s| s.s_recover = 0), M::NoRecovery),
            (errors(|s| s.short_retry_after = Duration::MAX), M::ShortAboveMax),
            (errors(|s| s.sleep_min = none), M::NoSleep),
            (errors(|s| s.sleep_min = Duration::from_secs(301)), M::SleepMinAboveMax),
            (
                errors(|s| s.cooldown_factor = RateFactor::percent(99)),
                M::CooldownShrinks,
            ),
            (errors(|s| s.throttle_share = Share::NONE), M::ThrottlesToNothing),
            (errors(|s| s.concurrency = Some(0)), M::NoConcurrency),
            (errors(|s| s.probe_success = 0), M::NoProbes),
            (errors(|s| s.neutral_per_success = 0), M::NoProbes),
            (errors(|s| s.probe_start = 0), M::ProbeConcurrencyOutOfRange),
            (errors(|s| s.probe_start = 9), M::ProbeConcurrencyOutOfRange),
            (errors(|s| s.probe_concurrency = 0), M::ProbeConcurrencyOutOfRange),
            (errors(|s| s.probe_concurrency = 9), M::ProbeConcurrencyOutOfRange),
            (errors(|s| s.probe_timeout = none), M::NoProbeTime),
            (errors(|s| s.ramp_factor = RateFactor::ONE), M::NoRamp),
            (errors(|s| s.ramp_every = none), M::NoRamp),
            (errors(|s| s.cache_only_after = Some(0)), M::CacheOnlyAtOnce),
            (errors(|s| s.auto_recover = Some(none)), M::AutoRecoverAtOnce),
        ];
        for (all, expected) in found {
            assert_eq!(all, [expected], "{expected}");
        }
    }

    // A window of length zero holds no sample, and a ratio of zero is below that of recovery.
    #[test]
    fn an_error_that_implies_another_is_reported_with_it() {
        use HealthConfigError as M;
        assert_eq!(errors(|s| s.window_length = 0), [M::NoWindow, M::SamplesOutsideWindow]);
        assert_eq!(
            errors(|s| s.p_throttle = Share::NONE),
            [M::TripsOnNothing, M::RecoversAboveThrottle]
        );
    }

    // Each setting at the last value that is valid next to its neighbour.
    #[test]
    fn boundary_values_are_valid() {
        let enough = [
            errors(|s| s.min_samples = s.window_length),
            errors(|s| s.p_recover = s.p_throttle),
            errors(|s| s.min_failures = s.window_length),
            errors(|s| s.p_sleep = Some(s.p_throttle)),
            errors(|s| s.p_sleep = None),
            errors(|s| s.n_throttle = None),
            errors(|s| s.n_cacheonly = None),
            errors(|s| s.short_retry_after = s.max_retry_after),
            errors(|s| s.sleep_min = s.sleep_max),
            errors(|s| s.cooldown_factor = RateFactor::ONE),
            errors(|s| s.probe_start = 8),
            errors(|s| s.probe_concurrency = 8),
            errors(|s| s.ramp_factor = RateFactor::percent(101)),
            errors(|s| s.cache_only_after = Some(1)),
            errors(|s| s.cache_only_after = None),
            errors(|s| s.auto_recover = None),
        ];
        for found in enough {
            assert_eq!(found, []);
        }
    }

    #[test]
    fn all_errors_are_reported_in_one_message() {
        let settings = HealthSettings {
            concurrency: Some(0),
            sleep_min: Duration::ZERO,
            ..HealthSettings::CAUTIOUS
        };
        let invalid = HealthConfig::new(settings).expect_err("two errors");
        assert_eq!(
            invalid.to_string(),
            "sleep_min must be above 0; concurrency must be at least 1"
        );
    }
}
