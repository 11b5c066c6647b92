//! Byte layout of a job in a Redis list.
//!
//! Fields that an ordinary job does not need take no space: a byte of flags says which are present.
//! Numbers are big-endian, times are microseconds in seven bytes, lengths are one byte.
//!
//! | part | bytes | if |
//! |---|---|---|
//! | flags, max retries, length of the name, name | 1 + 2 + 1 + n | always |
//! | length of the action, action | 1 + n | flag 1 |
//! | deadline | 7 | flag 2 |
//! | cost | 7 | flag 4 |
//! | retention of the name | 7 | flag 8: the submitter gave the name |
//! | attempts, retries, throttles, recoveries | 4 × 4 | flag 16 |
//! | number of errors; of each its time, its length, its text | 1 + (7 + 2 + n) | flag 32 |
//! | payload | the rest | always |
//!
//! The scripts read and write this layout (`lua/jobs.lua`). Outside of its list a record is part of
//! an *entry*: class, lengths of lane and tenant, lane, tenant, index in the list (six bytes, and
//! two that are added to it) and number of the first claim, record.

use std::time::Duration;

use bytes::{Buf, Bytes};
use outflow_core::{Cost, Priority, WallTime};

use super::error_map::unexpected_reply;
use crate::contract::StoreResult;
use crate::job::{AttemptError, NewJob};
use crate::name::Name;

/// Decoded job record.
pub(super) struct JobRecord {
    pub(super) id: Name,
    pub(super) action: Option<Name>,
    pub(super) deadline: Option<WallTime>,
    pub(super) cost: Cost,
    pub(super) attempts: u32,
    pub(super) retries: u32,
    pub(super) throttles: u32,
    pub(super) recoveries: u32,
    pub(super) history: Vec<AttemptError>,
    pub(super) payload: Bytes,
}

/// Job record with the lane, tenant and index of its entry.
pub(super) struct ListedJob {
    pub(super) holds_units: bool,
    pub(super) priority: Priority,
    pub(super) first: u64,
    pub(super) lane: Name,
    pub(super) tenant: Name,
    pub(super) record: JobRecord,
}

/// Fields of a batch that every record repeats.
pub(super) struct BatchHeader<'a> {
    pub(super) action: Option<&'a Name>,
    pub(super) remember: Duration,
}

/// Encodes the record of a new job.
pub(super) fn encode_record(job: &NewJob, id: &Name, common: &BatchHeader<'_>) -> Vec<u8> {
    let mut record = Vec::with_capacity(64 + job.payload.len());
    let flags = flag(common.action.is_some(), ACTION)
        | flag(job.deadline.is_some(), DEADLINE)
        | flag(job.cost != Cost::ONE, COST)
        | flag(job.id.is_some(), NAMED);
    record.push(flags);
    let retries = u16::try_from(job.max_retries).unwrap_or(u16::MAX);
    record.extend(retries.to_be_bytes());
    write_name(&mut record, id);
    if let Some(action) = common.action {
        write_name(&mut record, action);
    }
    if let Some(deadline) = job.deadline {
        record.extend(seven_bytes(micros(deadline.as_duration())));
    }
    if job.cost != Cost::ONE {
        record.extend(seven_bytes(job.cost.units()));
    }
    if job.id.is_some() {
        record.extend(seven_bytes(micros(common.remember)));
    }
    record.extend_from_slice(&job.payload);
    record
}

/// Returns `true` if a claim must check the job's action, deadline or cost.
pub(super) fn needs_checks(record: &[u8]) -> bool {
    let flags = record.first().copied().unwrap_or_default();
    flags & (ACTION | DEADLINE | COST) != 0
}

/// Decodes an entry.
pub(super) fn decode_entry(mut bytes: Bytes) -> StoreResult<ListedJob> {
    let class = read_byte(&mut bytes)?;
    let (lane, tenant) = (read_byte(&mut bytes)?, read_byte(&mut bytes)?);
    let (lane, tenant) = (read_name(&mut bytes, lane)?, read_name(&mut bytes, tenant)?);
    let _index = (read_uint(&mut bytes, 6)?, read_uint(&mut bytes, 2)?);
    Ok(ListedJob {
        priority: class_priority(class % DEFERRED),
        holds_units: class >= HOLDS_UNITS,
        lane,
        tenant,
        first: read_uint(&mut bytes, 6)?,
        record: decode_record(bytes)?,
    })
}

