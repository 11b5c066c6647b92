//! A quantity per span of time, such as `10/s` or `1 per 2s`.
//!
//! The two whole numbers are stored as written, never as a fraction: `100/min` and `5/3s` stay
//! exact, and rates are compared by cross-multiplication. A decimal becomes the smallest two whole numbers:
//! `0.35/s` is `7/20s`. A [`Limit`](crate::Limit) defines how the quantity is metered.

use core::cmp::Ordering;
use core::fmt;
use core::str::FromStr;
use core::time::Duration;

/// Positive quantity per positive span.
///
/// ```
/// use outflow_core::Rate;
///
/// let rate: Rate = "100/min".parse()?;
/// assert_eq!(rate.quantity(), 100);
/// assert_eq!(rate.to_string(), "100/min");
/// assert!(rate.cmp_speed(Rate::per_second(2)?).is_lt());
/// assert_eq!("1 per 2s".parse::<Rate>()?, Rate::new(1, core::time::Duration::from_secs(2))?);
/// # Ok::<(), outflow_core::InvalidRate>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rate {
    quantity: u64,
    per_nanos: u64,
}

impl Rate {
    /// Builds a rate of `quantity` per `per`.
    ///
    /// # Errors
    /// If either is zero, or the span is longer than the timeline (584 years).
    pub fn new(quantity: u64, per: Duration) -> Result<Self, InvalidRate> {
        if quantity == 0 {
            return Err(InvalidRate::NoQuantity);
        }
        match u64::try_from(per.as_nanos()) {
            Ok(0) => Err(InvalidRate::NoSpan),
            Ok(per_nanos) => Ok(Self { quantity, per_nanos }),
            Err(_) => Err(InvalidRate::SpanTooLong),
        }
    }

    /// Builds a rate of `quantity` per second.
    ///
    /// # Errors
    /// If the quantity is zero.
    pub fn per_second(quantity: u64) -> Result<Self, InvalidRate> {
        Self::new(quantity, Duration::from_secs(1))
    }

    /// Builds a constant rate of `quantity` per second; 0 counts as 1.
    pub(crate) const fn per_second_const(quantity: u64) -> Self {
        Self {
            quantity: if quantity == 0 { 1 } else { quantity },
            per_nanos: 1_000_000_000,
        }
    }

    /// Returns the quantity, at least 1.
    pub const fn quantity(self) -> u64 {
        self.quantity
    }

    /// Returns the span, at least 1 ns.
    pub const fn per(self) -> Duration {
        Duration::from_nanos(self.per_nanos)
    }

    pub(crate) const fn per_nanos(self) -> u64 {
        self.per_nanos
    }

    /// Multiplies the rate by `parts` in a million, rounded down. The span is kept while a whole
    /// quantity is left in it and stretched to one unit otherwise, so that no rate becomes zero.
    ///
    /// ```
    /// use outflow_core::Rate;
    ///
    /// let half = 500_000;
    /// assert_eq!(Rate::per_second(35)?.scaled(half).to_string(), "17/s");
    /// assert_eq!(Rate::per_second(1)?.scaled(half).to_string(), "1/2s");
    /// # Ok::<(), outflow_core::InvalidRate>(())
    /// ```
    #[must_use]
    pub fn scaled(self, parts_per_million: u64) -> Self {
        let wanted = u128::from(self.quantity) * u128::from(parts_per_million.max(1));
        if wanted >= MILLION {
            let quantity = u64::try_from(wanted / MILLION).unwrap_or(u64::MAX);
            return Self { quantity, ..self };
        }
        let stretched = (u128::from(self.per_nanos) * MILLION).div_ceil(wanted);
        Self {
            quantity: 1,
            per_nanos: u64::try_from(stretched).unwrap_or(u64::MAX),
        }
    }

