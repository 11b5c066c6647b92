//! What the handles of a store and its writer share.

use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use outflow_core::Clock;
use tokio::sync::Notify;

use super::disk::directory::StoreFiles;
use super::state::claims::ClaimState;
use super::state::{StorePhase, StoreState};
use crate::error::StoreError;

/// What the handles and the writer share.
pub(crate) struct StoreShared {
    pub(crate) memory: Mutex<StoreState>,
    pub(crate) work: Condvar,
    /// Rings with it, for a writer without a thread.
    pub(crate) call: Notify,
    pub(crate) bell: Notify,
    /// Dead letters are picked by one at a time: what is picked is still on the disk.
    pub(crate) letters: tokio::sync::Mutex<()>,
    pub(crate) clock: Arc<dyn Clock + Send + Sync>,
    pub(crate) files: StoreFiles,
}

impl StoreShared {
    /// A thread that panicked with the lock in hand left a step undone in memory, and none on the disk.
    pub(crate) fn lock(&self) -> MutexGuard<'_, StoreState> {
        self.memory.lock().unwrap_or_else(|poisoned| {
            let mut memory = PoisonError::into_inner(poisoned);
            memory.phase = memory.phase.max(StorePhase::Astray);
            self.memory.clear_poison();
            memory
        })
    }

    pub(crate) fn call_the_writer(&self) {
        self.work.notify_one();
        self.call.notify_one();
    }

    pub(crate) fn wait<'a>(
        &self,
        memory: MutexGuard<'a, StoreState>,
    ) -> MutexGuard<'a, StoreState> {
        let woken = self.work.wait(memory);
        woken.unwrap_or_else(PoisonError::into_inner)
    }

    /// Memory that is in step with the disk.
    pub(crate) fn enter(&self) -> Result<MutexGuard<'_, StoreState>, StoreError> {
        let mut memory = self.lock();
        if memory.phase == StorePhase::Astray {
            self.reload(&mut memory, Vec::new());
        }
        match memory.phase {
            StorePhase::Open => Ok(memory),
            StorePhase::Astray => Err(StoreError::unreachable(
                "the job store could not be read after its disk failed: it is tried again",
            )),
            StorePhase::Closed => Err(StoreError::closed()),
        }
    }

    pub(crate) fn end(&self) {
        self.lock().phase = StorePhase::Closed;
        self.call_the_writer();
        self.bell.notify_waiters();
    }

    /// Reads everything from the disk again, and keeps what only memory knows: who holds which claim.
    pub(crate) fn reload(&self, memory: &mut StoreState, undo: Vec<ClaimState>) {
        let Ok(reader) = self.files.reading() else {
            return;
        };
        if let Ok(mut fresh) = StoreState::load(reader, self.clock.moment()) {
            fresh.inherit(memory, undo);
            *memory = fresh;
        }
    }
}

impl fmt::Debug for StoreShared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared")
            .field("files", &self.files)
            .finish_non_exhaustive()
    }
}
