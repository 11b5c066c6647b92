//! Limits that several machines share through a store.
//!
//! A shared store debits limits itself, in the step that hands out a job, because only there all starts
//! are known. It schedules an instant for each start, so that no window holds more than its limit, on
//! whichever machines they run. A store of one process ignores them: there the
//! [`ClaimFilter`](crate::ClaimFilter) acquires permits.

use std::time::Duration;

use outflow_core::{Cost, CountBy, Rate};

use crate::name::Name;

/// The limits of a lane's jobs, and the horizon of scheduled starts. A tenant's own rate is in its
/// [rule](crate::TenantRule), and always applies, too.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SharedLimits {
    /// All of them apply.
    pub limits: Vec<SharedLimit>,
    /// The margin that widens every window, for early or late starts.
    pub guard: Duration,
    /// The longest time from a claim to a scheduled start.
    pub horizon: Duration,
}

/// One shared limit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SharedLimit {
    /// Its name. All debits under this name share the limit, in any lane. Used units stay used when the
    /// rate changes.
    pub name: String,
    /// Its rate.
    pub rate: Rate,
    /// The units that a job counts.
    pub measure: CountBy,
}

/// A start that a store debits outside of a claim.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StartDebit {
    /// The tenant of the job.
    pub tenant: Name,
    /// The cost of the job.
    pub cost: Cost,
    /// The limits, in addition to the tenant's own.
    pub plan: SharedLimits,
}
