//! Readers for single values: each takes what was written or says what is wrong with it.

use std::path::PathBuf;
use std::time::Duration;

use http::Method;
use outflow_core::{Cost, Rate, RateFactor, Share};
use smol_str::SmolStr;

use super::reader::{FieldValue, ValueError, printable, unknown};
use super::suggest::nearest;
use super::tree::TreeValue;
use super::units;
use crate::base_url::BaseUrl;

type Read<T> = Result<T, ValueError>;

/// A text.
pub(super) fn text<'a>(item: &FieldValue<'a>) -> Read<&'a str> {
    match &item.node.value {
        TreeValue::Text(text) => Ok(text),
        other => Err(expected("a text", other)),
    }
}

/// A text of at least one character.
pub(super) fn filled<'a>(item: &FieldValue<'a>) -> Read<&'a str> {
    match text(item)? {
        text if text.trim().is_empty() => {
            Err(ValueError::new("this is empty").help("leave it out"))
        }
        text => Ok(text),
    }
}

/// A duration; zero is one.
pub(super) fn duration(item: &FieldValue<'_>) -> Read<Duration> {
    match &item.node.value {
        TreeValue::Text(text) => units::duration(text),
        TreeValue::Whole(Some(number)) if *number >= 0 => Err(bare(&number.to_string())),
        TreeValue::Decimal(number) if units::decimal_millionths(number).is_some() => {
            Err(bare(number))
        }
        TreeValue::Whole(_) | TreeValue::Decimal(_) => {
            Err(ValueError::new("this is not a duration")
                .help("write it like \"10s\" or \"250ms\""))
        }
        other => Err(expected("a duration", other).help("write it like \"10s\" or \"250ms\"")),
    }
}

/// A duration above zero.
pub(super) fn span(item: &FieldValue<'_>) -> Read<Duration> {
    match duration(item)? {
        Duration::ZERO => {
            Err(ValueError::new("this must be above 0").help("write it like \"10s\""))
        }
        span => Ok(span),
    }
}

/// A size above zero, in bytes.
pub(super) fn size(item: &FieldValue<'_>) -> Read<u64> {
    match &item.node.value {
        TreeValue::Text(text) => match units::size(text)? {
            0 => Err(ValueError::new("this must be above 0").help("write it like \"10MiB\"")),
            bytes => Ok(bytes),
        },
        TreeValue::Whole(Some(number)) => {
            let help = format!("write \"{number}MiB\", \"{number}KiB\" or \"{number}B\"");
            Err(ValueError::new("a size needs its unit").help(help))
        }
        other => Err(expected("a size", other).help("write it like \"10MiB\"")),
    }
}

/// A share from nothing to all.
pub(super) fn share(item: &FieldValue<'_>) -> Read<Share> {
    match &item.node.value {
        TreeValue::Text(text) => units::share(text),
        TreeValue::Whole(Some(number)) => units::share(&number.to_string()),
        TreeValue::Decimal(number) => units::share(number),
        other => Err(expected("a share", other).help("write it like \"20%\" or 0.2")),
    }
}

/// A number to multiply by.
pub(super) fn factor(item: &FieldValue<'_>) -> Read<RateFactor> {
    match &item.node.value {
        TreeValue::Whole(Some(number)) => units::factor(&number.to_string()),
        TreeValue::Decimal(number) => units::factor(number),
        other => Err(expected("a number", other).help("write it like 2 or 1.5")),
    }
}

/// A rate, such as `10/s`; a whole number is so many a second.
pub(super) fn rate(item: &FieldValue<'_>) -> Read<Rate> {
    let rate = match &item.node.value {
        TreeValue::Text(text) => text
            .parse::<Rate>()
            .map_err(|wrong| ValueError::new(wrong.to_string())),
        TreeValue::Whole(_) => Err(ValueError::new("a rate is a quantity per time")
            .help("write it like \"10/s\" or \"100/min\"")),
        other => Err(expected("a rate", other).help("write it like \"10/s\" or \"100/min\"")),
    }?;
    sensible(rate)
}

/// So many a second, at least one.
pub(super) fn per_second(item: &FieldValue<'_>) -> Read<Rate> {
    let quantity = match &item.node.value {
        TreeValue::Decimal(_) => {
            return Err(ValueError::new("this must be a whole number")
                .help("write `limits = [\"1 per 2s\"]` for half a call a second"));
        }
        _ => whole(item, 1..=MOST_UNITS)?,
    };
    Rate::per_second(quantity).map_err(|wrong| ValueError::new(wrong.to_string()))
}

