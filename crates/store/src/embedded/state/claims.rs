//! Claims and the sessions that hold them.

use std::collections::{BTreeSet, HashMap};

use outflow_core::{FairCharge, Nanos};

use super::job_entry::JobEntry;
use crate::claim::FencingToken;
use crate::name::Name;

/// A job that somebody works on, or did until his lease ran out.
#[derive(Debug)]
pub(crate) struct ClaimState {
    pub(crate) seq: u64,
    pub(crate) number: u64,
    /// Nobody, once the lease ran out.
    pub(crate) session: Option<Name>,
    pub(crate) entry: JobEntry,
    /// Gives the turn back to its tenant.
    pub(crate) tag: Option<FairCharge>,
    /// Whether it was cancelled meanwhile.
    pub(crate) doomed: bool,
}

impl ClaimState {
    /// The same claim without what it owes its tenant, which can be given back once.
    pub(crate) fn copy(&self) -> Self {
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
pub(crate) struct SessionState {
    pub(crate) until: Nanos,
    pub(crate) jobs: BTreeSet<u64>,
}

/// Everything that is claimed.
#[derive(Debug, Default)]
pub(crate) struct ClaimTable {
    pub(crate) by_job: HashMap<u64, ClaimState>,
    pub(crate) sessions: HashMap<Name, SessionState>,
    /// Jobs whose session is gone, until somebody takes them back.
    pub(crate) orphans: BTreeSet<u64>,
    /// The one beside which nothing is under way.
    pub(crate) alone: Option<u64>,
    /// Claims that this process made.
    made: u64,
}

impl ClaimTable {
    /// A number that no claim had.
    pub(crate) const fn next_number(&mut self, epoch: u64) -> u64 {
        self.made += 1;
        (epoch << EPOCH_BITS) + self.made
    }

    /// Makes orphans of all jobs whose session's lease has run out.
    pub(crate) fn lapse(&mut self, now: Nanos) {
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
    pub(crate) const fn has_alone(&self) -> bool {
        self.alone.is_some()
    }

    /// All claims of a session.
    pub(crate) fn held_by(&self, session: &Name) -> impl Iterator<Item = FencingToken> {
        let jobs = self.sessions.get(session).map(|session| &session.jobs);
        let claims = jobs.into_iter().flatten();
        claims.filter_map(|job| {
            let claim = self.by_job.get(job)?.number;
            Some(FencingToken { job: *job, claim })
        })
    }

    /// When the next lease runs out, if nobody renews it.
    pub(crate) fn next_lapse(&self) -> Option<Nanos> {
        let held = self.sessions.values().filter(|of| !of.jobs.is_empty());
        held.map(|session| session.until).min()
    }

    /// A session lives until then.
    pub(crate) fn hold(&mut self, name: Name, until: Nanos) {
        let jobs = BTreeSet::new();
        self.sessions.insert(name, SessionState { until, jobs });
    }

    /// Gives a job that the disk knows as claimed back to whom it belonged.
    pub(crate) fn reclaim(&mut self, old: &ClaimState) {
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

    pub(crate) fn insert(&mut self, claim: ClaimState) {
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

    pub(crate) fn remove(&mut self, seq: u64) -> Option<ClaimState> {
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
    pub(crate) const fn go_on_after(&mut self, other: &Self) {
        self.made = other.made;
    }
}

/// A process makes fewer claims than this many bits can count, and a store sees fewer starts than the
/// rest.
const EPOCH_BITS: u32 = 40;
