//! The embedded store: one process, one directory, no server.
//!
//! The order of jobs and the claims on them are in memory, under one lock; `SQLite` is the record that
//! outlives the process. It could be asked for every turn instead, but then a turn would cost a query,
//! and fairness among a hundred thousand tenants would be an index that every job rewrites. Memory holds
//! counts, the jobs that are next and those that something befell, and not the payloads of the rest.
//!
//! Nothing is answered before it is written. Submissions and whatever an operator asks for are on the
//! disk by then; claims and settlements are with the operating system, which a killed process cannot take
//! back. After a power cut at most the last of those are unknown, and their work is done again under the
//! same key.

mod acting;
mod action;
mod cancelling;
mod change;
mod claiming;
mod claims;
mod classes;
mod ends;
mod entry;
mod files;
mod gathering;
mod ledger;
mod letters;
mod line;
mod load;
mod memory;
mod moving;
mod number;
mod publish;
mod reading;
mod reaping;
mod recounting;
mod rows;
mod runs;
mod settling;
mod submit;
mod sums;
mod tenant;
mod tenants;
mod tidying;
mod witness;
mod writer;

use std::fmt;
use std::future::Future;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use outflow_core::{Clock, Moment, WallTime};
use rusqlite::{Connection, params};
use tokio::sync::{Notify, oneshot};

use crate::action::{ActionReport, ActionSpec, Tally};
use crate::claim::{Beat, ClaimAsk, Claims, Gate, Reaped};
use crate::dead::{DeadLetter, DeadPick};
use crate::error::StoreError;
use crate::job::{Batch, Submitted};
use crate::jobs::{Answer, JobStore};
use crate::name::Name;
use crate::settle::{Outcome, Settled, Settlement};
use crate::tenant::{Page, Scope, Snapshot, TenantReport, TenantRule};
use cancelling::Cancel;
use change::{Change, Letters, Pause, Submission};
use claims::Claim;
use files::{Files, failed};
use letters::{Pick, Picked};
use memory::{Memory, Phase};
pub use writer::Writer;

/// A job store in a directory of this process. Clones are the same store.
///
/// ```
/// use std::sync::Arc;
/// use outflow_core::ManualClock;
/// use outflow_store::{Batch, Embedded, JobStore, NewJob};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let dir = tempfile::tempdir()?;
/// let (store, writer) = Embedded::open(dir.path(), Arc::new(ManualClock::default()))?;
/// std::thread::scope(|threads| {
///     threads.spawn(|| writer.run());
///     let runtime = tokio::runtime::Builder::new_current_thread().build()?;
///     let job = NewJob::new("customer-A".parse()?, "mail".parse()?, "hello".into());
///     let submitted = runtime.block_on(store.submit(Batch::of(vec![job])))?;
///     assert_eq!(submitted.queued, 1);
///     store.end();
///     Ok(())
/// })
/// # }
/// ```
#[derive(Clone)]
pub struct Embedded {
    shared: Arc<Shared>,
    _last: Arc<Last>,
}

/// What the handles and the writer share.
struct Shared {
    memory: Mutex<Memory>,
    work: Condvar,
    /// Rings with it, for a writer without a thread.
    call: Notify,
    bell: Notify,
    /// Dead letters are picked by one at a time: what is picked is still on the disk.
    letters: tokio::sync::Mutex<()>,
    clock: Arc<dyn Clock + Send + Sync>,
    files: Files,
}

/// Ends the store with its last handle.
struct Last(Arc<Shared>);

impl Drop for Last {
    fn drop(&mut self) {
        self.0.end();
    }
}

impl Embedded {
    /// Opens the store in a directory, which is made if there is none. Nothing is answered until
    /// somebody lets the [`Writer`] run, on a thread of its own.
    ///
    /// # Errors
    /// If another process has it, or it cannot be read or written.
    pub fn open(
        dir: &Path,
        clock: Arc<dyn Clock + Send + Sync>,
    ) -> Result<(Self, Writer), StoreError> {
        let files = Files::hold(dir)?;
        let disk = files.writing()?;
        begin_epoch(&disk, clock.wall()).map_err(|error| files.broken(&error))?;
        let memory = Memory::load(files.reading()?, clock.moment());
        let memory = memory.map_err(|error| files.broken(&error))?;
        let shared = Arc::new(Shared {
            memory: Mutex::new(memory),
            work: Condvar::new(),
            call: Notify::new(),
            bell: Notify::new(),
            letters: tokio::sync::Mutex::new(()),
            clock,
            files,
        });
        let writer = Writer::new(Arc::clone(&shared), disk)?;
        let last = Arc::new(Last(Arc::clone(&shared)));
        let store = Self {
            shared,
            _last: last,
        };
        Ok((store, writer))
    }