fn sensible(rate: Rate) -> Read<Rate> {
    match rate.quantity() {
        0..=MOST_UNITS => Ok(rate),
        _ => Err(ValueError::new("no API allows so much").help("say `limits = []` to have none")),
    }
}

/// What a call costs.
pub(super) fn cost(item: &FieldValue<'_>) -> Read<Cost> {
    whole(item, 0..=MOST_UNITS).map(Cost::new)
}

/// A whole number within bounds.
pub(super) fn whole(item: &FieldValue<'_>, within: std::ops::RangeInclusive<u64>) -> Read<u64> {
    let number = match &item.node.value {
        TreeValue::Whole(number) => *number,
        other => return Err(expected("a whole number", other)),
    };
    let (least, most) = within.into_inner();
    match number.map(u64::try_from) {
        Some(Ok(number)) if number > most => Err(at_most(most)),
        Some(Ok(number)) if number >= least => Ok(number),
        None => Err(at_most(most)),
        Some(Err(_)) if number > Some(0) => Err(at_most(most)),
        Some(_) => Err(ValueError::new(format!("this must be at least {least}"))),
    }
}

/// A whole number of 32 bits, zero included.
pub(super) fn number(item: &FieldValue<'_>) -> Read<u32> {
    let number = whole(item, 0..=u64::from(u32::MAX))?;
    u32::try_from(number).map_err(|_| ValueError::new("this number is too large"))
}

/// A whole number of 16 bits, zero included.
pub(super) fn small(item: &FieldValue<'_>) -> Read<u16> {
    let number = whole(item, 0..=u64::from(u16::MAX))?;
    u16::try_from(number).map_err(|_| ValueError::new("this number is too large"))
}

/// One of some words.
pub(super) fn choice<T: Copy>(item: &FieldValue<'_>, choices: &[(&str, T)]) -> Read<T> {
    let written = text(item)?;
    let found = choices.iter().find(|(name, _)| *name == written);
    found
        .map(|(_, value)| *value)
        .ok_or_else(|| unknown("value", written, choices.iter().map(|(name, _)| *name)))
}

/// Yes or no.
pub(super) fn truth(item: &FieldValue<'_>) -> Read<bool> {
    match &item.node.value {
        TreeValue::Truth(truth) => Ok(*truth),
        other => Err(expected("`true` or `false`", other)),
    }
}

/// The URL of an API or a proxy.
pub(super) fn url(item: &FieldValue<'_>) -> Read<BaseUrl> {
    text(item)?
        .parse()
        .map_err(|wrong: crate::base_url::InvalidBaseUrl| ValueError::new(wrong.to_string()))
}

/// A method of HTTP.
pub(super) fn method(item: &FieldValue<'_>) -> Read<Method> {
    let written = text(item)?;
    let upper = written.to_ascii_uppercase();
    if upper != written {
        let wrong = ValueError::new("methods are written in capitals");
        return Err(wrong.help(format!("write \"{}\"", printable(&upper))));
    }
    if let Some(meant) = nearest(written, METHODS.into_iter()).filter(|near| *near != written) {
        return Err(unknown("method", written, std::iter::once(meant)));
    }
    Method::from_bytes(written.as_bytes())
        .map_err(|_| ValueError::new("this is no method").help("write it like \"GET\""))
}

/// The name of an API, a group or an alias.
pub(super) fn name(written: &str) -> Read<SmolStr> {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-' || c == '.';
    if written.is_empty() || written.len() > LONGEST_NAME || !written.chars().all(fits) {
        return Err(ValueError::new("this is no name").help(
            "use 1 to 64 letters, digits, `-`, `_` and `.`: names are parts of paths and metrics",
        ));
    }
    Ok(SmolStr::new(written))
}

/// A path on disk.
pub(super) fn path(item: &FieldValue<'_>) -> Read<PathBuf> {
    filled(item).map(PathBuf::from)
}

pub(super) fn expected(what: &str, found: &TreeValue) -> ValueError {
    ValueError::new(format!(
        "{what} is expected here, and this is {}",
        found.kind()
    ))
}

fn at_most(most: u64) -> ValueError {
    ValueError::new(format!("this must be at most {most}"))
}

fn bare(number: &str) -> ValueError {
    ValueError::new("a duration needs its unit").help(units::seconds_or_millis(number))
}

/// Whoever writes more means "no limit".
const MOST_UNITS: u64 = 1_000_000_000_000;

/// Names become labels and parts of paths.
const LONGEST_NAME: usize = 64;

const METHODS: [&str; 9] = [
    "GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT",
];
