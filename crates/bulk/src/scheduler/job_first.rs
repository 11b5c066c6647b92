//! The `fixed` and `backoff` schedulers: claim a job first, and defer it if it lacks quota.
//!
//! They are kept for comparison with the permit scheduler. All of their code is in this module: the scheduler
//! reaches it through [`StartStrategy`] and one arm each in the lane schedule and the worker's start check.

mod start_check;

use std::time::Duration;

use outflow::core::Congestion;
use outflow_core::CongestionRule;
use outflow_store::{ClaimedJob, Defer, JobEnd};

use super::strategy::{AttemptFailure, StartStrategy};
use crate::settings::EngineSettings;

pub(crate) use start_check::try_start;

/// Strategy that defers a job by the congestion formula.
pub(super) struct BackoffWait;

/// Strategy that defers every job by the formula's base.
pub(super) struct FixedWait;

impl StartStrategy for BackoffWait {
    fn retry(&self, settings: &EngineSettings, _job: &ClaimedJob, failure: AttemptFailure) -> JobEnd {
        JobEnd::RetryDeferred {
            by: self.defer(settings),
            message: failure.message,
            result: failure.result,
        }
    }
}

impl StartStrategy for FixedWait {
    fn defer(&self, settings: &EngineSettings) -> Defer {
        Defer::Fixed(settings.congestion.base())
    }

    fn congestion(&self, rule: &CongestionRule, _backoff: Duration, _non_ready: u64, _speed: u64) -> Congestion {
        rule.off()
    }
}
