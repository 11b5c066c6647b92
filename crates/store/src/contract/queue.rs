//! Steps of a job: submit, claim, settle, reap.

use std::future::Future;
use std::time::Duration;

use super::StoreFuture;
use crate::claim::{
    ClaimBatch, ClaimFilter, ClaimRequest, FencingToken, HeartbeatResult, LaneLoad, ReapResult, StoreLimits,
};
use crate::job::{SubmitBatch, SubmitResult};
use crate::name::Name;
use crate::settle::{SettleResult, Settlement};

/// A queue that keeps jobs until they are over.
pub trait JobQueue: Send + Sync + 'static {
    /// Accepts jobs, and opens their action if necessary. Accepted jobs survive any crash from the moment
    /// this returns. One atomic step: a failed batch changes nothing, except as
    /// [`StoreError::is_doubtful`](crate::StoreError::is_doubtful) says.
    fn submit(&self, batch: SubmitBatch) -> impl StoreFuture<SubmitResult>;

    /// Hands out jobs of a lane in fair order, as the filter and the limits allow, under the
    /// session's lease, which this renews. A job past its deadline ends as expired instead.
    fn claim(&self, request: ClaimRequest, filter: &mut dyn ClaimFilter) -> impl StoreFuture<ClaimBatch>;

    /// Ends claims of a session and returns one result for each, in their order. A claim that the session
    /// no longer holds is not changed.
    fn settle(&self, session: &Name, settlements: Vec<Settlement>) -> impl StoreFuture<Vec<SettleResult>>;

    /// Counts the start of a claimed job whose claim checked no limits. Without quota it returns the time until
    /// there is some. A store of one process counts nothing.
    fn count_start(
        &self,
        session: &Name,
        token: FencingToken,
        limits: StoreLimits,
    ) -> impl StoreFuture<Option<Duration>>;

    /// Renews a session's lease.
    fn heartbeat(&self, session: &Name, lease: Duration) -> impl StoreFuture<HeartbeatResult>;

    /// Takes back jobs of sessions with an expired lease, at most `limit` at once. A job taken back more
    /// than `recoveries` times is dead-lettered.
    fn reap(&self, limit: usize, recoveries: u32) -> impl StoreFuture<ReapResult>;

    /// Returns all claims of a session except the known ones, as if they had not happened, and reports
    /// their number. The session never saw them because the response was lost, so it started none. They
    /// count as no recovery and wait again at the next reap, at the latest. Claims that were reaped
    /// before are already counted.
    fn release_unknown(&self, session: &Name, known: &[FencingToken]) -> impl StoreFuture<u64>;

    /// Waits for an event that lets a claim find more: a submission, a settlement, a resumption or a
    /// release. May return without one, and misses none that happens after the future was created.
    fn changed(&self) -> impl Future<Output = ()> + Send;

    /// Lists the lanes that have work.
    fn lanes(&self) -> impl StoreFuture<Vec<Name>>;

    /// Counts the tenants of each lane that has work. A shared store counts those with jobs that could start;
    /// if only one lane has work, all that have work.
    fn lane_loads(&self) -> impl StoreFuture<Vec<LaneLoad>>;
}
