//! Anthropic's `Anthropic-RateLimit-…`: the unit, then the quantity, with resets as RFC 3339 dates.
//! All its limits are per minute, though no header says so.

use core::time::Duration;

use super::{Dialect, Hint, HintPart, HintReader, HintUnit, Noted, after, named};

pub(super) fn read(reading: &mut HintReader<'_>, name: &str, value: &[u8]) -> Option<Noted> {
    let rest = after(name, "anthropic-ratelimit-")?;
    reading.listens_to(Dialect::Anthropic)?;
    let (unit, part) = UNITS
        .iter()
        .find_map(|(known, unit)| Some((*unit, named(&PARTS, after(rest, known)?)?)))?;
    let hint = Hint {
        window: Some(Duration::from_mins(1)),
        ..Hint::about(Dialect::Anthropic, unit)
    };
    let read = part.apply(hint, value, reading.now());
    Some(read.map(|hint| reading.note(hint)))
}

const UNITS: [(&str, HintUnit); 4] = [
    ("requests", HintUnit::Requests),
    ("tokens", HintUnit::Tokens),
    ("input-tokens", HintUnit::InputTokens),
    ("output-tokens", HintUnit::OutputTokens),
];

const PARTS: [(&str, HintPart); 3] = [
    ("-limit", HintPart::Limit),
    ("-remaining", HintPart::Remaining),
    ("-reset", HintPart::Reset),
];
