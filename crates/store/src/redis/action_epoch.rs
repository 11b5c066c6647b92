//! When the actions began whose ends were given out to be told.
//!
//! A name may have begun anew by the time at which somebody is done with telling, and the end of that life is yet to be
//! told.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::job_codec::micros;
use crate::action::ActionReport;
use crate::name::Name;

/// When each began.
#[derive(Default)]
pub(super) struct ActionEpochs {
    begun: Mutex<HashMap<Name, u64>>,
}

impl ActionEpochs {
    /// These were given out.
    pub(super) fn note(&self, ripe: &[ActionReport]) {
        let begun = |report: &ActionReport| micros(report.opened.as_duration());
        let each = ripe.iter().map(|one| (one.spec.id.clone(), begun(one)));
        self.begun().extend(each);
    }

    /// That of one that is told now, if it was given out here.
    pub(super) fn end(&self, action: &Name) -> Option<u64> {
        self.begun().remove(action)
    }

    fn begun(&self) -> MutexGuard<'_, HashMap<Name, u64>> {
        self.begun.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
