//! Submission of a batch.
//!
//! Jobs are sent in groups of one lane, tenant and class, so that the script moves each group with
//! one command. It checks single jobs only for names that the submitter gave, for start times, and
//! when the queue is almost full.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::actions::{MAX_CLEANINGS, encode_note, finish_cleaning, is_cleaning, still_cleaning};
use super::error_map::unexpected_reply;
use super::job_codec::{self, BatchHeader, class_number, micros, seven_bytes};
use super::reply::ScriptReply;
use super::script_call::{ScriptCall, ScriptRunner};
use crate::action::ActionSpec;
use crate::contract::StoreResult;
use crate::error::StoreError;
use crate::job::{BatchPosition, NewJob, SubmitBatch, SubmitReceipt, SubmitResult};
use crate::name::Name;
use redis::Value;

/// Generator of names for jobs without one. Names start with a word that is unique to this process:
/// they are sent to APIs as idempotency keys and must not repeat even after a queue was lost.
pub(super) struct JobNames {
    word: String,
    next: AtomicU64,
}

impl JobNames {
    pub(super) fn new() -> Self {
        Self {
            word: random_word(10),
            next: AtomicU64::new(0),
        }
    }

    fn next(&self) -> StoreResult<Name> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        Name::new(&format!("{}-{}", self.word, to_base36(number))).map_err(StoreError::refused)
    }
}

/// Jobs of one lane, tenant and class, in the order of the batch.
struct JobGroup {
    lane: Name,
    tenant: Name,
    class: u8,
    flags: u8,
    places: Vec<usize>,
    starts: Vec<u64>,
    records: Vec<Vec<u8>>,
}

/// Submits a batch in a script call of its own.
pub(super) async fn submit_alone(
    runner: &ScriptRunner,
    names: &JobNames,
    batch: SubmitBatch,
) -> StoreResult<SubmitResult> {
    check_size(&batch)?;
    let ids: Vec<Name> = batch
        .jobs
        .iter()
        .map(|job| job.id.clone().map_or_else(|| names.next(), Ok))
        .collect::<StoreResult<_>>()?;
    let groups = group_jobs(&batch, &ids);
    let answer = send_batch(runner, &batch, &groups).await?;
    decode_receipts(ScriptReply::new(answer)?, &groups, ids)
}

/// Sends a batch; first cleans up an earlier action of the same name if it must.
async fn send_batch(runner: &ScriptRunner, batch: &SubmitBatch, groups: &[JobGroup]) -> StoreResult<Value> {
    let mut left = MAX_CLEANINGS;
    loop {
        let answer = runner.run_replicated(submit_call(runner, batch, groups)).await;
        match (answer, &batch.action) {
            (Err(error), Some(spec)) if is_cleaning(&error) => {
                left = left.checked_sub(1).ok_or_else(|| still_cleaning(&spec.id))?;
                finish_cleaning(runner, &spec.id).await?;
            }
            (answer, _) => return answer,
        }
    }
}

fn check_size(batch: &SubmitBatch) -> StoreResult<()> {
    if batch.jobs.len() > MAX_JOBS {
        return Err(StoreError::refused(format_args!(
            "a batch of {} jobs would block redis for too long: submit at most {MAX_JOBS} at once",
            batch.jobs.len()
        )));
    }
    Ok(())
}

fn group_jobs(batch: &SubmitBatch, ids: &[Name]) -> Vec<JobGroup> {
    let common = BatchHeader {
        action: batch.action.as_ref().map(|spec| &spec.id),
        remember: batch.remember,
    };
    let mut groups: Vec<JobGroup> = Vec::new();
    let mut known = HashMap::new();
    for (place, (job, id)) in batch.jobs.iter().zip(ids).enumerate() {
        let key = (&job.lane, &job.tenant, class_number(job.priority));
        let at = *known.entry(key).or_insert_with(|| {
            groups.push(JobGroup::from_job(job));
            groups.len() - 1
        });
        if let Some(group) = groups.get_mut(at) {
            group.add(job, place, job_codec::encode_record(job, id, &common));
        }
    }
    groups
}

impl JobGroup {
    fn from_job(job: &NewJob) -> Self {
        Self {
            lane: job.lane.clone(),
            tenant: job.tenant.clone(),
            class: class_number(job.priority),
            flags: 0,
            places: Vec::new(),
            starts: Vec::new(),
            records: Vec::new(),
        }
    }

    fn add(&mut self, job: &NewJob, place: usize, record: Vec<u8>) {
        if job.cost.units() != 1 {
            self.flags |= COSTS_DIFFER;
        }
        if job_codec::needs_checks(&record) {
            self.flags |= NEEDS_CHECKS;
        }
        self.places.push(place);
        let start = job.not_before.map_or(0, |at| micros(at.as_duration()));
        self.starts.push(start);
        self.records.push(record);
    }