    /// Lowers this rate to `ceiling` if it is above. The span is kept where that leaves a whole
    /// quantity and becomes the time of one unit otherwise.
    #[must_use]
    pub fn at_most(self, ceiling: Self) -> Self {
        if self.cmp_speed(ceiling).is_le() {
            return self;
        }
        let fits = u128::from(ceiling.quantity) * u128::from(self.per_nanos) / u128::from(ceiling.per_nanos);
        match u64::try_from(fits) {
            Ok(0) => Self {
                quantity: 1,
                per_nanos: ceiling.per_nanos.div_ceil(ceiling.quantity),
            },
            Ok(quantity) => Self { quantity, ..self },
            Err(_) => self,
        }
    }

    /// Converts this rate to a span that is a whole number of the other's, rounded up.
    pub(crate) const fn in_whole_spans_of(self, other: Self) -> Self {
        let spans = self.per_nanos.div_ceil(other.per_nanos);
        Self {
            per_nanos: other.per_nanos.saturating_mul(spans),
            ..self
        }
    }

    /// Compares by speed: `60/min` equals `1/s` in speed, though it is another rate. Rates have no
    /// `Ord` for that reason.
    pub fn cmp_speed(self, other: Self) -> Ordering {
        let ours = u128::from(self.quantity) * u128::from(other.per_nanos);
        let theirs = u128::from(other.quantity) * u128::from(self.per_nanos);
        ours.cmp(&theirs)
    }

    /// Returns units per second, for people and metrics; decisions never use it.
    #[expect(
        clippy::as_conversions,
        clippy::cast_precision_loss,
        reason = "shown, never compared: 52 bits are plenty"
    )]
    pub fn as_per_second(self) -> f64 {
        self.quantity as f64 * 1e9 / self.per_nanos as f64
    }
}

const MILLION: u128 = 1_000_000;

/// Shows the rate as people write it: `35/s`, `1/2s`, `7/250ms`, `0.35/s` for seven in 20 s. A rate that arithmetic
/// lowered has a span of odd nanoseconds and is shown as a rounded decimal. All that is shown parses: to the same
/// rate, and a rounded decimal to the rate that it states. The alternate form `{:#}` shows no decimals.
///
/// ```
/// use outflow_core::Rate;
///
/// let lowered = Rate::per_second(35)?.scaled(10_000);
/// assert_eq!(lowered.to_string(), "0.35/s");
/// assert_eq!(format!("{lowered:#}"), "1/2857142858ns");
/// # Ok::<(), outflow_core::InvalidRate>(())
/// ```
impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [finest, ..] = &UNITS;
        let unit = UNITS
            .iter()
            .rev()
            .find(|unit| self.per_nanos.is_multiple_of(unit.nanos));
        let unit = unit.unwrap_or(finest);
        let count = self.per_nanos / unit.nanos;
        let is_odd = self.per_nanos > MILLISECOND && unit.nanos < MILLISECOND;
        match count {
            _ if is_odd && !f.alternate() => self.fmt_decimal(f, self.readable_unit()),
            _ if self.is_decimal(count, unit) && !f.alternate() => self.fmt_decimal(f, unit),
            1 => write!(f, "{}/{}", self.quantity, unit.name),
            _ => write!(f, "{}/{count}{}", self.quantity, unit.name),
        }
    }
}

impl Rate {
    /// Returns true if a decimal of this unit parses to the same rate. `1/2s` stays as it is.
    fn is_decimal(self, count: u64, unit: &RateUnit) -> bool {
        let is_exact = (u128::from(self.quantity) * 100).is_multiple_of(u128::from(count));
        let is_reduced = greatest_common_divisor(self.quantity, count) == 1;
        unit.nanos >= SECOND && count > 1 && self.quantity > 1 && is_exact && is_reduced
    }

