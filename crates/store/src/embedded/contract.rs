//! The store's contract: each step changes the state and returns when the change is written.

use std::future::Future;
use std::time::Duration;

use outflow_core::{ClockPair, WallTime};
use tokio::sync::oneshot;

use super::EmbeddedStore;
use super::disk::database_error::failed;
use super::disk::int_codec::to_count;
use super::disk::wal_check::BROKEN;
use super::disk::write_op::{LetterOp, LetterWrite, PauseWrite, PendingSubmission, WriteOp};
use super::ops::audit::AuditRequest;
use super::ops::cancel::PendingCancel;
use super::ops::dead_letters::LetterFilter;
use super::ops::{
    actions, cancel, claim, collect_garbage, dead_letters, reap, remaining, settle, tenants, transitions,
};
use super::state::StoreState;
use crate::action::{ActionReport, ActionSpec, FinishedQuery, JobCounts, RemainingWork};
use crate::claim::{
    ClaimBatch, ClaimFilter, ClaimRequest, FencingToken, HeartbeatResult, LaneLoad, ReapResult, StoreLimits,
};
use crate::contract::{ActionStore, DeadLetterStore, JobQueue, StoreControl, StoreResult, TenantStore};
use crate::dead_letter::{DeadLetter, DeadLetterFilter};
use crate::error::StoreError;
use crate::job::{SubmitBatch, SubmitResult};
use crate::name::Name;
use crate::settle::{JobOutcome, SettleResult, Settlement};
use crate::tenant::{CongestionRecord, CongestionSample, ControlScope, PageRequest, TenantReport, TenantRule};

impl JobQueue for EmbeddedStore {
    async fn submit(&self, batch: SubmitBatch) -> StoreResult<SubmitResult> {
        let (reply, response) = oneshot::channel();
        drop(self.change(|state, _| {
            let submission = Box::new(PendingSubmission { batch, reply });
            state.log.record_synced(WriteOp::Submit(submission));
            Ok(())
        })?);
        response.await.unwrap_or_else(|_| Err(StoreError::closed()))
    }

    async fn claim(&self, request: ClaimRequest, filter: &mut dyn ClaimFilter) -> StoreResult<ClaimBatch> {
        self.update(|state, moment| claim::claim(state, &request, filter, moment))
            .await
    }

    async fn settle(&self, session: &Name, settlements: Vec<Settlement>) -> StoreResult<Vec<SettleResult>> {
        self.update(|state, moment| {
            transitions::catch_up(state, moment);
            let settle = |settlement| settle::settle(state, session, settlement, moment);
            Ok(settlements.into_iter().map(settle).collect())
        })
        .await
    }

    async fn count_start(&self, _: &Name, _: FencingToken, _: StoreLimits) -> StoreResult<Option<Duration>> {
        Ok(None)
    }

    async fn heartbeat(&self, session: &Name, lease: Duration) -> StoreResult<HeartbeatResult> {
        self.update(|state, moment| Ok(reap::heartbeat(state, session, lease, moment.now)))
            .await
    }

    async fn reap(&self, limit: usize, recoveries: u32) -> StoreResult<ReapResult> {
        self.update(|state, moment| Ok(reap::reap(state, limit, recoveries, moment)))
            .await
    }

    async fn release_unknown(&self, session: &Name, known: &[FencingToken]) -> StoreResult<u64> {
        self.update(|state, moment| Ok(reap::release_unknown(state, session, known, moment)))
            .await
    }

    fn changed(&self) -> impl Future<Output = ()> + Send {
        self.shared.changed.notified()
    }

    async fn lanes(&self) -> StoreResult<Vec<Name>> {
        self.read(|state| Ok(state.lanes.busy_names()))
    }

    async fn lane_loads(&self) -> StoreResult<Vec<LaneLoad>> {
        self.read(|state| Ok(state.lanes.loads()))
    }
}

impl TenantStore for EmbeddedStore {
    async fn set_default_rule(&self, rule: TenantRule) -> StoreResult<()> {
        self.update(|state, _| {
            tenants::set_default_rule(state, rule);
            Ok(())
        })
        .await
    }

    async fn set_rule(&self, tenant: &Name, rule: TenantRule) -> StoreResult<()> {
        self.update(|state, _| {
            tenants::set_rule(state, tenant, rule);
            Ok(())
        })
        .await
    }

    async fn remove_rule(&self, tenant: &Name) -> StoreResult<()> {
        self.update(|state, _| {
            tenants::remove_rule(state, tenant);
            Ok(())
        })
        .await
    }

    async fn release_deferred(&self, tenant: &Name, limit: u64) -> StoreResult<u64> {
        self.update(|state, moment| Ok(tenants::release_deferred(state, tenant, limit, moment)))
            .await
    }

    async fn active_tenants(&self) -> StoreResult<u64> {
        self.read(|state| Ok(state.active_tenants))
    }

