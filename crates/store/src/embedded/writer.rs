//! Writer of the embedded store: commits all changes that arrived meanwhile in one transaction.
//!
//! A lone submission is written at once; a thousand that arrive while the disk is busy share the next
//! transaction. Changes that must survive a power cut are synced. A claim or settlement that is lost with
//! the power only repeats work under the same key, so it is not synced.

use std::collections::HashSet;
use std::sync::Arc;
use std::{mem, vec};

use rusqlite::Connection;
use tokio::sync::oneshot;

use super::disk::database_error::failed;
use super::disk::durability::{JournalState, SyncLevel};
use super::disk::int_codec::to_u64;
use super::disk::rows::rows;
use super::disk::sql_writer::SqlWriter;
use super::disk::write_op::{LetterOp, LetterWrite, PendingSubmission, WriteOp, WriteStep};
use super::failpoints;
use super::ops::audit::{AuditRequest, begin_audit};
use super::ops::collect_garbage::remove_idle;
use super::ops::dead_letters::restore_letter;
use super::ops::publish::publish;
use super::ops::submit::{self, AcceptedBatch, JobNumbering};
use super::shared::StoreShared;
use super::state::claims::ClaimState;
use super::state::write_log::WriteLog;
use super::state::{StorePhase, StoreState};
use crate::error::StoreError;
use crate::job::{SubmitBatch, SubmitResult};

/// The writer of an [`EmbeddedStore`](crate::EmbeddedStore), which needs a thread.
#[derive(Debug)]
pub struct Writer {
    pub(super) shared: Arc<StoreShared>,
    pub(super) disk: Connection,
    last_seq: u64,
    /// The place of the last outcome or dead letter.
    last_place: u64,
    name_prefix: String,
    pub(super) sync: Option<SyncLevel>,
    pub(super) journal: JournalState,
    /// Steps since the last sync.
    pub(super) unsynced: usize,
}

/// The state of the log when the writer looks.
enum WriterPoll {
    Work(WriteLog),
    Idle,
    Closed,
}

/// The effects of a transaction on memory: to publish after its commit, or to undo after a failure.
#[derive(Default)]
struct WriteCycle {
    accepted: Vec<(AcceptedBatch, SubmitReply)>,
    requeued: Vec<LetterWrite>,
    undo: Vec<ClaimState>,
    /// Submissions that a failure left without a response.
    unanswered: Vec<SubmitReply>,
}

type SubmitReply = oneshot::Sender<Result<SubmitResult, StoreError>>;

impl WriteCycle {
    /// Counts accepted jobs, which the state does not know yet.
    fn unpublished(&self) -> u64 {
        let batches = self.accepted.iter();
        batches.map(|(batch, _)| batch.job_count()).sum()
    }

    /// Lists the tenants of accepted jobs.
    fn tenants(&self) -> HashSet<u32> {
        let jobs = self.accepted.iter().flat_map(|(batch, _)| &batch.jobs);
        jobs.map(|job| job.position.tenant).collect()
    }

    /// Notes a step that was not written.
    fn abandon(&mut self, step: WriteStep) {
        self.undo.extend(step.undo);
        if let WriteOp::Submit(submission) = step.op {
            self.unanswered.push(submission.reply);
        }
    }
}

impl Writer {
    pub(super) fn new(shared: Arc<StoreShared>, disk: Connection) -> Result<Self, StoreError> {
        let mut writer = Self {
            shared,
            disk,
            last_seq: 0,
            last_place: 0,
            name_prefix: String::new(),
            sync: None,
            journal: JournalState::Sound,
            unsynced: 0,
        };
        writer.read_numbers()?;
        Ok(writer)
    }

    /// Writes until the store is closed or its last handle is dropped. Blocks: it needs its own thread.
    pub fn run(mut self) {
        while let Some(log) = self.wait_for_work() {
            self.cycle(log);
        }
        self.merge_journal();
    }

    /// Writes without a thread, inside of the task that polls it. For a store in a runtime's paused time,
    /// which would advance while a thread writes.
    pub async fn run_here(mut self) {
        let shared = Arc::clone(&self.shared);
        loop {
            // Created before the check, so that it misses no event in between.
            let work = shared.work_async.notified();
            match self.poll_work() {
                WriterPoll::Work(log) => self.cycle(log),
                WriterPoll::Idle => work.await,
                WriterPoll::Closed => return self.merge_journal(),
            }
        }
    }

