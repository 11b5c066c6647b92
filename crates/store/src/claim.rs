//! Jobs that somebody works on: taken in fair order, under a lease, with a token that fences.
//!
//! Whoever works holds a *session*: a name that no other process ever had, and a lease on it that
//! beats. All jobs that a session claimed are its own until they settle or its lease runs out; then they
//! go back to their lines, and whatever the old session says of them is refused. One lease for a whole
//! session instead of one for each job: a beat costs the same whether ten jobs are under way or ten
//! thousand.

use std::time::Duration;

use bytes::Bytes;
use outflow_core::{Cost, Nanos, Priority, WallTime};

use crate::name::Name;
use crate::shared_limits::SharedLimits;

/// What is wanted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClaimRequest {
    /// Of which line.
    pub lane: Name,
    /// For whom.
    pub session: Name,
    /// At most so many.
    pub most: usize,
    /// How long the session is believed to live without a word of it.
    pub lease: Duration,
    /// How often a job may be taken back before it is buried, as [`reap`](crate::JobStore::reap) is told. One
    /// whose next loss is its last may be what its workers die of: a store of one process gives it out while
    /// nothing else is under way, and nothing beside it. Where several machines share one, such jobs come back
    /// one after the other instead.
    pub recoveries: u32,
    /// What a store that several machines use debits for each job that it gives out. A store of one
    /// process does not look at it: there the [`ClaimFilter`] asks the door itself.
    pub plan: Option<SharedLimits>,
}

/// Who says whether the job whose turn it is may go. Asked in fair order, with the store locked: it
/// answers at once and does not wait.
pub trait ClaimFilter: Send {
    /// Whether this one may go.
    fn decide(&mut self, head: &NextJob<'_>) -> ClaimDecision;
}

/// The job whose turn it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NextJob<'a> {
    /// Its tenant.
    pub tenant: &'a Name,
    /// What it uses of a limit.
    pub cost: Cost,
    /// Its class.
    pub priority: Priority,
}

/// What a [`ClaimFilter`] says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ClaimDecision {
    /// It goes: its permit is in hand.
    Take,
    /// Its tenant may not, before this instant; others may.
    Park(Nanos),
    /// Nobody may now.
    Stop,
}

/// Lets everything go.
#[derive(Clone, Copy, Debug, Default)]
pub struct AllowAll;

impl ClaimFilter for AllowAll {
    fn decide(&mut self, _head: &NextJob<'_>) -> ClaimDecision {
        ClaimDecision::Take
    }
}

/// What a claim brought.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ClaimBatch {
    /// The jobs, in the order in which they are to start.
    pub jobs: Vec<ClaimedJob>,
    /// How long until there may be more, if that is known: a tenant returns, a job is due, a limit has
    /// room. Whatever else happens rings [`changed`](crate::JobStore::changed).
    pub next: Option<Duration>,
    /// Jobs whose deadline had passed: they ended as expired and were not given out.
    pub expired: u64,
    /// When this was decided, by the clock of a server that machines share. Starts are counted from it.
    pub decided: Option<Duration>,
    /// How many a server that machines share has given to anybody by now, about: told with jobs only. What is
    /// beyond one's own was others'.
    pub given: Option<u64>,
}

/// One job, to be worked on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClaimedJob {
    /// Proves the claim.
    pub token: FencingToken,
    /// Its name.
    pub id: Name,
    /// For whom.
    pub tenant: Name,
    /// The action it belongs to.
    pub action: Option<Name>,
    /// What it uses of a limit.
    pub cost: Cost,
    /// Its class.
    pub priority: Priority,
    /// It does not begin after.
    pub deadline: Option<WallTime>,
    /// How often it was claimed, this time included.
    pub attempt: u32,
    /// How often it failed and was tried again.
    pub retries: u32,
    /// How often the API refused it, or the scheduler put it off.
    pub throttles: u32,
    /// How often its worker was lost with it.
    pub recoveries: u32,
    /// How long from the claim until it is to start.
    pub starts_in: Duration,
    /// What it is.
    pub payload: Bytes,
}

/// Proof of one claim. Once the job has settled, or its lease ran out, it proves nothing.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct FencingToken {
    /// The number of the job in its store.
    pub job: u64,
    /// The number of the claim: no two claims of a store have the same.
    pub claim: u64,
}

/// What a beat found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HeartbeatResult {
    /// The session lives, and so do all of its claims.
    Alive,
    /// The lease had run out, or nothing was ever claimed under it: the claims are somebody else's.
    Lost,
}

/// What a sweep over the dead brought.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ReapResult {
    /// Jobs that went back to their lines.
    pub returned: u64,
    /// Jobs that had been returned too often, and were buried.
    pub buried: u64,
    /// Jobs at the heads of their lines whose deadline had passed: they end though nothing of their lines goes.
    pub expired: u64,
    /// How long until the next lease can run out.
    pub next: Option<Duration>,
}