    /// Lets the writer finish what was asked for, and stop. Whatever is asked for afterwards is refused.
    pub fn end(&self) {
        self.shared.end();
    }

    /// Does something to memory, and answers when what it changed is written.
    fn change<T>(
        &self,
        act: impl FnOnce(&mut Memory, Moment) -> Result<T, StoreError>,
    ) -> Answered<T> {
        let mut memory = self.shared.enter()?;
        let moment = self.shared.clock.moment();
        let before = memory.pending.len();
        let done = act(&mut memory, moment);
        let rings = std::mem::take(&mut memory.rings);
        let written = (memory.pending.len() > before).then(|| {
            let (tell, written) = oneshot::channel();
            memory.waiters.push(tell);
            self.shared.call_the_writer();
            written
        });
        drop(memory);
        if rings {
            self.shared.bell.notify_waiters();
        }
        Ok((done?, written))
    }

    /// Looks at memory after its time has caught up.
    fn look<T>(&self, see: impl FnOnce(&Memory) -> Result<T, StoreError>) -> Answer<T> {
        let mut memory = self.shared.enter()?;
        memory.catch_up(self.shared.clock.moment());
        see(&memory)
    }

    /// Cancels piece by piece.
    async fn cancel_all(&self, mut cancel: Cancel) -> Answer<u64> {
        loop {
            let piece = self.change(|memory, moment| memory.cancel_piece(&mut cancel, moment));
            if !written(piece).await? {
                return Ok(cancel.count);
            }
        }
    }

    /// Does something to all letters that are meant, piece by piece.
    async fn each_letter(&self, pick: &Pick, what: What, most: u64) -> Answer<u64> {
        let (mut count, mut after) = (0, 0);
        loop {
            let piece = self.change(|memory, _| {
                let Picked { letters, next } = memory.pick(pick, after).map_err(failed)?;
                let picked = number::many(letters.len());
                if picked > 0 {
                    match what {
                        What::Revive => {
                            memory.tell_urgently(Change::Letters(Letters::Revived(letters)));
                        }
                        What::Purge => memory.purge(letters),
                    }
                }
                Ok((picked, next))
            });
            let (picked, next) = written(piece).await?;
            count += picked;
            match next {
                Some(next) if count < most => after = next,
                _ => return Ok(count),
            }
        }
    }
}

impl JobStore for Embedded {
    async fn submit(&self, batch: Batch) -> Answer<Submitted> {
        let (reply, answer) = oneshot::channel();
        drop(self.change(|memory, _| {
            let submission = Box::new(Submission { batch, reply });
            memory.tell_urgently(Change::Submit(submission));
            Ok(())
        })?);
        answer.await.unwrap_or_else(|_| Err(StoreError::closed()))
    }

    async fn claim(&self, ask: ClaimAsk, gate: &mut dyn Gate) -> Answer<Claims> {
        written(self.change(|memory, moment| memory.claim(&ask, gate, moment))).await
    }

    async fn settle(&self, session: &Name, ends: Vec<Settlement>) -> Answer<Vec<Settled>> {
        let settled = self.change(|memory, moment| {
            memory.catch_up(moment);
            let settle = |end| memory.settle(session, end, moment);
            Ok(ends.into_iter().map(settle).collect())
        });
        written(settled).await
    }

    async fn beat(&self, session: &Name, lease: Duration) -> Answer<Beat> {
        written(self.change(|memory, moment| Ok(memory.beat(session, lease, moment.now)))).await
    }

    async fn reap(&self, most: usize, recoveries: u32) -> Answer<Reaped> {
        written(self.change(|memory, moment| Ok(memory.reap(most, recoveries, moment)))).await
    }

