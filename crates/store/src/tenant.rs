//! A tenant: its claim, and how it stands.

use std::time::Duration;

use outflow_core::{Priority, Rate, WallTime, Weight};

use crate::action::JobCounts;
use crate::name::Name;

/// What a tenant is entitled to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TenantRule {
    /// Its part of every lane, against the other tenants' weights.
    pub weight: Weight,
    /// Its class among tenants; the class of its first job multiplies it.
    pub priority: Priority,
    /// What it may use at most, if less than everybody. A store of one process keeps it and leaves it
    /// to the [`ClaimFilter`](crate::ClaimFilter).
    pub rate: Option<Rate>,
    /// How many of its jobs may be under way at once.
    pub in_flight: Option<u32>,
}

impl Default for TenantRule {
    fn default() -> Self {
        Self {
            weight: Weight::ONE,
            priority: Priority::Normal,
            rate: None,
            in_flight: None,
        }
    }
}

/// A tenant as it stands. One without work and without a rule of its own is forgotten after a while, with
/// all that is told here.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TenantReport {
    /// Its name.
    pub name: Name,
    /// Its claim.
    pub rule: TenantRule,
    /// Whether that is its own, and not what all others have.
    pub ruled: bool,
    /// Whether an operator stopped it.
    pub paused: bool,
    /// Its jobs, since it last had none.
    pub tally: JobCounts,
    /// The last time that a job of it was put off by.
    pub last_backoff: Duration,
    /// The speed that was reckoned with then, a second.
    pub speed: u64,
    /// When that was.
    pub last_update: Option<WallTime>,
}

/// How congested a tenant was at one instant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CongestionSample {
    /// When.
    pub at: WallTime,
    /// How many of its jobs were put off.
    pub non_ready: u64,
    /// At which speed, a second.
    pub speed: u64,
    /// The last time that a job was put off by.
    pub backoff: Duration,
}

/// Whom an operator means.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum ControlScope {
    /// All jobs of a tenant.
    Tenant(Name),
    /// All jobs of an action.
    Action(Name),
}

/// A part of a long list: what comes after, and how many.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PageRequest {
    /// Names after this one.
    pub after: Option<Name>,
    /// At most so many; 0 means as many as the store gives at once.
    pub most: usize,
}
