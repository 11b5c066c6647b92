//! Lanes that have a loop, and the handlers that serve lanes of tasks.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use outflow_store::Name;
use parking_lot::{Mutex, MutexGuard};

use crate::worker::handler::Handler;

/// Registered handlers by name.
pub(crate) type HandlerMap = HashMap<String, Arc<dyn Handler>>;

/// Set of the lanes that this process serves.
pub(crate) struct LaneSet {
    served: Mutex<BTreeSet<Name>>,
    handlers: HandlerMap,
}

impl LaneSet {
    pub(crate) fn new(handlers: HandlerMap) -> Self {
        Self {
            served: Mutex::default(),
            handlers,
        }
    }

    pub(crate) fn handler(&self, name: &str) -> Option<Arc<dyn Handler>> {
        self.handlers.get(name).cloned()
    }

    /// Adds a lane; returns false if it is served already.
    pub(super) fn insert(&self, lane: &Name) -> bool {
        self.served().insert(lane.clone())
    }

    pub(super) fn remove(&self, lane: &Name) {
        self.served().remove(lane);
    }

    fn served(&self) -> MutexGuard<'_, BTreeSet<Name>> {
        self.served.lock()
    }
}
