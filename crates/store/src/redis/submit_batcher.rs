//! Small submissions that come at the same time go as one step.
//!
//! A step of one job costs the server as much as some twenty jobs of a larger one, and many tasks that submit
//! a job each would make it run as many. So while such a step is under way, whoever comes gathers for the next.
//! Nobody waits for others to come: without a step under way, a submission goes at once and alone.
//!
//! Only plain jobs without an action are gathered, under the same bound of the queue, because then it makes no
//! difference to a job whether it came alone. A step that fails for what was in it is taken apart, and each
//! submission goes by itself: nobody hears of what was wrong with another's. Everybody who waits for a step drives
//! it, so whoever gives up leaves the others alone.

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

/// Takes submissions.
pub(super) struct SubmitBatcher {
    caller: Arc<ScriptRunner>,
    names: JobNames,
    /// Whoever has a step of gathered jobs under way.
    turn: tokio::sync::Mutex<()>,
    /// Those that gather now.
    next: Mutex<Option<OpenBatch>>,
}

/// Submissions that will be one step.
struct OpenBatch {
    queue_max: u64,
    basket: Arc<PendingBatch>,
    step: WeakShared<Work>,
}

/// Their jobs, until the step is on its way.
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
            Err(error) if error.is_passing() || error.is_lost() => Err(error.copy()),
            Err(_) => self.alone(batch).await,
        }
    }

    async fn alone(&self, batch: SubmitBatch) -> StoreResult<SubmitResult> {
        submit_alone(&self.caller, &self.names, batch).await
    }

    /// Puts jobs into the basket that is open, or opens one; which part of it they are.
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

    /// Submits what is in the basket when its turn has come.
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
    /// Takes the jobs of a batch, unless its step is on its way, is full, or nobody waits for it any more.
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

/// What one of them is told of what all were told.
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

/// A batch of more jobs than this has little to gain from company.
const FEW: usize = 10;

/// Half of what a claim may take at once: others wait as long as the server has it.
const MOST_GATHERED: usize = 500;

/// Whoever gathered goes after this even if the step before has no answer: a server that is far away or stands
/// still is not helped by waiting, and a call has to end in time.
const PATIENCE: Duration = Duration::from_millis(20);