/// Decodes a record.
pub(super) fn decode_record(mut bytes: Bytes) -> StoreResult<JobRecord> {
    let flags = read_byte(&mut bytes)?;
    let _retries = read_uint(&mut bytes, 2)?;
    let id = read_sized_name(&mut bytes)?;
    let has = |bit| flags & bit != 0;
    let action = has(ACTION).then(|| read_sized_name(&mut bytes)).transpose()?;
    let deadline = has(DEADLINE).then(|| read_time(&mut bytes)).transpose()?;
    let cost = has(COST).then(|| read_uint(&mut bytes, 7)).transpose()?;
    has(NAMED).then(|| read_uint(&mut bytes, 7)).transpose()?;
    let mut counts = [0; 4];
    if has(COUNTS) {
        for count in &mut counts {
            *count = read_u32(&mut bytes)?;
        }
    }
    let errors = if has(HISTORY) { read_byte(&mut bytes)? } else { 0 };
    let history = (0..errors)
        .map(|_| read_error(&mut bytes))
        .collect::<StoreResult<_>>()?;
    let [attempts, retries, throttles, recoveries] = counts;
    Ok(JobRecord {
        id,
        action,
        deadline,
        cost: cost.map_or(Cost::ONE, Cost::new),
        attempts,
        retries,
        throttles,
        recoveries,
        history,
        payload: bytes,
    })
}

fn read_error(bytes: &mut Bytes) -> StoreResult<AttemptError> {
    let (at, message) = (read_time(bytes)?, read_text(bytes)?);
    Ok(AttemptError { at, message })
}

/// Reads a text after its length.
pub(super) fn read_text(bytes: &mut Bytes) -> StoreResult<String> {
    let length = usize::try_from(read_uint(bytes, 2)?).map_err(|_| unexpected_reply())?;
    Ok(String::from_utf8_lossy(&read_bytes(bytes, length)?).into_owned())
}

/// Returns the number of a class in the scripts.
pub(super) const fn class_number(priority: Priority) -> u8 {
    match priority {
        Priority::Low => 1,
        Priority::Normal => 2,
        Priority::High => 3,
    }
}

/// Returns the class of a number in the scripts.
pub(super) const fn class_priority(class: u8) -> Priority {
    match class {
        1 => Priority::Low,
        3 => Priority::High,
        _ => Priority::Normal,
    }
}

/// Converts a span to the scripts' microseconds; the longest is 2,284 years.
pub(super) fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).map_or(MAX_EXACT, |micros| micros.min(MAX_EXACT))
}

/// Encodes a number in seven bytes.
pub(super) fn seven_bytes(number: u64) -> [u8; 7] {
    let [_, seven @ ..] = number.min(MAX_EXACT).to_be_bytes();
    seven
}

/// Encodes a claim number as its field name.
pub(super) fn six_bytes(number: u64) -> [u8; 6] {
    let [_, _, six @ ..] = number.to_be_bytes();
    six
}

pub(super) fn read_byte(bytes: &mut Bytes) -> StoreResult<u8> {
    bytes.try_get_u8().map_err(|_| unexpected_reply())
}

pub(super) fn read_u32(bytes: &mut Bytes) -> StoreResult<u32> {
    bytes.try_get_u32().map_err(|_| unexpected_reply())
}

pub(super) fn read_uint(bytes: &mut Bytes, size: usize) -> StoreResult<u64> {
    bytes.try_get_uint(size).map_err(|_| unexpected_reply())
}

pub(super) fn read_time(bytes: &mut Bytes) -> StoreResult<WallTime> {
    read_uint(bytes, 7).map(wall_time)
}

pub(super) const fn wall_time(micros: u64) -> WallTime {
    WallTime::since_epoch(Duration::from_micros(micros))
}

pub(super) fn read_bytes(bytes: &mut Bytes, length: usize) -> StoreResult<Bytes> {
    if bytes.len() < length {
        return Err(unexpected_reply());
    }
    Ok(bytes.split_to(length))
}

pub(super) fn read_name(bytes: &mut Bytes, length: u8) -> StoreResult<Name> {
    let text = read_bytes(bytes, usize::from(length))?;
    let text = std::str::from_utf8(&text).map_err(|_| unexpected_reply())?;
    Name::new(text).map_err(|_| unexpected_reply())
}

fn read_sized_name(bytes: &mut Bytes) -> StoreResult<Name> {
    let length = read_byte(bytes)?;
    read_name(bytes, length)
}

pub(super) fn write_name(record: &mut Vec<u8>, name: &Name) {
    // A name has at most 128 bytes.
    record.push(u8::try_from(name.as_str().len()).unwrap_or(u8::MAX));
    record.extend_from_slice(name.as_str().as_bytes());
}

const fn flag(present: bool, bit: u8) -> u8 {
    if present { bit } else { 0 }
}

const ACTION: u8 = 1;
const DEADLINE: u8 = 2;
const COST: u8 = 4;
const NAMED: u8 = 8;
const COUNTS: u8 = 16;
const HISTORY: u8 = 32;

/// Added to the class of a claim that holds units of its tenant's rate.
const HOLDS_UNITS: u8 = 16;

/// Added to the class of a deferred entry.
pub(super) const DEFERRED: u8 = 8;

/// The largest whole number that a script computes exactly.
const MAX_EXACT: u64 = (1 << 53) - 1;
