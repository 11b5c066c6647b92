//! Leases: renewed, run out and taken back, or given back in part.

use std::time::Duration;

use outflow_core::{ClockPair, Nanos};

use crate::claim::{FencingToken, HeartbeatResult, ReapResult};
use crate::embedded::disk::int_codec::many;
use crate::embedded::state::StoreState;
use crate::name::Name;
use crate::settle::{JobEnd, JobStatus, Settlement};

impl StoreState {
    /// Renews a lease.
    pub(crate) fn beat(&mut self, session: &Name, lease: Duration, now: Nanos) -> HeartbeatResult {
        self.claims.lapse(now);
        match self.claims.sessions.get_mut(session) {
            Some(session) => {
                session.until = now.saturating_add(lease);
                HeartbeatResult::Alive
            }
            None => HeartbeatResult::Lost,
        }
    }

    /// Gives back what a session does not know that it holds.
    pub(crate) fn disown(
        &mut self,
        session: &Name,
        known: &[FencingToken],
        moment: ClockPair,
    ) -> u64 {
        self.catch_up(moment);
        let unheard: Vec<FencingToken> = self
            .claims
            .held_by(session)
            .filter(|token| !known.contains(token))
            .collect();
        for token in &unheard {
            let end = JobEnd::Returned;
            self.settle(session, Settlement { token: *token, end }, moment);
        }
        many(unheard.len())
    }

    /// Takes back what nobody works on any more.
    pub(crate) fn reap(&mut self, most: usize, recoveries: u32, moment: ClockPair) -> ReapResult {
        self.catch_up(moment);
        let mut reaped = ReapResult::default();
        let lost: Vec<u64> = self.claims.orphans.iter().copied().take(most).collect();
        for seq in lost {
            self.take_back(seq, recoveries, moment, &mut reaped);
        }
        reaped.expired = self.expire(most, moment);
        reaped.next = if self.claims.orphans.is_empty() {
            self.claims.next_lapse().map(|at| at.since(moment.now))
        } else {
            Some(Duration::ZERO)
        };
        reaped
    }

    fn take_back(&mut self, seq: u64, recoveries: u32, moment: ClockPair, reaped: &mut ReapResult) {
        let Some(mut claim) = self.unclaim(seq) else {
            return;
        };
        let first = self.pending.len();
        let undo = claim.copy();
        let tries = &mut claim.entry.tries;
        tries.recoveries = tries.recoveries.saturating_add(1);
        // What a dead worker used of its turn nobody knows.
        claim.tag = None;
        if claim.doomed {
            self.finish(claim, JobStatus::Cancelled, moment);
        } else {
            let buried = claim.entry.tries.recoveries > recoveries;
            self.mishap(seq, LOST.to_owned(), moment);
            if buried {
                self.finish(claim, JobStatus::Failed, moment);
                reaped.buried += 1;
            } else {
                self.bring_back(claim, moment);
                reaped.returned += 1;
            }
        }
        if let Some(step) = self.pending.get_mut(first) {
            step.undo = Some(undo);
        }
    }
}

/// What a dead letter's history says of a worker that was never heard of again.
const LOST: &str = "its worker was lost before it said what came of it";
