//! The two loads.

use std::sync::Arc;
use std::time::Duration;

use outflow::{Call, Outflow};
use outflow_sync::Mutex;
use tokio::time::{Instant, sleep, sleep_until};

use super::bed::RecoveryBed;
use super::call_log::CallLog;
use super::other_client;
use super::plan::RecoveryPlan;
use super::user_config::API;
use crate::Background;

/// Caller that records the ends of its calls.
#[derive(Clone)]
struct LoggedCaller {
    client: Outflow,
    log: Arc<Mutex<CallLog>>,
    origin: Instant,
}

impl LoggedCaller {
    fn of(bed: &RecoveryBed) -> Self {
        Self {
            client: bed.client.clone(),
            log: Arc::clone(&bed.log),
            origin: bed.origin,
        }
    }

    /// Makes one call, and returns true if it got a useful answer.
    async fn call(&self, adapt: impl FnOnce(Call) -> Call) -> bool {
        let began = self.origin.elapsed();
        let result = adapt(self.client.get(API, OWN_PATH)).send().await;
        let over = self.origin.elapsed();
        self.log.lock().finish(began, over, result)
    }

    /// Calls again and again, with a pause after a failure.
    async fn work(self) {
        loop {
            if !self.call(|call| call).await {
                sleep(PAUSE).await;
            }
        }
    }

    async fn call_within(self, deadline: Duration) {
        self.call(|call| call.timeout(deadline)).await;
    }
}

/// Keeps the limit in use until the end of the scenario.
pub(super) async fn busy(bed: &RecoveryBed, plan: &RecoveryPlan) {
    let _other = plan.scenario.shares_key.then(|| other_client::start(bed, plan));
    let caller = LoggedCaller::of(bed);
    if plan.scenario.is_idle {
        let mut single = Vec::new();
        for second in 0..plan.scenario.heal.unwrap_or_default().as_secs() {
            bed.reaches(Duration::from_secs(second)).await;
            single.push(Background::start(caller.clone().call_within(DEADLINE)));
        }
        bed.reaches(plan.scenario.heal.unwrap_or_default()).await;
    }
    let working = workers(bed, plan.workers.unwrap_or_else(|| enough_workers(plan)));
    bed.reaches(plan.scenario.end()).await;
    drop(working);
}

/// Starts so many workers.
pub(super) fn workers(bed: &RecoveryBed, count: usize) -> Vec<Background<()>> {
    let caller = LoggedCaller::of(bed);
    (0..count).map(|_| Background::start(caller.clone().work())).collect()
}

/// Twice as many as the limit has in flight at this latency, and enough for a burst.
fn enough_workers(plan: &RecoveryPlan) -> usize {
    let in_flight = plan.speed() * plan.latency.as_secs_f64();
    let needed = Duration::from_secs_f64(2.0 * in_flight).as_secs();
    usize::try_from(needed).unwrap_or(usize::MAX).max(MIN_WORKERS)
}

/// Offers calls at an even pace until a deadline before the end, and returns their instants.
pub(super) async fn open(bed: &RecoveryBed, plan: &RecoveryPlan) -> Vec<f64> {
    let _other = plan.scenario.shares_key.then(|| other_client::start(bed, plan));
    let caller = LoggedCaller::of(bed);
    let (gap, last) = (open_gap(plan), plan.scenario.end().saturating_sub(DEADLINE));
    let (mut offered, mut calls) = (Vec::new(), Vec::new());
    let mut at = Duration::ZERO;
    while at < last {
        sleep_until(bed.origin + at).await;
        calls.push(Background::start(caller.clone().call_within(DEADLINE)));
        offered.push(at.as_secs_f64());
        at += gap;
    }
    for call in calls {
        call.join().await;
    }
    offered
}

/// Returns the time between two calls of the open load.
pub(super) fn open_gap(plan: &RecoveryPlan) -> Duration {
    if plan.scenario.is_idle {
        return Duration::from_secs(1);
    }
    let demand = f64::from(plan.scenario.demand.as_parts_per_million()) / 1e6;
    Duration::from_secs_f64(1.0 / (OPEN_SHARE * demand * plan.speed()))
}

/// Path of the measured calls.
pub(super) const OWN_PATH: &str = "/";

/// Deadline of a caller of the open load.
pub(super) const DEADLINE: Duration = Duration::from_secs(30);

/// Share of the limit that the open load asks for.
const OPEN_SHARE: f64 = 0.8;

/// Pause of a worker whose call failed.
const PAUSE: Duration = Duration::from_millis(200);

const MIN_WORKERS: usize = 24;
