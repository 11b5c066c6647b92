//! What the contract asks for, done to memory and answered when it is written.

use std::future::Future;
use std::time::Duration;

use outflow_core::{ClockPair, WallTime};
use tokio::sync::oneshot;

use super::EmbeddedStore;
use super::disk::directory::failed;
use super::disk::int_codec;
use super::disk::wal_check::BROKEN;
use super::disk::write_op::{LetterOp, PauseWrite, PendingSubmission, WriteOp};
use super::ops::audit::RecountAsk;
use super::ops::cancel::PendingCancel;
use super::ops::dead_letters::{LetterPage, LetterPick};
use super::state::StoreState;
use crate::action::{ActionReport, ActionSpec, FinishedQuery, JobCounts, RemainingWork};
use crate::claim::{
    ClaimBatch, ClaimFilter, ClaimRequest, FencingToken, HeartbeatResult, ReapResult,
};
use crate::contract::{
    ActionStore, DeadLetterStore, JobQueue, StoreControl, StoreResult, TenantStore,
};
use crate::dead_letter::{DeadLetter, DeadLetterFilter};
use crate::error::StoreError;
use crate::job::{SubmitBatch, SubmitResult};
use crate::name::Name;
use crate::settle::{JobOutcome, SettleResult, Settlement};
use crate::shared_limits::StartDebit;
use crate::tenant::{CongestionSample, ControlScope, PageRequest, TenantReport, TenantRule};

impl JobQueue for EmbeddedStore {
    async fn submit(&self, batch: SubmitBatch) -> StoreResult<SubmitResult> {
        let (reply, answer) = oneshot::channel();
        drop(self.change(|memory, _| {
            let submission = Box::new(PendingSubmission { batch, reply });
            memory.record_synced(WriteOp::Submit(submission));
            Ok(())
        })?);
        answer.await.unwrap_or_else(|_| Err(StoreError::closed()))
    }

    async fn claim(
        &self,
        ask: ClaimRequest,
        gate: &mut dyn ClaimFilter,
    ) -> StoreResult<ClaimBatch> {
        written(self.change(|memory, moment| memory.claim(&ask, gate, moment))).await
    }

    async fn settle(
        &self,
        session: &Name,
        ends: Vec<Settlement>,
    ) -> StoreResult<Vec<SettleResult>> {
        let settled = self.change(|memory, moment| {
            memory.catch_up(moment);
            let settle = |end| memory.settle(session, end, moment);
            Ok(ends.into_iter().map(settle).collect())
        });
        written(settled).await
    }

    async fn debit(&self, _start: &StartDebit) -> StoreResult<Option<Duration>> {
        Ok(None)
    }

    async fn refund(&self, _start: &StartDebit, _at: Duration) -> StoreResult<()> {
        Ok(())
    }

    async fn heartbeat(&self, session: &Name, lease: Duration) -> StoreResult<HeartbeatResult> {
        written(self.change(|memory, moment| Ok(memory.beat(session, lease, moment.now)))).await
    }

    async fn reap(&self, most: usize, recoveries: u32) -> StoreResult<ReapResult> {
        written(self.change(|memory, moment| Ok(memory.reap(most, recoveries, moment)))).await
    }

    async fn release_unknown(&self, session: &Name, known: &[FencingToken]) -> StoreResult<u64> {
        written(self.change(|memory, moment| Ok(memory.disown(session, known, moment)))).await
    }

    fn changed(&self) -> impl Future<Output = ()> + Send {
        self.shared.bell.notified()
    }

    async fn lanes(&self) -> StoreResult<Vec<Name>> {
        self.read(|memory| Ok(memory.busy_lanes()))
    }
}

impl TenantStore for EmbeddedStore {
    async fn set_default_rule(&self, rule: TenantRule) -> StoreResult<()> {
        written(self.change(|memory, _| {
            memory.set_usual(rule);
            Ok(())
        }))
        .await
    }