    /// Moves the journal into the database, so that the next start need not. `SQLite` does that with the
    /// last connection, except if two close at the same time, and the reader's does.
    fn merge_journal(&self) {
        // A failure does no harm: the journal is as safe as the database.
        let _merged = self.disk.pragma_update(None, "wal_checkpoint", "TRUNCATE");
    }

    fn poll_work(&self) -> WriterPoll {
        let mut state = self.shared.lock();
        match state.log.is_idle() {
            false => WriterPoll::Work(state.log.take()),
            true if state.phase == StorePhase::Closed => WriterPoll::Closed,
            true => WriterPoll::Idle,
        }
    }

    /// Limits the pages of the database, as a full disk does.
    #[cfg(test)]
    pub(super) fn limit(&self, pages: u32) {
        self.disk.pragma_update(None, "max_page_count", pages).expect("a bound");
    }

    fn read_numbers(&mut self) -> Result<(), StoreError> {
        let read = rows(&self.disk, "SELECT seq, place, mint FROM total", |row| {
            Ok((to_u64(row.get(0)?), to_u64(row.get(1)?), row.get(2)?))
        });
        for numbers in read.map_err(failed)? {
            (self.last_seq, self.last_place, self.name_prefix) = numbers;
        }
        Ok(())
    }

    /// Waits for work, and returns nothing once the store is closed and all is written.
    fn wait_for_work(&self) -> Option<WriteLog> {
        let mut state = self.shared.lock();
        while state.log.is_idle() {
            if state.phase == StorePhase::Closed {
                return None;
            }
            state = self.shared.wait(state);
        }
        Some(state.log.take())
    }

    fn cycle(&mut self, mut log: WriteLog) {
        let sync = if log.needs_sync {
            SyncLevel::Disk
        } else {
            SyncLevel::Process
        };
        let mut cycle = WriteCycle::default();
        let mut steps = mem::take(&mut log.steps).into_iter();
        let committed = self.commit(&mut steps, sync, &mut cycle);
        steps.for_each(|step| cycle.abandon(step));
        match committed {
            Ok(()) => self.succeed(cycle, log),
            Err(error) => self.fail(cycle, log, &error),
        }
    }

    fn commit(
        &mut self,
        steps: &mut vec::IntoIter<WriteStep>,
        sync: SyncLevel,
        cycle: &mut WriteCycle,
    ) -> Result<(), StoreError> {
        let points = failpoints::points(steps.as_slice());
        let is_sweep = |step: &WriteStep| matches!(step.op, WriteOp::Sweep(_));
        let has_sweep = steps.as_slice().iter().any(is_sweep);
        if sync == SyncLevel::Disk {
            self.shared.files.check_present()?;
        }
        let sync = self.choose_sync(sync, steps.len());
        self.set_sync(sync).map_err(failed)?;
        self.repair_journal()?;
        failpoints::before(&points);
        let transaction = self.disk.unchecked_transaction().map_err(failed)?;
        let mut sql = SqlWriter::new(&transaction, self.last_place);
        let mut seq = self.last_seq;
        for step in steps {
            let written = self.write(&mut sql, step, &mut seq, cycle);
            written.map_err(failed)?;
        }
        let place = sql.close(self.last_seq, seq).map_err(failed)?;
        transaction.commit().map_err(failed)?;
        (self.last_seq, self.last_place) = (seq, place);
        failpoints::after(&points);
        if has_sweep {
            self.shrink();
        }
        Ok(())
    }

