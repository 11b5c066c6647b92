//! Sessions: names under which this process claims jobs and renews leases.
//!
//! A session claims until it is uncertain: its lease expired, or a claim got no response. An unanswered claim may
//! have taken any jobs, so the session is retired: it sends heartbeats while jobs are known that it holds, and no
//! longer. Under the old name, heartbeats would keep jobs alive for ever that no worker runs. Unknown jobs are
//! returned as soon as the store answers: they did not start, and must not count as jobs that kill their workers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use outflow_core::Nanos;
use outflow_store::{FencingToken, Name};
use outflow_sync::Mutex;

use crate::error::BulkError;

/// All sessions of this process that hold jobs, and the one for the next claim.
#[derive(Debug)]
pub(crate) struct Sessions {
    table: Mutex<SessionTable>,
}

#[derive(Debug)]
struct SessionTable {
    current: Name,
    /// Known jobs in flight of each session.
    held: BTreeMap<Name, BTreeSet<FencingToken>>,
    /// Number of pending claims of each session.
    pending: BTreeMap<Name, usize>,
    /// Sessions with an unanswered claim, and the instant until which it may still execute.
    uncertain: BTreeMap<Name, Nanos>,
    /// Sessions whose lease expired with jobs in flight: no heartbeat revives it.
    lost: BTreeSet<Name>,
    /// Instants until which the store surely keeps the jobs of each session.
    alive_until: BTreeMap<Name, Nanos>,
}

/// A claim in progress.
#[derive(Debug)]
pub(crate) struct PendingClaim {
    sessions: Arc<Sessions>,
    name: Name,
}

/// A known job in flight; its session sends heartbeats until this drops.
#[derive(Debug)]
pub(crate) struct HeldJobs {
    sessions: Arc<Sessions>,
    name: Name,
    token: FencingToken,
}

/// A session that may hold unknown jobs, with the known ones.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct UncertainSession {
    pub(crate) session: Name,
    pub(crate) known: Vec<FencingToken>,
}

impl Sessions {
    pub(crate) fn new() -> Result<Arc<Self>, BulkError> {
        let table = SessionTable {
            current: new_name()?,
            held: BTreeMap::new(),
            pending: BTreeMap::new(),
            uncertain: BTreeMap::new(),
            lost: BTreeSet::new(),
            alive_until: BTreeMap::new(),
        };
        Ok(Arc::new(Self {
            table: Mutex::new(table),
        }))
    }

    /// Begins a claim under the current session; it lasts until all claimed jobs are held.
    pub(crate) fn begin_claim(self: &Arc<Self>) -> PendingClaim {
        let mut table = self.table.lock();
        let name = table.current.clone();
        *table.pending.entry(name.clone()).or_default() += 1;
        PendingClaim {
            sessions: Arc::clone(self),
            name,
        }
    }

    /// Returns the sessions that need heartbeats.
    pub(crate) fn alive(&self) -> Vec<Name> {
        let table = self.table.lock();
        let held = table.held.keys();
        held.filter(|name| !table.lost.contains(*name)).cloned().collect()
    }

    /// Records that the store renewed a session's lease, from a request that began before this lease.
    pub(crate) fn renewed(&self, name: &Name, until: Nanos) {
        let mut table = self.table.lock();
        let known = table.alive_until.entry(name.clone()).or_default();
        *known = until.max(*known);
        let SessionTable {
            alive_until,
            held,
            current,
            pending,
            ..
        } = &mut *table;
        alive_until.retain(|name, _| name == current || held.contains_key(name) || pending.contains_key(name));
    }

    /// Marks a session whose lease expired. Its heartbeats end, so that the loss is reported once.
    pub(crate) fn mark_lost(&self, name: &Name) {
        let mut table = self.table.lock();
        table.retire(name);
        if table.held.contains_key(name) {
            table.lost.insert(name.clone());
        }
    }

    /// Ends claims under this session. An earlier session is retired already.
    pub(crate) fn retire(&self, name: &Name) {
        self.table.lock().retire(name);
    }

    /// Marks a session with an unanswered claim that may execute until this instant. Of many only the first are
    /// kept: later claims met a store that was unreachable.
    pub(crate) fn mark_uncertain(&self, name: &Name, until: Nanos) {
        let mut table = self.table.lock();
        table.retire(name);
        if table.uncertain.len() < MAX_UNCERTAIN || table.uncertain.contains_key(name) {
            table.uncertain.insert(name.clone(), until);
        }
    }

    /// Returns the uncertain sessions without pending claims: their known jobs are complete.
    pub(crate) fn uncertain(&self) -> Vec<UncertainSession> {
        let table = self.table.lock();
        let settled = table.uncertain.keys();
        let settled = settled.filter(|name| !table.pending.contains_key(*name));
        settled.map(|name| table.uncertain_session(name)).collect()
    }

    /// Forgets an uncertain session whose unknown jobs were returned after its claim could still execute.
    pub(crate) fn mark_released(&self, name: &Name, now: Nanos) {
        let mut table = self.table.lock();
        if table.uncertain.get(name).is_some_and(|until| *until <= now) {
            table.uncertain.remove(name);
        }
    }
}

