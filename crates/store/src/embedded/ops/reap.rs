//! Leases: renew, expire, release.

use std::time::Duration;

use outflow_core::{ClockPair, Nanos};

use super::poison_isolation::remove_claim;
use super::settle::{finish_claim, record_error, return_to_queue, settle};
use super::skip::expire_queued;
use super::transitions::catch_up;
use crate::claim::{FencingToken, HeartbeatResult, ReapResult};
use crate::embedded::disk::int_codec::to_count;
use crate::embedded::state::StoreState;
use crate::name::Name;
use crate::settle::{JobEnd, JobStatus, Settlement};

/// Renews a lease.
pub(crate) fn heartbeat(state: &mut StoreState, session: &Name, lease: Duration, now: Nanos) -> HeartbeatResult {
    state.claims.expire_leases(now);
    match state.claims.sessions.get_mut(session) {
        Some(session) => {
            session.until = now.saturating_add(lease);
            HeartbeatResult::Alive
        }
        None => HeartbeatResult::Lost,
    }
}

/// Returns the claims that a session holds and does not know.
pub(crate) fn release_unknown(
    state: &mut StoreState,
    session: &Name,
    known: &[FencingToken],
    moment: ClockPair,
) -> u64 {
    catch_up(state, moment);
    let held = state.claims.tokens_of(session);
    let unknown: Vec<FencingToken> = held.filter(|token| !known.contains(token)).collect();
    for token in &unknown {
        let end = JobEnd::Returned;
        settle(
            state,
            session,
            Settlement {
                token: *token,
                end,
                arrived: None,
            },
            moment,
        );
    }
    to_count(unknown.len())
}

/// Takes back jobs of sessions with an expired lease.
pub(crate) fn reap(state: &mut StoreState, limit: usize, recoveries: u32, moment: ClockPair) -> ReapResult {
    catch_up(state, moment);
    let mut reaped = ReapResult::default();
    let lost: Vec<u64> = state.claims.orphans.iter().copied().take(limit).collect();
    for seq in lost {
        take_back(state, seq, recoveries, moment, &mut reaped);
    }
    reaped.expired = expire_queued(state, limit, moment);
    reaped.next = if state.claims.orphans.is_empty() {
        let next = state.claims.next_expiry();
        next.map(|at| at.since(moment.now))
    } else {
        Some(Duration::ZERO)
    };
    reaped
}

fn take_back(state: &mut StoreState, seq: u64, recoveries: u32, moment: ClockPair, reaped: &mut ReapResult) {
    let Some(mut claim) = remove_claim(state, seq) else {
        return;
    };
    let first_step = state.log.len();
    let undo = claim.copy_without_charge();
    let history = &mut claim.entry.history;
    history.recoveries = history.recoveries.saturating_add(1);
    // A dead worker may have made the call: it gets no refund.
    claim.charge = None;
    if claim.cancelled {
        finish_claim(state, claim, JobStatus::Cancelled, moment);
    } else {
        record_error(state, seq, LOST.to_owned(), moment);
        if claim.entry.history.recoveries > recoveries {
            finish_claim(state, claim, JobStatus::Failed, moment);
            reaped.dead_lettered += 1;
        } else {
            return_to_queue(state, claim, moment);
            reaped.returned += 1;
        }
    }
    state.log.set_undo(first_step, undo);
}

/// The error of an attempt whose worker disappeared.
const LOST: &str = "its worker was lost before it said what came of it";
