//! Batches concurrent small submissions into one script call.
//!
//! A script call for one job costs the server as much as about twenty jobs of a larger call. So
//! while such a call is in flight, further submissions collect for the next one. No submission
//! waits for others: if no call is in flight, it is sent at once and alone.
//!
//! Only plain jobs without an action are batched, under one bound of the queue, because then the
//! result of a job does not depend on the batch. If a call fails because of its content, each
//! submission is sent alone, so no caller sees an error of another. All waiting callers drive the
//! shared call, so one that gives up does not stop the others.

use std::future::Future;
use std::ops::Range;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::{Shared, WeakShared};
use outflow_core::Cost;
use tokio::time::timeout;

use super::error_map::strange;
use super::script_call::ScriptRunner;
use super::submit::{JobNames, submit_alone};
use crate::contract::StoreResult;
use crate::job::{NewJob, SubmitBatch, SubmitResult};

/// Batcher of submissions.
pub(super) struct SubmitBatcher {
    caller: Arc<ScriptRunner>,
    names: JobNames,
    /// Held while a call of batched jobs is in flight.
    turn: tokio::sync::Mutex<()>,
    /// Batch that collects now.
    next: Mutex<Option<OpenBatch>>,
}

/// Submissions that will be one call.
struct OpenBatch {
    queue_max: u64,
    basket: Arc<PendingBatch>,
    step: WeakShared<Work>,
}

/// Collected jobs, until the call is sent.
type PendingBatch = Mutex<Option<Vec<NewJob>>>;

type Work = Pin<Box<dyn Future<Output = Arc<StoreResult<SubmitResult>>> + Send>>;

impl SubmitBatcher {
    pub(super) fn new(caller: Arc<ScriptRunner>) -> Self {
        Self {
            caller,
            names: JobNames::new(),
            turn: tokio::sync::Mutex::default(),
            next: Mutex::default(),
        }
    }

    pub(super) async fn submit(self: &Arc<Self>, batch: SubmitBatch) -> StoreResult<SubmitResult> {
        if !may_be_gathered(&batch) {
            return self.alone(batch).await;
        }
        let (step, part) = self.join(&batch);
        match step.await.as_ref() {
            Ok(all) => part_of(all, part),
            Err(error) if error.is_passing() || error.is_lost() => Err(error.again()),
            Err(_) => self.alone(batch).await,
        }
    }

    async fn alone(&self, batch: SubmitBatch) -> StoreResult<SubmitResult> {
        submit_alone(&self.caller, &self.names, batch).await
    }

    /// Adds jobs to the open batch, or opens one; returns the shared call and their range in it.
    fn join(self: &Arc<Self>, batch: &SubmitBatch) -> (Shared<Work>, Range<usize>) {
        let mut next = held(&self.next);
        let open = next.as_ref().and_then(|gathering| gathering.take(batch));
        open.unwrap_or_else(|| {
            let basket = Arc::new(Mutex::new(Some(batch.jobs.clone())));
            let work: Work =
                Box::pin(Arc::clone(self).together(Arc::clone(&basket), batch.queue_max));
            let step = work.shared();
            *next = step.downgrade().map(|step| OpenBatch {
                queue_max: batch.queue_max,
                basket,
                step,
            });
            (step, 0..batch.jobs.len())
        })
    }

    /// Submits the collected jobs after the previous call.
    async fn together(
        self: Arc<Self>,
        basket: Arc<PendingBatch>,
        queue_max: u64,
    ) -> Arc<StoreResult<SubmitResult>> {
        let _turn = timeout(PATIENCE, self.turn.lock()).await;
        let jobs = held(&basket).take().unwrap_or_default();
        let batch = SubmitBatch {
            queue_max,
            ..SubmitBatch::from_jobs(jobs)
        };
        Arc::new(self.alone(batch).await)
    }
}

impl OpenBatch {
    /// Takes the jobs of a batch, unless its call was sent, is full, or has no waiting caller left.
    fn take(&self, batch: &SubmitBatch) -> Option<(Shared<Work>, Range<usize>)> {
        let step = self.step.upgrade()?;
        let mut basket = held(&self.basket);
        let jobs = basket.as_mut()?;
        let first = jobs.len();
        if self.queue_max != batch.queue_max || first + batch.jobs.len() > MOST_GATHERED {
            return None;
        }
        jobs.extend_from_slice(&batch.jobs);
        Some((step, first..jobs.len()))
    }
}

fn may_be_gathered(batch: &SubmitBatch) -> bool {
    let plain = |job: &NewJob| {
        job.id.is_none()
            && job.not_before.is_none()
            && job.deadline.is_none()
            && job.cost == Cost::ONE
    };
    batch.action.is_none() && (1..=FEW).contains(&batch.jobs.len()) && batch.jobs.iter().all(plain)
}

/// Extracts the results of one submission from those of the whole call.
fn part_of(all: &SubmitResult, part: Range<usize>) -> StoreResult<SubmitResult> {
    Ok(SubmitResult {
        receipts: all.receipts.get(part).ok_or_else(strange)?.to_vec(),
        queued: all.queued,
        active: all.active,
    })
}

fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A batch of more jobs than this gains little.
const FEW: usize = 10;

/// Half of a claim's limit: other callers wait while the server runs the call.
const MOST_GATHERED: usize = 500;

/// A batch is sent after this even if the previous call has no reply: waiting does not help a
/// distant or stalled server, and a call must end in time.
const PATIENCE: Duration = Duration::from_millis(20);
