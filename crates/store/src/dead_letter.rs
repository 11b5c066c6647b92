//! Dead letters: jobs that failed for good or too often, with everything that is known of why.

use bytes::Bytes;
use outflow_core::WallTime;

use crate::job::AttemptError;
use crate::name::Name;

/// One dead letter.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeadLetter {
    /// Its place in the list: ask for those after it.
    pub place: u64,
    /// Its name.
    pub id: Name,
    /// For whom it was.
    pub tenant: Name,
    /// Which line it stood in.
    pub lane: Name,
    /// The action it belongs to.
    pub action: Option<Name>,
    /// When it was buried.
    pub at: WallTime,
    /// How often it was claimed.
    pub attempts: u32,
    /// How often a worker died over it.
    pub recoveries: u32,
    /// What happened, the oldest first; of many, the last.
    pub history: Vec<AttemptError>,
    /// What it was.
    pub payload: Bytes,
}

/// Which dead letters are meant.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DeadLetterFilter {
    /// All.
    All,
    /// Those of a tenant.
    Tenant(Name),
    /// Those of an action.
    Action(Name),
    /// These.
    Jobs(Vec<Name>),
}
