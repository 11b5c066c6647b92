//! Submission: decides about each job of a batch, and writes the accepted ones.
//!
//! The writer decides in the transaction that keeps the batch, because only there it is certain which
//! names are in use. The state learns of the jobs once they are on the disk, so that no worker gets a job
//! that a crash would undo.

use std::collections::HashSet;

use outflow_core::{ClockPair, WallTime};
use rusqlite::{CachedStatement, Connection, OptionalExtension as _, params};

use super::actions::record_action;
use crate::action::ActionSpec;
use crate::embedded::disk::checksum::JobRecord;
use crate::embedded::disk::int_codec::{to_count, to_millis, to_nanos, to_sql};
use crate::embedded::disk::sql_writer::SqlWriter;
use crate::embedded::disk::write_op::{JobMark, MarkState, WriteOp, WriteStep};
use crate::embedded::state::StoreState;
use crate::embedded::state::action::ActionEntry;
use crate::embedded::state::id_allocator::generate_name;
use crate::embedded::state::job_entry::{AttemptHistory, IdRun, JobPosition, RUN_LIMIT};
use crate::job::{BatchPosition, NewJob, SubmitBatch, SubmitReceipt};
use crate::name::Name;

/// A batch that is on the disk as soon as its transaction is.
#[derive(Debug)]
pub(crate) struct AcceptedBatch {
    pub(crate) receipts: Vec<SubmitReceipt>,
    pub(crate) jobs: Vec<AcceptedJob>,
    pub(crate) runs: Vec<(JobPosition, IdRun)>,
    pub(crate) action: Option<u32>,
    pub(crate) closes: bool,
}

/// One accepted job.
#[derive(Debug)]
pub(crate) struct AcceptedJob {
    pub(crate) seq: u64,
    /// Its index in the batch.
    pub(crate) index: usize,
    pub(crate) position: JobPosition,
    pub(crate) job: NewJob,
}

impl AcceptedJob {
    fn record(&self) -> JobRecord<'_> {
        let job = &self.job;
        JobRecord {
            seq: self.seq,
            tenant: job.tenant.as_str(),
            lane: job.lane.as_str(),
            class: job.priority,
            name: job.id.as_ref().map(Name::as_str),
            cost: job.cost,
            deadline: job.deadline,
            max_retries: job.max_retries,
            payload: &job.payload,
        }
    }
}

impl AcceptedBatch {
    pub(crate) fn job_count(&self) -> u64 {
        to_count(self.jobs.len())
    }
}

/// The decision about a batch, made under the store's lock.
#[derive(Debug)]
pub(crate) struct SubmitDecision {
    receipts: Vec<SubmitReceipt>,
    accepted: Vec<(usize, JobPosition)>,
    action: Option<u32>,
    /// New tenants, lanes, queues and the new action, which are written first.
    pub(crate) new_rows: Vec<WriteStep>,
    closes: bool,
}

/// Returns for each job of a batch whether its name is in use.
pub(crate) fn known_names(disk: &Connection, batch: &SubmitBatch, at: WallTime) -> rusqlite::Result<Vec<bool>> {
    let sql = "SELECT 1 FROM name WHERE name = ?1 AND (until IS NULL OR until > ?2)";
    let mut statement = disk.prepare_cached(sql)?;
    let mut in_batch = HashSet::new();
    let mut known = Vec::with_capacity(batch.jobs.len());
    for job in &batch.jobs {
        known.push(match &job.id {
            None => false,
            Some(name) => {
                let row = params![name.as_str(), to_millis(at)];
                !in_batch.insert(name) || statement.query_row(row, |_| Ok(())).optional()?.is_some()
            }
        });
    }
    Ok(known)
}

