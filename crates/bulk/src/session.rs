//! The names under which this process claims, and whose leases it keeps alive.
//!
//! A name is used until it is in doubt: its lease ran out, or a claim under it was not answered. Who
//! knows what an unanswered claim has taken? Nobody here, so the name is given up: it beats as long as
//! jobs are known that were claimed under it, and not a moment longer. To go on under the same name would
//! keep alive for ever what nobody does. What it holds besides is given back as soon as the store answers
//! again: it did not begin, and a job that was never begun must not count as one that kills its workers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use outflow_core::Nanos;
use outflow_store::{FencingToken, Name};

use crate::error::BulkError;

/// All names of this process that hold jobs, and the one for the next claim.
#[derive(Debug)]
pub(crate) struct Sessions {
    books: Mutex<SessionTable>,
}

#[derive(Debug)]
struct SessionTable {
    now: Name,
    /// The jobs that are known to be under way under each.
    held: BTreeMap<Name, BTreeSet<FencingToken>>,
    /// How many claims under each have not been answered yet, or not been begun.
    asking: BTreeMap<Name, usize>,
    /// Names under which a claim was not answered, and until when it may still happen.
    doubted: BTreeMap<Name, Nanos>,
    /// Names whose lease ran out while jobs were under way: no beat brings it back.
    lost: BTreeSet<Name>,
}

/// A claim that is being made.
#[derive(Debug)]
pub(crate) struct PendingClaim {
    sessions: Arc<Sessions>,
    name: Name,
}

/// A job that is known to be under way; its session beats until this is dropped.
#[derive(Debug)]
pub(crate) struct HeldJobs {
    sessions: Arc<Sessions>,
    name: Name,
    token: FencingToken,
}

/// A session that may hold more than is known, and what is known.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct UncertainSession {
    pub(crate) session: Name,
    pub(crate) known: Vec<FencingToken>,
}

impl Sessions {
    pub(crate) fn new() -> Result<Arc<Self>, BulkError> {
        let books = SessionTable {
            now: fresh()?,
            held: BTreeMap::new(),
            asking: BTreeMap::new(),
            doubted: BTreeMap::new(),
            lost: BTreeSet::new(),
        };
        Ok(Arc::new(Self {
            books: Mutex::new(books),
        }))
    }

    /// The name for the next claim, which lasts until all that it brought is held.
    pub(crate) fn begin_claim(self: &Arc<Self>) -> PendingClaim {
        let mut books = self.books();
        let name = books.now.clone();
        *books.asking.entry(name.clone()).or_default() += 1;
        PendingClaim {
            sessions: Arc::clone(self),
            name,
        }
    }

    /// The names that have to say that they live.
    pub(crate) fn beating(&self) -> Vec<Name> {
        let books = self.books();
        let held = books.held.keys();
        held.filter(|name| !books.lost.contains(*name))
            .cloned()
            .collect()
    }

    /// The lease of this name has run out. It beats no more, so that one loss is told once.
    pub(crate) fn lose(&self, name: &Name) {
        let mut books = self.books();
        books.give_up(name);
        if books.held.contains_key(name) {
            books.lost.insert(name.clone());
        }
    }

    /// Nothing is claimed under this name any more. Whoever says so of an earlier name is late.
    pub(crate) fn give_up(&self, name: &Name) {
        self.books().give_up(name);
    }

    /// A claim under this name was not answered, and may have happened or still happen until then. Of very
    /// many the first are remembered: those after them met a store that was gone already.
    pub(crate) fn doubt(&self, name: &Name, until: Nanos) {
        let mut books = self.books();
        books.give_up(name);
        if books.doubted.len() < MOST_DOUBTS || books.doubted.contains_key(name) {
            books.doubted.insert(name.clone(), until);
        }
    }

    /// The names in doubt under which nobody claims at this instant: what is known of them now is all that
    /// will ever be.
    pub(crate) fn doubts(&self) -> Vec<UncertainSession> {
        let books = self.books();
        let quiet = books.doubted.keys();
        let quiet = quiet.filter(|name| !books.asking.contains_key(*name));
        quiet.map(|name| books.doubt_of(name)).collect()
    }

    /// What a name in doubt held besides was given back by this instant.
    pub(crate) fn disowned(&self, name: &Name, now: Nanos) {
        let mut books = self.books();
        if books.doubted.get(name).is_some_and(|until| *until <= now) {
            books.doubted.remove(name);
        }
    }

    fn books(&self) -> MutexGuard<'_, SessionTable> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SessionTable {
    fn give_up(&mut self, name: &Name) {
        if self.now == *name
            && let Ok(next) = fresh()
        {
            self.now = next;
        }
    }

