//! Claims and the sessions that hold them.

use std::collections::{BTreeSet, HashMap};

use outflow_core::{FairCharge, Nanos};

use super::job_entry::JobEntry;
use crate::claim::FencingToken;
use crate::name::Name;

/// A job that somebody works on, or did until his lease ran out.
#[derive(Debug)]
pub(super) struct ClaimState {
    pub(super) seq: u64,
    pub(super) number: u64,
    /// Nobody, once the lease ran out.
    pub(super) session: Option<Name>,
    pub(super) entry: JobEntry,
    /// Gives the turn back to its tenant.
    pub(super) tag: Option<FairCharge>,
    /// Whether it was cancelled meanwhile.
    pub(super) doomed: bool,
}

impl ClaimState {
    /// The same claim without what it owes its tenant, which can be given back once.
    pub(super) fn copy(&self) -> Self {
        Self {
            seq: self.seq,
            number: self.number,
            session: self.session.clone(),
            entry: self.entry.clone(),
            tag: None,
            doomed: self.doomed,
        }
    }
}

#[derive(Debug)]
pub(super) struct SessionState {
    pub(super) until: Nanos,
    pub(super) jobs: BTreeSet<u64>,
}

/// Everything that is claimed.
#[derive(Debug, Default)]
pub(super) struct ClaimTable {
    pub(super) by_job: HashMap<u64, ClaimState>,
    pub(super) sessions: HashMap<Name, SessionState>,
    /// Jobs whose session is gone, until somebody takes them back.
    pub(super) orphans: BTreeSet<u64>,
    /// The one beside which nothing is under way.
    pub(super) alone: Option<u64>,
    /// Claims that this process made.
    made: u64,
}

impl ClaimTable {
    /// A number that no claim had.
    pub(super) const fn next_number(&mut self, epoch: u64) -> u64 {
        self.made += 1;
        (epoch << EPOCH_BITS) + self.made
    }

    /// Makes orphans of all jobs whose session's lease has run out.
    pub(super) fn lapse(&mut self, now: Nanos) {
        let Self {
            by_job,
            sessions,
            orphans,
            ..
        } = self;
        sessions.retain(|_, session| {
            let lives = session.until > now;
            if !lives {
                for seq in &session.jobs {
                    orphans.insert(*seq);
                    if let Some(claim) = by_job.get_mut(seq) {
                        claim.session = None;
                    }
                }
            }
            lives
        });
    }

    /// Whether one is under way beside which nothing is.
    pub(super) const fn has_alone(&self) -> bool {
        self.alone.is_some()
    }

    /// All claims of a session.
    pub(super) fn held_by(&self, session: &Name) -> impl Iterator<Item = FencingToken> {
        let jobs = self.sessions.get(session).map(|session| &session.jobs);
        let claims = jobs.into_iter().flatten();
        claims.filter_map(|job| {
            let claim = self.by_job.get(job)?.number;
            Some(FencingToken { job: *job, claim })
        })
    }

    /// When the next lease runs out, if nobody renews it.
    pub(super) fn next_lapse(&self) -> Option<Nanos> {
        let held = self.sessions.values().filter(|of| !of.jobs.is_empty());
        held.map(|session| session.until).min()
    }

    /// A session lives until then.
    pub(super) fn hold(&mut self, name: Name, until: Nanos) {
        let jobs = BTreeSet::new();
        self.sessions.insert(name, SessionState { until, jobs });
    }

    /// Gives a job that the disk knows as claimed back to whom it belonged.
    pub(super) fn reclaim(&mut self, old: &ClaimState) {
        let lives = old.session.as_ref();
        let lives = lives.is_some_and(|session| self.sessions.contains_key(session));
        if !lives || !self.orphans.contains(&old.seq) {
            return;
        }
        if let Some(mut claim) = self.remove(old.seq) {
            claim.session.clone_from(&old.session);
            claim.number = old.number;
            self.insert(claim);
        }
    }

    pub(super) fn insert(&mut self, claim: ClaimState) {
        match &claim.session {
            Some(name) => {
                if let Some(session) = self.sessions.get_mut(name) {
                    session.jobs.insert(claim.seq);
                }
            }
            None => {
                self.orphans.insert(claim.seq);
            }
        }
        self.by_job.insert(claim.seq, claim);
    }

    pub(super) fn remove(&mut self, seq: u64) -> Option<ClaimState> {
        let claim = self.by_job.remove(&seq)?;
        self.alone = self.alone.filter(|alone| *alone != seq);
        match &claim.session {
            Some(name) => {
                if let Some(session) = self.sessions.get_mut(name) {
                    session.jobs.remove(&seq);
                }
            }
            None => {
                self.orphans.remove(&seq);
            }
        }
        Some(claim)
    }

    /// The numbers of claims go on after the store was read anew.
    pub(super) const fn go_on_after(&mut self, other: &Self) {
        self.made = other.made;
    }
}

/// A process makes fewer claims than this many bits can count, and a store sees fewer starts than the
/// rest.
const EPOCH_BITS: u32 = 40;
