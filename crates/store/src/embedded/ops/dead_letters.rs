//! Dead letters: list, requeue, purge.

use bytes::Bytes;
use outflow_core::WallTime;
use rusqlite::{Row, params};

use super::actions::{job_name, record_action};
use super::transitions::{count, enqueue};
use crate::dead_letter::{DeadLetter, DeadLetterFilter};
use crate::embedded::disk::int_codec::{from_millis, to_count, to_millis, to_sql, to_u64};
use crate::embedded::disk::outcome_rows::SELECT_ERRORS;
use crate::embedded::disk::rows::entry_from_row;
use crate::embedded::disk::write_op::{LetterOp, LetterWrite, WriteOp};
use crate::embedded::state::StoreState;
use crate::embedded::state::action::{ActionEnd, ActionEntry};
use crate::embedded::state::job_entry::JobEntry;
use crate::job::AttemptError;
use crate::name::Name;

/// A selection of dead letters, in the store's own ids.
#[derive(Clone, Debug)]
pub(crate) enum LetterFilter {
    All,
    Tenant(u32),
    Action(u32),
    Jobs(Vec<Name>),
    Before(WallTime),
    /// Of an unknown tenant or action.
    None,
}

/// Replaces the names of a filter by ids.
pub(crate) fn resolve_filter(state: &StoreState, filter: &DeadLetterFilter) -> LetterFilter {
    match filter {
        DeadLetterFilter::All => LetterFilter::All,
        DeadLetterFilter::Tenant(name) => {
            let id = state.tenants.find(name);
            id.map_or(LetterFilter::None, LetterFilter::Tenant)
        }
        DeadLetterFilter::Action(name) => {
            let id = state.actions.find(name);
            id.map_or(LetterFilter::None, LetterFilter::Action)
        }
        DeadLetterFilter::Jobs(names) => LetterFilter::Jobs(names.clone()),
    }
}

/// Returns dead letters after a place.
pub(crate) fn list_dead_letters(state: &StoreState, after: u64, limit: usize) -> rusqlite::Result<Vec<DeadLetter>> {
    let sql = "SELECT place, seq, line, name, action, at, attempts, recoveries, payload \
               FROM dead WHERE place > ?1 ORDER BY place LIMIT ?2";
    let mut statement = state.reader.prepare_cached(sql)?;
    let range = params![to_sql(after), to_sql(to_count(limit))];
    let letters = statement.query_map(range, |row| dead_letter_from_row(state, row))?;
    letters.filter_map(Result::transpose).collect()
}

fn dead_letter_from_row(state: &StoreState, row: &Row<'_>) -> rusqlite::Result<Option<DeadLetter>> {
    let seq = to_u64(row.get(1)?);
    let Some(position) = state.lanes.position(row.get(2)?) else {
        return Ok(None);
    };
    let tenant = state.tenants.get(position.tenant);
    let (Some(tenant), Some(lane)) = (tenant, state.lanes.get(position.lane)) else {
        return Ok(None);
    };
    let action = row.get::<_, Option<u32>>(4)?;
    let action = action.and_then(|id| state.actions.get(id));
    let payload: Vec<u8> = row.get(8)?;
    Ok(Some(DeadLetter {
        place: to_u64(row.get(0)?),
        id: job_name(state, row, 3, seq)?,
        tenant: tenant.name.clone(),
        lane: lane.name.clone(),
        action: action.map(|action| action.state.spec.id.clone()),
        at: from_millis(row.get(5)?),
        attempts: row.get(6)?,
        recoveries: row.get(7)?,
        history: read_errors(state, seq)?,
        payload: Bytes::from(payload),
    }))
}

fn read_errors(state: &StoreState, seq: u64) -> rusqlite::Result<Vec<AttemptError>> {
    let mut statement = state.reader.prepare_cached(SELECT_ERRORS)?;
    let errors = statement
        .query_map(params![to_sql(seq)], |row| {
            Ok(AttemptError {
                at: from_millis(row.get(0)?),
                message: row.get(1)?,
            })
        })?
        .collect::<Result<Vec<_>, _>>()?;
    Ok(errors.into_iter().rev().collect())
}

