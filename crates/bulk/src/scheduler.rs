//! Starts jobs: worker slot, then permit, then the next job.
//!
//! One loop serves each lane. It sleeps until something can have changed: a permit arrives, an instant that the
//! store named, a change in the store. The order matters: a permit that waited for a worker slot would be lost
//! to other callers, and a job that waited for a permit would be lost to its tenant.

pub(crate) mod claim_filter;
pub(crate) mod global_rate;
pub(crate) mod job_first;
mod lane_schedule;
pub(crate) mod pacing;
pub(crate) mod permit_batch;
pub(crate) mod permit_wait;
pub(crate) mod start_permission;
pub(crate) mod strategy;
pub(crate) mod tenant_limits;

use std::sync::Arc;
use std::time::Duration;

use outflow::{CancelToken, SpawnError, TaskGroup, Tasks};
use outflow_store::{JobStore, Name};
use tokio::time::timeout;

use crate::engine::EngineContext;
use lane_schedule::LaneSchedule;

/// Starts a loop for every lane that has work, now and later.
pub(crate) fn start<S: JobStore>(context: &Arc<EngineContext<S>>, workers: &Tasks) -> Result<(), SpawnError> {
    let supervisor = LaneSupervisor {
        context: Arc::clone(context),
        jobs: Arc::new(workers.task_group("jobs")?),
        lanes: Arc::new(workers.task_group("lanes")?),
    };
    let supervisor = Arc::new(supervisor);
    workers.spawn("lane_supervisor", move |cancel| Arc::clone(&supervisor).run(cancel))
}

/// Starter of the loops of lanes.
struct LaneSupervisor<S> {
    context: Arc<EngineContext<S>>,
    jobs: Arc<TaskGroup>,
    lanes: Arc<TaskGroup>,
}

impl<S: JobStore> LaneSupervisor<S> {
    async fn run(self: Arc<Self>, cancel: CancelToken) {
        while !cancel.is_cancelled() {
            let store = Arc::clone(&self.context.store);
            let changed = store.changed();
            match store.lanes().await {
                Ok(found) => found.into_iter().for_each(|lane| self.serve(lane, cancel.clone())),
                Err(error) => self.context.wait_after_store_error(&error).await,
            }
            unless_cancelled(&cancel, timeout(POLL_INTERVAL, changed)).await;
        }
    }

    /// Starts the loop of a lane that has none.
    fn serve(&self, lane: Name, cancel: CancelToken) {
        let Some(served) = ServedLane::new(&self.context, &lane) else {
            return;
        };
        let least = self.context.worker_bounds().min;
        if self.context.pool.size() < least {
            self.context.pool.resize(least);
        }
        let schedule = LaneSchedule::new(&self.context, lane, &self.jobs);
        // A shutdown refuses new tasks, and then no loop is needed.
        let _stopping = self.lanes.spawn(async move {
            let _served = served;
            schedule.run(cancel).await;
        });
    }
}

/// Mark of a lane that has a loop. If the loop panics, the mark drops and the next poll starts another.
struct ServedLane<S> {
    context: Arc<EngineContext<S>>,
    lane: Name,
}

impl<S> ServedLane<S> {
    /// Marks a lane; returns nothing if it has a loop.
    fn new(context: &Arc<EngineContext<S>>, lane: &Name) -> Option<Self> {
        let is_new = context.served_lanes.lock().insert(lane.clone());
        is_new.then(|| Self {
            context: Arc::clone(context),
            lane: lane.clone(),
        })
    }
}

impl<S> Drop for ServedLane<S> {
    fn drop(&mut self) {
        self.context.served_lanes.lock().remove(&self.lane);
    }
}

/// Runs a future to its end, or until the cancellation.
pub(crate) async fn unless_cancelled<T>(cancel: &CancelToken, work: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        done = work => Some(done),
        () = cancel.cancelled() => None,
    }
}

/// A missed notification, a changed configuration or a lost message stays unnoticed for this long at most.
pub(crate) const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Shortest wait between two requests of which the first was denied.
pub(crate) const MIN_WAIT: Duration = Duration::from_millis(10);
