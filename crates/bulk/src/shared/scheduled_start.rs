//! A start for which a shared store has debited the limits.
//!
//! It is an instant, with a little after it. Whoever is later would go beside those whose instant it is, and so gives
//! the job back; and with it what was debited, where that would be missing for longer than a moment.

use std::sync::Arc;
use std::time::Duration;

use outflow_core::{Nanos, Rate};
use outflow_store::{ClaimBatch, ClaimedJob, JobStore, SharedLimits, StartDebit};

use crate::engine::EngineContext;
use crate::shared::server_clock::ServerClock;

/// When a job is to start.
#[derive(Debug)]
pub(crate) struct ScheduledStart {
    pub(crate) start: Nanos,
    /// Not later than this.
    pub(crate) latest: Nanos,
    /// By the clock of the server, if it told.
    there: Option<Duration>,
    plan: Arc<SharedLimits>,
}

impl ScheduledStart {
    /// Those of a claim that was answered now.
    pub(crate) fn new(
        claims: &ClaimBatch,
        plan: SharedLimits,
        (clock, now): (&ServerClock, Nanos),
    ) -> impl Iterator<Item = Self> {
        let plan = Arc::new(plan);
        claims.jobs.iter().map(move |job| {
            let there = claims.decided.map(|decided| decided + job.starts_in);
            let here = there.and_then(|there| clock.here(there));
            let start = here.unwrap_or_else(|| now.saturating_add(job.starts_in));
            Self {
                start,
                // The other half is for the way to the API, which is not equally long each time.
                latest: start.saturating_add(plan.guard / 2),
                there,
                plan: Arc::clone(&plan),
            }
        })
    }

    /// The job did not go: gives back what was debited for it.
    pub(crate) async fn give_back<S: JobStore>(self, hub: &EngineContext<S>, job: &ClaimedJob) {
        let own = hub.settings.load().rule(&job.tenant).rate;
        let limits = self.plan.limits.iter().map(|limit| limit.rate);
        let longest = limits.chain(own).map(Rate::per).max();
        let Some(there) = self.there.filter(|_| longest > Some(MOMENT)) else {
            return;
        };
        let start = StartDebit {
            tenant: job.tenant.clone(),
            cost: job.cost,
            plan: SharedLimits::clone(&self.plan),
        };
        // Otherwise it stays used, as if the job had gone.
        if hub.store.refund(&start, there).await.is_err() {
            hub.numbers.store_failed();
        }
    }
}

/// The store keeps starts apart over windows of up to this: what nobody used there is over.
const MOMENT: Duration = Duration::from_secs(1);
