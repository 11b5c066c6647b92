//! Reads jobs into memory shortly before they are next in order.
//!
//! Every job is compared with its checksum before it is handed out. A damaged job has no body here,
//! however often it is read.

use bytes::Bytes;
use rusqlite::types::ValueRef;
use rusqlite::{Row, params};

use super::checksum::JobRecord;
use super::database_error::failed;
use super::int_codec::{to_sql, to_u64};
use super::rows::{entry_from_row, text_at};
use super::write_op::WriteOp;
use crate::embedded::ops::publish::PAYLOAD_LIMIT;
use crate::embedded::state::StoreState;
use crate::embedded::state::job_entry::{IdRun, JobBody, JobEntry, JobPosition};
use crate::error::StoreError;
use crate::name::Name;

/// Reads the jobs of a run into their queue.
pub(crate) fn read_run(state: &mut StoreState, position: JobPosition, run: IdRun) -> Result<(), StoreError> {
    let found = match read_rows(state, position, run) {
        Ok(found) => found,
        Err(error) => {
            // A later claim reads it again.
            if let Some(queue) = state.lanes.queue_mut(position) {
                queue.runs.push_front(run);
            }
            return Err(failed(error));
        }
    };
    let mut left = 0;
    for (seq, mut entry) in found {
        if state.runs.is_finished(seq) {
            continue;
        }
        left += 1;
        if state.runs.is_tracked(seq) {
            continue;
        }
        if state.payload_bytes >= PAYLOAD_LIMIT {
            entry.body = None;
        }
        state.payload_bytes += entry.body.as_ref().map_or(0, JobBody::memory_bytes);
        if let Some(queue) = state.lanes.queue_mut(position) {
            queue.front.insert(seq, entry);
        }
    }
    state.runs.untrack(run);
    if left == 0 {
        state.log.record(WriteOp::RunOver(run));
    } else {
        state.runs.open(run, left);
    }
    Ok(())
}

fn read_rows(state: &StoreState, position: JobPosition, run: IdRun) -> rusqlite::Result<Vec<(u64, JobEntry)>> {
    let sql = "SELECT seq, name, payload, sum, action, cost, deadline, retries FROM job \
               WHERE seq >= ?1 AND seq < ?2 ORDER BY seq";
    let mut statement = state.reader.prepare_cached(sql)?;
    statement
        .query_map(params![to_sql(run.first), to_sql(run.end())], |row| {
            let seq = to_u64(row.get(0)?);
            let entry = entry_from_row(row, position, 4);
            let body = verified_body(state, row, seq, &entry);
            Ok((seq, JobEntry { body, ..entry }))
        })?
        .collect()
}

/// Loads the body of a queued job if it is not in memory. Returns false if the row is damaged.
pub(crate) fn load_body(state: &mut StoreState, seq: u64, position: JobPosition) -> Result<bool, StoreError> {
    let queue = state.lanes.queue(position);
    let entry = queue.and_then(|queue| queue.front.get(&seq));
    let Some(entry) = entry.filter(|entry| entry.body.is_none()).cloned() else {
        return Ok(true);
    };
    let Some(body) = read_body(state, seq, &entry).map_err(failed)? else {
        return Ok(false);
    };
    state.payload_bytes += body.memory_bytes();
    let queue = state.lanes.queue_mut(position);
    if let Some(entry) = queue.and_then(|queue| queue.front.get_mut(&seq)) {
        entry.body = Some(body);
    }
    Ok(true)
}

fn read_body(state: &StoreState, seq: u64, entry: &JobEntry) -> rusqlite::Result<Option<JobBody>> {
    let sql = "SELECT seq, name, payload, sum FROM job WHERE seq = ?1";
    let mut statement = state.reader.prepare_cached(sql)?;
    statement.query_row(params![to_sql(seq)], |row| Ok(verified_body(state, row, seq, entry)))
}

/// Returns name and payload of a row that starts with seq, name, payload and checksum, unless the row is
/// damaged.
fn verified_body(state: &StoreState, row: &Row<'_>, seq: u64, entry: &JobEntry) -> Option<JobBody> {
    let payload = row.get_ref(2).ok()?.as_bytes().ok()?;
    let name = match row.get_ref(1).ok()? {
        ValueRef::Null => None,
        _ => Some(text_at(row, 1)?),
    };
    let record = JobRecord {
        seq,
        tenant: state.tenants.get(entry.position.tenant)?.name.as_str(),
        lane: state.lanes.get(entry.position.lane)?.name.as_str(),
        class: entry.position.class,
        name,
        cost: entry.cost,
        deadline: entry.deadline,
        max_retries: entry.max_retries,
        payload,
    };
    let is_intact = match row.get_ref(3).ok()? {
        // Rows of version 1 and 2 have no checksum.
        ValueRef::Null => true,
        sum => sum.as_i64() == Ok(i64::from(record.checksum())),
    };
    let name = name.map(Name::new).transpose().ok()?;
    is_intact.then(|| JobBody {
        name,
        payload: Bytes::copy_from_slice(payload),
    })
}
