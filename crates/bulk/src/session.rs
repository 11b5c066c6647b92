//! The names under which this process claims, and whose leases it keeps alive.
//!
//! A name is used until it is in doubt: its lease ran out, or a claim under it was not answered. Who
//! knows what an unanswered claim has taken? Nobody here, so the name is given up: it beats as long as
//! jobs are known that were claimed under it, and not a moment longer, and whatever else it holds comes
//! back when its lease runs out. To go on under the same name would keep alive for ever what nobody does.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use outflow_store::Name;

use crate::error::BulkError;

/// All names of this process that hold jobs, and the one for the next claim.
#[derive(Debug)]
pub(crate) struct Sessions {
    books: Mutex<Books>,
}

#[derive(Debug)]
struct Books {
    now: Name,
    /// How many jobs are known to be under way under each.
    held: BTreeMap<Name, usize>,
}

/// A job that is known to be under way; its session beats until this is dropped.
#[derive(Debug)]
pub(crate) struct Hold {
    sessions: Arc<Sessions>,
    name: Name,
}

impl Sessions {
    pub(crate) fn new() -> Result<Arc<Self>, BulkError> {
        let books = Books {
            now: fresh()?,
            held: BTreeMap::new(),
        };
        Ok(Arc::new(Self {
            books: Mutex::new(books),
        }))
    }

    /// The name for the next claim.
    pub(crate) fn name(&self) -> Name {
        self.books().now.clone()
    }

    /// Another job was claimed under this name.
    pub(crate) fn hold(self: &Arc<Self>, name: &Name) -> Hold {
        *self.books().held.entry(name.clone()).or_default() += 1;
        Hold {
            sessions: Arc::clone(self),
            name: name.clone(),
        }
    }

    /// The names that have to say that they live.
    pub(crate) fn beating(&self) -> Vec<Name> {
        self.books().held.keys().cloned().collect()
    }

    /// Nothing is claimed under this name any more. Whoever says so of an earlier name is late.
    pub(crate) fn give_up(&self, name: &Name) {
        let mut books = self.books();
        if books.now == *name
            && let Ok(next) = fresh()
        {
            books.now = next;
        }
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Hold {
    /// The session.
    pub(crate) const fn name(&self) -> &Name {
        &self.name
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let mut books = self.sessions.books();
        let left = books.held.get(&self.name).map_or(0, |held| held - 1);
        if left == 0 {
            books.held.remove(&self.name);
        } else {
            books.held.insert(self.name.clone(), left);
        }
    }
}

/// A name that no other process has or had: by its number two of one machine at one time differ, and by
/// chance all others.
fn fresh() -> Result<Name, BulkError> {
    let name = format!("{}-{:016x}", std::process::id(), fastrand::u64(..));
    Name::new(&name).map_err(|wrong| BulkError::invalid(wrong.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    // Two jobs under the first name, which is given up after an unanswered claim, and one under the next.
    #[test]
    fn a_name_that_was_given_up_beats_until_its_known_jobs_are_over() {
        let sessions = Sessions::new().expect("a name");
        let first = sessions.name();
        assert_eq!(sessions.beating(), [], "nothing is held");
        let (one, other) = (sessions.hold(&first), sessions.hold(&first));
        sessions.give_up(&first);
        let second = sessions.name();
        assert_ne!(first, second);
        sessions.give_up(&first);
        assert_eq!(sessions.name(), second, "that was said before");
        let third = sessions.hold(&second);
        drop(one);
        assert_eq!(sessions.beating().len(), 2);
        drop(other);
        assert_eq!(sessions.beating(), [second]);
        drop(third);
        assert_eq!(sessions.beating(), []);
    }
}
