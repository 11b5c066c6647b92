//! Differences between the schedulers, behind one trait.

use std::time::Duration;

use outflow::core::{Congestion, CongestionLevel};
use outflow_core::{CongestionRule, Rate};
use outflow_store::{ClaimedJob, CooldownScope, Defer, JobEnd, StoredResult};

use super::job_first::{BackoffWait, FixedWait};
use crate::settings::{EngineSettings, SchedulerKind};

/// Failed attempt that may succeed later.
pub(crate) struct AttemptFailure {
    pub(crate) message: String,
    /// Wait that the API asked for.
    pub(crate) retry_after: Option<Duration>,
    pub(crate) result: Option<StoredResult>,
}

/// Reaction of a scheduler to a lack of quota.
pub(crate) trait StartStrategy: Sync {
    /// Returns true if the scheduler claims a job only with its permits.
    fn is_permit_first(&self) -> bool {
        false
    }

    /// Returns the end of an attempt that the API throttled; it uses no retry.
    fn throttle(&self, settings: &EngineSettings, _job: &ClaimedJob, _retry_after: Option<Duration>) -> JobEnd {
        JobEnd::Deferred(self.defer(settings))
    }

    /// Returns the number of jobs that lack quota, by the numbers of deferred and of queued jobs.
    fn count_non_ready(&self, deferred: u64, _queued: u64) -> u64 {
        deferred
    }

    /// Returns the wait of a job that lacks quota.
    fn defer(&self, settings: &EngineSettings) -> Defer {
        Defer::Formula {
            rule: settings.congestion,
            global: settings.global_rate,
            most: u64::MAX,
        }
    }

    /// Returns the end of a failed attempt that is retried.
    fn retry(&self, settings: &EngineSettings, job: &ClaimedJob, failure: AttemptFailure) -> JobEnd {
        let retry = job.retries.saturating_add(1);
        let own = settings.backoff.delay(retry, fastrand::u64(..));
        JobEnd::Retry {
            after: failure.retry_after.map_or(own, |asked| asked.max(own)),
            message: failure.message,
            result: failure.result,
        }
    }

    /// Returns the congestion that a deferred job met.
    fn congestion(&self, rule: &CongestionRule, backoff: Duration, non_ready: u64, speed: u64) -> Congestion {
        Congestion {
            backoff,
            non_ready,
            speed,
            level: CongestionLevel::new(backoff, rule.base()),
        }
    }
}

impl SchedulerKind {
    pub(crate) const fn strategy(self) -> &'static dyn StartStrategy {
        match self {
            Self::Permit => &PermitFirst,
            Self::Backoff => &BackoffWait,
            Self::Fixed => &FixedWait,
        }
    }
}

/// Strategy of the permit scheduler, which defers no job.
struct PermitFirst;

impl StartStrategy for PermitFirst {
    fn is_permit_first(&self) -> bool {
        true
    }

    fn throttle(&self, settings: &EngineSettings, job: &ClaimedJob, retry_after: Option<Duration>) -> JobEnd {
        match settings.rule(&job.tenant).rate {
            Some(rate) => JobEnd::Throttled {
                after: retry_after.unwrap_or_else(|| default_cooldown(job.throttles, rate)),
                cooldown: CooldownScope::Tenant,
            },
            // The upstream saw the response too, and knows when calls may start again.
            None => JobEnd::Throttled {
                after: retry_after.unwrap_or_default(),
                cooldown: CooldownScope::Lane,
            },
        }
    }

    fn count_non_ready(&self, _deferred: u64, queued: u64) -> u64 {
        queued
    }
}

/// Returns a tenant's cooldown after a throttle without `Retry-After`: a second at first, since a window of a day
/// would be a day. It doubles with each throttle, up to the tenant's window.
fn default_cooldown(throttles: u32, rate: Rate) -> Duration {
    let first = rate.per().min(FIRST_COOLDOWN);
    first.saturating_mul(1 << throttles.min(MAX_DOUBLINGS)).min(rate.per())
}

/// A throttle is seldom about more than one second.
const FIRST_COOLDOWN: Duration = Duration::from_secs(1);

/// 64 seconds: most windows are a minute.
const MAX_DOUBLINGS: u32 = 6;
