//! Settlement: the end of a claim.
//!
//! Result, counts and the job's end change in one atomic step. A crash leaves a job that is either still
//! claimed or completely over.
//!
//! A job in flight keeps its own outcome if it is cancelled or its action times out, because the call
//! was made. It only does not start again.

use std::time::Duration;

use bytes::Bytes;
use outflow_core::{CongestionRule, WallTime};

use crate::claim::FencingToken;
use crate::name::Name;

/// The settlement of one claim.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settlement {
    /// The claim.
    pub token: FencingToken,
    /// Its end.
    pub end: JobEnd,
    /// The age of the latest possible arrival of its call at the API; `None` if nothing was sent. It matters for a
    /// job that [holds units](crate::ClaimedJob::holds_units).
    pub arrived: Option<Duration>,
}

/// End of a claim.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum JobEnd {
    /// The work is done.
    Done {
        /// Its duration.
        took: Duration,
        /// Its result, if the store keeps it.
        result: Option<StoredResult>,
    },
    /// It failed, and retries after a span if it has retries left; otherwise it is dead-lettered. Its
    /// tenant continues meanwhile.
    Retry {
        /// The delay.
        after: Duration,
        /// The error.
        message: String,
        /// Its result, kept after the last attempt.
        result: Option<StoredResult>,
    },
    /// It failed under a scheduler that defers: it waits among the deferred jobs, as the rule says. It
    /// counts as a failure and not as a throttle.
    RetryDeferred {
        /// The rule of the delay.
        by: Defer,
        /// The error.
        message: String,
        /// Its result, kept after the last attempt.
        result: Option<StoredResult>,
    },
    /// It failed for good, and is dead-lettered.
    Failed {
        /// The error.
        message: String,
        /// Its result, if the store keeps it.
        result: Option<StoredResult>,
    },
    /// The API throttled it. It returns to the head of its queue, uses no retry, and its tenant gets the
    /// turn back. The tenant or lane waits for the cooldown.
    Throttled {
        /// The cooldown.
        after: Duration,
        /// The scope of the cooldown.
        cooldown: CooldownScope,
    },
    /// The API failed, and not the job. It waits for a span, keeps its place in its queue, uses no retry, and
    /// its tenant gets the turn back. The error joins its history.
    ApiFailed {
        /// The delay.
        after: Duration,
        /// The error.
        message: String,
    },
    /// It did not start: it returns to the head of its queue as if it had not been claimed.
    Returned,
    /// It had started and was interrupted: it returns to the head of its queue and uses no retry. The
    /// attempt counts, since the API may have seen it.
    Interrupted,
    /// The scheduler found no quota, and defers it as the rule says.
    Deferred(Defer),
}

/// Scope of a cooldown after a throttle.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CooldownScope {
    /// The tenant, in this lane.
    Tenant,
    /// All tenants of this lane.
    Lane,
}

/// Rule for the delay of a deferred job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Defer {
    /// A constant delay.
    Fixed(Duration),
    /// A delay by the number of the tenant's deferred jobs, at an equal part of a rate among all tenants
    /// with work, or at a lower speed that binds the tenant.
    Formula {
        /// The shortest and the longest delay.
        rule: CongestionRule,
        /// The rate of all tenants together, per second.
        global: u64,
        /// The speed at most, per second.
        most: u64,
    },
}

/// The stored result of an attempt.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoredResult {
    /// The status of the work: an HTTP status.
    pub status: u16,
    /// The body, or the output of a handler.
    pub body: Bytes,
    /// The store keeps it for this span.
    pub keep: Duration,
}

/// Result of a settlement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SettleResult {
    /// The job is over, and its work done.
    Done,
    /// The job is over and dead-lettered.
    DeadLettered,
    /// The job waits again.
    Waits,
    /// The job was deferred.
    Deferred {
        /// The delay.
        backoff: Duration,
        /// The number of its tenant's deferred jobs, itself included.
        non_ready: u64,
        /// The speed of its tenant in the formula.
        speed: u64,
    },
    /// The job was cancelled in flight, and would have started again: it is over instead.
    Cancelled,
    /// The session no longer holds the claim: nothing was changed.
    Fenced,
}

/// Outcome of one finished job.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct JobOutcome {
    /// Its place among the outcomes, for the next page.
    pub place: u64,
    /// Its name.
    pub id: Name,
    /// Its tenant.
    pub tenant: Name,
    /// Its end.
    pub ended: JobStatus,
    /// The instant of its end.
    pub at: WallTime,
    /// The number of its attempts.
    pub attempts: u32,
    /// The number of its throttles and deferrals.
    pub throttles: u32,
    /// The status of its stored result.
    pub status: Option<u16>,
    /// The body of its stored result.
    pub body: Option<Bytes>,
    /// The last error of a failed job, independent of its dead letter, or the timeout that cancelled a job.
    pub error: Option<String>,
}

/// Final status of a job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum JobStatus {
    /// Done.
    Done,
    /// Failed for good, or too often.
    Failed,
    /// Expired before its start.
    Expired,
    /// Cancelled.
    Cancelled,
}
