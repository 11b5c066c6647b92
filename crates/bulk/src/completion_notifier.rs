//! Tells that actions are over: to whoever listens, and to their webhooks.
//!
//! Of many machines one tells an end: the store gives it to that one alone as long as it says with every look
//! that it is still at it. An action that is over stays ripe until its end was told, so whoever dies between
//! the two leaves it to be told by the next, a lease later. It can so be told twice, never not at all; a
//! webhook knows a repetition by its id.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use outflow::{CancelToken, SpawnError, TaskGroup, Tasks};
use outflow_store::{ActionReport, ActionStage, FinishedQuery, JobStore, Name};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

use crate::engine::EngineContext;
use crate::events::BulkEvent;
use crate::scheduler::{trouble, until};
use crate::webhook::{self, Told, Webhook};

/// Starts watching.
pub(crate) fn start<S: JobStore>(
    hub: &Arc<EngineContext<S>>,
    office: &Tasks,
) -> Result<(), SpawnError> {
    let watch = Arc::new(NotifierState {
        hub: Arc::clone(hub),
        telling: Mutex::default(),
        lines: Mutex::default(),
    });
    let crowd = Arc::new(office.task_group("webhooks")?);
    office.spawn("watcher", move |stop| {
        Arc::clone(&watch).run(Arc::clone(&crowd), stop)
    })
}

struct NotifierState<S> {
    hub: Arc<EngineContext<S>>,
    /// Actions whose end is being told.
    telling: Mutex<BTreeSet<Name>>,
    /// So many are told at once by each API.
    lines: Mutex<BTreeMap<String, Arc<Semaphore>>>,
}

impl<S: JobStore> NotifierState<S> {
    /// Looks for actions that are over. Each is told by itself: a webhook that is slow to answer delays
    /// nobody else's.
    async fn run(self: Arc<Self>, crowd: Arc<TaskGroup>, stop: CancelToken) {
        while !stop.is_cancelled() {
            let telling: Vec<Name> = self.notifying().iter().cloned().collect();
            let ask = FinishedQuery {
                most: MOST,
                lease: self.hub.settings.load().lease.saturating_mul(LEASES),
                notifying: &telling,
            };
            match self.hub.store.take_finished(ask).await {
                Ok(ripe) => {
                    for report in ripe {
                        self.begin(report, &crowd, &stop);
                    }
                }
                Err(error) => trouble(&self.hub, &error).await,
            }
            until(&stop, timeout(LOOK, self.hub.over.notified())).await;
        }
    }

    fn begin(self: &Arc<Self>, report: ActionReport, crowd: &TaskGroup, stop: &CancelToken) {
        let id = report.spec.id.clone();
        if !self.notifying().insert(id.clone()) {
            return;
        }
        let (watch, stop) = (Arc::clone(self), stop.clone());
        // In a shutdown nothing is begun: the next to look finds it.
        let _stopping = crowd.spawn(async move {
            until(&stop, watch.notify(report)).await;
            watch.notifying().remove(&id);
        });
    }

    /// Tells one end, as what it is once it is told. A webhook that cannot be reached is tried again, a few
    /// times and ever later.
    async fn notify(&self, mut report: ActionReport) {
        if report.stage == ActionStage::Aggregating {
            report.stage = ActionStage::Completed;
        }
        let id = report.spec.id.clone();
        for round in 0..TRIES {
            if self.send_webhook(&report).await == Told::Yes {
                break;
            }
            if round + 1 == TRIES {
                self.hub.emit(BulkEvent::Trouble {
                    words: format!("the webhook of action {id} could not be told: look at its API"),
                });
            } else {
                sleep(LOOK * 2_u32.pow(round)).await;
            }
        }
        match self.hub.store.mark_notified(&id).await {
            Ok(()) => self.hub.emit(BulkEvent::Finished { report }),
            Err(error) => trouble(&self.hub, &error).await,
        }
    }

    /// Whoever has no webhook waits for no line.
    async fn send_webhook(&self, report: &ActionReport) -> Told {
        let Some(hook) = Webhook::from_report(report) else {
            return Told::Yes;
        };
        let line = self.line(&hook.api);
        let Ok(_held) = line.acquire().await else {
            return Told::NotYet;
        };
        webhook::deliver(&self.hub, &hook, report).await
    }

    /// Each API has lines of its own: one that hangs delays nobody else's. All that the configuration does not
    /// know share theirs, since anybody may make up names.
    fn line(&self, api: &str) -> Arc<Semaphore> {
        let known = self.hub.client.upstream(api).map_or("", |_| api);
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let line = lines.entry(known.to_owned());
        Arc::clone(line.or_insert_with(|| Arc::new(Semaphore::new(LINES))))
    }

    fn notifying(&self) -> MutexGuard<'_, BTreeSet<Name>> {
        self.telling.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How late the end of an action that ran out of time is told.
const LOOK: Duration = Duration::from_secs(1);

/// As many as end in one look on a busy day.
const MOST: usize = 100;

/// Enough that a slow path does not hold up the API's others, and few beside the jobs.
const LINES: usize = 16;

/// With the waits between them it is a quarter of a minute.
const TRIES: u32 = 5;

/// An end is left to whoever tells it for so many leases of a job: one look may take as long as it takes to
/// cancel the jobs of a large action that is out of time, and nothing hurries once a machine has died.
const LEASES: u32 = 3;
