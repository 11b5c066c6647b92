//! Sleep durations without a server's time, which grow while recoveries fail.
//!
//! A sleep is the cooldown plus a random share, so that several processes do not wake together. The
//! cooldown stays between the shortest and the longest sleep. A wait that the server asked for is
//! not shortened or jittered here.

use core::time::Duration;

use super::config::HealthSettings;
use super::rules::CooldownRule;
use crate::backoff::uniform;
use crate::time::span_nanos;

/// Duration of the next sleep, before its jitter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Cooldown(u64);

impl Cooldown {
    /// Returns the shortest sleep.
    pub(super) fn first(settings: &HealthSettings) -> Self {
        Self(span_nanos(settings.sleep_min))
    }

    /// Returns a share of an outage that has lasted for `outage`, at least `least`.
    pub(super) fn share_of(outage: Duration, least: Duration, settings: &HealthSettings) -> Self {
        let share = u128::from(settings.sleep_share.as_parts_per_million());
        let nanos = u128::from(span_nanos(outage)) * share / 1_000_000;
        let nanos = u64::try_from(nanos).unwrap_or(u64::MAX);
        Self(nanos.max(span_nanos(least))).within(settings)
    }

    /// Grows by the factor, up to the longest sleep.
    pub(super) fn grown(self, settings: &HealthSettings) -> Self {
        Self(settings.cooldown_factor.times(self.0)).within(settings)
    }

    /// Clamps to other settings.
    pub(super) fn within(self, settings: &HealthSettings) -> Self {
        let (least, max) = bounds(settings);
        Self(self.0.clamp(least, max))
    }

    pub(super) const fn span(self) -> Duration {
        Duration::from_nanos(self.0)
    }

    /// Draws a sleep of this cooldown. At the longest of a cooldown that doubles, the jitter is
    /// subtracted instead of added.
    pub(super) fn draw(self, settings: &HealthSettings, entropy: u64) -> Duration {
        let (least, max) = match settings.cooldown {
            CooldownRule::Doubling => bounds(settings),
            CooldownRule::Share => (self.0, u64::MAX),
        };
        let share = u128::from(settings.sleep_jitter.as_parts_per_million());
        let whole = 1_000_000 + share;
        let longest = u128::from(self.0) * whole / 1_000_000;
        let longest = u64::try_from(longest).unwrap_or(u64::MAX).min(max);
        let shortest = u128::from(longest) * 1_000_000 / whole;
        let shortest = u64::try_from(shortest).unwrap_or(longest).max(least);
        Duration::from_nanos(shortest + uniform(longest.saturating_sub(shortest), entropy))
    }
}

/// Returns the shortest and the longest sleep; valid settings have them in this order.
fn bounds(settings: &HealthSettings) -> (u64, u64) {
    let least = span_nanos(settings.sleep_min);
    (least, span_nanos(settings.sleep_max).max(least))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    // With bounds of 280 s and 300 s, a quarter off the longest would be 240 s.
    #[test]
    fn no_draw_is_shorter_or_longer_than_allowed() {
        for (least, max) in [(2, 300), (280, 300), (300, 300)] {
            let settings = HealthSettings {
                sleep_min: SECOND * least,
                sleep_max: SECOND * max,
                ..HealthSettings::CAUTIOUS
            };
            let mut cooldown = Cooldown::first(&settings);
            for _ in 0..10 {
                for entropy in [0, u64::MAX / 2, u64::MAX] {
                    let drawn = cooldown.draw(&settings, entropy);
                    assert!(drawn >= SECOND * least && drawn <= SECOND * max, "{drawn:?}");
                }
                cooldown = cooldown.grown(&settings);
            }
        }
    }

    #[test]
    fn a_draw_is_up_to_a_quarter_longer_than_its_cooldown() {
        let settings = HealthSettings::CAUTIOUS;
        let cooldown = Cooldown::first(&settings).grown(&settings);
        assert_eq!(cooldown.draw(&settings, 0), SECOND * 4);
        assert_eq!(cooldown.draw(&settings, u64::MAX), SECOND * 5);
    }
}
