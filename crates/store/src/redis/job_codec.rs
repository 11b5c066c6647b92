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

use super::error_map::strange;
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
pub(super) fn write(job: &NewJob, id: &Name, common: &BatchHeader<'_>) -> Vec<u8> {
    let mut record = Vec::with_capacity(64 + job.payload.len());
    let flags = flag(common.action.is_some(), ACTION)
        | flag(job.deadline.is_some(), DEADLINE)
        | flag(job.cost != Cost::ONE, COST)
        | flag(job.id.is_some(), NAMED);
    record.push(flags);
    let retries = u16::try_from(job.max_retries).unwrap_or(u16::MAX);
    record.extend(retries.to_be_bytes());
    put_name(&mut record, id);
    if let Some(action) = common.action {
        put_name(&mut record, action);
    }
    if let Some(deadline) = job.deadline {
        record.extend(seven(micros(deadline.as_duration())));
    }
    if job.cost != Cost::ONE {
        record.extend(seven(job.cost.units()));
    }
    if job.id.is_some() {
        record.extend(seven(micros(common.remember)));
    }
    record.extend_from_slice(&job.payload);
    record
}

/// Returns `true` if a claim must check the job's action, deadline or cost.
pub(super) fn is_more_than_plain(record: &[u8]) -> bool {
    let flags = record.first().copied().unwrap_or_default();
    flags & (ACTION | DEADLINE | COST) != 0
}

/// Decodes an entry.
pub(super) fn read_entry(mut bytes: Bytes) -> StoreResult<ListedJob> {
    let class = byte(&mut bytes)? % PUT_OFF;
    let (lane, tenant) = (byte(&mut bytes)?, byte(&mut bytes)?);
    let (lane, tenant) = (name(&mut bytes, lane)?, name(&mut bytes, tenant)?);
    let _index = (number(&mut bytes, 6)?, number(&mut bytes, 2)?);
    Ok(ListedJob {
        priority: priority(class),
        lane,
        tenant,
        first: number(&mut bytes, 6)?,
        record: read(bytes)?,
    })
}

/// Decodes a record.
pub(super) fn read(mut bytes: Bytes) -> StoreResult<JobRecord> {
    let flags = byte(&mut bytes)?;
    let _retries = number(&mut bytes, 2)?;
    let id = sized_name(&mut bytes)?;
    let has = |bit| flags & bit != 0;
    let action = has(ACTION).then(|| sized_name(&mut bytes)).transpose()?;
    let deadline = has(DEADLINE).then(|| instant(&mut bytes)).transpose()?;
    let cost = has(COST).then(|| number(&mut bytes, 7)).transpose()?;
    has(NAMED).then(|| number(&mut bytes, 7)).transpose()?;
    let mut counts = [0; 4];
    if has(COUNTS) {
        for count in &mut counts {
            *count = small(&mut bytes)?;
        }
    }
    let mishaps = if has(HISTORY) { byte(&mut bytes)? } else { 0 };
    let history = (0..mishaps)
        .map(|_| mishap(&mut bytes))
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

fn mishap(bytes: &mut Bytes) -> StoreResult<AttemptError> {
    let (at, words) = (instant(bytes)?, words(bytes)?);
    Ok(AttemptError { at, words })
}

/// Reads a text after its length.
pub(super) fn words(bytes: &mut Bytes) -> StoreResult<String> {
    let length = usize::try_from(number(bytes, 2)?).map_err(|_| strange())?;
    Ok(String::from_utf8_lossy(&part(bytes, length)?).into_owned())
}

/// Returns the number of a class in the scripts.
pub(super) const fn class(priority: Priority) -> u8 {
    match priority {
        Priority::Low => 1,
        Priority::Normal => 2,
        Priority::High => 3,
    }
}

/// Returns the class of a number in the scripts.
pub(super) const fn priority(class: u8) -> Priority {
    match class {
        1 => Priority::Low,
        3 => Priority::High,
        _ => Priority::Normal,
    }
}

/// Converts a span to the scripts' microseconds; the longest is 2,284 years.
pub(super) fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).map_or(MOST, |micros| micros.min(MOST))
}

/// Encodes a number in seven bytes.
pub(super) fn seven(number: u64) -> [u8; 7] {
    let [_, seven @ ..] = number.min(MOST).to_be_bytes();
    seven
}

/// Encodes a claim number as its field name.
pub(super) fn six(number: u64) -> [u8; 6] {
    let [_, _, six @ ..] = number.to_be_bytes();
    six
}

pub(super) fn byte(bytes: &mut Bytes) -> StoreResult<u8> {
    bytes.try_get_u8().map_err(|_| strange())
}

pub(super) fn small(bytes: &mut Bytes) -> StoreResult<u32> {
    bytes.try_get_u32().map_err(|_| strange())
}

pub(super) fn number(bytes: &mut Bytes, size: usize) -> StoreResult<u64> {
    bytes.try_get_uint(size).map_err(|_| strange())
}

pub(super) fn instant(bytes: &mut Bytes) -> StoreResult<WallTime> {
    number(bytes, 7).map(wall)
}

pub(super) const fn wall(micros: u64) -> WallTime {
    WallTime::since_epoch(Duration::from_micros(micros))
}

pub(super) fn part(bytes: &mut Bytes, length: usize) -> StoreResult<Bytes> {
    if bytes.len() < length {
        return Err(strange());
    }
    Ok(bytes.split_to(length))
}

pub(super) fn name(bytes: &mut Bytes, length: u8) -> StoreResult<Name> {
    let text = part(bytes, usize::from(length))?;
    let text = std::str::from_utf8(&text).map_err(|_| strange())?;
    Name::new(text).map_err(|_| strange())
}

fn sized_name(bytes: &mut Bytes) -> StoreResult<Name> {
    let length = byte(bytes)?;
    name(bytes, length)
}

pub(super) fn put_name(record: &mut Vec<u8>, name: &Name) {
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

/// Added to the class of a deferred entry.
pub(super) const PUT_OFF: u8 = 8;

/// The largest whole number that a script computes exactly.
const MOST: u64 = (1 << 53) - 1;
