//! Numbers as `SQLite` keeps them: signed, of 64 bits.
//!
//! Everything counted here is far below the edge; what is not saturates, because a store that stopped at
//! an absurd number would lose the sensible ones with it.

use std::time::Duration;

use outflow_core::{Priority, WallTime};

/// A count or a sequence number on its way to the disk.
pub(crate) fn stored(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// And on its way back.
pub(crate) fn counted(stored: i64) -> u64 {
    u64::try_from(stored).unwrap_or(0)
}

/// A small count on its way back.
pub(crate) fn few(stored: i64) -> u32 {
    u32::try_from(stored).unwrap_or(0)
}

/// How many there are.
pub(crate) fn many(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}

/// A length from outside, as far as memory reaches.
pub(crate) fn length(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// Civil time in milliseconds.
pub(crate) fn millis(at: WallTime) -> i64 {
    i64::try_from(at.as_duration().as_millis()).unwrap_or(i64::MAX)
}

/// And back.
pub(crate) fn wall(millis: i64) -> WallTime {
    WallTime::since_epoch(Duration::from_millis(counted(millis)))
}

/// A span in nanoseconds.
pub(crate) fn nanos(span: Duration) -> i64 {
    i64::try_from(span.as_nanos()).unwrap_or(i64::MAX)
}

/// And back.
pub(crate) fn span(nanos: i64) -> Duration {
    Duration::from_nanos(counted(nanos))
}

/// A class as a number.
pub(crate) const fn class_number(class: Priority) -> u32 {
    match class {
        Priority::High => 0,
        Priority::Normal => 1,
        Priority::Low => 2,
    }
}

/// And back; what nobody wrote is low.
pub(crate) const fn class_of(number: u32) -> Priority {
    match number {
        0 => Priority::High,
        1 => Priority::Normal,
        _ => Priority::Low,
    }
}
