//! State that the handles of a store and its writer share.
//!
//! The state has a mutex of std, as poisoning shows that the state has to be loaded again.

#![expect(clippy::disallowed_types, reason = "the state is loaded again after a panic")]

use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use outflow_core::Clock;
use tokio::sync::Notify;

use super::disk::directory::StoreFiles;
use super::disk::load::{inherit, load_state};
use super::state::claims::ClaimState;
use super::state::{StorePhase, StoreState};
use crate::error::StoreError;

/// State that the handles and the writer share.
pub(crate) struct StoreShared {
    pub(super) state: Mutex<StoreState>,
    /// Wakes a writer that has a thread.
    pub(super) work: Condvar,
    /// Wakes a writer without a thread.
    pub(super) work_async: Notify,
    /// Wakes callers that wait for jobs to claim.
    pub(super) changed: Notify,
    /// Serialises selections of dead letters: a selected letter stays on the disk until it is written.
    pub(super) letters: tokio::sync::Mutex<()>,
    pub(super) clock: Arc<dyn Clock + Send + Sync>,
    pub(crate) files: StoreFiles,
}

impl StoreShared {
    /// Locks the state. After a panic of another holder the state is incomplete and the disk is not, so
    /// the next caller loads it again.
    pub(super) fn lock(&self) -> MutexGuard<'_, StoreState> {
        self.state.lock().unwrap_or_else(|poisoned| {
            let mut state = PoisonError::into_inner(poisoned);
            state.phase = state.phase.max(StorePhase::OutOfSync);
            self.state.clear_poison();
            state
        })
    }

    pub(super) fn wake_writer(&self) {
        self.work.notify_one();
        self.work_async.notify_one();
    }

    /// Waits for work, with the state unlocked meanwhile.
    pub(super) fn wait<'a>(&self, state: MutexGuard<'a, StoreState>) -> MutexGuard<'a, StoreState> {
        let woken = self.work.wait(state);
        woken.unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks a state that agrees with the disk.
    pub(super) fn enter(&self) -> Result<MutexGuard<'_, StoreState>, StoreError> {
        let mut state = self.lock();
        if state.phase == StorePhase::OutOfSync {
            self.reload(&mut state, Vec::new());
        }
        match state.phase {
            StorePhase::Open => Ok(state),
            StorePhase::OutOfSync => Err(StoreError::unreachable(
                "the job store could not be read after its disk failed: it is tried again",
            )),
            StorePhase::Closed => Err(StoreError::closed()),
        }
    }

    pub(super) fn end(&self) {
        self.lock().phase = StorePhase::Closed;
        self.wake_writer();
        self.changed.notify_waiters();
    }

    /// Loads the state again, and keeps the sessions and their claims, which only memory has.
    pub(super) fn reload(&self, state: &mut StoreState, undo: Vec<ClaimState>) {
        let Ok(reader) = self.files.open_reader() else {
            return;
        };
        if let Ok(mut fresh) = load_state(reader, self.clock.moment()) {
            inherit(&mut fresh, state, undo);
            *state = fresh;
        }
    }
}

impl fmt::Debug for StoreShared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreShared")
            .field("files", &self.files)
            .finish_non_exhaustive()
    }
}
