//! Isolation of a job that may kill its workers.
//!
//! After a crash the store cannot know which claimed job was the reason. All of them return, start
//! together again, and after enough crashes would be dead-lettered together. So the store hands out a job
//! on its last chance only while nothing else is in flight, and nothing else next to it. If the process
//! dies again, this job was the reason, or chance. The store decides this and not the workers, because
//! every claimed job is lost with the process, started or not.
//!
//! Until such a job can go, no lane hands out anything, at most for the length of the longest attempt. If
//! it still gets no permit, it delayed all lanes in vain, and its tenant is blocked for much longer.

use std::time::Duration;

use outflow_core::Nanos;

use crate::embedded::state::StoreState;
use crate::embedded::state::claims::ClaimState;
use crate::embedded::state::job_entry::{JobEntry, JobPosition};

/// A wait of all lanes until a tenant's first job can run alone.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IsolationDrain {
    lane: u32,
    tenant: u32,
    since: Nanos,
    /// Nothing is in flight any more, and other lanes wait until then.
    until: Option<Nanos>,
    /// The last claim of its lane found it at the head.
    is_first: bool,
}

impl IsolationDrain {
    const fn is_of(&self, position: JobPosition) -> bool {
        self.lane == position.lane && self.tenant == position.tenant
    }

    fn blocked_until(&self, now: Nanos) -> Nanos {
        now.saturating_add(now.since(self.since).saturating_mul(BLOCK_FACTOR))
    }
}

/// A wait of a lane for an isolated job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct IsolationWait {
    /// Its length, if no event ends it earlier.
    pub(crate) left: Option<Duration>,
}

/// Returns the wait of a lane for a job that runs alone, or is about to.
pub(crate) fn check_isolation(state: &mut StoreState, lane: u32, now: Nanos) -> Option<IsolationWait> {
    if state.claims.has_isolated() {
        return Some(IsolationWait { left: None });
    }
    let idle = state.claims.by_job.is_empty();
    let drain = state.drain.as_mut()?;
    if drain.lane == lane {
        drain.is_first = false;
        return None;
    }
    if !idle {
        return Some(IsolationWait { left: None });
    }
    let until = *drain.until.get_or_insert_with(|| now.saturating_add(DRAIN_TIMEOUT));
    if until > now {
        let left = Some(until.since(now));
        return Some(IsolationWait { left });
    }
    give_up_drain(state, now);
    None
}

/// Ends the drain for a job that is no longer at the head of its lane.
pub(crate) fn release_drain(state: &mut StoreState, lane: u32) {
    let is_over = |drain: &mut IsolationDrain| drain.lane == lane && !drain.is_first;
    if state.drain.take_if(is_over).is_some() {
        state.has_news = true;
    }
}

/// Returns true if the first job of a queue is on its last chance.
pub(crate) fn is_suspect(state: &StoreState, seq: u64, position: JobPosition, recoveries: u32) -> bool {
    let queue = state.lanes.queue(position);
    let first = queue.and_then(|queue| queue.front.get(&seq));
    first.is_some_and(|entry| is_last_chance(entry, recoveries))
}

/// Makes all lanes wait until this tenant's first job can run alone.
pub(crate) fn drain_for(state: &mut StoreState, position: JobPosition, now: Nanos) {
    let before = state.drain.filter(|drain| drain.is_of(position));
    state.drain = Some(IsolationDrain {
        lane: position.lane,
        tenant: position.tenant,
        since: before.map_or(now, |drain| drain.since),
        until: None,
        is_first: true,
    });
}

/// Extends the drain for a job that could run alone while its lane has no permit.
pub(crate) fn extend_drain(state: &mut StoreState, position: JobPosition, now: Nanos) {
    let until = state.drain.and_then(|drain| drain.until);
    drain_for(state, position, now);
    if let Some(drain) = &mut state.drain {
        drain.until = until.or(Some(now.saturating_add(DRAIN_TIMEOUT)));
    }
}

/// Ends the drain for a tenant that the filter blocks, and returns the instant until which it stays
/// blocked: later if other lanes waited for it.
pub(crate) fn abandon_drain(state: &mut StoreState, position: JobPosition, now: Nanos) -> Nanos {
    let drain = state.drain.take_if(|drain| drain.is_of(position));
    state.has_news |= drain.is_some();
    drain.map_or(now, |drain| drain.blocked_until(now))
}

/// Ends the drain for a job that could have run alone and did not.
fn give_up_drain(state: &mut StoreState, now: Nanos) {
    let Some(drain) = state.drain.take() else {
        return;
    };
    state.has_news = true;
    let until = drain.blocked_until(now);
    state.lanes.block_tenant(drain.lane, drain.tenant, until);
}

/// Marks a claimed job as the only one in flight until it ends.
pub(crate) fn isolate(state: &mut StoreState, seq: u64) {
    state.claims.isolated = Some(seq);
    state.drain = None;
}

/// Removes a claim, and wakes claims that wait for that.
pub(crate) fn remove_claim(state: &mut StoreState, seq: u64) -> Option<ClaimState> {
    let was_isolated = state.claims.isolated == Some(seq);
    let claim = state.claims.remove(seq)?;
    let drained = state.drain.is_some() && state.claims.by_job.is_empty();
    state.has_news |= was_isolated || drained;
    Some(claim)
}

/// Returns true if a job is dead-lettered when its worker is lost once more.
pub(crate) const fn is_last_chance(entry: &JobEntry, recoveries: u32) -> bool {
    let lost = entry.history.recoveries;
    lost > 0 && lost >= recoveries
}

/// Longer than a lane needs to notice the event and to get a permit of a limit with free quota.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);

/// A job that gets no permit costs other lanes an eleventh of their time at most.
const BLOCK_FACTOR: u32 = 10;