    async fn tenant(&self, name: &Name) -> StoreResult<Option<TenantReport>> {
        let moment = self.shared.clock.moment();
        self.read(|state| {
            let id = state.tenants.find(name);
            Ok(id.and_then(|id| tenants::report(state, id, moment)))
        })
    }

    async fn tenants(&self, page: PageRequest) -> StoreResult<Vec<TenantReport>> {
        let moment = self.shared.clock.moment();
        self.read(|state| {
            let tenants = state.tenants.page(&page);
            Ok(tenants.filter_map(|id| tenants::report(state, id, moment)).collect())
        })
    }

    async fn begin_sampling(&self, every: Duration) -> StoreResult<bool> {
        self.update(|state, moment| Ok(tenants::begin_sampling(state, every, moment)))
            .await
    }

    async fn record_congestion(&self, samples: Vec<CongestionRecord>, keep: Duration) -> StoreResult<()> {
        self.update(|state, moment| {
            tenants::record_congestion(state, samples, keep, moment);
            Ok(())
        })
        .await
    }

    async fn congestion_history(&self, tenant: &Name, limit: usize) -> StoreResult<Vec<CongestionSample>> {
        self.read(|state| Ok(tenants::congestion_history(state, tenant, limit)))
    }

    async fn reset_congestion(&self, tenant: &Name) -> StoreResult<()> {
        self.update(|state, moment| tenants::reset_congestion(state, tenant, moment))
            .await
    }
}

impl ActionStore for EmbeddedStore {
    async fn open(&self, spec: ActionSpec) -> StoreResult<()> {
        self.update(|state, moment| {
            actions::open(state, spec, moment);
            Ok(())
        })
        .await
    }

    async fn close(&self, action: &Name) -> StoreResult<()> {
        self.update(|state, moment| actions::close(state, action, moment)).await
    }

    async fn action(&self, id: &Name) -> StoreResult<Option<ActionReport>> {
        self.read(|state| actions::action_report(state, id).map_err(failed))
    }

    async fn remaining(&self, action: &Name) -> StoreResult<RemainingWork> {
        let moment = self.shared.clock.moment();
        self.read(|state| remaining::remaining(state, action, moment).map_err(failed))
    }

    async fn actions(&self, page: PageRequest) -> StoreResult<Vec<ActionReport>> {
        self.read(|state| actions::action_reports(state, &page).map_err(failed))
    }

    async fn take_finished(&self, query: FinishedQuery<'_>) -> StoreResult<Vec<ActionReport>> {
        let overdue = self.update(|state, moment| {
            transitions::catch_up(state, moment);
            actions::fail_overdue(state, query.max, moment);
            let unfinished = actions::unfinished_cancels(state, query.max);
            let rest = unfinished.into_iter().map(|id| cancel::cancel_rest(state, id));
            Ok(rest.collect::<Vec<_>>())
        });
        for cancel in overdue.await? {
            self.cancel_all(cancel).await?;
        }
        self.update(|state, moment| {
            transitions::catch_up(state, moment);
            Ok(actions::take_finished(state, query, moment.now))
        })
        .await
    }

    async fn mark_notified(&self, action: &Name) -> StoreResult<()> {
        self.update(|state, _| actions::mark_notified(state, action)).await
    }

    async fn outcomes(&self, action: &Name, after: u64, limit: usize) -> StoreResult<Vec<JobOutcome>> {
        self.read(|state| actions::outcomes(state, action, after, limit).map_err(failed))
    }
}

impl DeadLetterStore for EmbeddedStore {
    async fn dead_letters(&self, after: u64, limit: usize) -> StoreResult<Vec<DeadLetter>> {
        self.read(|state| dead_letters::list_dead_letters(state, after, limit).map_err(failed))
    }

    async fn requeue(&self, filter: &DeadLetterFilter) -> StoreResult<u64> {
        self.change_letters(filter, |state, letters| {
            let op = WriteOp::Letters(LetterOp::Requeued(letters));
            state.log.record_synced(op);
        })
        .await
    }

    async fn purge(&self, filter: &DeadLetterFilter) -> StoreResult<u64> {
        self.change_letters(filter, dead_letters::purge_letters).await
    }
}

impl StoreControl for EmbeddedStore {
    async fn pause(&self, scope: &ControlScope) -> StoreResult<()> {
        self.update(|state, _| tenants::set_pause(state, scope, PauseWrite::Paused))
            .await
    }

    async fn resume(&self, scope: &ControlScope) -> StoreResult<()> {
        self.update(|state, _| tenants::set_pause(state, scope, PauseWrite::Running))
            .await
    }

    async fn cancel(&self, scope: &ControlScope) -> StoreResult<u64> {
        let begun = self.update(|state, moment| cancel::begin_cancel(state, scope, moment));
        match begun.await? {
            Some(cancel) => self.cancel_all(cancel).await,
            None => Ok(0),
        }
    }

    async fn job_counts(&self) -> StoreResult<JobCounts> {
        self.shared.files.check_present()?;
        self.read(|state| Ok(state.counts))
    }

