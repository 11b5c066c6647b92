//! A rate in finer steps than whole units.
//!
//! Three per cent of 10/s is less than one call, so a whole-number rate would never grow. A fine
//! rate counts millionths of a unit over the configured span. It becomes a whole rate, rounded
//! down, only on request.

use core::time::Duration;

use crate::Rate;

/// Millionths of a unit per span.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct FineRate(u128);

impl FineRate {
    /// The highest quantity that a rate can have.
    pub(super) const MAX: Self = Self::units(u64::MAX);

    /// Builds a rate of whole units.
    #[expect(
        clippy::as_conversions,
        reason = "u64 to u128 in a const fn, where `From` cannot be called"
    )]
    pub(super) const fn units(units: u64) -> Self {
        Self(units as u128 * MILLION)
    }

    /// Builds a fine rate over the rate's own span.
    pub(super) const fn from_rate(rate: Rate) -> Self {
        Self::units(rate.quantity())
    }

    /// Builds a stored rate; never zero, because zero cannot grow.
    pub(super) fn from_millionths(millionths: u128) -> Self {
        Self(millionths.max(1)).min(Self::MAX)
    }

    pub(super) const fn millionths(self) -> u128 {
        self.0
    }

    /// Converts to an equal speed over the span of another rate, rounded down.
    pub(super) fn over(self, from: Rate, to: Rate) -> Self {
        let (from, to) = (from.per().as_nanos(), to.per().as_nanos());
        // Dividing first keeps the product within 128 bits: both spans have at most 64.
        let whole = (self.0 / from).saturating_mul(to);
        let rest = self.0 % from * to / from;
        Self::from_millionths(whole.saturating_add(rest))
    }

    /// Returns the whole rate over the span of `like`, or over the time of one unit if less than
    /// one is left.
    pub(super) fn rate(self, like: Rate) -> Rate {
        let units = u64::try_from(self.0 / MILLION).unwrap_or(u64::MAX);
        let stretched = || {
            let nanos = (like.per().as_nanos() * MILLION).div_ceil(self.0.max(1));
            let nanos = u64::try_from(nanos).unwrap_or(u64::MAX);
            Rate::new(1, Duration::from_nanos(nanos))
        };
        Rate::new(units, like.per()).or_else(|_| stretched()).unwrap_or(like)
    }

    /// Returns the units let through where they are far below this rate. Otherwise returns a rate a
    /// twentieth to a tenth lower: responses in flight blur the count. Never returns less than
    /// `floor`.
    pub(super) fn shrunk_to(self, admitted: u64, floor: Self) -> Self {
        let admitted = Self::units(admitted);
        let target = if admitted.is_far_below(self) {
            admitted
        } else {
            admitted.clamp(self.share(TENTH_LESS), self.eased())
        };
        target.max(floor).min(self)
    }

    /// Returns true if the difference is too large to be blur.
    pub(super) fn is_far_below(self, other: Self) -> bool {
        self < other.share(FAR_LESS)
    }

    /// Returns the rate after the smallest cut of one throttle.
    pub(super) const fn eased(self) -> Self {
        self.share(TWENTIETH_LESS)
    }

    /// Returns half of the rate, not below `floor`.
    pub(super) fn halved(self, floor: Self) -> Self {
        Self(self.0 / 2).max(floor).min(self)
    }

    pub(super) const fn three_quarters(self) -> Self {
        self.share(QUARTER_LESS)
    }

    /// Returns the rate after a throttle of a long window: the units let through, but a twentieth to
    /// a tenth less.
    pub(super) fn eased_by(self, admitted: u64) -> Self {
        Self::units(admitted).clamp(self.share(TENTH_LESS), self.eased())
    }

    /// Returns a twentieth less, and a whole unit less, or nothing would change at low rates.
    pub(super) fn below(self) -> Self {
        let eased = self.eased();
        if self.0 < 2 * MILLION {
            return eased;
        }
        Self(self.0 / MILLION * MILLION - MILLION / 20).min(eased)
    }

    /// Returns the whole units.
    pub(super) fn whole(self) -> u64 {
        u64::try_from(self.0 / MILLION).unwrap_or(u64::MAX)
    }

    pub(super) fn plus_unit(self) -> Self {
        Self(self.0.saturating_add(MILLION)).min(Self::MAX)
    }

    pub(super) fn plus_quarter_unit(self) -> Self {
        Self(self.0.saturating_add(MILLION / 4)).min(Self::MAX)
    }

    pub(super) fn doubled(self) -> Self {
        Self(self.0.saturating_mul(2)).min(Self::MAX)
    }

    /// Adds a share in parts per million, and always at least one grain.
    pub(super) fn plus(self, parts_per_million: u32) -> Self {
        let step = self.share(parts_per_million).0.max(1);
        Self(self.0.saturating_add(step)).min(Self::MAX)
    }

    /// Returns a share in parts per million, at least one grain.
    #[expect(
        clippy::as_conversions,
        reason = "u32 to u128 in a const fn, where `From` cannot be called"
    )]
    pub(super) const fn share(self, parts_per_million: u32) -> Self {
        // A fine rate has at most 84 bits, so 128 are enough.
        let share = self.0 * parts_per_million as u128 / MILLION;
        Self(if share == 0 { 1 } else { share })
    }

    /// Returns true within one growth step of the other rate, so that no step skips it. Also true
    /// within a call and a little more, which matters for low rates: the next whole call is
    /// throttled.
    pub(super) fn is_near(self, other: Self) -> bool {
        let call = CALL.min(other.share(FEW).0);
        self.0.abs_diff(other.0) <= other.share(NEAR).0.max(call)
    }
}

