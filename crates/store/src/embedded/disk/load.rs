//! Loads the state from the disk: at the start, and after the disk failed.
//!
//! The work grows with tenants, queues, runs and marked jobs, and not with the jobs that merely wait. A
//! job that is found claimed has no session at the start; after a failure, its former session.

use std::mem;
use std::time::Duration;

use outflow_core::{ClockPair, WallTime};
use rusqlite::{Connection, OptionalExtension as _, Row, ffi, params};

use super::int_codec::{from_millis, from_nanos, to_sql, to_u64};
use super::rows::{
    action_from_row, counts_from_row, entry_from_row, id_at, name_from_row, queue_from_row, rows, tenant_from_row,
};
use super::write_op::MarkState;
use crate::embedded::ops::tenants::set_default_rule;
use crate::embedded::ops::transitions::{count, count_as, enqueue};
use crate::embedded::state::action::ActionEntry;
use crate::embedded::state::claims::ClaimState;
use crate::embedded::state::delayed::{DelayUntil, DelayedJob, JobCountState};
use crate::embedded::state::job_entry::{AttemptHistory, IdRun, JobEntry};
use crate::embedded::state::lane::LaneTable;
use crate::embedded::state::{StorePhase, StoreState};

/// Loads the state.
pub(crate) fn load_state(reader: Connection, moment: ClockPair) -> rusqlite::Result<StoreState> {
    let mut state = StoreState::new(reader);
    read_total(&mut state)?;
    read_lanes(&mut state)?;
    read_tenants(&mut state)?;
    read_actions(&mut state, moment)?;
    read_queues(&mut state)?;
    read_marks(&mut state, moment)?;
    read_runs(&mut state)?;
    Ok(state)
}

/// Takes over data that only the old state has: sessions with their claims, cooldowns, the default rule
/// and congestion samples. `undo` are claims that ended in a step which failed.
pub(crate) fn inherit(state: &mut StoreState, old: &mut StoreState, undo: Vec<ClaimState>) {
    if old.phase == StorePhase::Closed {
        state.phase = StorePhase::Closed;
    }
    set_default_rule(state, old.default_rule);
    state.claims.made = old.claims.made;
    for (name, session) in &old.claims.sessions {
        state.claims.renew_session(name, session.until);
    }
    let held = old.claims.by_job.drain().map(|(_, claim)| claim);
    for claim in held.chain(undo) {
        state.claims.reclaim(&claim);
    }
    let isolated = old.claims.isolated;
    state.claims.isolated = isolated.filter(|seq| state.claims.by_job.contains_key(seq));
    for (id, lane) in state.lanes.iter_mut() {
        if let Some(old) = old.lanes.get(id) {
            lane.cooldown_until = old.cooldown_until;
        }
    }
    for (id, tenant) in state.tenants.iter_mut() {
        if let Some(old) = old.tenants.get_mut(id) {
            tenant.history = mem::take(&mut old.history);
        }
    }
}

fn read_total(state: &mut StoreState) -> rusqlite::Result<()> {
    let sql = "SELECT done, dead, failed, cancelled, throttles, busy, epoch, mint, seq \
               FROM total";
    let mut statement = state.reader.prepare_cached(sql)?;
    statement.query_row([], |row| {
        state.counts = counts_from_row(row, 0)?;
        state.ids.epoch = to_u64(row.get(6)?);
        state.ids.name_prefix = row.get(7)?;
        state.ids.last_seq = to_u64(row.get(8)?);
        Ok(())
    })
}

/// Returns the end of the last job of an action.
fn read_last_end(reader: &Connection, action: u32) -> rusqlite::Result<Option<WallTime>> {
    let sql = "SELECT at FROM outcome WHERE action = ?1 ORDER BY place DESC LIMIT 1";
    let mut statement = reader.prepare_cached(sql)?;
    let at = statement.query_row(params![action], |row| row.get(0)).optional()?;
    Ok(at.map(from_millis))
}

fn read_lanes(state: &mut StoreState) -> rusqlite::Result<()> {
    for (id, name) in rows(&state.reader, "SELECT id, name FROM lane", |row| {
        Ok((row.get(0)?, name_from_row(row, 1)?))
    })? {
        state.ids.observe(id);
        state.lanes.insert(id, name);
    }
    Ok(())
}

fn read_tenants(state: &mut StoreState) -> rusqlite::Result<()> {
    let sql = "SELECT id, name, paused, ruled, weight, priority, rate, per, in_flight, done, \
               dead, failed, cancelled, throttles, busy, backoff, speed, updated FROM tenant";
    for (id, tenant) in rows(&state.reader, sql, tenant_from_row)? {
        state.ids.observe(id);
        state.tenants.insert(id, tenant);
    }
    Ok(())
}

fn read_actions(state: &mut StoreState, moment: ClockPair) -> rusqlite::Result<()> {
    let sql = "SELECT id, name, timeout, keep, note, opened, started, ended, closed, told, \
               fate, paused, live, done, dead, failed, cancelled, throttles, busy FROM action";
    for (id, action, counts) in rows(&state.reader, sql, action_from_row)? {
        state.ids.observe(id);
        let mut action = ActionEntry::from_state(action, counts, moment);
        if action.state.ended.is_none()
            && let Some(at) = read_last_end(&state.reader, id)?
        {
            action.progressed = action.progressed.max(at);
            action.restart_timeout(moment);
        }
        state.actions.insert(id, action);
    }
    Ok(())
}

