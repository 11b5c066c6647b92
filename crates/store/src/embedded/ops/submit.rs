//! Jobs come in.
//!
//! A submission is decided by the writer, in the transaction that keeps it: only there is it certain
//! which names are in use. Memory hears of the jobs when they are on the disk, so nobody can be given a
//! job that a crash would undo.

use std::collections::HashSet;

use outflow_core::{ClockPair, WallTime};
use rusqlite::{CachedStatement, Connection, OptionalExtension as _, params};

use crate::action::ActionSpec;
use crate::embedded::disk::checksum::Record;
use crate::embedded::disk::int_codec::{many, millis, nanos, stored};
use crate::embedded::disk::sql_writer::SqlWriter;
use crate::embedded::disk::write_op::{ActionRow, JobMark, MarkState, WriteOp, WriteStep};
use crate::embedded::state::StoreState;
use crate::embedded::state::action::ActionEntry;
use crate::embedded::state::job_entry::{AttemptHistory, IdRun, JobPosition, RUN_MOST};
use crate::job::{BatchPosition, NewJob, SubmitBatch, SubmitReceipt};
use crate::name::Name;

/// A batch that is on the disk as soon as the transaction is.
#[derive(Debug)]
pub(crate) struct AcceptedBatch {
    pub(crate) receipts: Vec<SubmitReceipt>,
    pub(crate) jobs: Vec<TakenJob>,
    pub(crate) runs: Vec<(JobPosition, IdRun)>,
    pub(crate) action: Option<u32>,
    pub(crate) closes: bool,
}

#[derive(Debug)]
pub(crate) struct TakenJob {
    pub(crate) seq: u64,
    /// Which of the batch it is.
    pub(crate) index: usize,
    pub(crate) place: JobPosition,
    pub(crate) job: NewJob,
}

impl TakenJob {
    fn record(&self) -> Record<'_> {
        let job = &self.job;
        Record {
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
    /// How many jobs it adds.
    pub(crate) fn count(&self) -> u64 {
        many(self.jobs.len())
    }
}

/// What is decided about a batch while memory is locked.
#[derive(Debug)]
pub(crate) struct SubmitDecision {
    receipts: Vec<SubmitReceipt>,
    accepted: Vec<(usize, JobPosition)>,
    action: Option<u32>,
    /// What has to be written first: tenants, lanes, lines and the action that are new.
    pub(crate) before: Vec<WriteStep>,
    closes: bool,
}

/// Which jobs of a batch are known already.
pub(crate) fn known_names(
    disk: &Connection,
    batch: &SubmitBatch,
    at: WallTime,
) -> rusqlite::Result<Vec<bool>> {
    let sql = "SELECT 1 FROM name WHERE name = ?1 AND (until IS NULL OR until > ?2)";
    let mut statement = disk.prepare_cached(sql)?;
    let mut here = HashSet::new();
    let mut known = Vec::with_capacity(batch.jobs.len());
    for job in &batch.jobs {
        known.push(match &job.id {
            None => false,
            Some(name) => {
                !here.insert(name)
                    || statement
                        .query_row(params![name.as_str(), millis(at)], |_| Ok(()))
                        .optional()?
                        .is_some()
            }
        });
    }
    Ok(known)
}

impl StoreState {
    /// Decides about each job of a batch; `taken` jobs were taken and are not counted yet.
    pub(crate) fn decide(
        &mut self,
        batch: &SubmitBatch,
        known: &[bool],
        taken: u64,
        moment: ClockPair,
    ) -> SubmitDecision {
        let before = self.pending.len();
        let joins = batch.action.as_ref().map(|spec| self.joins(&spec.id));
        let mut decision = SubmitDecision {
            receipts: Vec::with_capacity(batch.jobs.len()),
            accepted: Vec::new(),
            action: None,
            before: Vec::new(),
            closes: false,
        };
        let shut = joins == Some(ActionMatch::Shut);
        let mut room = batch
            .queue_max
            .saturating_sub(self.total.queued.saturating_add(taken));
        for (index, (job, known)) in batch.jobs.iter().zip(known).enumerate() {
            let receipt = match (&job.id, known) {
                (Some(id), true) => SubmitReceipt::Duplicate { id: id.clone() },
                _ if shut => SubmitReceipt::Closed,
                _ if room == 0 => SubmitReceipt::Full,
                (id, _) => {
                    room -= 1;
                    decision.accepted.push((index, self.place_for(job)));
                    // A name that nobody gave follows with the number.
                    let id = id.clone().unwrap_or_else(|| job.tenant.clone());
                    SubmitReceipt::Accepted { id, place: 0 }
                }
            };
            decision.receipts.push(receipt);
        }
        decision.action = match joins {
            Some(ActionMatch::Open(id)) => Some(id),
            Some(joins) if joins.opens(batch, decision.accepted.len()) => {
                let spec = batch.action.clone();
                spec.map(|spec| self.open_action(spec, moment))
            }
            _ => None,
        };
        // Whoever was told that there is no room comes again: the action stays open for him.
        let full = decision.receipts.contains(&SubmitReceipt::Full);
        decision.closes = batch.rest == BatchPosition::Last && decision.action.is_some() && !full;
        decision.before = self.pending.split_off(before);
        decision
    }

