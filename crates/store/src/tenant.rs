//! Tenants: their rules and reports.

use std::time::Duration;

use outflow_core::{Priority, Rate, WallTime, Weight};

use crate::action::JobCounts;
use crate::name::Name;

/// The rule of a tenant.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TenantRule {
    /// Its share of every lane, relative to the weights of other tenants.
    pub weight: Weight,
    /// Its class among tenants; the class of its first job multiplies it.
    pub priority: Priority,
    /// Its own rate limit. A store of one process only keeps it: the [`ClaimFilter`](crate::ClaimFilter)
    /// enforces it.
    pub rate: Option<Rate>,
    /// The number of its jobs in flight at most.
    pub in_flight: Option<u32>,
}

/// Report of a tenant. Garbage collection removes a tenant without work and without its own rule, with
/// all of these statistics.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TenantReport {
    /// Its name.
    pub name: Name,
    /// Its rule.
    pub rule: TenantRule,
    /// The rule is its own, and not the default rule.
    pub ruled: bool,
    /// An operator paused it.
    pub paused: bool,
    /// Its jobs, since it last had none.
    pub counts: JobCounts,
    /// The last delay of a deferred job.
    pub last_backoff: Duration,
    /// The speed in the last formula, per second.
    pub speed: u64,
    /// The instant of the last deferral.
    pub last_update: Option<WallTime>,
    /// The end of the longest delay, if a short search finds it: a retry, or a start that the submitter set. A shared
    /// store looks for it while all waiting jobs are delayed.
    pub latest: Option<WallTime>,
    /// The lanes in which its jobs wait. Jobs of paused actions are left out. A shared store omits lanes in which all
    /// of them are delayed or deferred.
    pub lanes: Vec<LaneBacklog>,
}

/// Jobs of a tenant that wait in one lane.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LaneBacklog {
    /// The lane.
    pub lane: Name,
    /// The number of jobs, without delayed and deferred ones in a shared store.
    pub jobs: u64,
}

/// Congestion of a tenant at one instant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CongestionSample {
    /// The instant.
    pub at: WallTime,
    /// The number of its jobs that lack quota.
    pub non_ready: u64,
    /// Its speed, per second.
    pub speed: u64,
    /// The delay of its last job that lacked quota.
    pub backoff: Duration,
}

/// Record of a tenant's congestion, which gets its instant from the store.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CongestionRecord {
    /// The tenant.
    pub tenant: Name,
    /// The number of its jobs that lack quota.
    pub non_ready: u64,
    /// Its speed, per second.
    pub speed: u64,
    /// The delay of its last job that lacked quota.
    pub backoff: Duration,
}

/// Scope of an operator's command.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum ControlScope {
    /// All jobs of a tenant.
    Tenant(Name),
    /// All jobs of an action.
    Action(Name),
}

/// A page of a long list.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PageRequest {
    /// Names after this one.
    pub after: Option<Name>,
    /// The number of entries at most; 0 means the store's default.
    pub max: usize,
}