    async fn set_rule(&self, tenant: &Name, rule: TenantRule) -> StoreResult<()> {
        written(self.change(|memory, _| {
            memory.set_rule(tenant, rule);
            Ok(())
        }))
        .await
    }

    async fn remove_rule(&self, tenant: &Name) -> StoreResult<()> {
        written(self.change(|memory, _| {
            memory.unset_rule(tenant);
            Ok(())
        }))
        .await
    }

    async fn release_deferred(&self, tenant: &Name, most: u64) -> StoreResult<u64> {
        written(self.change(|memory, moment| Ok(memory.release(tenant, most, moment)))).await
    }

    async fn active_tenants(&self) -> StoreResult<u64> {
        self.read(|memory| Ok(memory.active))
    }

    async fn tenant(&self, name: &Name) -> StoreResult<Option<TenantReport>> {
        self.read(|memory| Ok(memory.tenant_report(name)))
    }

    async fn tenants(&self, page: PageRequest) -> StoreResult<Vec<TenantReport>> {
        self.read(|memory| Ok(memory.tenant_reports(&page)))
    }

    async fn sample_congestion(&self, keep: Duration) -> StoreResult<()> {
        written(self.change(|memory, moment| {
            memory.snapshot(keep, moment);
            Ok(())
        }))
        .await
    }

    async fn congestion_history(
        &self,
        tenant: &Name,
        most: usize,
    ) -> StoreResult<Vec<CongestionSample>> {
        self.read(|memory| Ok(memory.history(tenant, most)))
    }

    async fn reset_congestion(&self, tenant: &Name) -> StoreResult<()> {
        written(self.change(|memory, moment| memory.reset(tenant, moment))).await
    }
}

impl ActionStore for EmbeddedStore {
    async fn open(&self, spec: ActionSpec) -> StoreResult<()> {
        written(self.change(|memory, moment| {
            memory.open(spec, moment);
            Ok(())
        }))
        .await
    }

    async fn close(&self, action: &Name) -> StoreResult<()> {
        written(self.change(|memory, moment| memory.close(action, moment))).await
    }

    async fn action(&self, id: &Name) -> StoreResult<Option<ActionReport>> {
        self.read(|memory| memory.action_report(id).map_err(failed))
    }

    async fn remaining(&self, action: &Name) -> StoreResult<RemainingWork> {
        self.read(|memory| memory.remaining(action).map_err(failed))
    }

    async fn actions(&self, page: PageRequest) -> StoreResult<Vec<ActionReport>> {
        self.read(|memory| memory.action_reports(&page).map_err(failed))
    }

    async fn take_finished(&self, ask: FinishedQuery<'_>) -> StoreResult<Vec<ActionReport>> {
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

    async fn mark_notified(&self, action: &Name) -> StoreResult<()> {
        written(self.change(|memory, _| memory.mark_notified(action))).await
    }

    async fn outcomes(
        &self,
        action: &Name,
        after: u64,
        most: usize,
    ) -> StoreResult<Vec<JobOutcome>> {
        self.read(|memory| memory.outcomes(action, after, most).map_err(failed))
    }
}

impl DeadLetterStore for EmbeddedStore {
    async fn dead_letters(&self, after: u64, most: usize) -> StoreResult<Vec<DeadLetter>> {
        self.read(|memory| memory.dead(after, most).map_err(failed))
    }

    async fn requeue(&self, pick: &DeadLetterFilter) -> StoreResult<u64> {
        let _turn = self.shared.letters.lock().await;
        self.caught_up().await?;
        let pick = self.read(|memory| Ok(memory.pick_of(pick)))?;
        self.each_letter(&pick, LetterAction::Revive, u64::MAX)
            .await
    }

    async fn purge(&self, pick: &DeadLetterFilter) -> StoreResult<u64> {
        let _turn = self.shared.letters.lock().await;
        self.caught_up().await?;
        let pick = self.read(|memory| Ok(memory.pick_of(pick)))?;
        self.each_letter(&pick, LetterAction::Purge, u64::MAX).await
    }
}

impl StoreControl for EmbeddedStore {
    async fn pause(&self, scope: &ControlScope) -> StoreResult<()> {
        written(self.change(|memory, _| memory.set_pause(scope, PauseWrite::Stopped))).await
    }

