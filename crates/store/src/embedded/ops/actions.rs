//! Actions: open, close, finish, notify, and the outcomes of their jobs.

use bytes::Bytes;
use outflow_core::{ClockPair, Nanos};
use rusqlite::{Row, params};

use super::paused_tenants::{count_holding, paused_tenants};
use super::publish::finish_action;
use super::submit::open_action;
use crate::action::{ActionReport, ActionSpec, FinishedQuery};
use crate::embedded::disk::int_codec::{from_millis, to_count, to_sql, to_u64};
use crate::embedded::disk::outcome_rows::status_from_number;
use crate::embedded::disk::rows::{name_from_row, text_at};
use crate::embedded::disk::write_op::WriteOp;
use crate::embedded::state::StoreState;
use crate::embedded::state::action::{ActionEnd, ActionEntry};
use crate::error::StoreError;
use crate::name::Name;
use crate::settle::JobOutcome;
use crate::tenant::PageRequest;

/// Opens an action, or changes the spec of an open one.
pub(crate) fn open(state: &mut StoreState, spec: ActionSpec, moment: ClockPair) {
    state.log.needs_sync = true;
    let known = state.actions.find_mut(&spec.id);
    match known.filter(|(_, action)| !action.is_reusable()) {
        Some((id, action)) => {
            action.state.spec = spec;
            action.restart_timeout(moment);
            record_action(state, id);
        }
        None => {
            open_action(state, spec, moment);
        }
    }
}

/// Closes an action for further jobs.
pub(crate) fn close(state: &mut StoreState, name: &Name, moment: ClockPair) -> Result<(), StoreError> {
    let (id, action) = state.actions.known_mut(name)?;
    if !action.state.closed {
        action.state.closed = true;
        state.log.needs_sync = true;
        record_action(state, id);
        finish_action(state, Some(id), moment.wall);
    }
    Ok(())
}

/// Records that the completion notice of an action was sent.
pub(crate) fn mark_notified(state: &mut StoreState, name: &Name) -> Result<(), StoreError> {
    let (id, action) = state.actions.known_mut(name)?;
    if action.is_finished() {
        action.state.notified = true;
        state.log.needs_sync = true;
        record_action(state, id);
        return Ok(());
    }
    let current = action.stage();
    if current.is_over() && action.counts.open() == 0 {
        return Ok(());
    }
    Err(StoreError::refused(format!(
        "action {name} is {} and has open jobs: wait until it is finished",
        current.as_str()
    )))
}

/// Records the state of an action for the writer.
pub(crate) fn record_action(state: &mut StoreState, id: u32) {
    if let Some(action) = state.actions.get(id) {
        state.log.record(WriteOp::Action(id, Box::new(action.state.clone())));
    }
}

/// Reports one action.
pub(crate) fn action_report(state: &StoreState, name: &Name) -> rusqlite::Result<Option<ActionReport>> {
    let Some(id) = state.actions.find(name) else {
        return Ok(None);
    };
    report_action(state, id, &paused_tenants(state))
}

/// Reports a page of actions.
pub(crate) fn action_reports(state: &StoreState, page: &PageRequest) -> rusqlite::Result<Vec<ActionReport>> {
    let paused = paused_tenants(state);
    let ids = state.actions.page(page);
    ids.filter_map(|id| report_action(state, id, &paused).transpose())
        .collect()
}

fn report_action(state: &StoreState, id: u32, paused: &[u32]) -> rusqlite::Result<Option<ActionReport>> {
    let Some(action) = state.actions.get(id) else {
        return Ok(None);
    };
    let held = match action.counts.queued {
        0 => 0,
        _ => count_holding(state, id, paused)?,
    };
    Ok(Some(action.report(held)))
}