/// Counts all jobs of each queue as queued; the marks correct that. Actions count their own jobs.
fn read_queues(state: &mut StoreState) -> rusqlite::Result<()> {
    let sql = "SELECT id, lane, tenant, class, live FROM line";
    for (position, live) in rows(&state.reader, sql, queue_from_row)? {
        state.ids.observe(position.queue);
        state.add_queue(position);
        state.lanes.set_length(position, live);
        state.counts.queued += live;
        state.count_tenant(position.tenant, |counts| counts.queued += live);
    }
    Ok(())
}

fn read_marks(state: &mut StoreState, moment: ClockPair) -> rusqlite::Result<()> {
    let sql = "SELECT seq, state, attempts, mark.retries, throttles, recoveries, due, span, \
               line, action, cost, deadline, job.retries FROM mark JOIN job USING (seq)";
    let found = rows(&state.reader, sql, |row| MarkedJob::from_row(row, &state.lanes))?;
    for marked in found.into_iter().flatten() {
        state.runs.track(marked.seq);
        restore_marked(state, marked, moment);
    }
    Ok(())
}

fn restore_marked(state: &mut StoreState, marked: MarkedJob, moment: ClockPair) {
    let counted_as = marked.counted_as();
    let MarkedJob { seq, entry, mark, .. } = marked;
    count(state, entry.position, entry.action, |counts| {
        counts.queued -= 1;
        count_as(counts, counted_as);
    });
    let until = match mark {
        MarkState::Returned => return enqueue(state, seq, entry),
        MarkState::Claimed | MarkState::Cancelled => {
            state.lanes.end_wait(entry.position);
            return state.claims.insert(ClaimState {
                seq,
                number: 0,
                session: None,
                entry,
                charge: None,
                cancelled: mark == MarkState::Cancelled,
            });
        }
        MarkState::Start => DelayUntil::Civil(marked.due),
        MarkState::Retry | MarkState::Deferred => {
            let left = marked.due.since(moment.wall).min(marked.span);
            DelayUntil::Instant(moment.now.saturating_add(left))
        }
    };
    let delayed = DelayedJob {
        entry,
        until,
        counted_as,
    };
    state.delayed.insert(seq, delayed);
}

fn read_runs(state: &mut StoreState) -> rusqlite::Result<()> {
    let sql = "SELECT first, line, count FROM run ORDER BY first";
    let mut changed = Vec::new();
    for (run, id) in rows(&state.reader, sql, |row| {
        let run = IdRun {
            first: to_u64(row.get(0)?),
            count: to_u64(row.get(2)?),
        };
        Ok((run, row.get::<_, u32>(1)?))
    })? {
        let position = state.lanes.position(id);
        let known = position.and_then(|it| Some((it, state.lanes.queue_mut(it)?)));
        let Some((position, queue)) = known else {
            check_run_is_over(&state.reader, run)?;
            continue;
        };
        if queue.runs.is_empty() {
            changed.push(position);
        }
        queue.runs.push_back(run);
    }
    for position in changed {
        state.update_order(position.lane, position.tenant);
    }
    Ok(())
}

/// Accepts a run of a removed tenant if it has no jobs: those would be in no queue.
fn check_run_is_over(reader: &Connection, run: IdRun) -> rusqlite::Result<()> {
    let sql = "SELECT EXISTS (SELECT 1 FROM job WHERE seq >= ?1 AND seq < ?2)";
    let mut statement = reader.prepare_cached(sql)?;
    let range = params![to_sql(run.first), to_sql(run.end())];
    if statement.query_row(range, |row| row.get(0))? {
        let words = format!("the queue of job {} is missing", run.first);
        let corrupt = ffi::Error::new(ffi::SQLITE_CORRUPT);
        return Err(rusqlite::Error::SqliteFailure(corrupt, Some(words)));
    }
    Ok(())
}

/// A job with a mark.
struct MarkedJob {
    seq: u64,
    entry: JobEntry,
    mark: MarkState,
    due: WallTime,
    span: Duration,
}

impl MarkedJob {
    fn from_row(row: &Row<'_>, lanes: &LaneTable) -> rusqlite::Result<Option<Self>> {
        let history = AttemptHistory {
            attempts: row.get(2)?,
            retries: row.get(3)?,
            throttles: row.get(4)?,
            recoveries: row.get(5)?,
        };
        let Some(position) = id_at(row, 8).and_then(|queue| lanes.position(queue)) else {
            return Ok(None);
        };
        Ok(Some(Self {
            seq: to_u64(row.get(0)?),
            mark: MarkState::from_number(row.get(1)?),
            due: from_millis(row.get::<_, Option<i64>>(6)?.unwrap_or(0)),
            span: from_nanos(row.get::<_, Option<i64>>(7)?.unwrap_or(0)),
            entry: JobEntry {
                history,
                ..entry_from_row(row, position, 9)
            },
        }))
    }

    const fn counted_as(&self) -> JobCountState {
        match self.mark {
            MarkState::Returned => JobCountState::Queued,
            MarkState::Claimed | MarkState::Cancelled => JobCountState::InFlight,
            MarkState::Deferred => JobCountState::Deferred,
            MarkState::Retry | MarkState::Start => JobCountState::Delayed,
        }
    }
}