/// Reads the next piece of a selection, and returns the place after which the next piece starts; nothing
/// after the last piece.
pub(crate) fn read_page(
    state: &StoreState,
    filter: &LetterFilter,
    after: u64,
) -> rusqlite::Result<(Vec<LetterWrite>, Option<u64>)> {
    let sql = "SELECT place, seq, line, name, action, cost, deadline, retries, at FROM dead \
               WHERE place > ?1 ORDER BY place LIMIT ?2";
    let mut statement = state.reader.prepare_cached(sql)?;
    let mut rows = statement.query(params![to_sql(after), PIECE])?;
    let (mut letters, mut seen, mut last) = (Vec::new(), 0, after);
    while let Some(row) = rows.next()? {
        seen += 1;
        last = to_u64(row.get(0)?);
        if let Some(letter) = letter_from_row(state, row)?
            && matches_filter(state, filter, row, &letter)?
        {
            letters.push(letter);
        }
    }
    Ok((letters, (seen == PIECE).then_some(last)))
}

fn matches_filter(
    state: &StoreState,
    filter: &LetterFilter,
    row: &Row<'_>,
    letter: &LetterWrite,
) -> rusqlite::Result<bool> {
    Ok(match filter {
        LetterFilter::All => true,
        LetterFilter::None => false,
        LetterFilter::Tenant(id) => letter.entry.position.tenant == *id,
        LetterFilter::Action(id) => letter.entry.action.or(letter.ended_action) == Some(*id),
        LetterFilter::Jobs(names) => names.contains(&job_name(state, row, 3, letter.seq)?),
        LetterFilter::Before(at) => row.get::<_, i64>(8)? < to_millis(*at),
    })
}

fn letter_from_row(state: &StoreState, row: &Row<'_>) -> rusqlite::Result<Option<LetterWrite>> {
    let Some(position) = state.lanes.position(row.get(2)?) else {
        return Ok(None);
    };
    let action: Option<u32> = row.get(4)?;
    let action = action.and_then(|id| Some((id, state.actions.get(id)?)));
    // Only an action that ended early goes on without the job.
    let keeps_jobs = |action: &ActionEntry| action.state.end == ActionEnd::Open;
    let (action, ended_action) = match action {
        Some((id, action)) if keeps_jobs(action) => (Some(id), None),
        Some((id, _)) => (None, Some(id)),
        None => (None, None),
    };
    Ok(Some(LetterWrite {
        place: to_u64(row.get(0)?),
        seq: to_u64(row.get(1)?),
        ended_action,
        entry: JobEntry {
            action,
            ..entry_from_row(row, position, 4)
        },
    }))
}

/// Deletes dead letters.
pub(crate) fn purge_letters(state: &mut StoreState, mut letters: Vec<LetterWrite>) {
    for letter in &mut letters {
        // A purged letter stays counted in its action, finished or not.
        letter.entry.action = letter.entry.action.or(letter.ended_action.take());
        let JobEntry { position, action, .. } = letter.entry;
        count(state, position, action, |counts| {
            counts.dead -= 1;
            counts.failed += 1;
        });
    }
    let op = WriteOp::Letters(LetterOp::Purged(letters));
    state.log.record_synced(op);
}

/// Queues a dead letter again, once its row is on the disk.
pub(crate) fn restore_letter(state: &mut StoreState, letter: LetterWrite) {
    let LetterWrite {
        seq,
        entry,
        ended_action,
        ..
    } = letter;
    if let Some(action) = ended_action.and_then(|id| state.actions.get_mut(id)) {
        action.counts.dead -= 1;
        action.counts.failed += 1;
    }
    count(state, entry.position, entry.action, |counts| {
        counts.dead -= 1;
        counts.queued += 1;
    });
    continue_action(state, entry.action);
    state.lanes.add_job(entry.position);
    state.runs.restore(seq);
    enqueue(state, seq, entry);
}

/// Clears the end of an action that has a job again, unless its end was notified.
fn continue_action(state: &mut StoreState, action: Option<u32>) {
    let Some((id, action)) = action.and_then(|id| Some((id, state.actions.get_mut(id)?))) else {
        return;
    };
    if !action.state.notified && action.state.ended.take().is_some() {
        record_action(state, id);
    }
}

/// Letters that one piece reads under the store's lock.
const PIECE: u32 = 512;
