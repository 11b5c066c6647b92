//! Claims and the sessions that hold them.

use std::collections::{BTreeSet, HashMap};

use outflow_core::{FairCharge, Nanos};

use super::job_entry::JobEntry;
use crate::claim::FencingToken;
use crate::name::Name;

/// A claimed job.
#[derive(Debug)]
pub(crate) struct ClaimState {
    pub(crate) seq: u64,
    pub(crate) number: u64,
    /// Empty once the lease expired.
    pub(crate) session: Option<Name>,
    pub(crate) entry: JobEntry,
    /// Refunds the turn to its tenant.
    pub(crate) charge: Option<FairCharge>,
    /// A cancellation came after the claim.
    pub(crate) cancelled: bool,
}

impl ClaimState {
    /// Copies the claim without its charge, which can be refunded once.
    pub(crate) fn copy_without_charge(&self) -> Self {
        Self {
            seq: self.seq,
            number: self.number,
            session: self.session.clone(),
            entry: self.entry.clone(),
            charge: None,
            cancelled: self.cancelled,
        }
    }
}

/// A session with its lease and its claimed jobs.
#[derive(Debug)]
pub(crate) struct SessionState {
    pub(crate) until: Nanos,
    pub(crate) jobs: BTreeSet<u64>,
}

/// All claims.
#[derive(Debug, Default)]
pub(crate) struct ClaimTable {
    pub(crate) by_job: HashMap<u64, ClaimState>,
    pub(crate) sessions: HashMap<Name, SessionState>,
    /// Jobs of expired sessions, until they are reaped.
    pub(crate) orphans: BTreeSet<u64>,
    /// A job next to which nothing else may be in flight.
    pub(crate) isolated: Option<u64>,
    /// The number of claims of this process.
    pub(crate) made: u64,
}

impl ClaimTable {
    /// Assigns a number that no claim of this store had.
    pub(crate) const fn next_number(&mut self, epoch: u64) -> u64 {
        self.made += 1;
        (epoch << EPOCH_BITS) + self.made
    }

    /// Turns all jobs of sessions with an expired lease into orphans.
    pub(crate) fn expire_leases(&mut self, now: Nanos) {
        let Self {
            by_job,
            sessions,
            orphans,
            ..
        } = self;
        for (_, session) in sessions.extract_if(|_, session| session.until <= now) {
            for seq in &session.jobs {
                if let Some(claim) = by_job.get_mut(seq) {
                    claim.session = None;
                }
            }
            orphans.extend(session.jobs);
        }
    }

    pub(crate) const fn has_isolated(&self) -> bool {
        self.isolated.is_some()
    }

    /// Lists all claims of a session.
    pub(crate) fn tokens_of(&self, session: &Name) -> impl Iterator<Item = FencingToken> {
        let jobs = self.sessions.get(session).map(|session| &session.jobs);
        jobs.into_iter().flatten().filter_map(|job| {
            let claim = self.by_job.get(job)?.number;
            Some(FencingToken { job: *job, claim })
        })
    }

    /// Returns the instant at which the next lease with claims expires.
    pub(crate) fn next_expiry(&self) -> Option<Nanos> {
        let sessions = self.sessions.values();
        let holding = sessions.filter(|session| !session.jobs.is_empty());
        holding.map(|session| session.until).min()
    }

    /// Extends the lease of a session, and adds an unknown session.
    pub(crate) fn renew_session(&mut self, name: &Name, until: Nanos) {
        let session = self.sessions.entry(name.clone());
        let jobs = BTreeSet::new();
        let session = session.or_insert(SessionState { until, jobs });
        session.until = until;
    }

    /// Returns an orphan of a reloaded state to its former session.
    pub(crate) fn reclaim(&mut self, old: &ClaimState) {
        let session = old.session.as_ref();
        let is_alive = session.is_some_and(|session| self.sessions.contains_key(session));
        if !is_alive || !self.orphans.contains(&old.seq) {
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
        self.isolated = self.isolated.filter(|isolated| *isolated != seq);
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
}

/// Bits for the claims of one process; the rest counts the starts of the store.
const EPOCH_BITS: u32 = 40;
