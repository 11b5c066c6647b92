//! What the handles of a store and its writer share.

use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use outflow_core::Clock;
use tokio::sync::Notify;

use super::claims::Claim;
use super::files::Files;
use super::memory::{Memory, Phase};
use crate::error::StoreError;

/// What the handles and the writer share.
pub(super) struct Shared {
    pub(super) memory: Mutex<Memory>,
    pub(super) work: Condvar,
    /// Rings with it, for a writer without a thread.
    pub(super) call: Notify,
    pub(super) bell: Notify,
    /// Dead letters are picked by one at a time: what is picked is still on the disk.
    pub(super) letters: tokio::sync::Mutex<()>,
    pub(super) clock: Arc<dyn Clock + Send + Sync>,
    pub(super) files: Files,
}

impl Shared {
    /// A thread that panicked with the lock in hand left a step undone in memory, and none on the disk.
    pub(super) fn lock(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(|poisoned| {
            let mut memory = PoisonError::into_inner(poisoned);
            memory.phase = memory.phase.max(Phase::Astray);
            self.memory.clear_poison();
            memory
        })
    }

    pub(super) fn call_the_writer(&self) {
        self.work.notify_one();
        self.call.notify_one();
    }

    pub(super) fn wait<'a>(&self, memory: MutexGuard<'a, Memory>) -> MutexGuard<'a, Memory> {
        let woken = self.work.wait(memory);
        woken.unwrap_or_else(PoisonError::into_inner)
    }

    /// Memory that is in step with the disk.
    pub(super) fn enter(&self) -> Result<MutexGuard<'_, Memory>, StoreError> {
        let mut memory = self.lock();
        if memory.phase == Phase::Astray {
            self.read_anew(&mut memory, Vec::new());
        }
        match memory.phase {
            Phase::Open => Ok(memory),
            Phase::Astray => Err(StoreError::unreachable(
                "the job store could not be read after its disk failed: it is tried again",
            )),
            Phase::Closed => Err(StoreError::closed()),
        }
    }

    pub(super) fn end(&self) {
        self.lock().phase = Phase::Closed;
        self.call_the_writer();
        self.bell.notify_waiters();
    }

    /// Reads everything from the disk again, and keeps what only memory knows: who holds which claim.
    pub(super) fn read_anew(&self, memory: &mut Memory, undo: Vec<Claim>) {
        let Ok(reader) = self.files.reading() else {
            return;
        };
        if let Ok(mut fresh) = Memory::load(reader, self.clock.moment()) {
            fresh.inherit(memory, undo);
            *memory = fresh;
        }
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared")
            .field("files", &self.files)
            .finish_non_exhaustive()
    }
}