    fn place_for(&mut self, job: &NewJob) -> JobPosition {
        let lane = self.lane_of(&job.lane);
        let tenant = self.tenant_of(&job.tenant);
        self.place_of(lane, tenant, job.priority)
    }

    /// What a batch finds under the name of its action.
    fn joins(&self, name: &Name) -> ActionMatch {
        let known = self.action_ids.get(name);
        let Some((id, action)) = known.and_then(|id| Some((*id, self.actions.get(id)?))) else {
            return ActionMatch::New;
        };
        match action.stage() {
            stage if stage.is_over() => ActionMatch::Over,
            _ if action.state.closed => ActionMatch::Shut,
            _ => ActionMatch::Open(id),
        }
    }

    /// Opens an action under a name that is free, or was that of one that is over.
    pub(crate) fn open_action(&mut self, spec: ActionSpec, moment: ClockPair) -> u32 {
        let id = self.fresh_id();
        let action = ActionEntry::new(spec, moment.wall, moment.now);
        let row = ActionRow {
            id,
            state: action.state.clone(),
        };
        if let Some(old) = self.action_ids.insert(row.state.spec.id.clone(), id) {
            self.actions.remove(&old);
        }
        self.actions.insert(id, action);
        self.record(WriteOp::Action(Box::new(row)));
        id
    }

    /// The state of an action, to be written with something about it changed that memory does not know
    /// yet.
    pub(crate) fn closed_row(&self, decision: &SubmitDecision) -> Option<WriteOp> {
        let id = decision.action.filter(|_| decision.closes)?;
        let mut state = self.actions.get(&id)?.state.clone();
        state.closed = true;
        Some(WriteOp::Action(Box::new(ActionRow { id, state })))
    }
}

/// What a batch finds under the name of its action.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum ActionMatch {
    /// Nothing.
    New,
    /// One that takes jobs.
    Open(u32),
    /// One that takes no more, and is not over.
    Shut,
    /// One that is over.
    Over,
}

impl ActionMatch {
    /// Whether a batch of which so many jobs are taken opens an action under this name.
    const fn opens(self, batch: &SubmitBatch, accepted: usize) -> bool {
        let asked = accepted > 0 || batch.jobs.is_empty();
        match self {
            Self::New => asked,
            // To close once more what is over is no reason to forget what came of it.
            Self::Over => asked && (accepted > 0 || matches!(batch.rest, BatchPosition::More)),
            Self::Open(_) | Self::Shut => false,
        }
    }
}

