//! Shopify's `X-Shopify-Shop-Api-Call-Limit: 32/40`: level and capacity of the leaky bucket. It has
//! no window; only the plan defines how fast the bucket leaks.

use super::{Dialect, Hint, HintReader, HintUnit, MalformedHint, Noted};
use crate::byte_cursor::{parse_whole, trim_blanks};

pub(super) fn read(reading: &mut HintReader<'_>, name: &str, value: &[u8]) -> Option<Noted> {
    if !name.eq_ignore_ascii_case("x-shopify-shop-api-call-limit") {
        return None;
    }
    reading.listens_to(Dialect::Shopify)?;
    let hint = used_of_limit(value).ok_or(MalformedHint);
    Some(hint.map(|hint| reading.note(hint)))
}

fn used_of_limit(value: &[u8]) -> Option<Hint> {
    let mut halves = value.splitn(2, |b| *b == b'/').map(trim_blanks);
    let used = parse_whole(halves.next()?)?;
    let limit = parse_whole(halves.next()?)?;
    Some(Hint {
        used: Some(used),
        limit: Some(limit),
        remaining: Some(limit.saturating_sub(used)),
        ..Hint::about(Dialect::Shopify, HintUnit::Requests)
    })
}