    async fn resume(&self, scope: &ControlScope) -> StoreResult<()> {
        written(self.change(|memory, _| memory.set_pause(scope, PauseWrite::Running))).await
    }

    async fn cancel(&self, scope: &ControlScope) -> StoreResult<u64> {
        let begun = self.change(|memory, moment| memory.begin_cancel(scope, moment));
        match written(begun).await? {
            Some(cancel) => self.cancel_all(cancel).await,
            None => Ok(0),
        }
    }

    async fn job_counts(&self) -> StoreResult<JobCounts> {
        self.read(|memory| Ok(memory.total))
    }

    async fn collect_garbage(&self, dead_before: WallTime) -> StoreResult<u64> {
        let _turn = self.shared.letters.lock().await;
        self.caught_up().await?;
        let old = LetterPick::Before(dead_before);
        let letters = self.each_letter(&old, LetterAction::Purge, 1).await?;
        let swept = written(self.change(|memory, moment| Ok(memory.tidy(moment)))).await?;
        let mut memory = self.shared.enter()?;
        for action in swept.actions() {
            memory.forget_action(action);
        }
        Ok(letters + swept.gone())
    }

    async fn audit(&self) -> StoreResult<u64> {
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

    fn take_warning(&self) -> Option<String> {
        let broken = self.shared.files.was_broken();
        broken.then(|| BROKEN.to_owned())
    }
}

impl EmbeddedStore {
    /// Does something to memory, and answers when what it changed is written.
    fn change<T>(
        &self,
        act: impl FnOnce(&mut StoreState, ClockPair) -> Result<T, StoreError>,
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
    fn read<T>(&self, see: impl FnOnce(&StoreState) -> Result<T, StoreError>) -> StoreResult<T> {
        let mut memory = self.shared.enter()?;
        memory.catch_up(self.shared.clock.moment());
        see(&memory)
    }

    /// Waits until the disk knows what memory does: letters are read there, and one that is counted already may
    /// still be on its way.
    async fn caught_up(&self) -> StoreResult<()> {
        let (tell, told) = oneshot::channel();
        self.shared.enter()?.waiters.push(tell);
        self.shared.call_the_writer();
        told.await.unwrap_or_else(|_| Err(StoreError::closed()))
    }

    /// Cancels piece by piece.
    async fn cancel_all(&self, mut cancel: PendingCancel) -> StoreResult<u64> {
        loop {
            let piece = self.change(|memory, moment| memory.cancel_piece(&mut cancel, moment));
            if !written(piece).await? {
                return Ok(cancel.count);
            }
        }
    }

    /// Does something to all letters that are meant, piece by piece.
    async fn each_letter(
        &self,
        pick: &LetterPick,
        what: LetterAction,
        most: u64,
    ) -> StoreResult<u64> {
        let (mut count, mut after) = (0, 0);
        loop {
            let piece = self.change(|memory, _| {
                let LetterPage { letters, next } = memory.pick(pick, after).map_err(failed)?;
                let picked = int_codec::many(letters.len());
                if picked > 0 {
                    match what {
                        LetterAction::Revive => {
                            memory.record_synced(WriteOp::Letters(LetterOp::Revived(letters)));
                        }
                        LetterAction::Purge => memory.purge(letters),
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
enum LetterAction {
    Revive,
    Purge,
}

/// What was done, and who says when it is written.
type Answered<T> = Result<(T, Option<oneshot::Receiver<Result<(), StoreError>>>), StoreError>;

/// Waits until it is written.
async fn written<T>(answered: Answered<T>) -> StoreResult<T> {
    let (done, written) = answered?;
    if let Some(written) = written {
        written
            .await
            .unwrap_or_else(|_| Err(StoreError::closed()))?;
    }
    Ok(done)
}
