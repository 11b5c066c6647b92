//! Binance's `X-MBX-USED-WEIGHT-1M`, with the window in the name.
//!
//! An old name without a window repeats the one per minute and is skipped: without its window it
//! would look like another limit.

use core::time::Duration;

use super::{Dialect, Hint, HintLabel, HintReader, HintUnit, MalformedHint, Noted, after};
use crate::byte_cursor::{ByteCursor, parse_whole, trim_blanks};

pub(super) fn read(reading: &mut HintReader<'_>, name: &str, value: &[u8]) -> Option<Noted> {
    let (rest, unit, group) = COUNTERS
        .iter()
        .find_map(|counter| Some((after(name, counter.name)?, counter.unit, counter.group)))?;
    reading.listens_to(Dialect::Binance)?;
    let window = window(rest)?;
    let Some(used) = parse_whole(trim_blanks(value)) else {
        return Some(Err(MalformedHint));
    };
    reading.note(Hint {
        used: Some(used),
        window: Some(window),
        group: group.and_then(HintLabel::new),
        ..Hint::about(Dialect::Binance, unit)
    });
    Some(Ok(()))
}

/// `1M` is a minute: the letters are second, minute, hour and day.
fn window(text: &str) -> Option<Duration> {
    let mut cursor = ByteCursor::new(text.as_bytes());
    let count = parse_whole(cursor.run(|b| b.is_ascii_digit())).filter(|count| *count > 0)?;
    let unit = match cursor.name(&["S", "M", "H", "D"])? {
        0 => 1,
        1 => 60,
        2 => 3_600,
        _ => 86_400,
    };
    let secs = count.checked_mul(unit).filter(|_| cursor.is_done())?;
    Some(Duration::from_secs(secs))
}

struct WeightCounter {
    name: &'static str,
    unit: HintUnit,
    group: Option<&'static [u8]>,
}

/// The margin endpoints count addresses and accounts separately.
const COUNTERS: [WeightCounter; 4] = [
    WeightCounter {
        name: "x-mbx-used-weight-",
        unit: HintUnit::Weight,
        group: None,
    },
    WeightCounter {
        name: "x-mbx-order-count-",
        unit: HintUnit::Orders,
        group: None,
    },
    WeightCounter {
        name: "x-sapi-used-ip-weight-",
        unit: HintUnit::Weight,
        group: Some(b"ip"),
    },
    WeightCounter {
        name: "x-sapi-used-uid-weight-",
        unit: HintUnit::Weight,
        group: Some(b"uid"),
    },
];