/// Decides about each job of a batch; `unpublished` jobs were accepted and are not counted yet.
pub(crate) fn decide(
    state: &mut StoreState,
    batch: &SubmitBatch,
    known: &[bool],
    unpublished: u64,
    moment: ClockPair,
) -> SubmitDecision {
    let first_step = state.log.len();
    let found = batch.action.as_ref().map(|spec| match_action(state, &spec.id));
    let is_closed = found == Some(ActionMatch::Closed);
    let waiting = state.counts.queued.saturating_add(unpublished);
    let mut free = batch.queue_max.saturating_sub(waiting);
    let mut receipts = Vec::with_capacity(batch.jobs.len());
    let mut accepted = Vec::new();
    for (index, (job, known)) in batch.jobs.iter().zip(known).enumerate() {
        receipts.push(match (&job.id, known) {
            (Some(id), true) => SubmitReceipt::Duplicate { id: id.clone() },
            _ if is_closed => SubmitReceipt::Closed,
            _ if free == 0 => SubmitReceipt::Full,
            (id, _) => {
                free -= 1;
                accepted.push((index, position_of(state, job)));
                // A generated name needs the job's number, which is not assigned yet.
                let id = id.clone().unwrap_or_else(|| job.tenant.clone());
                SubmitReceipt::Accepted { id, place: 0 }
            }
        });
    }
    let action = match (found, &batch.action) {
        (Some(ActionMatch::Open(id)), _) => Some(id),
        (Some(found), Some(spec)) if found.opens(batch, accepted.len()) => {
            Some(open_action(state, spec.clone(), moment))
        }
        _ => None,
    };
    // The caller submits rejected jobs again: the action stays open for them.
    let is_full = receipts.contains(&SubmitReceipt::Full);
    let closes = batch.rest == BatchPosition::Last && action.is_some() && !is_full;
    SubmitDecision {
        receipts,
        accepted,
        action,
        new_rows: state.log.steps.split_off(first_step),
        closes,
    }
}

fn position_of(state: &mut StoreState, job: &NewJob) -> JobPosition {
    let lane = state.lane_id(&job.lane);
    let tenant = state.tenant_id(&job.tenant);
    state.position(lane, tenant, job.priority)
}

fn match_action(state: &StoreState, name: &Name) -> ActionMatch {
    let Some((id, action)) = state.actions.find_entry(name) else {
        return ActionMatch::New;
    };
    if action.is_reusable() {
        ActionMatch::Over
    } else if action.state.closed {
        ActionMatch::Closed
    } else {
        ActionMatch::Open(id)
    }
}

/// Opens an action under a free name, or the name of a finished one.
pub(crate) fn open_action(state: &mut StoreState, spec: ActionSpec, moment: ClockPair) -> u32 {
    let id = state.ids.next_id();
    state.actions.insert(id, ActionEntry::new(spec, moment));
    record_action(state, id);
    id
}

/// Returns the row of an action that the batch closes, if any. The state closes it on publication.
pub(crate) fn closed_action(state: &StoreState, decision: &SubmitDecision) -> Option<WriteOp> {
    let id = decision.action.filter(|_| decision.closes)?;
    let mut state = state.actions.get(id)?.state.clone();
    state.closed = true;
    Some(WriteOp::Action(id, Box::new(state)))
}

/// The action that a batch finds under its name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum ActionMatch {
    New,
    Open(u32),
    /// It accepts no more jobs and is not over.
    Closed,
    Over,
}

impl ActionMatch {
    /// Returns true if a batch with this number of accepted jobs opens an action.
    const fn opens(self, batch: &SubmitBatch, accepted: usize) -> bool {
        let wanted = accepted > 0 || batch.jobs.is_empty();
        match self {
            Self::New => wanted,
            // Closing a finished action again must not drop its outcomes.
            Self::Over => wanted && (accepted > 0 || matches!(batch.rest, BatchPosition::More)),
            Self::Open(_) | Self::Closed => false,
        }
    }
}

