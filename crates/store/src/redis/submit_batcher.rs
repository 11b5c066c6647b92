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
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::{Shared, WeakShared};
use outflow_core::Cost;
use outflow_sync::Mutex;
use tokio::time::timeout;

use super::error_map::unexpected_reply;
use super::script_call::ScriptRunner;
use super::submit::{JobNames, submit_alone};
use crate::contract::StoreResult;
use crate::job::{NewJob, SubmitBatch, SubmitResult};

/// Batcher of submissions.
pub(super) struct SubmitBatcher {
    runner: Arc<ScriptRunner>,
    names: JobNames,
    /// Held while a call of batched jobs is in flight.
    in_flight: tokio::sync::Mutex<()>,
    /// Batch that collects now.
    open: Mutex<Option<OpenBatch>>,
}

/// Submissions that will be one call.
struct OpenBatch {
    queue_max: u64,
    pending: Arc<PendingBatch>,
    call: WeakShared<BatchCall>,
}

/// Collected jobs, until the call is sent.
type PendingBatch = Mutex<Option<Vec<NewJob>>>;

type BatchCall = Pin<Box<dyn Future<Output = Arc<StoreResult<SubmitResult>>> + Send>>;

impl SubmitBatcher {
    pub(super) fn new(runner: Arc<ScriptRunner>) -> Self {
        Self {
            runner,
            names: JobNames::new(),
            in_flight: tokio::sync::Mutex::default(),
            open: Mutex::default(),
        }
    }

    pub(super) async fn submit(self: &Arc<Self>, batch: SubmitBatch) -> StoreResult<SubmitResult> {
        if !is_batchable(&batch) {
            return self.submit_alone(batch).await;
        }
        let (call, part) = self.join(&batch);
        match call.await.as_ref() {
            Ok(all) => extract_part(all, part),
            Err(error) if error.is_passing() || error.is_lost() => Err(error.copy()),
            Err(_) => self.submit_alone(batch).await,
        }
    }

    async fn submit_alone(&self, batch: SubmitBatch) -> StoreResult<SubmitResult> {
        submit_alone(&self.runner, &self.names, batch).await
    }

    /// Adds jobs to the open batch, or opens one; returns the shared call and their range in it.
    fn join(self: &Arc<Self>, batch: &SubmitBatch) -> (Shared<BatchCall>, Range<usize>) {
        let mut open_batch = self.open.lock();
        let joined = open_batch.as_ref().and_then(|open| open.take(batch));
        joined.unwrap_or_else(|| {
            let pending = Arc::new(Mutex::new(Some(batch.jobs.clone())));
            let work: BatchCall = Box::pin(Arc::clone(self).submit_pending(Arc::clone(&pending), batch.queue_max));
            let call = work.shared();
            *open_batch = call.downgrade().map(|call| OpenBatch {
                queue_max: batch.queue_max,
                pending,
                call,
            });
            (call, 0..batch.jobs.len())
        })
    }

    /// Submits the collected jobs after the previous call.
    async fn submit_pending(
        self: Arc<Self>,
        pending: Arc<PendingBatch>,
        queue_max: u64,
    ) -> Arc<StoreResult<SubmitResult>> {
        let _in_flight = timeout(MAX_WAIT, self.in_flight.lock()).await;
        let jobs = pending.lock().take().unwrap_or_default();
        let batch = SubmitBatch {
            queue_max,
            ..SubmitBatch::from_jobs(jobs)
        };
        Arc::new(self.submit_alone(batch).await)
    }
}

impl OpenBatch {
    /// Takes the jobs of a batch, unless its call was sent, is full, or has no waiting caller left.
    fn take(&self, batch: &SubmitBatch) -> Option<(Shared<BatchCall>, Range<usize>)> {
        let call = self.call.upgrade()?;
        let mut pending = self.pending.lock();
        let jobs = pending.as_mut()?;
        let first = jobs.len();
        if self.queue_max != batch.queue_max || first + batch.jobs.len() > MAX_BATCHED {
            return None;
        }
        jobs.extend_from_slice(&batch.jobs);
        Some((call, first..jobs.len()))
    }
}

fn is_batchable(batch: &SubmitBatch) -> bool {
    let plain =
        |job: &NewJob| job.id.is_none() && job.not_before.is_none() && job.deadline.is_none() && job.cost == Cost::ONE;
    batch.action.is_none() && (1..=MAX_SMALL).contains(&batch.jobs.len()) && batch.jobs.iter().all(plain)
}

/// Extracts the results of one submission from those of the whole call.
fn extract_part(all: &SubmitResult, part: Range<usize>) -> StoreResult<SubmitResult> {
    Ok(SubmitResult {
        receipts: all.receipts.get(part).ok_or_else(unexpected_reply)?.to_vec(),
        queued: all.queued,
        active: all.active,
    })
}

/// A batch of more jobs than this gains little.
const MAX_SMALL: usize = 10;

/// Half of a claim's limit: other callers wait while the server runs the call.
const MAX_BATCHED: usize = 500;

/// A batch is sent after this even if the previous call has no reply: waiting does not help a
/// distant or stalled server, and a call must end in time.
const MAX_WAIT: Duration = Duration::from_millis(20);