impl SessionTable {
    fn retire(&mut self, name: &Name) {
        if self.current == *name
            && let Ok(next) = new_name()
        {
            self.current = next;
        }
    }

    fn uncertain_session(&self, name: &Name) -> UncertainSession {
        let known = self.held.get(name).into_iter().flatten();
        UncertainSession {
            session: name.clone(),
            known: known.copied().collect(),
        }
    }
}

impl PendingClaim {
    /// Returns the session.
    pub(crate) const fn name(&self) -> &Name {
        &self.name
    }

    /// Records a claimed job.
    pub(crate) fn hold(&self, token: FencingToken) -> HeldJobs {
        let mut table = self.sessions.table.lock();
        let held = table.held.entry(self.name.clone());
        held.or_default().insert(token);
        HeldJobs {
            sessions: Arc::clone(&self.sessions),
            name: self.name.clone(),
            token,
        }
    }
}

impl Drop for PendingClaim {
    fn drop(&mut self) {
        let mut table = self.sessions.table.lock();
        if let Some(pending) = table.pending.get_mut(&self.name) {
            *pending -= 1;
            if *pending == 0 {
                table.pending.remove(&self.name);
            }
        }
    }
}

impl HeldJobs {
    /// Returns the instant from which nothing of the job may be sent: its units of shared limits count as arrived then.
    pub(crate) fn alive_until(&self) -> Nanos {
        let table = self.sessions.table.lock();
        table.alive_until.get(&self.name).copied().unwrap_or_default()
    }

    /// Returns the session.
    pub(crate) const fn name(&self) -> &Name {
        &self.name
    }
}

impl Drop for HeldJobs {
    fn drop(&mut self) {
        let mut table = self.sessions.table.lock();
        if let Some(held) = table.held.get_mut(&self.name) {
            held.remove(&self.token);
            if held.is_empty() {
                table.held.remove(&self.name);
                table.lost.remove(&self.name);
            }
        }
    }
}

/// Creates a unique name: processes of one machine differ by their id, all others by chance.
fn new_name() -> Result<Name, BulkError> {
    let name = format!("{}-{:016x}", std::process::id(), fastrand::u64(..));
    Name::new(&name).map_err(|invalid| BulkError::invalid(invalid.to_string()))
}

/// Lanes retry an unreachable store ten times a second, but only the claims that were in flight as it failed can
/// have taken jobs: one for each lane.
const MAX_UNCERTAIN: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    fn token(claim: u64) -> FencingToken {
        FencingToken { job: claim, claim }
    }

    // Two jobs under the first session, which is retired after an unanswered claim, and one under the next.
    #[test]
    fn a_retired_session_sends_heartbeats_until_its_known_jobs_end() {
        let sessions = Sessions::new().expect("a name");
        let first = sessions.begin_claim();
        assert_eq!(sessions.alive(), [], "nothing is held");
        let (one, other) = (first.hold(token(1)), first.hold(token(2)));
        sessions.retire(first.name());
        let second = sessions.begin_claim();
        assert_ne!(first.name(), second.name());
        sessions.retire(first.name());
        assert_eq!(
            sessions.begin_claim().name(),
            second.name(),
            "the first is retired already"
        );
        let third = second.hold(token(3));
        drop(one);
        assert_eq!(sessions.alive().len(), 2);
        drop(other);
        assert_eq!(sessions.alive(), [second.name().clone()]);
        drop(third);
        assert_eq!(sessions.alive(), []);
    }

    // Its job still runs, and its loss is reported once.
    #[test]
    fn a_lost_session_sends_no_heartbeats() {
        let sessions = Sessions::new().expect("a name");
        let first = sessions.begin_claim();
        let held = first.hold(token(1));
        sessions.mark_lost(first.name());
        assert_eq!(sessions.alive(), []);
        assert_ne!(sessions.begin_claim().name(), first.name());
        drop(held);
        assert!(sessions.table.lock().lost.is_empty(), "no trace is left");
    }

    // Two lanes claim under one session, and one gets no response. The jobs of the other claim are known before
    // unknown ones are returned.
    #[test]
    fn an_uncertain_session_waits_for_its_other_claims() {
        let sessions = Sessions::new().expect("a name");
        let (lost, slow) = (sessions.begin_claim(), sessions.begin_claim());
        let name = lost.name().clone();
        sessions.mark_uncertain(&name, Nanos::from_secs(10));
        drop(lost);
        assert_eq!(sessions.uncertain(), [], "the other may still claim jobs");
        let _held = slow.hold(token(7));
        drop(slow);
        let expected = UncertainSession {
            session: name.clone(),
            known: vec![token(7)],
        };
        assert_eq!(sessions.uncertain(), [expected]);
        sessions.mark_released(&name, Nanos::from_secs(9));
        assert_eq!(sessions.uncertain().len(), 1, "the claim may still execute");
        sessions.mark_released(&name, Nanos::from_secs(10));
        assert_eq!(sessions.uncertain(), []);
    }
}