    fn changed(&self) -> impl Future<Output = ()> + Send {
        self.shared.bell.notified()
    }

    async fn lanes(&self) -> Answer<Vec<Name>> {
        self.look(|memory| Ok(memory.busy_lanes()))
    }

    async fn set_rule(&self, tenant: &Name, rule: TenantRule) -> Answer<()> {
        written(self.change(|memory, _| {
            memory.set_rule(tenant, rule);
            Ok(())
        }))
        .await
    }

    async fn pause(&self, scope: &Scope) -> Answer<()> {
        written(self.change(|memory, _| memory.set_pause(scope, Pause::Stopped))).await
    }

    async fn resume(&self, scope: &Scope) -> Answer<()> {
        written(self.change(|memory, _| memory.set_pause(scope, Pause::Running))).await
    }

    async fn cancel(&self, scope: &Scope) -> Answer<u64> {
        let begun = self.change(|memory, moment| memory.begin_cancel(scope, moment));
        match written(begun).await? {
            Some(cancel) => self.cancel_all(cancel).await,
            None => Ok(0),
        }
    }

    async fn release(&self, tenant: &Name, most: u64) -> Answer<u64> {
        written(self.change(|memory, moment| Ok(memory.release(tenant, most, moment)))).await
    }

    async fn open(&self, spec: ActionSpec) -> Answer<()> {
        written(self.change(|memory, moment| {
            memory.open(spec, moment);
            Ok(())
        }))
        .await
    }

    async fn close(&self, action: &Name) -> Answer<()> {
        written(self.change(|memory, moment| memory.close(action, moment))).await
    }

    async fn action(&self, id: &Name) -> Answer<Option<ActionReport>> {
        self.look(|memory| Ok(memory.action_report(id)))
    }

    async fn actions(&self, page: Page) -> Answer<Vec<ActionReport>> {
        self.look(|memory| Ok(memory.action_reports(&page)))
    }

    async fn ripe(&self, most: usize) -> Answer<Vec<ActionReport>> {
        let overdue = self.change(|memory, moment| {
            memory.catch_up(moment);
            let overdue = memory.overdue(most, moment);
            Ok(overdue
                .into_iter()
                .map(|id| memory.cancel_rest(id))
                .collect::<Vec<_>>())
        });
        for cancel in written(overdue).await? {
            self.cancel_all(cancel).await?;
        }
        self.look(|memory| Ok(memory.ripe(most)))
    }

    async fn told(&self, action: &Name) -> Answer<()> {
        written(self.change(|memory, _| memory.told(action))).await
    }

    async fn outcomes(&self, action: &Name, after: u64, most: usize) -> Answer<Vec<Outcome>> {
        self.look(|memory| memory.outcomes(action, after, most).map_err(failed))
    }

    async fn tally(&self) -> Answer<Tally> {
        self.look(|memory| Ok(memory.total))
    }

    async fn active(&self) -> Answer<u64> {
        self.look(|memory| Ok(memory.active))
    }

    async fn tenant(&self, name: &Name) -> Answer<Option<TenantReport>> {
        self.look(|memory| Ok(memory.tenant_report(name)))
    }

    async fn tenants(&self, page: Page) -> Answer<Vec<TenantReport>> {
        self.look(|memory| Ok(memory.tenant_reports(&page)))
    }

    async fn snapshot(&self, keep: Duration) -> Answer<()> {
        written(self.change(|memory, moment| {
            memory.snapshot(keep, moment);
            Ok(())
        }))
        .await
    }

    async fn history(&self, tenant: &Name, most: usize) -> Answer<Vec<Snapshot>> {
        self.look(|memory| Ok(memory.history(tenant, most)))
    }

    async fn reset(&self, tenant: &Name) -> Answer<()> {
        written(self.change(|memory, moment| memory.reset(tenant, moment))).await
    }

    async fn dead(&self, after: u64, most: usize) -> Answer<Vec<DeadLetter>> {
        self.look(|memory| memory.dead(after, most).map_err(failed))
    }

    async fn revive(&self, pick: &DeadPick) -> Answer<u64> {
        let _turn = self.shared.letters.lock().await;
        let pick = self.look(|memory| Ok(memory.pick_of(pick)))?;
        self.each_letter(&pick, What::Revive, u64::MAX).await
    }

