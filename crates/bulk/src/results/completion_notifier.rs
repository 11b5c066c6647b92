//! Reports the end of actions to subscribers and webhooks.
//!
//! One of several machines reports an end: the store reserves it for the machine that renews its lease with every
//! poll. An ended action stays reserved until its end is marked as reported, so after a crash another machine reports
//! it. An end can be reported twice, but never not at all; a webhook recognises a repetition by its id.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use outflow::{CancelToken, SpawnError, TaskGroup, Tasks};
use outflow_store::{ActionReport, ActionStage, FinishedQuery, JobStore, Name};
use outflow_sync::Mutex;
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

use super::webhook::{self, Webhook};
use crate::engine::EngineContext;
use crate::events::BulkEvent;
use crate::scheduler::unless_cancelled;

/// Starts the notifier.
pub(crate) fn start<S: JobStore>(context: &Arc<EngineContext<S>>, tasks: &Tasks) -> Result<(), SpawnError> {
    let notifier = Arc::new(NotifierState {
        context: Arc::clone(context),
        in_progress: Mutex::default(),
        api_slots: Mutex::default(),
    });
    let webhooks = Arc::new(tasks.task_group("webhooks")?);
    tasks.spawn("completion_notifier", move |cancel| {
        Arc::clone(&notifier).run(Arc::clone(&webhooks), cancel)
    })
}

struct NotifierState<S> {
    context: Arc<EngineContext<S>>,
    /// Actions whose end is being reported.
    in_progress: Mutex<BTreeSet<Name>>,
    /// Slots for concurrent webhook requests of each API.
    api_slots: Mutex<BTreeMap<String, Arc<Semaphore>>>,
}

impl<S: JobStore> NotifierState<S> {
    /// Polls for ended actions. Each has its own task, so that a slow webhook delays no other.
    async fn run(self: Arc<Self>, webhooks: Arc<TaskGroup>, cancel: CancelToken) {
        while !cancel.is_cancelled() {
            let in_progress: Vec<Name> = self.in_progress.lock().iter().cloned().collect();
            let query = FinishedQuery {
                max: MAX_BATCH,
                lease: self.context.settings.load().lease.saturating_mul(LEASES),
                notifying: &in_progress,
            };
            match self.context.store.take_finished(query).await {
                Ok(finished) => {
                    for report in finished {
                        self.start_notifying(report, &webhooks, &cancel);
                    }
                }
                Err(error) => self.context.wait_after_store_error(&error).await,
            }
            let job_ended = self.context.results.job_ended.notified();
            unless_cancelled(&cancel, timeout(POLL_INTERVAL, job_ended)).await;
        }
    }

    fn start_notifying(self: &Arc<Self>, report: ActionReport, webhooks: &TaskGroup, cancel: &CancelToken) {
        let id = report.spec.id.clone();
        if !self.in_progress.lock().insert(id.clone()) {
            return;
        }
        let (notifier, cancel) = (Arc::clone(self), cancel.clone());
        // A shutdown refuses new tasks: the next poll of any machine finds the action.
        let _stopping = webhooks.spawn(async move {
            unless_cancelled(&cancel, notifier.notify(report)).await;
            notifier.in_progress.lock().remove(&id);
        });
    }

    /// Reports one end, with the stage that it has afterwards. An unreachable webhook is retried a few times with
    /// growing waits.
    async fn notify(&self, mut report: ActionReport) {
        if report.stage == ActionStage::Aggregating {
            report.stage = ActionStage::Completed;
        }
        let id = report.spec.id.clone();
        for round in 0..ATTEMPTS {
            if self.send_webhook(&report).await {
                break;
            }
            if round + 1 == ATTEMPTS {
                self.context.events.emit(BulkEvent::Error {
                    message: format!("the webhook of action {id} cannot be reached: check its API"),
                });
            } else {
                sleep(POLL_INTERVAL * 2_u32.pow(round)).await;
            }
        }
        match self.context.store.mark_notified(&id).await {
            Ok(()) => self.context.events.emit(BulkEvent::Finished { report }),
            Err(error) => self.context.wait_after_store_error(&error).await,
        }
    }

    /// Sends the webhook request, if the action has a webhook. Returns true if no further attempt is needed.
    async fn send_webhook(&self, report: &ActionReport) -> bool {
        let Some(hook) = Webhook::from_report(report) else {
            return true;
        };
        let slots = self.api_slots(&hook.api);
        let Ok(_slot) = slots.acquire().await else {
            return false;
        };
        webhook::deliver(&self.context, &hook, report).await
    }

    /// Returns the slots of an API: one that hangs delays no other. Unknown APIs share theirs, since callers can
    /// invent names.
    fn api_slots(&self, api: &str) -> Arc<Semaphore> {
        let known = self.context.client.upstream(api).map_or("", |_| api);
        let mut all = self.api_slots.lock();
        let slots = all.entry(known.to_owned());
        Arc::clone(slots.or_insert_with(|| Arc::new(Semaphore::new(SLOTS))))
    }
}

/// The end of an action at its timeout is reported this late at most.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// More actions than end between two polls on a busy day.
const MAX_BATCH: usize = 100;

/// Enough that a slow path does not block others of its API, and few compared with jobs.
const SLOTS: usize = 16;

/// With the waits between them they take a quarter of a minute.
const ATTEMPTS: u32 = 5;

/// An end stays reserved for this number of job leases: cancelling the jobs of a large action may take as long, and
/// nothing is urgent after a crash.
const LEASES: u32 = 3;
