//! Upbit's `Remaining-Req: group=default; min=1800; sec=29`.
//!
//! The quota left in this second, by group. The provider's documentation calls `min` a fixed number
//! without meaning, so it is skipped, though it must still be a number.

use core::time::Duration;

use super::{Dialect, Hint, HintLabel, HintReader, HintUnit, MalformedHint, Noted};
use crate::byte_cursor::{parse_whole, trim_blanks};

pub(super) fn read(reading: &mut HintReader<'_>, name: &str, value: &[u8]) -> Option<Noted> {
    if !name.eq_ignore_ascii_case("remaining-req") {
        return None;
    }
    reading.listens_to(Dialect::Upbit)?;
    Some(hint(value).map(|hint| reading.note(hint)))
}

fn hint(value: &[u8]) -> Result<Hint, MalformedHint> {
    let mut hint = Hint {
        window: Some(Duration::from_secs(1)),
        ..Hint::about(Dialect::Upbit, HintUnit::Requests)
    };
    for pair in value.split(|b| *b == b';') {
        let mut halves = pair.splitn(2, |b| *b == b'=').map(trim_blanks);
        let key = halves.next().ok_or(MalformedHint)?;
        let value = halves.next().ok_or(MalformedHint)?;
        match key {
            b"group" => hint.group = Some(HintLabel::new(value).ok_or(MalformedHint)?),
            b"sec" => hint.remaining = Some(parse_whole(value).ok_or(MalformedHint)?),
            b"min" => drop(parse_whole(value).ok_or(MalformedHint)?),
            _ => {}
        }
    }
    match (hint.group, hint.remaining) {
        (Some(_), Some(_)) => Ok(hint),
        _ => Err(MalformedHint),
    }
}