const MILLION: u128 = 1_000_000;
/// In parts per million. Twice the blur is more than blur can explain.
const FAR_LESS: u32 = 800_000;
/// About the blur of a count with ten calls in flight at a hundred a second.
const TENTH_LESS: u32 = 900_000;
/// The size of the largest growth step.
const NEAR: u32 = 30_000;
/// One call, and the distance by which a careful step may pass it.
const CALL: u128 = MILLION + MILLION / 4;
/// With fewer than four units, one more is no neighbourhood.
const FEW: u32 = 300_000;
const QUARTER_LESS: u32 = 750_000;
/// More than one careful step of growth, so that the next window is clean.
const TWENTIETH_LESS: u32 = 950_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(text: &str) -> Rate {
        text.parse().expect("valid")
    }

    #[test]
    fn a_fine_rate_converts_to_a_whole_rate() {
        let shown = |level: u128, like| alloc::format!("{:#}", FineRate(level).rate(rate(like)));
        assert_eq!(shown(41_999_999, "50/s"), "41/s");
        assert_eq!(shown(500_000, "50/s"), "1/2s");
        assert_eq!(shown(300_000, "50/s"), "1/3333333334ns", "never faster");
        assert_eq!(shown(1, "1/s"), "1/1000000s");
        assert_eq!(FineRate(0).rate(rate("1/d")).quantity(), 1);
    }

    #[test]
    fn a_speed_is_kept_over_another_span() {
        let over = |from: &str, to: &str| {
            let from = rate(from);
            FineRate::from_rate(from).over(from, rate(to)).millionths()
        };
        assert_eq!(over("100/min", "7/s"), 1_666_666);
        assert_eq!(over("2/s", "9/min"), 120_000_000);
        assert_eq!(over("18446744073709551615/ns", "1/d"), FineRate::MAX.0);
        assert_eq!(over("1/18446744073709551615ns", "1/ns"), 1);
    }

    #[test]
    fn extremes_do_not_overflow() {
        let max = FineRate::MAX;
        assert_eq!(max.plus(u32::MAX), max);
        assert_eq!(max.doubled(), max);
        assert_eq!(max.shrunk_to(u64::MAX, max), max);
        assert_eq!(FineRate(1).shrunk_to(0, FineRate(1)), FineRate(1));
        assert!(FineRate(1).plus(1) > FineRate(1));
    }
}
