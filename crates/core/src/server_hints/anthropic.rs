//! Anthropic's `Anthropic-RateLimit-…`: what is counted, then what is told of it, and resets as
//! dates of RFC 3339. All its limits are of a minute, though no header says so.

use core::time::Duration;

use super::{Dialect, Hint, Noted, Part, Reading, Unit, after, named};

pub(super) fn read(reading: &mut Reading<'_>, name: &str, value: &[u8]) -> Option<Noted> {
    let rest = after(name, "anthropic-ratelimit-")?;
    reading.listens_to(Dialect::Anthropic)?;
    let (unit, part) = UNITS
        .iter()
        .find_map(|(known, unit)| Some((*unit, named(&PARTS, after(rest, known)?)?)))?;
    let hint = Hint {
        window: Some(Duration::from_mins(1)),
        ..Hint::about(Dialect::Anthropic, unit)
    };
    let read = part.of(hint, value, reading.now());
    Some(read.map(|hint| reading.note(hint)))
}

const UNITS: [(&str, Unit); 4] = [
    ("requests", Unit::Requests),
    ("tokens", Unit::Tokens),
    ("input-tokens", Unit::InputTokens),
    ("output-tokens", Unit::OutputTokens),
];

const PARTS: [(&str, Part); 3] = [
    ("-limit", Part::Limit),
    ("-remaining", Part::Remaining),
    ("-reset", Part::Reset),
];
