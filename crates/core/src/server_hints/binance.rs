//! Binance's `X-MBX-USED-WEIGHT-1M`, which tells the window in the name.
//!
//! An old name without a window says the same as the one per minute and is passed over: without its
//! window it would look like another limit.

use core::time::Duration;

use super::{Dialect, Hint, Label, Malformed, Noted, Reading, Unit, after};
use crate::scan::{Scan, trimmed, whole};

pub(super) fn read(reading: &mut Reading<'_>, name: &str, value: &[u8]) -> Option<Noted> {
    let (rest, unit, group) = COUNTERS
        .iter()
        .find_map(|counter| Some((after(name, counter.name)?, counter.unit, counter.group)))?;
    reading.listens_to(Dialect::Binance)?;
    let window = window(rest)?;
    let Some(used) = whole(trimmed(value)) else {
        return Some(Err(Malformed));
    };
    reading.note(Hint {
        used: Some(used),
        window: Some(window),
        group: group.and_then(Label::new),
        ..Hint::about(Dialect::Binance, unit)
    });
    Some(Ok(()))
}

/// `1M` is a minute: the letters are second, minute, hour and day.
fn window(text: &str) -> Option<Duration> {
    let mut scan = Scan::new(text.as_bytes());
    let count = whole(scan.run(|b| b.is_ascii_digit())).filter(|count| *count > 0)?;
    let unit = match scan.name(&["S", "M", "H", "D"])? {
        0 => 1,
        1 => 60,
        2 => 3_600,
        _ => 86_400,
    };
    let secs = count.checked_mul(unit).filter(|_| scan.is_done())?;
    Some(Duration::from_secs(secs))
}

struct Counter {
    name: &'static str,
    unit: Unit,
    group: Option<&'static [u8]>,
}

/// The margin endpoints count addresses and accounts apart.
const COUNTERS: [Counter; 4] = [
    Counter {
        name: "x-mbx-used-weight-",
        unit: Unit::Weight,
        group: None,
    },
    Counter {
        name: "x-mbx-order-count-",
        unit: Unit::Orders,
        group: None,
    },
    Counter {
        name: "x-sapi-used-ip-weight-",
        unit: Unit::Weight,
        group: Some(b"ip"),
    },
    Counter {
        name: "x-sapi-used-uid-weight-",
        unit: Unit::Weight,
        group: Some(b"uid"),
    },
];
