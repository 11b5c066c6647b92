//! A start for which a shared store has debited the limits.
//!
//! It is an instant with a short tolerance. A later start would meet the starts of other jobs, so a late job is
//! returned. Its debit is refunded if the quota would be missing for longer than a moment.

use std::sync::Arc;
use std::time::Duration;

use outflow_core::{Nanos, Rate};
use outflow_store::{ClaimBatch, ClaimedJob, JobStore, SharedLimits, StartDebit};

use super::server_clock::ServerClock;
use crate::engine::EngineContext;

/// Start instant of one job.
#[derive(Debug)]
pub(crate) struct ScheduledStart {
    pub(crate) start: Nanos,
    /// Latest start.
    pub(crate) latest: Nanos,
    /// Start by the server's clock, if the server sent its time.
    server_start: Option<Duration>,
    limits: Arc<SharedLimits>,
}

impl ScheduledStart {
    /// Returns the starts of a claim whose response arrived now.
    pub(crate) fn from_claims(
        claims: &ClaimBatch,
        limits: SharedLimits,
        clock: &ServerClock,
        now: Nanos,
    ) -> impl Iterator<Item = Self> {
        let limits = Arc::new(limits);
        claims.jobs.iter().map(move |job| {
            let server_start = claims.decided.map(|decided| decided + job.starts_in);
            let local = server_start.and_then(|server| clock.to_local(server));
            let start = local.unwrap_or_else(|| now.saturating_add(job.starts_in));
            Self {
                start,
                // The other half covers the varying latency to the API.
                latest: start.saturating_add(limits.guard / 2),
                server_start,
                limits: Arc::clone(&limits),
            }
        })
    }

    /// Refunds the debit of a job that did not start.
    pub(crate) async fn refund<S: JobStore>(self, context: &EngineContext<S>, job: &ClaimedJob) {
        let own = context.settings.load().rule(&job.tenant).rate;
        let rates = self.limits.limits.iter().map(|limit| limit.rate);
        let longest = rates.chain(own).map(Rate::per).max();
        let Some(instant) = self.server_start.filter(|_| longest > Some(PACED_WINDOW)) else {
            return;
        };
        let debit = StartDebit {
            tenant: job.tenant.clone(),
            cost: job.cost,
            plan: SharedLimits::clone(&self.limits),
        };
        // Without a refund the quota counts as used.
        if context.store.refund(&debit, instant).await.is_err() {
            context.metrics.counters.store_failed();
        }
    }
}

/// The store paces starts over windows up to this; unused quota of such a window has passed already.
const PACED_WINDOW: Duration = Duration::from_secs(1);
