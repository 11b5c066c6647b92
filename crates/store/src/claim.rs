//! Claims: jobs handed out in fair order, under a lease, with a fencing token.
//!
//! A worker process holds a *session*: a unique name with a lease that heartbeats renew. All jobs that a
//! session claimed belong to it until they settle or its lease expires. Then they return to their
//! queues, and the store refuses later settlements of the old session. One lease covers a session
//! instead of a job: a heartbeat costs the same for ten jobs in flight and for ten thousand.

use std::time::Duration;

use bytes::Bytes;
use outflow_core::{Cost, Nanos, Priority, WallTime};

use crate::name::Name;

/// A request for jobs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClaimRequest {
    /// The lane.
    pub lane: Name,
    /// The session.
    pub session: Name,
    /// The number of jobs at most.
    pub max: usize,
    /// The span for which the session counts as alive without a heartbeat.
    pub lease: Duration,
    /// The number of recoveries before a job is dead-lettered, as for [`reap`](crate::JobQueue::reap). A
    /// job on its last chance may kill its workers. A store of one process hands it out while nothing
    /// else is in flight. In a shared store such jobs return one after the other instead.
    pub recoveries: u32,
    /// The limits that a shared store checks for each job; `None` if the caller does. A store of one process
    /// ignores them: there the [`ClaimFilter`] acquires the permits.
    pub limits: Option<StoreLimits>,
    /// The cost of the jobs, for which the caller holds permits; `None` if any cost will do. A next job of
    /// another cost ends the claim.
    pub cost: Option<Cost>,
}

/// Limits that only a shared store can check, because only there all starts are known. Each tenant's own rate
/// is in its [rule](crate::TenantRule): of that, a unit counts from the claim until one window after the arrival
/// that the [settlement](crate::Settlement) reports.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct StoreLimits {
    /// The starts of all tenants together, per second; `None` if nothing bounds them.
    pub global: Option<u64>,
}

/// Decides whether the next job may go. The store calls it in fair order under its lock, so it must not
/// block.
pub trait ClaimFilter: Send {
    /// Decides about the next job.
    fn decide(&mut self, job: &NextJob<'_>) -> ClaimDecision;
}

/// The job that is next in order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NextJob<'a> {
    /// Its tenant.
    pub tenant: &'a Name,
    /// Its cost.
    pub cost: Cost,
    /// Its class.
    pub priority: Priority,
}

/// Decision of a [`ClaimFilter`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ClaimDecision {
    /// The job goes: the filter holds its permit.
    Take,
    /// Its tenant must wait until this instant; others may go.
    SkipUntil(Nanos),
    /// No job of the lane may go now.
    Stop,
}

/// A filter that allows every job.
#[derive(Clone, Copy, Debug, Default)]
pub struct AllowAll;

impl ClaimFilter for AllowAll {
    fn decide(&mut self, _job: &NextJob<'_>) -> ClaimDecision {
        ClaimDecision::Take
    }
}

/// Result of a claim.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ClaimBatch {
    /// The jobs, in fair order.
    pub jobs: Vec<ClaimedJob>,
    /// The time until there may be more, if it is known: the end of a cooldown or a delay, or new quota.
    /// Any other reason wakes [`changed`](crate::JobQueue::changed).
    pub next: Option<Duration>,
    /// Jobs past their deadline, which ended as expired.
    pub expired: u64,
    /// The cost of the next job, if it is not the requested one.
    pub other_cost: Option<Cost>,
}

/// One claimed job.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClaimedJob {
    /// The proof of the claim.
    pub token: FencingToken,
    /// Its name.
    pub id: Name,
    /// Its tenant.
    pub tenant: Name,
    /// Its action.
    pub action: Option<Name>,
    /// Its cost.
    pub cost: Cost,
    /// Its class.
    pub priority: Priority,
    /// It does not start after this instant.
    pub deadline: Option<WallTime>,
    /// The number of its claims, including this one.
    pub attempt: u32,
    /// The number of its retries.
    pub retries: u32,
    /// The number of its throttles and deferrals.
    pub throttles: u32,
    /// The number of workers that were lost with it.
    pub recoveries: u32,
    /// True if it holds units of its tenant's rate in a shared store, until its settlement says when its call
    /// arrived.
    pub holds_units: bool,
    /// Its content, which only the engine reads.
    pub payload: Bytes,
}

/// Proof of one claim. It is invalid once the job settled or the lease expired.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct FencingToken {
    /// The number of the job in its store.
    pub job: u64,
    /// The number of the claim, unique in its store.
    pub claim: u64,
}

/// Result of a heartbeat.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HeartbeatResult {
    /// The session is alive with all of its claims.
    Alive,
    /// The lease had expired, or the session never claimed: its jobs may have another session.
    Lost,
}

/// Load of a lane.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LaneLoad {
    /// The lane.
    pub lane: Name,
    /// The number of tenants that share it, at least 1.
    pub tenants: u64,
}

/// Result of a reap.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ReapResult {
    /// Jobs that returned to their queues.
    pub returned: u64,
    /// Jobs that were dead-lettered after too many recoveries.
    pub dead_lettered: u64,
    /// Jobs past their deadline at the heads of their queues. They end even if their queues hand out
    /// nothing.
    pub expired: u64,
    /// The time until the next lease can expire.
    pub next: Option<Duration>,
}