/// Fails actions that made no progress within their timeout and have open jobs. The time of a pause does not count: an
/// operator stopped the action, and not the API.
pub(crate) fn fail_overdue(state: &mut StoreState, limit: usize, moment: ClockPair) {
    extend_paused(state, moment);
    let is_open = |action: &ActionEntry| !action.stage().is_over() && !action.is_finished();
    let actions = state.actions.iter_mut();
    let overdue = actions.filter_map(|(id, action)| {
        action.extend_timeout(moment.now);
        (action.expires <= moment.now && is_open(action)).then_some((id, action))
    });
    let mut ended = Vec::new();
    for (id, action) in overdue.take(limit) {
        action.end_early(ActionEnd::Failed, moment.wall);
        ended.push(id);
    }
    for id in ended {
        state.log.needs_sync = true;
        record_action(state, id);
    }
}

/// Restarts the timeouts of overdue actions that are paused, or whose tenants are.
fn extend_paused(state: &mut StoreState, moment: ClockPair) {
    let paused = paused_tenants(state);
    let overdue = state.actions.iter().filter(|(_, action)| action.expires <= moment.now);
    let overdue: Vec<_> = overdue.map(|(id, _)| id).collect();
    for id in overdue {
        let held = count_holding(state, id, &paused).unwrap_or_default();
        if let Some(action) = state.actions.get_mut(id)
            && (action.state.paused || held > 0)
        {
            action.progress(moment.wall);
        }
    }
}

/// Returns actions that ended early and still have waiting jobs: their cancellation is in progress, or
/// its caller died.
pub(crate) fn unfinished_cancels(state: &StoreState, limit: usize) -> Vec<u32> {
    let actions = state.actions.iter();
    let cut_short = actions.filter(|(_, action)| action.is_cut_short());
    cut_short.map(|(id, _)| id).take(limit).collect()
}

/// Takes finished actions without a lease on their notice, and renews the leases of the caller.
pub(crate) fn take_finished(state: &mut StoreState, query: FinishedQuery<'_>, now: Nanos) -> Vec<ActionReport> {
    let until = now.saturating_add(query.lease);
    for name in query.notifying {
        if let Some((_, action)) = state.actions.find_mut(name) {
            action.notifying_until = until;
        }
    }
    let actions = state.actions.iter_mut().map(|(_, action)| action);
    let finished = actions.filter(|action| action.is_finished() && action.notifying_until <= now);
    let taken = finished.take(query.max).map(|action| {
        action.notifying_until = until;
        action.report(0)
    });
    taken.collect()
}

/// Returns outcomes of an action that are on the disk.
pub(crate) fn outcomes(state: &StoreState, name: &Name, after: u64, limit: usize) -> rusqlite::Result<Vec<JobOutcome>> {
    let Some(id) = state.actions.find(name) else {
        return Ok(Vec::new());
    };
    let sql = "SELECT place, seq, name, tenant, ended, at, attempts, throttles, status, body, \
               words FROM outcome WHERE action = ?1 AND place > ?2 ORDER BY place LIMIT ?3";
    let mut statement = state.reader.prepare_cached(sql)?;
    statement
        .query_map(params![id, to_sql(after), to_sql(to_count(limit))], |row| {
            outcome_from_row(state, row)
        })?
        .collect()
}

fn outcome_from_row(state: &StoreState, row: &Row<'_>) -> rusqlite::Result<JobOutcome> {
    let body: Option<Vec<u8>> = row.get(9)?;
    Ok(JobOutcome {
        place: to_u64(row.get(0)?),
        id: job_name(state, row, 2, to_u64(row.get(1)?))?,
        tenant: name_from_row(row, 3)?,
        ended: status_from_number(row.get(4)?),
        at: from_millis(row.get(5)?),
        attempts: row.get(6)?,
        throttles: row.get(7)?,
        status: row.get(8)?,
        body: body.map(Bytes::from),
        error: row.get(10)?,
    })
}

/// Returns the submitted name of a job, or its generated name.
pub(crate) fn job_name(state: &StoreState, row: &Row<'_>, column: usize, seq: u64) -> rusqlite::Result<Name> {
    let submitted = text_at(row, column).and_then(|text| Name::new(text).ok());
    match submitted.or_else(|| state.ids.job_name(seq)) {
        Some(name) => Ok(name),
        None => name_from_row(row, column),
    }
}