    async fn purge(&self, pick: &DeadPick) -> Answer<u64> {
        let _turn = self.shared.letters.lock().await;
        let pick = self.look(|memory| Ok(memory.pick_of(pick)))?;
        self.each_letter(&pick, What::Purge, u64::MAX).await
    }

    async fn tidy(&self, dead_before: WallTime) -> Answer<u64> {
        let _turn = self.shared.letters.lock().await;
        let old = Pick::Before(dead_before);
        let letters = self.each_letter(&old, What::Purge, 1).await?;
        let swept = written(self.change(|memory, moment| Ok(memory.tidy(moment)))).await?;
        let mut memory = self.shared.enter()?;
        for action in swept.actions() {
            memory.forget_action(action);
        }
        Ok(letters + swept.gone())
    }

    async fn recount(&self) -> Answer<u64> {
        let (tell, answer) = oneshot::channel();
        self.shared.enter()?.recounts.push(tell);
        self.shared.call_the_writer();
        answer.await.unwrap_or_else(|_| Err(StoreError::closed()))
    }
}

impl fmt::Debug for Embedded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Embedded")
            .field("files", &self.shared.files)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared")
            .field("files", &self.files)
            .finish_non_exhaustive()
    }
}

/// What is done to dead letters.
#[derive(Clone, Copy)]
enum What {
    Revive,
    Purge,
}

/// What was done, and who says when it is written.
type Answered<T> = Result<(T, Option<oneshot::Receiver<Result<(), StoreError>>>), StoreError>;

/// Waits until it is written.
async fn written<T>(answered: Answered<T>) -> Answer<T> {
    let (done, written) = answered?;
    if let Some(written) = written {
        written
            .await
            .unwrap_or_else(|_| Err(StoreError::closed()))?;
    }
    Ok(done)
}

impl Shared {
    /// A thread that panicked with the lock in hand left a step undone in memory, and none on the disk.
    fn lock(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(|poisoned| {
            let mut memory = PoisonError::into_inner(poisoned);
            memory.phase = memory.phase.max(Phase::Astray);
            self.memory.clear_poison();
            memory
        })
    }

    fn call_the_writer(&self) {
        self.work.notify_one();
        self.call.notify_one();
    }

    fn wait<'a>(&self, memory: MutexGuard<'a, Memory>) -> MutexGuard<'a, Memory> {
        let woken = self.work.wait(memory);
        woken.unwrap_or_else(PoisonError::into_inner)
    }

    /// Memory that is in step with the disk.
    fn enter(&self) -> Result<MutexGuard<'_, Memory>, StoreError> {
        let mut memory = self.lock();
        if memory.phase == Phase::Astray {
            self.read_anew(&mut memory, Vec::new());
        }
        match memory.phase {
            Phase::Open => Ok(memory),
            Phase::Astray => Err(StoreError::unreachable(
                "the job store could not be read after its disk failed: it is tried again",
            )),
            Phase::Closed => Err(StoreError::closed()),
        }
    }

    fn end(&self) {
        self.lock().phase = Phase::Closed;
        self.call_the_writer();
        self.bell.notify_waiters();
    }

    /// Reads everything from the disk again, and keeps what only memory knows: who holds which claim.
    fn read_anew(&self, memory: &mut Memory, undo: Vec<Claim>) {
        let Ok(reader) = self.files.reading() else {
            return;
        };
        if let Ok(mut fresh) = Memory::load(reader, self.clock.moment()) {
            fresh.inherit(memory, undo);
            *memory = fresh;
        }
    }
}

/// Counts one more opening, and makes the one row of a new store.
fn begin_epoch(disk: &Connection, at: WallTime) -> rusqlite::Result<()> {
    let mint = format!("{:x}", at.as_duration().as_nanos());
    let sql = "INSERT INTO total (id, seq, place, epoch, mint) VALUES (1, 0, 0, 1, ?1) \
               ON CONFLICT (id) DO UPDATE SET epoch = epoch + 1";
    disk.execute(sql, params![mint]).map(drop)
}

#[cfg(test)]
mod tests;
