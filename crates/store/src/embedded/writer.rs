//! The one that writes: takes whatever came while it was busy, and makes it durable in one transaction.
//!
//! A lone submission is written at once; a thousand that come while the disk is busy share the next
//! transaction. What must outlive a power cut is synced, what only must outlive the process is not: a
//! claim or a settlement that is lost with the power merely repeats work under the same key.

use std::collections::HashSet;
use std::sync::Arc;
use std::{mem, vec};

use rusqlite::Connection;
use tokio::sync::oneshot;

use super::disk::directory::failed;
use super::disk::durability::{JournalState, SyncLevel};
use super::disk::int_codec::counted;
use super::disk::rows::rows;
use super::disk::sql_writer::SqlWriter;
use super::disk::write_op::{LetterOp, LetterWrite, PendingSubmission, WriteOp, WriteStep};
use super::failpoints;
use super::ops::audit::RecountAsk;
use super::ops::submit::{self, AcceptedBatch, JobNumbering};
use super::shared::StoreShared;
use super::state::claims::ClaimState;
use super::state::{StorePhase, StoreState};
use crate::error::StoreError;
use crate::job::{SubmitBatch, SubmitResult};

/// Writes for an [`EmbeddedStore`](crate::EmbeddedStore). Somebody gives it a thread.
#[derive(Debug)]
pub struct Writer {
    pub(crate) shared: Arc<StoreShared>,
    pub(crate) disk: Connection,
    /// The number of the last job, and the place of the last outcome.
    seq: u64,
    place: u64,
    mint: String,
    pub(crate) sync: Option<SyncLevel>,
    pub(crate) journal: JournalState,
    /// Steps since the last that was synced.
    pub(crate) handed: usize,
}

/// What came in since the last time.
struct PendingWork {
    steps: Vec<WriteStep>,
    waiters: Vec<oneshot::Sender<Result<(), StoreError>>>,
    recounts: Vec<RecountAsk>,
    sync: SyncLevel,
}

/// What a writer finds when it looks.
enum WriterPoll {
    Work(PendingWork),
    Nothing,
    End,
}

/// What a transaction brought, and what it takes to undo it in memory if it did not.
#[derive(Default)]
struct WriteCycle {
    taken: Vec<(AcceptedBatch, Reply)>,
    revived: Vec<LetterWrite>,
    undo: Vec<ClaimState>,
    /// Submissions that were not answered yet when something failed.
    unanswered: Vec<Reply>,
}

impl WriteCycle {
    /// How many jobs were taken.
    fn count(&self) -> u64 {
        self.taken.iter().map(|(taken, _)| taken.count()).sum()
    }

    /// Whose they are. Memory does not know of the jobs yet.
    fn tenants(&self) -> HashSet<u32> {
        let jobs = self.taken.iter().flat_map(|(taken, _)| &taken.jobs);
        jobs.map(|job| job.place.tenant).collect()
    }
}

type Reply = oneshot::Sender<Result<SubmitResult, StoreError>>;

impl Writer {
    pub(crate) fn new(shared: Arc<StoreShared>, disk: Connection) -> Result<Self, StoreError> {
        let mut writer = Self {
            shared,
            disk,
            seq: 0,
            place: 0,
            mint: String::new(),
            sync: None,
            journal: JournalState::Sound,
            handed: 0,
        };
        writer.read_numbers()?;
        Ok(writer)
    }

    /// Writes until every handle of the store is gone, or it was ended. Blocks: it wants a thread of its
    /// own.
    pub fn run(mut self) {
        while let Some(work) = self.next_work() {
            self.cycle(work);
        }
        self.merge_journal();
    }

    /// The same without a thread: it writes wherever it is polled, and holds that up. For a store that
    /// lives in a runtime's paused time, which would run on while a thread writes.
    pub async fn run_here(mut self) {
        let shared = Arc::clone(&self.shared);
        loop {
            // Made before looking: what comes in between is not missed.
            let called = shared.call.notified();
            match self.waiting_work() {
                WriterPoll::Work(work) => self.cycle(work),
                WriterPoll::Nothing => called.await,
                WriterPoll::End => return self.merge_journal(),
            }
        }
    }

    /// So that nobody has to who opens it next. It happens with the last handle that is closed, unless two
    /// are closed at the same time, and the reader's is.
    fn merge_journal(&self) {
        // What is in the journal is as safe as in the database.
        let _merged = self.disk.pragma_update(None, "wal_checkpoint", "TRUNCATE");
    }