    /// Returns the second, or the first longer unit that has at least a tenth of a call.
    fn readable_unit(self) -> &'static RateUnit {
        let [.., second, minute, hour, day] = &UNITS;
        let shorter = [second, minute, hour]
            .into_iter()
            .find(|unit| self.hundredths(unit) >= 10);
        shorter.unwrap_or(day)
    }

    fn hundredths(self, unit: &RateUnit) -> u128 {
        let parts = u128::from(self.quantity) * u128::from(unit.nanos) * 100;
        (parts + u128::from(self.per_nanos) / 2) / u128::from(self.per_nanos)
    }

    /// Writes hundredths of a call per unit.
    fn fmt_decimal(self, f: &mut fmt::Formatter<'_>, unit: &RateUnit) -> fmt::Result {
        let all = self.hundredths(unit).max(1);
        let (whole, rest) = (all / 100, all % 100);
        match (rest, rest % 10) {
            (0, _) => write!(f, "{whole}/{}", unit.name),
            (_, 0) => write!(f, "{whole}.{}/{}", rest / 10, unit.name),
            _ => write!(f, "{whole}.{rest:02}/{}", unit.name),
        }
    }
}

/// No provider states a limit over a longer span that is not whole milliseconds.
const MILLISECOND: u64 = 1_000_000;

const SECOND: u64 = 1_000_000_000;

impl FromStr for Rate {
    type Err = InvalidRate;

    /// Parses `10/s`, `100/min`, `5000/1h`, `1 per 2s`, `1_000 / day`, `0.35/s`.
    fn from_str(text: &str) -> Result<Self, InvalidRate> {
        let (quantity, span) = text
            .split_once('/')
            .or_else(|| text.split_once(" per "))
            .ok_or(InvalidRate::NoSeparator)?;
        let (quantity, spans) = quantity_from(quantity.trim())?;
        let nanos = span_from(span.trim())?.checked_mul(spans);
        Self::new(quantity, Duration::from_nanos(nanos.ok_or(InvalidRate::SpanTooLong)?))
    }
}

/// Parses a number of at most one decimal point, as a whole quantity over a number of spans: 0.35 is 7 over 20.
fn quantity_from(text: &str) -> Result<(u64, u64), InvalidRate> {
    let Some((whole, decimals)) = text.split_once('.') else {
        return Ok((whole_number(text)?, 1));
    };
    let (whole, tail) = (whole_number(whole)?, whole_number(decimals)?);
    let digits = decimals.bytes().filter(u8::is_ascii_digit).count();
    let spans = u32::try_from(digits).ok().and_then(|digits| 10_u64.checked_pow(digits));
    let spans = spans.ok_or(InvalidRate::QuantityTooLarge)?;
    let quantity = whole.checked_mul(spans).and_then(|quantity| quantity.checked_add(tail));
    let quantity = quantity.ok_or(InvalidRate::QuantityTooLarge)?;
    let divisor = greatest_common_divisor(quantity, spans);
    Ok((quantity / divisor, spans / divisor))
}

/// Returns the greatest common divisor; `b` is not zero.
const fn greatest_common_divisor(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// Parses `2s`, `min`, `1h` to nanoseconds: a unit, with an optional number before it.
fn span_from(text: &str) -> Result<u64, InvalidRate> {
    let digits = text.bytes().take_while(|b| b.is_ascii_digit() || *b == b'_').count();
    let (count, unit) = text.split_at(digits);
    let count = if count.is_empty() { 1 } else { whole_number(count)? };
    let unit = unit.trim();
    let nanos = UNITS
        .iter()
        .find(|known| known.name == unit || known.aliases.contains(&unit))
        .ok_or(InvalidRate::UnknownUnit)?
        .nanos;
    count.checked_mul(nanos).ok_or(InvalidRate::SpanTooLong)
}

fn whole_number(text: &str) -> Result<u64, InvalidRate> {
    if !text.starts_with(|c: char| c.is_ascii_digit()) {
        return Err(InvalidRate::NotANumber);
    }
    text.bytes().filter(|b| *b != b'_').try_fold(0_u64, |total, byte| {
        let digit = byte
            .checked_sub(b'0')
            .filter(|d| *d < 10)
            .ok_or(InvalidRate::NotANumber)?;
        total
            .checked_mul(10)
            .and_then(|tens| tens.checked_add(u64::from(digit)))
            .ok_or(InvalidRate::QuantityTooLarge)
    })
}

struct RateUnit {
    name: &'static str,
    aliases: &'static [&'static str],
    nanos: u64,
}

