//! Opening times of the actions whose ends this process took for notification.
//!
//! A name may belong to a new action by the time the notification of the old one is done, and the
//! end of the new action must still be notified.

use std::collections::HashMap;

use parking_lot::{Mutex, MutexGuard};

use super::job_codec::micros;
use crate::action::ActionReport;
use crate::name::Name;

/// Opening time of each action, by name.
#[derive(Default)]
pub(super) struct ActionEpochs {
    opened_at: Mutex<HashMap<Name, u64>>,
}

impl ActionEpochs {
    /// Remembers the actions that were taken for notification.
    pub(super) fn note(&self, finished: &[ActionReport]) {
        let opened_at = |report: &ActionReport| micros(report.opened.as_duration());
        let entries = finished
            .iter()
            .map(|report| (report.spec.id.clone(), opened_at(report)));
        self.opened_at().extend(entries);
    }

    /// Removes and returns the opening time of a notified action, if this process took it.
    pub(super) fn take(&self, action: &Name) -> Option<u64> {
        self.opened_at().remove(action)
    }

    fn opened_at(&self) -> MutexGuard<'_, HashMap<Name, u64>> {
        self.opened_at.lock()
    }
}
