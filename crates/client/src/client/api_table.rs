//! The outlets of a client, replaced as a whole while calls go on.
//!
//! A call takes its outlet once, when it begins, and keeps it to its end: whatever is changed meanwhile
//! is for those who come after it. The doors behind the outlets are not replaced. One whose API was
//! removed is kept closed: should the API come back, what it used and spent still counts.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::ArcSwap;
use foldhash::fast::RandomState;
use smol_str::SmolStr;

use super::api_client::{ApiClient, RetiredApi};
use crate::upstream::Upstream;

/// Every outlet by the name of its API.
pub(super) type Outlets = HashMap<SmolStr, Arc<ApiClient>, RandomState>;

/// The outlets that there are.
#[derive(Default)]
pub(super) struct ApiTable {
    outlets: ArcSwap<Outlets>,
    removed: Mutex<HashMap<SmolStr, RetiredApi>>,
}

impl ApiTable {
    #[inline]
    pub(super) fn find(&self, api: &str) -> Option<Arc<ApiClient>> {
        self.outlets.load().get(api).cloned()
    }

    pub(super) fn all(&self) -> Arc<Outlets> {
        self.outlets.load_full()
    }

    /// Every door, those of removed APIs last: calls may still be in flight behind them.
    pub(super) fn upstreams(&self) -> Vec<Upstream> {
        let open = self.outlets.load_full();
        let mut doors: Vec<_> = open
            .values()
            .map(|outlet| outlet.upstream.clone())
            .collect();
        let removed = self.removed();
        doors.extend(removed.values().map(|gone| gone.upstream.clone()));
        doors
    }

    /// What is kept of an API that was removed.
    pub(super) fn former(&self, api: &str) -> Option<RetiredApi> {
        self.removed().get(api).cloned()
    }

    /// Lets calls that come from now on take these, and closes the doors of APIs that are not among
    /// them.
    pub(super) fn replace(&self, outlets: Outlets) {
        let old = self.outlets.swap(Arc::new(outlets));
        let new = self.outlets.load_full();
        let mut removed = self.removed();
        removed.retain(|name, _| !new.contains_key(name));
        for (name, outlet) in old.iter().filter(|(name, _)| !new.contains_key(*name)) {
            outlet.upstream.remove();
            removed.insert(name.clone(), outlet.remains());
        }
    }

    fn removed(&self) -> MutexGuard<'_, HashMap<SmolStr, RetiredApi>> {
        self.removed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