    fn write(
        &self,
        sql: &mut SqlWriter<'_>,
        step: WriteStep,
        seq: &mut u64,
        cycle: &mut WriteCycle,
    ) -> rusqlite::Result<()> {
        cycle.undo.extend(step.undo);
        match step.op {
            WriteOp::Submit(submission) => {
                let PendingSubmission { batch, reply } = *submission;
                match self.accept(sql, batch, seq, cycle.unpublished()) {
                    Ok(batch) => cycle.accepted.push((batch, reply)),
                    Err(error) => {
                        cycle.unanswered.push(reply);
                        return Err(error);
                    }
                }
            }
            WriteOp::Sweep(sweep) => {
                let idle = remove_idle(&mut self.shared.lock(), &sweep, &cycle.tenants());
                sql.sweep(&sweep, &idle)?;
            }
            op => {
                sql.write(&op)?;
                if let WriteOp::Letters(LetterOp::Requeued(letters)) = op {
                    cycle.requeued.extend(letters);
                }
            }
        }
        Ok(())
    }

    /// Decides about a batch and writes it; `unpublished` jobs precede it in this transaction.
    fn accept(
        &self,
        sql: &mut SqlWriter<'_>,
        batch: SubmitBatch,
        seq: &mut u64,
        unpublished: u64,
    ) -> rusqlite::Result<AcceptedBatch> {
        let moment = self.shared.clock.moment();
        let known = submit::known_names(&self.disk, &batch, moment.wall)?;
        let mut state = self.shared.lock();
        let mut decision = submit::decide(&mut state, &batch, &known, unpublished, moment);
        let closed = submit::closed_action(&state, &decision);
        drop(state);
        for step in mem::take(&mut decision.new_rows) {
            sql.write(&step.op)?;
        }
        closed.map_or(Ok(()), |row| sql.write(&row))?;
        let mut numbering = JobNumbering {
            seq,
            name_prefix: &self.name_prefix,
            at: moment.wall,
        };
        submit::write(sql, batch, decision, &mut numbering)
    }

    /// Publishes the effects of a committed transaction, and answers its callers.
    fn succeed(&self, cycle: WriteCycle, log: WriteLog) {
        let moment = self.shared.clock.moment();
        let mut state = self.shared.lock();
        let has_news = !cycle.accepted.is_empty() || !cycle.requeued.is_empty();
        for letter in cycle.requeued {
            restore_letter(&mut state, letter);
        }
        for (batch, reply) in cycle.accepted {
            let result = publish(&mut state, batch, moment);
            // A caller that left can submit again by name.
            let _ = reply.send(Ok(result));
        }
        state.log.audits.extend(log.audits);
        start_audits(&mut state);
        drop(state);
        for waiter in log.waiters {
            // A caller that left needs no response.
            let _ = waiter.send(Ok(()));
        }
        if has_news {
            self.shared.changed.notify_waiters();
        }
    }

    /// Reports the failure of a transaction to its callers, and loads the state from the disk.
    fn fail(&mut self, mut cycle: WriteCycle, log: WriteLog, error: &StoreError) {
        if error.is_doubtful() {
            self.journal = JournalState::Doubtful;
            // At once, while the system still has the unwritten pages. The next commit tries again.
            let _ = self.repair_journal();
        }
        let mut state = self.shared.lock();
        // Changes since then build on the failed ones.
        let mut later = state.log.take();
        for step in mem::take(&mut later.steps) {
            cycle.abandon(step);
        }
        state.phase = state.phase.max(StorePhase::OutOfSync);
        self.shared.reload(&mut state, cycle.undo);
        drop(state);
        let accepted = cycle.accepted.into_iter().map(|(_, reply)| reply);
        for reply in cycle.unanswered.into_iter().chain(accepted) {
            let _ = reply.send(Err(error.copy()));
        }
        for log in [log, later] {
            for waiter in log.waiters {
                let _ = waiter.send(Err(error.copy()));
            }
            for audit in log.audits {
                let _ = audit.reply.send(Err(error.copy()));
            }
        }
        self.shared.changed.notify_waiters();
    }
}

/// Starts requested audits as soon as disk and memory agree.
fn start_audits(state: &mut StoreState) {
    if state.log.steps.is_empty() {
        for AuditRequest { reader, reply } in mem::take(&mut state.log.audits) {
            let audit = begin_audit(state, reader).map_err(failed);
            // A caller that left can ask again.
            let _ = reply.send(audit);
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.phase = StorePhase::Closed;
        // Waiting callers see that the store is closed when their channels are dropped.
        drop(state.log.take());
        drop(state);
        self.shared.changed.notify_waiters();
    }
}