/// From the finest to the coarsest, which is the order in which a span is shown.
const UNITS: [RateUnit; 7] = [
    RateUnit {
        name: "ns",
        aliases: &[],
        nanos: 1,
    },
    RateUnit {
        name: "us",
        aliases: &["µs"],
        nanos: 1_000,
    },
    RateUnit {
        name: "ms",
        aliases: &[],
        nanos: 1_000_000,
    },
    RateUnit {
        name: "s",
        aliases: &["sec", "second", "seconds"],
        nanos: 1_000_000_000,
    },
    RateUnit {
        name: "min",
        aliases: &["m", "minute", "minutes"],
        nanos: 60_000_000_000,
    },
    RateUnit {
        name: "h",
        aliases: &["hr", "hour", "hours"],
        nanos: 3_600_000_000_000,
    },
    RateUnit {
        name: "d",
        aliases: &["day", "days"],
        nanos: 86_400_000_000_000,
    },
];

error_enum! {
    /// Reason that a rate cannot be built.
    pub enum InvalidRate {
        /// No separator stands between the quantity and its span.
        NoSeparator = "a rate is a quantity per time: write it like \"10/s\" or \"1 per 2s\"",
        /// The quantity is zero.
        NoQuantity = "a rate of 0 would refuse every call: use at least 1, over a longer span if need be",
        /// The span is zero.
        NoSpan = "a rate per no time has no meaning: use a span of at least 1ns",
        /// A number has a sign, letters or a point without digits.
        NotANumber = "a quantity has digits and at most one decimal point: write \"10/s\", \"0.5/s\" or \"1 per 2s\"",
        /// The quantity has more than 64 bits.
        QuantityTooLarge = "the number does not fit 64 bits: use a smaller one",
        /// The span is longer than 584 years.
        SpanTooLong = "the span is longer than 584 years: use a shorter one",
        /// The unit of time is unknown.
        UnknownUnit = "the unit of time is unknown: use ns, us, ms, s, min, h or d",
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;

    #[test]
    fn all_written_forms_parse() {
        let cases = [
            ("10/s", 10, 1_000_000_000),
            ("100/min", 100, 60_000_000_000),
            ("5000/1h", 5_000, 3_600_000_000_000),
            ("1 per 2s", 1, 2_000_000_000),
            (" 1_000 / day ", 1_000, 86_400_000_000_000),
            ("3 per 250ms", 3, 250_000_000),
            ("40/10 seconds", 40, 10_000_000_000),
            ("0.35/s", 7, 20_000_000_000),
            ("0.5/s", 1, 2_000_000_000),
            ("1.50 per 2min", 3, 240_000_000_000),
            ("2.0/s", 2, 1_000_000_000),
            ("0.01/d", 1, 8_640_000_000_000_000),
        ];
        for (text, quantity, nanos) in cases {
            let rate: Rate = text.parse().expect(text);
            assert_eq!((rate.quantity(), rate.per_nanos()), (quantity, nanos), "{text}");
        }
    }

    #[test]
    fn each_parse_error_names_its_cause() {
        let cases = [
            ("", InvalidRate::NoSeparator),
            ("10", InvalidRate::NoSeparator),
            ("10 s", InvalidRate::NoSeparator),
            ("0/s", InvalidRate::NoQuantity),
            ("10/0s", InvalidRate::NoSpan),
            ("-1/s", InvalidRate::NotANumber),
            ("+1/s", InvalidRate::NotANumber),
            (".5/s", InvalidRate::NotANumber),
            ("5./s", InvalidRate::NotANumber),
            ("0.-5/s", InvalidRate::NotANumber),
            ("0.5.5/s", InvalidRate::NotANumber),
            ("0.0/s", InvalidRate::NoQuantity),
            ("0.00000000000000000001/s", InvalidRate::QuantityTooLarge),
            ("18446744073709551615.5/s", InvalidRate::QuantityTooLarge),
            ("0.000000000001/d", InvalidRate::SpanTooLong),
            ("_/s", InvalidRate::NotANumber),
            ("/s", InvalidRate::NotANumber),
            ("1e3/s", InvalidRate::NotANumber),
            ("NaN/s", InvalidRate::NotANumber),
            ("18446744073709551616/s", InvalidRate::QuantityTooLarge),
            ("1/18446744073709551615d", InvalidRate::SpanTooLong),
            ("10/", InvalidRate::UnknownUnit),
            ("10/fortnight", InvalidRate::UnknownUnit),
            ("10/-1s", InvalidRate::UnknownUnit),
        ];
        for (text, error) in cases {
            assert_eq!(text.parse::<Rate>(), Err(error), "{text:?}");
        }
    }

    #[test]
    fn a_shown_rate_parses_back() {
        for text in [
            "10/s",
            "100/min",
            "5000/h",
            "1/2s",
            "7/250ms",
            "1/ns",
            "9/36h",
            "18446744073709551615/d",
        ] {
            assert_eq!(text.parse::<Rate>().expect(text).to_string(), text);
        }
    }

    // A decimal was shown as a fraction: 0.35/s as 7/20s. A burst of five in 10 s is not 0.5/s, and a third has no decimal.
    #[test]
    fn a_short_exact_decimal_is_shown_as_one() {
        for text in [
            "0.35/s", "6.5/min", "2.5/h", "0.07/d", "5/10s", "1/2s", "2/3s", "100/3min", "7/250ms",
        ] {
            let rate: Rate = text.parse().expect(text);
            assert_eq!(rate.to_string(), text);
            assert_eq!(alloc::format!("{rate:#}").parse(), Ok(rate), "the exact form");
        }
    }

    // 35/s at the floor of one per cent was shown as 1/2857142858ns.
    #[test]
    fn a_lowered_rate_is_shown_as_people_write_it() {
        for (exact, shown) in [
            ("1/2857142858ns", "0.35/s"),
            ("1/333333334ns", "3/s"),
            ("1/3333333334ns", "0.3/s"),
            ("7/333333333ns", "21/s"),
            ("1/85714285715ns", "0.7/min"),
            ("1/5142857142857ns", "0.7/h"),
            ("1/123428571428571ns", "0.7/d"),
            ("1/18446744073709551615ns", "0.01/d"),
        ] {
            let rate: Rate = exact.parse().expect(exact);
            assert_eq!(rate.to_string(), shown, "{exact}");
            assert_eq!(alloc::format!("{rate:#}"), exact, "the alternate form parses back");
            let copied: Rate = shown.parse().expect(shown);
            assert_eq!(copied.to_string().parse(), Ok(copied), "{shown} is shown as {copied}");
        }
    }

    #[test]
    fn speed_is_compared_exactly() {
        let rate = |text: &str| text.parse::<Rate>().expect("valid");
        assert!(rate("100/min").cmp_speed(rate("2/s")).is_lt());
        assert!(rate("60/min").cmp_speed(rate("1/s")).is_eq());
        let (max, less) = (rate("18446744073709551615/s"), rate("18446744073709551614/s"));
        assert!(max.cmp_speed(less).is_gt());
    }

    // 10 per 100 ms is 100/s: three a second is 0.3 of a unit in that window, so it is stretched.
    #[test]
    fn a_ceiling_keeps_the_span_if_possible() {
        let three = Rate::per_second(3).expect("valid");
        let at_most = |text: &str| text.parse::<Rate>().expect("valid").at_most(three).to_string();
        assert_eq!(at_most("35/s"), "3/s");
        assert_eq!(at_most("2/s"), "2/s");
        assert_eq!(at_most("100/min"), "100/min");
        assert_eq!(at_most("600/min"), "180/min");
        assert_eq!(at_most("10/100ms"), "3/s");
    }
}