    async fn collect_garbage(&self, dead_before: WallTime) -> StoreResult<u64> {
        let _guard = self.shared.letters.lock().await;
        self.flush().await?;
        let old = LetterFilter::Before(dead_before);
        let letters = self.each_page(&old, dead_letters::purge_letters, 1).await?;
        let sweep = self.update(|state, moment| Ok(collect_garbage::begin_sweep(state, moment)));
        let swept = std::mem::take(&mut *sweep.await?.lock());
        let mut state = self.shared.enter()?;
        for action in swept.actions {
            state.actions.remove(action);
        }
        Ok(letters + swept.removed)
    }

    async fn audit(&self) -> StoreResult<u64> {
        let reader = self.shared.files.open_reader()?;
        let (reply, response) = oneshot::channel();
        let request = AuditRequest { reader, reply };
        self.shared.enter()?.log.audits.push(request);
        self.shared.wake_writer();
        let started = response.await.unwrap_or_else(|_| Err(StoreError::closed()));
        let mut audit = started?;
        loop {
            if let Some(difference) = audit.step().map_err(failed)? {
                return Ok(difference);
            }
            tokio::task::yield_now().await;
        }
    }

    fn take_warning(&self) -> Option<String> {
        let is_broken = self.shared.files.take_broken();
        is_broken.then(|| BROKEN.to_owned())
    }
}

impl EmbeddedStore {
    /// Changes the state, and returns a receiver that resolves when the change is written.
    fn change<T>(&self, change: impl FnOnce(&mut StoreState, ClockPair) -> Result<T, StoreError>) -> Changed<T> {
        let mut state = self.shared.enter()?;
        let moment = self.shared.clock.moment();
        let before = state.log.len();
        let result = change(&mut state, moment);
        let has_news = std::mem::take(&mut state.has_news);
        let written = (state.log.len() > before).then(|| {
            let (waiter, written) = oneshot::channel();
            state.log.waiters.push(waiter);
            self.shared.wake_writer();
            written
        });
        drop(state);
        if has_news {
            self.shared.changed.notify_waiters();
        }
        Ok((result?, written))
    }

    /// Changes the state, and waits until the change is written.
    async fn update<T>(
        &self,
        change: impl FnOnce(&mut StoreState, ClockPair) -> Result<T, StoreError>,
    ) -> StoreResult<T> {
        let (result, written) = self.change(change)?;
        if let Some(written) = written {
            written.await.unwrap_or_else(|_| Err(StoreError::closed()))?;
        }
        Ok(result)
    }

    /// Reads the state after it caught up with the clock.
    fn read<T>(&self, read: impl FnOnce(&StoreState) -> Result<T, StoreError>) -> StoreResult<T> {
        let mut state = self.shared.enter()?;
        transitions::catch_up(&mut state, self.shared.clock.moment());
        read(&state)
    }

    /// Waits until the disk has all changes so far. Dead letters are read from the disk, and a counted
    /// letter may not be there yet.
    async fn flush(&self) -> StoreResult<()> {
        let (waiter, written) = oneshot::channel();
        self.shared.enter()?.log.waiters.push(waiter);
        self.shared.wake_writer();
        written.await.unwrap_or_else(|_| Err(StoreError::closed()))
    }

    /// Cancels piece by piece.
    async fn cancel_all(&self, mut cancel: PendingCancel) -> StoreResult<u64> {
        loop {
            let piece = self.update(|state, moment| cancel::cancel_piece(state, &mut cancel, moment));
            if !piece.await? {
                return Ok(cancel.count);
            }
        }
    }

    async fn change_letters(
        &self,
        filter: &DeadLetterFilter,
        change: impl Fn(&mut StoreState, Vec<LetterWrite>),
    ) -> StoreResult<u64> {
        let _guard = self.shared.letters.lock().await;
        self.flush().await?;
        let filter = self.read(|state| Ok(dead_letters::resolve_filter(state, filter)))?;
        self.each_page(&filter, change, u64::MAX).await
    }

    /// Changes selected dead letters page by page, until at least `enough` are changed.
    async fn each_page(
        &self,
        filter: &LetterFilter,
        change: impl Fn(&mut StoreState, Vec<LetterWrite>),
        enough: u64,
    ) -> StoreResult<u64> {
        let (mut count, mut after) = (0, 0);
        loop {
            let page = self.update(|state, _| {
                let page = dead_letters::read_page(state, filter, after);
                let (letters, next) = page.map_err(failed)?;
                let selected = to_count(letters.len());
                if selected > 0 {
                    change(state, letters);
                }
                Ok((selected, next))
            });
            let (selected, next) = page.await?;
            count += selected;
            match next {
                Some(next) if count < enough => after = next,
                _ => return Ok(count),
            }
        }
    }
}

/// The result of a change, and a receiver that resolves when it is written.
type Changed<T> = Result<(T, Option<oneshot::Receiver<Result<(), StoreError>>>), StoreError>;
