//! Readers for single values: each returns the value or its fault.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use outflow_core::{Cost, Rate, RateFactor, Share};
use smol_str::SmolStr;

use super::reader::{FieldValue, ValueError, unknown_name};
use super::tree::TreeValue;
use super::units;

type ReadResult<T> = Result<T, ValueError>;

/// Reads keys of a table into the fields of their names. A field keeps its value if its key is absent or
/// wrong.
#[macro_export]
macro_rules! read_fields {
    ($table:expr => $target:expr, $($key:ident: $read:expr,)+) => {
        $(if let Some(value) = $table.read(stringify!($key), $read) {
            $target.$key = value;
        })+
    };
}

/// Reads a text.
///
/// # Errors
/// Returns an error for any other type.
pub fn read_text<'a>(item: &FieldValue<'a>) -> ReadResult<&'a str> {
    match &item.node.value {
        TreeValue::Text(text) => Ok(text),
        other => Err(expected("a text", other)),
    }
}

/// Reads a text that is not blank.
///
/// # Errors
/// Returns an error for a blank text and for any other type.
pub fn read_filled_text<'a>(item: &FieldValue<'a>) -> ReadResult<&'a str> {
    match read_text(item)? {
        text if text.trim().is_empty() => Err(ValueError::new("this is empty").help("leave it out")),
        text => Ok(text),
    }
}

/// Reads a duration, zero included.
///
/// # Errors
/// Returns an error if the unit is missing or this is no duration.
pub fn read_duration(item: &FieldValue<'_>) -> ReadResult<Duration> {
    match &item.node.value {
        TreeValue::Text(text) => units::parse_duration(text),
        TreeValue::Integer(Some(number)) if *number >= 0 => Err(unit_missing(&number.to_string())),
        TreeValue::Decimal(number) if units::decimal_millionths(number).is_some() => Err(unit_missing(number)),
        TreeValue::Integer(_) | TreeValue::Decimal(_) => {
            Err(ValueError::new("this is not a duration").help("write it like \"10s\" or \"250ms\""))
        }
        other => Err(expected("a duration", other).help("write it like \"10s\" or \"250ms\"")),
    }
}

/// Reads a duration above zero.
///
/// # Errors
/// Returns an error as [`read_duration`], and for zero.
pub fn read_positive_duration(item: &FieldValue<'_>) -> ReadResult<Duration> {
    match read_duration(item)? {
        Duration::ZERO => Err(ValueError::new("this must be above 0").help("write it like \"10s\"")),
        span => Ok(span),
    }
}

/// Reads a size above zero, in bytes.
///
/// # Errors
/// Returns an error if the unit is missing or this is no size.
pub fn read_size(item: &FieldValue<'_>) -> ReadResult<u64> {
    match &item.node.value {
        TreeValue::Text(text) => match units::parse_size(text)? {
            0 => Err(ValueError::new("this must be above 0").help("write it like \"10MiB\"")),
            bytes => Ok(bytes),
        },
        TreeValue::Integer(Some(number)) => {
            let number = number.to_string();
            let number = units::show_number(&number);
            let help = format!("write \"{number}MiB\", \"{number}KiB\" or \"{number}B\"");
            Err(ValueError::new("a size needs its unit").help(help))
        }
        other => Err(expected("a size", other).help("write it like \"10MiB\"")),
    }
}

/// Reads a share from 0 to 100 %.
///
/// # Errors
/// Returns an error if this is no share.
pub fn read_share(item: &FieldValue<'_>) -> ReadResult<Share> {
    match &item.node.value {
        TreeValue::Text(text) => units::parse_share(text),
        TreeValue::Integer(Some(number)) => units::parse_share(&number.to_string()),
        TreeValue::Decimal(number) => units::parse_share(number),
        other => Err(expected("a share", other).help("write it like \"20%\" or 0.2")),
    }
}

/// Reads a factor.
///
/// # Errors
/// Returns an error if this is no positive number.
pub fn read_factor(item: &FieldValue<'_>) -> ReadResult<RateFactor> {
    match &item.node.value {
        TreeValue::Integer(Some(number)) => units::parse_factor(&number.to_string()),
        TreeValue::Decimal(number) => units::parse_factor(number),
        other => Err(expected("a number", other).help("write it like 2 or 1.5")),
    }
}

/// Reads a rate, such as `10/s`.
///
/// # Errors
/// Returns an error if this is no rate.
pub fn read_rate(item: &FieldValue<'_>) -> ReadResult<Rate> {
    let rate = match &item.node.value {
        TreeValue::Text(text) => text.parse::<Rate>().map_err(|error| ValueError::new(error.to_string())),
        TreeValue::Integer(_) => {
            Err(ValueError::new("a rate is a quantity per time").help("write it like \"10/s\" or \"100/min\""))
        }
        other => Err(expected("a rate", other).help("write it like \"10/s\" or \"100/min\"")),
    }?;
    check_rate(rate)
}

