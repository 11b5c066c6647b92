//! Dead letters: jobs that failed for good or too often, with their errors.

use bytes::Bytes;
use outflow_core::WallTime;

use crate::job::AttemptError;
use crate::name::Name;

/// One dead letter.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeadLetter {
    /// Its place in the list, for the next page.
    pub place: u64,
    /// Its name.
    pub id: Name,
    /// Its tenant.
    pub tenant: Name,
    /// Its lane.
    pub lane: Name,
    /// Its action.
    pub action: Option<Name>,
    /// The instant at which it was dead-lettered.
    pub at: WallTime,
    /// The number of its claims.
    pub attempts: u32,
    /// The number of workers that were lost with it.
    pub recoveries: u32,
    /// Its last errors, the oldest first.
    pub history: Vec<AttemptError>,
    /// Its content.
    pub payload: Bytes,
}

/// A selection of dead letters.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DeadLetterFilter {
    /// All.
    All,
    /// Those of a tenant.
    Tenant(Name),
    /// Those of an action.
    Action(Name),
    /// Those with these names.
    Jobs(Vec<Name>),
}