    fn waiting_work(&self) -> WriterPoll {
        let mut memory = self.shared.lock();
        match memory.is_idle() {
            false => WriterPoll::Work(PendingWork::take(&mut memory)),
            true if memory.phase == StorePhase::Closed => WriterPoll::End,
            true => WriterPoll::Nothing,
        }
    }

    /// Lets the database have so many pages and no more, as a full disk does.
    #[cfg(test)]
    pub(crate) fn limit(&self, pages: u32) {
        self.disk
            .pragma_update(None, "max_page_count", pages)
            .expect("a bound");
    }

    fn read_numbers(&mut self) -> Result<(), StoreError> {
        let read = rows(&self.disk, "SELECT seq, place, mint FROM total", |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?))
        });
        for (seq, place, mint) in read.map_err(failed)? {
            (self.seq, self.place, self.mint) = (counted(seq), counted(place), mint);
        }
        Ok(())
    }

    /// Waits for something to write. Nothing once the store is ended and all is written.
    fn next_work(&self) -> Option<PendingWork> {
        let mut memory = self.shared.lock();
        while memory.is_idle() {
            if memory.phase == StorePhase::Closed {
                return None;
            }
            memory = self.shared.wait(memory);
        }
        Some(PendingWork::take(&mut memory))
    }

    fn cycle(&mut self, work: PendingWork) {
        let PendingWork {
            steps,
            waiters,
            recounts,
            sync,
        } = work;
        let mut cycle = WriteCycle::default();
        match self.commit(steps, sync, &mut cycle) {
            Ok(()) => self.succeed(cycle, waiters, recounts),
            Err(error) => self.fail(cycle, waiters, recounts, &error),
        }
    }

    fn commit(
        &mut self,
        steps: Vec<WriteStep>,
        sync: SyncLevel,
        cycle: &mut WriteCycle,
    ) -> Result<(), StoreError> {
        let mut steps = steps.into_iter();
        let committed = self.commit_all(&mut steps, sync, cycle);
        // What was not reached when something failed is undone and answered, too.
        for step in steps {
            cycle.undo.extend(step.undo);
            if let WriteOp::Submit(submission) = step.change {
                cycle.unanswered.push(submission.reply);
            }
        }
        committed
    }

    fn commit_all(
        &mut self,
        steps: &mut vec::IntoIter<WriteStep>,
        sync: SyncLevel,
        cycle: &mut WriteCycle,
    ) -> Result<(), StoreError> {
        let points = failpoints::points(steps.as_slice());
        let is_sweep = |step: &WriteStep| matches!(step.change, WriteOp::Tidy(_));
        let sweeps = steps.as_slice().iter().any(is_sweep);
        let sync = self.reaches(sync, steps.len());
        self.reach(sync).map_err(failed)?;
        self.settle_doubts()?;
        failpoints::before(&points);
        let transaction = self.disk.unchecked_transaction().map_err(failed)?;
        let mut ledger = SqlWriter::new(&transaction, self.place);
        let mut seq = self.seq;
        for step in steps {
            let written = self.write(&mut ledger, step, &mut seq, cycle);
            written.map_err(failed)?;
        }
        let place = ledger.close(self.seq, seq).map_err(failed)?;
        transaction.commit().map_err(failed)?;
        (self.seq, self.place) = (seq, place);
        failpoints::after(&points);
        if sweeps {
            self.shrink();
        }
        Ok(())
    }

    fn write(
        &self,
        ledger: &mut SqlWriter<'_>,
        step: WriteStep,
        seq: &mut u64,
        cycle: &mut WriteCycle,
    ) -> rusqlite::Result<()> {
        cycle.undo.extend(step.undo);
        match step.change {
            WriteOp::Submit(submission) => {
                let PendingSubmission { batch, reply } = *submission;
                match self.take(ledger, batch, seq, cycle.count()) {
                    Ok(taken) => cycle.taken.push((taken, reply)),
                    Err(error) => {
                        cycle.unanswered.push(reply);
                        return Err(error);
                    }
                }
            }
            WriteOp::Tidy(sweep) => {
                let mut memory = self.shared.lock();
                let idle = memory.forget_idle(&sweep, &cycle.tenants());
                drop(memory);
                ledger.tidy(&sweep, &idle)?;
            }
            change => {
                ledger.write(&change)?;
                if let WriteOp::Letters(LetterOp::Revived(letters)) = change {
                    cycle.revived.extend(letters);
                }
            }
        }
        Ok(())
    }

    /// Decides about a batch and writes it; `taken` jobs were taken before it in this transaction.
    fn take(
        &self,
        ledger: &mut SqlWriter<'_>,
        batch: SubmitBatch,
        seq: &mut u64,
        taken: u64,
    ) -> rusqlite::Result<AcceptedBatch> {
        let moment = self.shared.clock.moment();
        let known = submit::known_names(&self.disk, &batch, moment.wall)?;
        let mut memory = self.shared.lock();
        let mut decision = memory.decide(&batch, &known, taken, moment);
        let closed = memory.closed_row(&decision);
        drop(memory);
        for step in mem::take(&mut decision.before) {
            ledger.write(&step.change)?;
        }
        closed.map_or(Ok(()), |row| ledger.write(&row))?;
        let mut numbering = JobNumbering {
            seq,
            mint: &self.mint,
            at: moment.wall,
        };
        submit::write(ledger, batch, decision, &mut numbering)
    }

    fn succeed(
        &mut self,
        cycle: WriteCycle,
        waiters: Vec<oneshot::Sender<Result<(), StoreError>>>,
        recounts: Vec<RecountAsk>,
    ) {
        let moment = self.shared.clock.moment();
        let mut memory = self.shared.lock();
        let rings = !cycle.taken.is_empty() || !cycle.revived.is_empty();
        for letter in cycle.revived {
            memory.revived(letter);
        }
        for (taken, reply) in cycle.taken {
            let submitted = memory.publish(taken, moment);
            // Whoever does not wait any more can ask again by name.
            let _ = reply.send(Ok(submitted));
        }
        memory.recounts.extend(recounts);
        recount_if_asked(&mut memory);
        drop(memory);
        for waiter in waiters {
            // The same.
            let _ = waiter.send(Ok(()));
        }
        if rings {
            self.shared.bell.notify_waiters();
        }
    }

    /// Nothing of this was done: says so to everybody, and reads the truth from the disk.
    fn fail(
        &mut self,
        cycle: WriteCycle,
        waiters: Vec<oneshot::Sender<Result<(), StoreError>>>,
        recounts: Vec<RecountAsk>,
        error: &StoreError,
    ) {
        if error.is_doubtful() {
            self.journal = JournalState::Doubtful;
            // At once, while the system still has in memory what it could not write. If that fails it is
            // tried again before the next commit.
            let _ = self.settle_doubts();
        }
        let mut memory = self.shared.lock();
        // What was changed in memory meanwhile stands on what failed.
        let since = PendingWork::take(&mut memory);
        let mut undo = cycle.undo;
        let mut unanswered = cycle.unanswered;
        unanswered.extend(cycle.taken.into_iter().map(|(_, reply)| reply));
        for step in since.steps {
            undo.extend(step.undo);
            if let WriteOp::Submit(submission) = step.change {
                unanswered.push(submission.reply);
            }
        }
        memory.phase = memory.phase.max(StorePhase::Astray);
        self.shared.reload(&mut memory, undo);
        drop(memory);
        for reply in unanswered {
            let _ = reply.send(Err(error.again()));
        }
        for waiter in waiters.into_iter().chain(since.waiters) {
            let _ = waiter.send(Err(error.again()));
        }
        for asked in recounts.into_iter().chain(since.recounts) {
            let _ = asked.reply.send(Err(error.again()));
        }
        self.shared.bell.notify_waiters();
    }
}

/// Lets those count who want to, as soon as disk and memory agree.
fn recount_if_asked(memory: &mut StoreState) {
    if memory.pending.is_empty() {
        for RecountAsk { reader, reply } in mem::take(&mut memory.recounts) {
            let recount = memory.begin_recount(reader).map_err(failed);
            // Whoever does not wait any more can ask again.
            let _ = reply.send(recount);
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let mut memory = self.shared.lock();
        memory.phase = StorePhase::Closed;
        // Whoever still waits hears that it is closed when his half is dropped.
        drop(PendingWork::take(&mut memory));
        drop(memory);
        self.shared.bell.notify_waiters();
    }
}

impl PendingWork {
    fn take(memory: &mut StoreState) -> Self {
        let urgent = mem::take(&mut memory.urgent);
        Self {
            steps: mem::take(&mut memory.pending),
            waiters: mem::take(&mut memory.waiters),
            recounts: mem::take(&mut memory.recounts),
            sync: if urgent {
                SyncLevel::Kept
            } else {
                SyncLevel::Handed
            },
        }
    }
}