/// Reads a whole number of units per second, at least one.
///
/// # Errors
/// Returns an error if this is no such number.
pub fn read_per_second(item: &FieldValue<'_>) -> ReadResult<Rate> {
    let quantity = match &item.node.value {
        TreeValue::Decimal(_) => {
            return Err(ValueError::new("this must be a whole number")
                .help("write `limits = [\"1 per 2s\"]` for half a call a second"));
        }
        _ => read_integer(item, 1..=MAX_UNITS)?,
    };
    Rate::per_second(quantity).map_err(|error| ValueError::new(error.to_string()))
}

fn check_rate(rate: Rate) -> ReadResult<Rate> {
    match rate.quantity() {
        0..=MAX_UNITS => Ok(rate),
        _ => Err(ValueError::new("no API allows so much").help("say `limits = []` to have none")),
    }
}

/// Reads the cost of a call.
///
/// # Errors
/// Returns an error if this is no whole number.
pub fn read_cost(item: &FieldValue<'_>) -> ReadResult<Cost> {
    read_integer(item, 0..=MAX_UNITS).map(Cost::new)
}

/// Reads a whole number within bounds.
///
/// # Errors
/// Returns an error for any other value.
pub fn read_integer<T>(item: &FieldValue<'_>, bounds: RangeInclusive<T>) -> ReadResult<T>
where
    T: TryFrom<i128> + PartialOrd + Display,
{
    let TreeValue::Integer(number) = item.node.value else {
        return Err(expected("a whole number", &item.node.value));
    };
    // A number that fits no `i128` is `None` and too large.
    let is_negative = number.is_some_and(i128::is_negative);
    match number.and_then(|number| T::try_from(number).ok()) {
        Some(number) if bounds.contains(&number) => Ok(number),
        Some(number) if number > *bounds.end() => Err(too_large(bounds.end())),
        None if !is_negative => Err(too_large(bounds.end())),
        _ => Err(ValueError::new(format!("this must be at least {}", bounds.start()))),
    }
}

/// Reads a whole number of 32 bits, zero included.
///
/// # Errors
/// Returns an error for any other value.
pub fn read_u32(item: &FieldValue<'_>) -> ReadResult<u32> {
    read_integer(item, 0..=u32::MAX)
}

/// Reads a word as `None`, or another value.
///
/// # Errors
/// Returns the error of the other value.
pub fn read_word_or<T>(
    item: &FieldValue<'_>,
    none: &str,
    read: impl FnOnce(&FieldValue<'_>) -> ReadResult<T>,
) -> ReadResult<Option<T>> {
    match &item.node.value {
        TreeValue::Text(text) if text == none => Ok(None),
        _ => read(item).map(Some),
    }
}

/// Reads a whole number of 16 bits, zero included.
///
/// # Errors
/// Returns an error for any other value.
pub fn read_u16(item: &FieldValue<'_>) -> ReadResult<u16> {
    read_integer(item, 0..=u16::MAX)
}

/// Returns a reader of one of several words. Any other word is an error that names the nearest.
pub fn read_choice<T: Copy>(choices: &[(&str, T)]) -> impl Fn(&FieldValue<'_>) -> ReadResult<T> {
    move |item: &FieldValue<'_>| {
        let written = read_text(item)?;
        let found = choices.iter().find(|(name, _)| *name == written);
        found
            .map(|(_, value)| *value)
            .ok_or_else(|| unknown_name("value", written, choices.iter().map(|(name, _)| *name)))
    }
}

/// Reads a boolean.
///
/// # Errors
/// Returns an error for any other type.
pub fn read_bool(item: &FieldValue<'_>) -> ReadResult<bool> {
    match &item.node.value {
        TreeValue::Bool(value) => Ok(*value),
        other => Err(expected("`true` or `false`", other)),
    }
}

/// Checks a name that becomes a label and a part of paths.
///
/// # Errors
/// Returns an error with the characters that a name may have.
pub fn read_name(written: &str) -> ReadResult<SmolStr> {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-' || c == '.';
    if written.is_empty() || written.len() > MAX_NAME || !written.chars().all(fits) {
        return Err(ValueError::new("this is no name")
            .help("use 1 to 64 letters, digits, `-`, `_` and `.`: names are parts of paths and metrics"));
    }
    Ok(SmolStr::new(written))
}

/// Reads a path on disk.
///
/// # Errors
/// Returns an error for a blank text and for any other type.
pub fn read_path(item: &FieldValue<'_>) -> ReadResult<PathBuf> {
    read_filled_text(item).map(PathBuf::from)
}

/// Returns the error of a value that has another type than expected.
pub fn expected(what: &str, found: &TreeValue) -> ValueError {
    ValueError::new(format!("{what} is expected here, and this is {}", found.kind()))
}

fn too_large(max: impl Display) -> ValueError {
    ValueError::new(format!("this must be at most {max}"))
}

fn unit_missing(number: &str) -> ValueError {
    ValueError::new("a duration needs its unit").help(units::advise_unit(number))
}

/// A larger number means that there is no limit.
const MAX_UNITS: u64 = 1_000_000_000_000;

/// Labels of metrics stay short.
const MAX_NAME: usize = 64;
