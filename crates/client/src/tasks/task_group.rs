//! Many short pieces of work under one name: the connections of a server.
//!
//! Each on the board by itself would make the board as long as the crowd and a lock that all of them
//! pass. So a crowd has one place, held by a guardian that ends when the last of them has, and whose
//! abort ends them all: each of them listens for the guardian beside its work. They hold the place with
//! it, because they end a little later than the guardian does: whoever waits for an empty board may count on
//! all that they do when they are dropped.

use std::convert::Infallible;
use std::future::Future;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use tokio::runtime::Handle;
use tokio::sync::{mpsc, watch};

use super::registry::TaskSlot;
use super::{CancelToken, SpawnError, one_of_many};

/// Work that comes and goes under one name. The crowd is over when this handle is dropped and the last
/// of it has ended.
pub struct TaskGroup {
    runtime: Handle,
    stop: CancelToken,
    present: MemberToken,
    guardian: watch::Receiver<()>,
    /// The guardian's, as long as anybody has it.
    place: Arc<OnceLock<Weak<TaskSlot>>>,
}

/// Held by everybody who belongs to a crowd: the guardian waits until nobody does.
#[derive(Clone)]
struct MemberToken {
    _here: mpsc::Sender<Infallible>,
    count: Arc<AtomicUsize>,
}

/// One who is counted.
struct GroupMember(MemberToken);

impl TaskGroup {
    /// A crowd, and the guardian who has to be started with its place on the board.
    pub(super) fn new(
        runtime: Handle,
        stop: CancelToken,
    ) -> (Self, impl FnOnce(TaskSlot) -> GroupGuard) {
        let (here, gone) = mpsc::channel(1);
        let (alive, guardian) = watch::channel(());
        let present = MemberToken {
            _here: here,
            count: Arc::default(),
        };
        let shared = Arc::new(OnceLock::new());
        let crowd = Self {
            runtime,
            stop,
            present,
            guardian,
            place: Arc::clone(&shared),
        };
        let guard = move |place| {
            let place = Arc::new(place);
            // Nobody else sets it.
            let _set = shared.set(Arc::downgrade(&place));
            GroupGuard { place, alive, gone }
        };
        (crowd, guard)
    }

    /// Adds a piece of work. A panic ends it and nothing else.
    ///
    /// # Errors
    /// After a shutdown has begun.
    pub fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) -> Result<(), SpawnError> {
        if self.stop.is_cancelled() {
            return Err(SpawnError::Stopping);
        }
        let place = self.place.get().and_then(Weak::upgrade);
        let place = place.ok_or(SpawnError::Stopping)?;
        let (counted, mut guardian) = (GroupMember::new(&self.present), self.guardian.clone());
        one_of_many(&self.runtime, async move {
            let _held = (counted, place);
            tokio::select! {
                () = work => {}
                // Nothing is ever sent: this ends when the guardian does.
                _ = guardian.changed() => {}
            }
        });
        Ok(())
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.present.count.load(Ordering::Relaxed)
    }

    /// True if there is nobody.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl GroupMember {
    fn new(present: &MemberToken) -> Self {
        present.count.fetch_add(1, Ordering::Relaxed);
        Self(present.clone())
    }
}

impl Drop for GroupMember {
    fn drop(&mut self) {
        self.0.count.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Who stands on the board for all of a crowd.
pub(super) struct GroupGuard {
    place: Arc<TaskSlot>,
    alive: watch::Sender<()>,
    gone: mpsc::Receiver<Infallible>,
}

impl GroupGuard {
    /// Waits until the last has gone.
    pub(super) async fn watch(mut self) {
        while self.gone.recv().await.is_some() {}
        drop((self.alive, self.place));
    }
}
