//! What the contract asks for, done to memory and answered when it is written.

use std::future::Future;
use std::time::Duration;

use outflow_core::{Moment, WallTime};
use tokio::sync::oneshot;

use super::Embedded;
use super::cancelling::Cancel;
use super::change::{Change, Letters, Pause, Submission};
use super::files::failed;
use super::journal::BROKEN;
use super::letters::{Pick, Picked};
use super::memory::Memory;
use super::number;
use super::recounting::RecountAsk;
use crate::action::{ActionReport, ActionSpec, Left, RipeAsk, Tally};
use crate::claim::{Beat, ClaimAsk, Claims, Gate, Reaped, Token};
use crate::dead::{DeadLetter, DeadPick};
use crate::error::StoreError;
use crate::job::{Batch, Submitted};
use crate::jobs::{Answer, JobStore};
use crate::name::Name;
use crate::plan::Start;
use crate::settle::{Outcome, Settled, Settlement};
use crate::tenant::{Page, Scope, Snapshot, TenantReport, TenantRule};

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

    async fn debit(&self, _start: &Start) -> Answer<Option<Duration>> {
        Ok(None)
    }

    async fn refund(&self, _start: &Start, _at: Duration) -> Answer<()> {
        Ok(())
    }

    async fn beat(&self, session: &Name, lease: Duration) -> Answer<Beat> {
        written(self.change(|memory, moment| Ok(memory.beat(session, lease, moment.now)))).await
    }

    async fn reap(&self, most: usize, recoveries: u32) -> Answer<Reaped> {
        written(self.change(|memory, moment| Ok(memory.reap(most, recoveries, moment)))).await
    }

    async fn disown(&self, session: &Name, known: &[Token]) -> Answer<u64> {
        written(self.change(|memory, moment| Ok(memory.disown(session, known, moment)))).await
    }

    fn changed(&self) -> impl Future<Output = ()> + Send {
        self.shared.bell.notified()
    }

    async fn lanes(&self) -> Answer<Vec<Name>> {
        self.look(|memory| Ok(memory.busy_lanes()))
    }

    async fn set_usual(&self, rule: TenantRule) -> Answer<()> {
        written(self.change(|memory, _| {
            memory.set_usual(rule);
            Ok(())
        }))
        .await
    }

    async fn set_rule(&self, tenant: &Name, rule: TenantRule) -> Answer<()> {
        written(self.change(|memory, _| {
            memory.set_rule(tenant, rule);
            Ok(())
        }))
        .await
    }

    async fn unset_rule(&self, tenant: &Name) -> Answer<()> {
        written(self.change(|memory, _| {
            memory.unset_rule(tenant);
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
        self.look(|memory| memory.action_report(id).map_err(failed))
    }

    async fn left(&self, action: &Name) -> Answer<Left> {
        self.look(|memory| memory.left(action).map_err(failed))
    }

    async fn actions(&self, page: Page) -> Answer<Vec<ActionReport>> {
        self.look(|memory| memory.action_reports(&page).map_err(failed))
    }

    async fn ripe(&self, ask: RipeAsk<'_>) -> Answer<Vec<ActionReport>> {
        let overdue = self.change(|memory, moment| {
            memory.catch_up(moment);
            memory.overdue(ask.most, moment);
            let left = memory.left_over(ask.most);
            Ok(left
                .into_iter()
                .map(|id| memory.cancel_rest(id))
                .collect::<Vec<_>>())
        });
        for cancel in written(overdue).await? {
            self.cancel_all(cancel).await?;
        }
        written(self.change(|memory, moment| {
            memory.catch_up(moment);
            Ok(memory.ripe(ask, moment.now))
        }))
        .await
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
        self.caught_up().await?;
        let pick = self.look(|memory| Ok(memory.pick_of(pick)))?;
        self.each_letter(&pick, What::Revive, u64::MAX).await
    }

    async fn purge(&self, pick: &DeadPick) -> Answer<u64> {
        let _turn = self.shared.letters.lock().await;
        self.caught_up().await?;
        let pick = self.look(|memory| Ok(memory.pick_of(pick)))?;
        self.each_letter(&pick, What::Purge, u64::MAX).await
    }

    async fn tidy(&self, dead_before: WallTime) -> Answer<u64> {
        let _turn = self.shared.letters.lock().await;
        self.caught_up().await?;
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
        let reader = self.shared.files.reading()?;
        let (reply, answer) = oneshot::channel();
        let ask = RecountAsk { reader, reply };
        self.shared.enter()?.recounts.push(ask);
        self.shared.call_the_writer();
        let answer = answer.await.unwrap_or_else(|_| Err(StoreError::closed()));
        let mut recount = answer?;
        loop {
            if let Some(difference) = recount.step().map_err(failed)? {
                return Ok(difference);
            }
            tokio::task::yield_now().await;
        }
    }

    fn warning(&self) -> Option<String> {
        let broken = self.shared.files.was_broken();
        broken.then(|| BROKEN.to_owned())
    }
}

impl Embedded {
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

    /// Waits until the disk knows what memory does: letters are read there, and one that is counted already may
    /// still be on its way.
    async fn caught_up(&self) -> Answer<()> {
        let (tell, told) = oneshot::channel();
        self.shared.enter()?.waiters.push(tell);
        self.shared.call_the_writer();
        told.await.unwrap_or_else(|_| Err(StoreError::closed()))
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
