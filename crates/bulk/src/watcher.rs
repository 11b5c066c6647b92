//! Tells that actions are over: to whoever listens, and to their webhooks.
//!
//! An action that is over stays ripe until its end was told, so whoever dies between the two leaves it
//! to be told by the next. It can so be told twice, never not at all; a webhook knows a repetition by
//! its id.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use outflow::{CannotStart, Stop, Tasks};
use outflow_store::{ActionReport, JobStore, Name};
use tokio::time::timeout;

use crate::engine::Hub;
use crate::news::News;
use crate::scheduler::trouble;
use crate::webhook::{self, Told};

/// Starts watching.
pub(crate) fn start<S: JobStore>(hub: &Arc<Hub<S>>, office: &Tasks) -> Result<(), CannotStart> {
    let hub = Arc::clone(hub);
    office.spawn("watcher", move |stop| watch(Arc::clone(&hub), stop))
}

async fn watch<S: JobStore>(hub: Arc<Hub<S>>, stop: Stop) {
    let mut tries: HashMap<Name, u32> = HashMap::new();
    while !stop.is_told() {
        match hub.store.ripe(MOST).await {
            Ok(ripe) => {
                for report in ripe {
                    tell(&hub, report, &mut tries).await;
                }
            }
            Err(error) => trouble(&hub, &error).await,
        }
        tokio::select! {
            _ = timeout(LOOK, hub.over.notified()) => {}
            () = stop.told() => {}
        }
    }
}

/// Tells one end. A webhook that cannot be reached is tried again at the next look, a few times.
async fn tell<S: JobStore>(hub: &Hub<S>, report: ActionReport, tries: &mut HashMap<Name, u32>) {
    let id = report.spec.id.clone();
    let count = tries.entry(id.clone()).or_default();
    *count += 1;
    let told = webhook::tell(hub, &report).await;
    if told == Told::NotYet && *count < MOST_TRIES {
        return;
    }
    if told == Told::NotYet {
        hub.tell(News::Trouble {
            words: format!("the webhook of action {id} could not be told: look at its API"),
        });
    }
    tries.remove(&id);
    match hub.store.told(&id).await {
        Ok(()) => hub.tell(News::Finished { report }),
        Err(error) => trouble(hub, &error).await,
    }
}

/// How late the end of an action that ran out of time is told.
const LOOK: Duration = Duration::from_secs(1);

/// As many as end in one look on a busy day.
const MOST: usize = 100;

/// The client has repeated each of these already.
const MOST_TRIES: u32 = 5;