    /// Encodes the group header: names, class, flags and size.
    fn encode_header(&self) -> Vec<u8> {
        let mut header = Vec::with_capacity(64);
        job_codec::write_name(&mut header, &self.lane);
        job_codec::write_name(&mut header, &self.tenant);
        header.extend([self.class, self.flags]);
        let size = u32::try_from(self.records.len()).unwrap_or(u32::MAX);
        header.extend(size.to_be_bytes());
        header
    }
}

/// Encodes the positions of all jobs in their batch, group by group.
fn encode_positions(groups: &[JobGroup]) -> Vec<u8> {
    let ordinal = |place: &usize| u32::try_from(place + 1).unwrap_or(u32::MAX).to_be_bytes();
    let places = groups.iter().flat_map(|group| &group.places);
    places.flat_map(ordinal).collect()
}

/// Encodes the start times, if any job has one.
fn encode_start_times(groups: &[JobGroup]) -> Vec<u8> {
    let starts = || groups.iter().flat_map(|group| &group.starts);
    if starts().all(|start| *start == 0) {
        return Vec::new();
    }
    starts().flat_map(|start| seven_bytes(*start)).collect()
}

fn submit_call<'a>(runner: &'a ScriptRunner, batch: &SubmitBatch, groups: &[JobGroup]) -> ScriptCall<'a> {
    let needs_lookup = |job: &NewJob| job.id.is_some() || job.not_before.is_some();
    let spec = batch.action.as_ref();
    let span = |of: fn(&ActionSpec) -> Duration| spec.map_or(0, |spec| micros(of(spec)));
    let headers: Vec<u8> = groups.iter().flat_map(JobGroup::encode_header).collect();
    let mut call = runner
        .call(&runner.scripts.submit)
        .arg(batch.queue_max)
        .arg(spec.map_or("", |spec| spec.id.as_str()))
        .arg(u8::from(batch.rest == BatchPosition::Last))
        .arg(span(|spec| spec.timeout))
        .arg(span(|spec| spec.keep))
        .arg(batch.jobs.len())
        .arg(u8::from(batch.jobs.iter().any(needs_lookup)))
        .arg(headers)
        .arg(encode_positions(groups))
        .arg(encode_start_times(groups))
        .arg(spec.map_or_else(String::new, encode_note));
    for record in groups.iter().flat_map(|group| &group.records) {
        call.push(record.as_slice());
    }
    call
}

fn decode_receipts(mut reply: ScriptReply, groups: &[JobGroup], ids: Vec<Name>) -> StoreResult<SubmitResult> {
    let (queued, active, each) = (reply.number()?, reply.number()?, reply.number()? == 1);
    let mut reply = reply.list()?;
    let mut verdicts = vec![0; ids.len()];
    if each {
        for verdict in &mut verdicts {
            *verdict = reply.signed()?;
        }
    } else {
        for group in groups {
            // Jobs that waited before the group; each job adds one.
            let mut waiting = reply.signed()?;
            for place in &group.places {
                waiting += 1;
                *verdicts.get_mut(*place).ok_or_else(unexpected_reply)? = waiting;
            }
        }
    }
    let receipt = |(id, verdict)| match verdict {
        DUPLICATE => SubmitReceipt::Duplicate { id },
        CLOSED => SubmitReceipt::Closed,
        place => match u64::try_from(place) {
            Ok(place) if place > 0 => SubmitReceipt::Accepted { id, place },
            _ => SubmitReceipt::Full,
        },
    };
    Ok(SubmitResult {
        receipts: ids.into_iter().zip(verdicts).map(receipt).collect(),
        queued,
        active,
    })
}

/// Returns a random word of letters and digits, from the hasher's system-seeded keys.
pub(super) fn random_word(length: usize) -> String {
    let mut word = String::new();
    while word.len() < length {
        word.push_str(&to_base36(RandomState::new().build_hasher().finish()));
    }
    word.truncate(length);
    word
}

/// Writes a number in digits and letters, which is shorter.
fn to_base36(mut number: u64) -> String {
    let mut digits = Vec::new();
    loop {
        let digit = u32::try_from(number % 36).unwrap_or(0);
        digits.push(char::from_digit(digit, 36).unwrap_or('0'));
        number /= 36;
        if number == 0 {
            return digits.into_iter().rev().collect();
        }
    }
}

/// Flags of a group: a job has an action or a deadline; costs differ from 1.
const NEEDS_CHECKS: u8 = 1;
const COSTS_DIFFER: u8 = 2;

const DUPLICATE: i64 = -1;
const CLOSED: i64 = -2;

/// Some tens of milliseconds of the server's time; other callers wait as long.
const MAX_JOBS: usize = 10_000;
