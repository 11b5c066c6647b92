//! `X-RateLimit-…`, which every provider writes a little differently.
//!
//! The name is `X-RateLimit-`, a quantity, and perhaps a subject: `-Requests` and `-Tokens` of
//! `OpenAI`, Kong's `-Second` to `-Day`. Names with more dashes (`X-Rate-Limit-Limit`) are equal.
//! So three tables parse a name instead of one long list.

use core::time::Duration;

use super::{Dialect, Hint, HintPart, HintReader, HintUnit, Noted, after, ietf, named};

pub(super) fn read(reading: &mut HintReader<'_>, name: &str, value: &[u8]) -> Option<Noted> {
    let rest = PREFIXES.iter().find_map(|prefix| after(name, prefix))?;
    let (part, about) = PARTS
        .iter()
        .find_map(|(known, part)| Some((*part, named(&ABOUT, after(rest, known)?)?)))?;
    let hint = about.hint();
    reading.listens_to(hint.dialect)?;
    // Some providers list all their limits where others have one number.
    if matches!((part, about), (HintPart::Limit, HeaderField::Calls)) {
        return Some(ietf::quotas(reading, value, hint.dialect));
    }
    let read = part.apply(hint, value, reading.now());
    Some(read.map(|hint| reading.note(hint)))
}

const PREFIXES: [&str; 2] = ["x-ratelimit-", "x-rate-limit-"];

const PARTS: [(&str, HintPart); 5] = [
    ("limit", HintPart::Limit),
    ("remaining", HintPart::Remaining),
    ("reset", HintPart::Reset),
    ("used", HintPart::Used),
    ("resource", HintPart::Group),
];

const ABOUT: [(&str, HeaderField); 7] = [
    ("", HeaderField::Calls),
    ("-requests", HeaderField::Model(HintUnit::Requests)),
    ("-tokens", HeaderField::Model(HintUnit::Tokens)),
    ("-second", HeaderField::Window(Duration::from_secs(1))),
    ("-minute", HeaderField::Window(Duration::from_mins(1))),
    ("-hour", HeaderField::Window(Duration::from_hours(1))),
    ("-day", HeaderField::Window(Duration::from_hours(24))),
];

#[derive(Clone, Copy)]
enum HeaderField {
    Calls,
    Model(HintUnit),
    Window(Duration),
}

impl HeaderField {
    const fn hint(self) -> Hint {
        let calls = Hint::about(Dialect::XRateLimit, HintUnit::Requests);
        match self {
            Self::Calls => calls,
            Self::Model(unit) => Hint::about(Dialect::OpenAi, unit),
            Self::Window(window) => Hint {
                window: Some(window),
                ..calls
            },
        }
    }
}
