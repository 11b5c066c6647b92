//! Numbers as `SQLite` stores them: signed, 64 bits.
//!
//! Counts stay far below the limit. A conversion saturates, because an error at one absurd number would
//! make the sensible ones unreadable, too.

use std::time::Duration;

use outflow_core::{Priority, WallTime};

/// Converts a count or a sequence number for the disk.
pub(crate) fn to_sql(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Converts a count or a sequence number from the disk.
pub(crate) fn to_u64(stored: i64) -> u64 {
    u64::try_from(stored).unwrap_or(0)
}

/// Converts an id from the disk.
pub(crate) fn to_u32(stored: i64) -> u32 {
    u32::try_from(stored).unwrap_or(0)
}

/// Converts a length to a count.
pub(crate) fn to_count(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}

/// Converts a count to a length.
pub(crate) fn to_len(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// Converts civil time to milliseconds.
pub(crate) fn to_millis(at: WallTime) -> i64 {
    i64::try_from(at.as_duration().as_millis()).unwrap_or(i64::MAX)
}

/// Converts milliseconds to civil time.
pub(crate) fn from_millis(millis: i64) -> WallTime {
    WallTime::since_epoch(Duration::from_millis(to_u64(millis)))
}

/// Converts a span to nanoseconds.
pub(crate) fn to_nanos(span: Duration) -> i64 {
    i64::try_from(span.as_nanos()).unwrap_or(i64::MAX)
}

/// Converts nanoseconds to a span.
pub(crate) fn from_nanos(nanos: i64) -> Duration {
    Duration::from_nanos(to_u64(nanos))
}

/// Converts a class to its number.
pub(crate) const fn class_number(class: Priority) -> u32 {
    match class {
        Priority::High => 0,
        Priority::Normal => 1,
        Priority::Low => 2,
    }
}

/// Converts a number to its class; an unknown number is low.
pub(crate) const fn class_from_number(number: u32) -> Priority {
    match number {
        0 => Priority::High,
        1 => Priority::Normal,
        _ => Priority::Low,
    }
}