/// Writes the accepted jobs of a batch, and numbers them.
pub(crate) fn write(
    sql: &mut SqlWriter<'_>,
    batch: SubmitBatch,
    decision: SubmitDecision,
    numbering: &mut JobNumbering<'_>,
) -> rusqlite::Result<AcceptedBatch> {
    let SubmitDecision {
        mut receipts,
        mut accepted,
        action,
        closes,
        ..
    } = decision;
    // Jobs of one queue get consecutive numbers, in the order of the batch.
    accepted.sort_by_key(|(_, position)| position.queue);
    let mut sources: Vec<Option<NewJob>> = batch.jobs.into_iter().map(Some).collect();
    let mut jobs = Vec::with_capacity(accepted.len());
    let mut inserts = InsertStatements::new(sql.disk, action, batch.remember)?;
    for (index, position) in accepted {
        let Some(job) = sources.get_mut(index).and_then(Option::take) else {
            continue;
        };
        let accepted = AcceptedJob {
            seq: numbering.next(),
            index,
            position,
            job,
        };
        inserts.insert(&accepted)?;
        sql.deltas.add_live(position, action);
        if let Some(receipt) = receipts.get_mut(index) {
            numbering.name_job(&accepted, receipt);
        }
        mark_start(sql, &accepted, numbering.at);
        jobs.push(accepted);
    }
    let runs = find_runs(&jobs);
    for (position, run) in &runs {
        let insert = "INSERT INTO run (first, line, count) VALUES (?1, ?2, ?3)";
        let row = params![to_sql(run.first), position.queue, to_sql(run.count)];
        sql.run(insert, row)?;
    }
    Ok(AcceptedBatch {
        receipts,
        jobs,
        runs,
        action,
        closes,
    })
}

fn mark_start(sql: &mut SqlWriter<'_>, accepted: &AcceptedJob, at: WallTime) {
    if let Some(start) = accepted.job.not_before.filter(|start| *start > at) {
        let history = AttemptHistory::default();
        sql.coalesced.mark(JobMark {
            due: Some(start),
            ..JobMark::new(accepted.seq, MarkState::Start, history)
        });
    }
}

/// The statements that every job of a batch needs, prepared once.
struct InsertStatements<'a> {
    job: CachedStatement<'a>,
    name: CachedStatement<'a>,
    action: Option<u32>,
    remember_millis: i64,
}

impl<'a> InsertStatements<'a> {
    fn new(disk: &'a Connection, action: Option<u32>, remember: std::time::Duration) -> rusqlite::Result<Self> {
        let job = "INSERT INTO job (seq, line, name, action, cost, deadline, retries, payload, \
                   sum) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)";
        let name = "INSERT OR REPLACE INTO name (name, seq, remember) VALUES (?1, ?2, ?3)";
        Ok(Self {
            job: disk.prepare_cached(job)?,
            name: disk.prepare_cached(name)?,
            action,
            remember_millis: to_nanos(remember) / 1_000_000,
        })
    }

    fn insert(&mut self, accepted: &AcceptedJob) -> rusqlite::Result<()> {
        let job = &accepted.job;
        let name = job.id.as_ref().map(Name::as_str);
        self.job.execute(params![
            to_sql(accepted.seq),
            accepted.position.queue,
            name,
            self.action,
            to_sql(job.cost.units()),
            job.deadline.map(to_millis),
            job.max_retries,
            job.payload.as_ref(),
            accepted.record().checksum(),
        ])?;
        if let Some(name) = name {
            let row = params![name, to_sql(accepted.seq), self.remember_millis];
            self.name.execute(row)?;
        }
        Ok(())
    }
}

/// The numbers of a transaction's jobs, and the prefix of generated names.
#[derive(Debug)]
pub(crate) struct JobNumbering<'a> {
    pub(crate) seq: &'a mut u64,
    pub(crate) name_prefix: &'a str,
    pub(crate) at: WallTime,
}

impl JobNumbering<'_> {
    const fn next(&mut self) -> u64 {
        *self.seq += 1;
        *self.seq
    }

    /// Puts the generated name of an unnamed job into its receipt.
    fn name_job(&self, accepted: &AcceptedJob, receipt: &mut SubmitReceipt) {
        if accepted.job.id.is_none()
            && let SubmitReceipt::Accepted { id, .. } = receipt
            && let Some(name) = generate_name(self.name_prefix, accepted.seq)
        {
            *id = name;
        }
    }
}

/// Groups consecutive numbers of one queue into runs that are read at once.
fn find_runs(jobs: &[AcceptedJob]) -> Vec<(JobPosition, IdRun)> {
    let mut runs = Vec::new();
    for queue in jobs.chunk_by(|a, b| a.position.queue == b.position.queue) {
        for piece in queue.chunks(RUN_LIMIT) {
            if let Some(first) = piece.first() {
                let run = IdRun {
                    first: first.seq,
                    count: to_count(piece.len()),
                };
                runs.push((first.position, run));
            }
        }
    }
    runs
}