/// Writes what was decided; numbers follow `seq`, which moves on.
pub(crate) fn write(
    ledger: &mut SqlWriter<'_>,
    batch: SubmitBatch,
    decision: SubmitDecision,
    numbering: &mut JobNumbering<'_>,
) -> rusqlite::Result<AcceptedBatch> {
    let mut receipts = decision.receipts;
    let mut accepted = decision.accepted;
    // Jobs of one line get numbers that follow each other; within a line the order stays.
    accepted.sort_by_key(|(_, place)| place.line);
    let mut sources: Vec<Option<NewJob>> = batch.jobs.into_iter().map(Some).collect();
    let mut jobs = Vec::with_capacity(accepted.len());
    let mut inserts = InsertStatements::new(ledger.disk)?;
    let remember = nanos_millis(batch.remember);
    for (index, place) in accepted {
        let Some(job) = sources.get_mut(index).and_then(Option::take) else {
            continue;
        };
        let seq = numbering.next();
        let taken = TakenJob {
            seq,
            index,
            place,
            job,
        };
        inserts.insert(&taken, decision.action, remember)?;
        ledger.add_live(place, decision.action);
        if taken.job.id.is_none()
            && let Some(SubmitReceipt::Accepted { id, .. }) = receipts.get_mut(index)
            && let Some(name) = numbering.name(seq)
        {
            *id = name;
        }
        if let Some(start) = taken.job.not_before.filter(|at| *at > numbering.at) {
            ledger.mark(JobMark {
                seq,
                state: MarkState::Start,
                tries: AttemptHistory::default(),
                due: Some(start),
                span: None,
            });
        }
        jobs.push(taken);
    }
    let runs = runs_of(&jobs);
    for (place, run) in &runs {
        let sql = "INSERT INTO run (first, line, count) VALUES (?1, ?2, ?3)";
        ledger.run(
            sql,
            params![stored(run.first), place.line, stored(run.count)],
        )?;
    }
    Ok(AcceptedBatch {
        receipts,
        jobs,
        runs,
        action: decision.action,
        closes: decision.closes,
    })
}

fn nanos_millis(span: std::time::Duration) -> i64 {
    nanos(span) / 1_000_000
}

/// The statements that every job of a batch needs, looked up once.
struct InsertStatements<'a> {
    job: CachedStatement<'a>,
    name: CachedStatement<'a>,
}

impl<'a> InsertStatements<'a> {
    fn new(disk: &'a Connection) -> rusqlite::Result<Self> {
        let job = "INSERT INTO job (seq, line, name, action, cost, deadline, retries, payload, \
                   sum) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)";
        let name = "INSERT OR REPLACE INTO name (name, seq, remember) VALUES (?1, ?2, ?3)";
        Ok(Self {
            job: disk.prepare_cached(job)?,
            name: disk.prepare_cached(name)?,
        })
    }

    fn insert(
        &mut self,
        taken: &TakenJob,
        action: Option<u32>,
        remember: i64,
    ) -> rusqlite::Result<()> {
        let job = &taken.job;
        let name = job.id.as_ref().map(Name::as_str);
        self.job.execute(params![
            stored(taken.seq),
            taken.place.line,
            name,
            action,
            stored(job.cost.units()),
            job.deadline.map(millis),
            job.max_retries,
            job.payload.as_ref(),
            taken.record().sum(),
        ])?;
        if let Some(name) = name {
            let row = params![name, stored(taken.seq), remember];
            self.name.execute(row)?;
        }
        Ok(())
    }
}

/// Where the numbers of jobs stand, and what their names are made of.
#[derive(Debug)]
pub(crate) struct JobNumbering<'a> {
    pub(crate) seq: &'a mut u64,
    pub(crate) mint: &'a str,
    pub(crate) at: WallTime,
}

impl JobNumbering<'_> {
    fn next(&mut self) -> u64 {
        *self.seq += 1;
        *self.seq
    }

    fn name(&self, seq: u64) -> Option<Name> {
        minted(self.mint, seq)
    }
}

/// The name of a job that nobody named.
pub(crate) fn minted(mint: &str, seq: u64) -> Option<Name> {
    Name::new(&format!("{mint}-{seq}")).ok()
}

/// Numbers that follow each other in one line, in pieces that are read at once.
fn runs_of(jobs: &[TakenJob]) -> Vec<(JobPosition, IdRun)> {
    let mut runs = Vec::new();
    for line in jobs.chunk_by(|a, b| a.place.line == b.place.line) {
        for piece in line.chunks(RUN_MOST) {
            if let Some(first) = piece.first() {
                let run = IdRun {
                    first: first.seq,
                    count: many(piece.len()),
                };
                runs.push((first.place, run));
            }
        }
    }
    runs
}