    fn doubt_of(&self, name: &Name) -> UncertainSession {
        let known = self.held.get(name).into_iter().flatten();
        UncertainSession {
            session: name.clone(),
            known: known.copied().collect(),
        }
    }
}

impl PendingClaim {
    /// The session.
    pub(crate) const fn name(&self) -> &Name {
        &self.name
    }

    /// This job was claimed.
    pub(crate) fn hold(&self, token: FencingToken) -> HeldJobs {
        let mut books = self.sessions.books();
        books
            .held
            .entry(self.name.clone())
            .or_default()
            .insert(token);
        HeldJobs {
            sessions: Arc::clone(&self.sessions),
            name: self.name.clone(),
            token,
        }
    }
}

impl Drop for PendingClaim {
    fn drop(&mut self) {
        let mut books = self.sessions.books();
        let left = books.asking.get(&self.name).map_or(0, |asking| asking - 1);
        if left == 0 {
            books.asking.remove(&self.name);
        } else {
            books.asking.insert(self.name.clone(), left);
        }
    }
}

impl HeldJobs {
    /// The session.
    pub(crate) const fn name(&self) -> &Name {
        &self.name
    }
}

impl Drop for HeldJobs {
    fn drop(&mut self) {
        let mut books = self.sessions.books();
        if let Some(held) = books.held.get_mut(&self.name) {
            held.remove(&self.token);
            if held.is_empty() {
                books.held.remove(&self.name);
                books.lost.remove(&self.name);
            }
        }
    }
}

/// A name that no other process has or had: by its number two of one machine at one time differ, and by
/// chance all others.
fn fresh() -> Result<Name, BulkError> {
    let name = format!("{}-{:016x}", std::process::id(), fastrand::u64(..));
    Name::new(&name).map_err(|wrong| BulkError::invalid(wrong.to_string()))
}

/// A store that does not answer is asked some ten times a second, and claims that it took are few: one for
/// each lane as the way broke.
const MOST_DOUBTS: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    fn token(claim: u64) -> FencingToken {
        FencingToken { job: claim, claim }
    }

    // Two jobs under the first name, which is given up after an unanswered claim, and one under the next.
    #[test]
    fn a_name_that_was_given_up_beats_until_its_known_jobs_are_over() {
        let sessions = Sessions::new().expect("a name");
        let first = sessions.begin_claim();
        assert_eq!(sessions.beating(), [], "nothing is held");
        let (one, other) = (first.hold(token(1)), first.hold(token(2)));
        sessions.give_up(first.name());
        let second = sessions.begin_claim();
        assert_ne!(first.name(), second.name());
        sessions.give_up(first.name());
        assert_eq!(
            sessions.begin_claim().name(),
            second.name(),
            "that was said before"
        );
        let third = second.hold(token(3));
        drop(one);
        assert_eq!(sessions.beating().len(), 2);
        drop(other);
        assert_eq!(sessions.beating(), [second.name().clone()]);
        drop(third);
        assert_eq!(sessions.beating(), []);
    }

    // Its job goes on for a while, and nobody is told again that its lease is gone.
    #[test]
    fn a_name_that_was_lost_beats_no_more() {
        let sessions = Sessions::new().expect("a name");
        let first = sessions.begin_claim();
        let held = first.hold(token(1));
        sessions.lose(first.name());
        assert_eq!(sessions.beating(), []);
        assert_ne!(sessions.begin_claim().name(), first.name());
        drop(held);
        assert!(sessions.books().lost.is_empty(), "nothing is left of it");
    }

    // Two lanes claim under one name, and one of them is not answered. What the other brings is known
    // before anything is given back.
    #[test]
    fn a_doubt_waits_for_claims_under_the_same_name() {
        let sessions = Sessions::new().expect("a name");
        let (lost, slow) = (sessions.begin_claim(), sessions.begin_claim());
        let name = lost.name().clone();
        sessions.doubt(&name, Nanos::from_secs(10));
        drop(lost);
        assert_eq!(sessions.doubts(), [], "the other may still bring jobs");
        let _held = slow.hold(token(7));
        drop(slow);
        let doubt = UncertainSession {
            session: name.clone(),
            known: vec![token(7)],
        };
        assert_eq!(sessions.doubts(), [doubt]);
        sessions.disowned(&name, Nanos::from_secs(9));
        assert_eq!(sessions.doubts().len(), 1, "it may still happen");
        sessions.disowned(&name, Nanos::from_secs(10));
        assert_eq!(sessions.doubts(), []);
    }
}
