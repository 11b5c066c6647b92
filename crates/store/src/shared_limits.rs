//! Limits that machines share through a store.
//!
//! A store that several machines use debits limits itself, in the step that gives a job out: only there are
//! all starts known. It sets an instant for each start and keeps them apart, so that no window holds more
//! than it may, whichever machines they are on. A store of one process looks at none of this: there the
//! [`ClaimFilter`](crate::ClaimFilter) asks the door.

use std::time::Duration;

use outflow_core::{Cost, CountBy, Rate};

use crate::name::Name;

/// The limits of a lane's jobs, and how far ahead jobs are given out. What a tenant may use is in its
/// [rule](crate::TenantRule), and holds under any plan.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SharedLimits {
    /// All of them hold.
    pub limits: Vec<SharedLimit>,
    /// By how much every window is widened, for starts that are early or late.
    pub guard: Duration,
    /// How far ahead a job's start may lie.
    pub horizon: Duration,
}

/// One limit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SharedLimit {
    /// What it is known by: whoever debits the same name shares the limit, of whatever lane. What was used under a
    /// name stays used when its rate changes.
    pub name: String,
    /// How much, and in which window.
    pub rate: Rate,
    /// What of a job counts.
    pub measure: CountBy,
}

/// A start that a store debits, or has debited, outside of a claim.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StartDebit {
    /// Of whose job.
    pub tenant: Name,
    /// What the job uses.
    pub cost: Cost,
    /// Of which limits; the tenant's own belongs to them.
    pub plan: SharedLimits,
}
