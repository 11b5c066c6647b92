//! Group of short tasks under one name, such as the connections of a server.
//!
//! A registry entry per task would make the registry as long as the group, behind one lock. So a
//! group has one slot, held by a guardian task that ends after the last member and whose abort ends
//! them all. Members hold the slot too, because they end a little later than an aborted guardian:
//! once the registry is empty, every member is dropped.

use std::future::Future;
use std::sync::{Arc, Weak};

use tokio::runtime::Handle;
use tokio_util::sync::DropGuard;
use tokio_util::task::TaskTracker;

use super::registry::TaskSlot;
use super::{CancelToken, SpawnError, spawn_member};

/// Group of tasks under one name. It ends when this handle is dropped and the last task has ended.
pub struct TaskGroup {
    runtime: Handle,
    cancel: CancelToken,
    members: TaskTracker,
    /// Cancelled when the guardian ends.
    abort: CancelToken,
    slot: Weak<TaskSlot>,
}

impl TaskGroup {
    /// Returns a group and its guardian.
    pub(super) fn new(runtime: Handle, slot: TaskSlot) -> (Self, GroupGuard) {
        let (members, abort, slot) = (TaskTracker::new(), CancelToken::new(), Arc::new(slot));
        let guard = GroupGuard {
            members: members.clone(),
            _abort: abort.clone().drop_guard(),
            _slot: Arc::clone(&slot),
        };
        let group = Self {
            runtime,
            cancel: slot.cancel_token(),
            members,
            abort,
            slot: Arc::downgrade(&slot),
        };
        (group, guard)
    }

    /// Adds a task. A panic ends only that task.
    ///
    /// # Errors
    /// After a shutdown has started.
    pub fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) -> Result<(), SpawnError> {
        if self.cancel.is_cancelled() {
            return Err(SpawnError::Stopping);
        }
        let slot = self.slot.upgrade().ok_or(SpawnError::Stopping)?;
        let abort = self.abort.clone();
        let member = async move {
            let _slot = slot;
            let _aborted = abort.run_until_cancelled(work).await;
        };
        spawn_member(&self.runtime, self.members.track_future(member));
        Ok(())
    }

    /// Returns the number of tasks.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Returns true if there is no task.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }
}

impl Drop for TaskGroup {
    fn drop(&mut self) {
        self.members.close();
    }
}

/// Guardian of a group.
pub(super) struct GroupGuard {
    members: TaskTracker,
    _abort: DropGuard,
    _slot: Arc<TaskSlot>,
}

impl GroupGuard {
    /// Waits until the group is closed and its last task has ended.
    pub(super) async fn watch(self) {
        self.members.wait().await;
    }
}
