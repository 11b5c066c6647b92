//! Table of API clients, replaced as a whole while calls continue.
//!
//! A call takes its API client once and holds it to the end; changes apply to later calls.
//! Upstreams are not replaced. The upstream of a removed API is kept closed: if the API comes back,
//! its usage and spent retries still count. It is forgotten when they do not: a program whose APIs change
//! names with every deployment would otherwise keep them all.

use std::collections::HashMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use foldhash::fast::RandomState;
use outflow_sync::Mutex;
use smol_str::SmolStr;

use super::api_client::{ApiClient, RetiredApi};
use crate::metrics::ApiLabels;
use crate::upstream::Upstream;

/// API clients by name.
pub(super) type ApiClients = HashMap<SmolStr, Arc<ApiClient>, RandomState>;

/// Current API clients.
#[derive(Default)]
pub(super) struct ApiTable {
    clients: ArcSwap<ApiClients>,
    removed: Mutex<HashMap<SmolStr, RetiredApi>>,
}

impl ApiTable {
    #[inline]
    pub(super) fn find(&self, api: &str) -> Option<Arc<ApiClient>> {
        self.clients.load().get(api).cloned()
    }

    pub(super) fn all(&self) -> Arc<ApiClients> {
        self.clients.load_full()
    }

    /// Returns every upstream. Removed APIs come last: attempts may still be in flight there.
    pub(super) fn upstreams(&self) -> Vec<Upstream> {
        let current = self.clients.load_full();
        let mut upstreams: Vec<_> = current.values().map(|client| client.upstream.clone()).collect();
        let removed = self.removed.lock();
        upstreams.extend(removed.values().map(|retired| retired.upstream.clone()));
        upstreams
    }

    /// Returns the labels of the APIs, and of removed ones with calls in flight.
    pub(super) fn labels(&self) -> Vec<ApiLabels> {
        let current = self.clients.load();
        let current = current.values().map(|client| ApiLabels::from(&*client.api));
        let removed = self.removed.lock();
        let busy = removed.iter().filter(|(_, retired)| !retired.upstream.is_idle());
        current.chain(busy.map(|(name, _)| ApiLabels::new(name, []))).collect()
    }

    /// Returns the state of a removed API.
    pub(super) fn find_retired(&self, api: &str) -> Option<RetiredApi> {
        self.removed.lock().get(api).cloned()
    }

    /// Replaces the table for later calls and closes the upstreams of removed APIs.
    pub(super) fn replace(&self, clients: ApiClients) {
        let old = self.clients.swap(Arc::new(clients));
        let new = self.clients.load_full();
        let mut removed = self.removed.lock();
        removed.retain(|name, retired| !new.contains_key(name) && retired.is_needed());
        for (name, client) in old.iter().filter(|(name, _)| !new.contains_key(*name)) {
            client.upstream.remove();
            removed.insert(name.clone(), client.retire());
        }
    }
}
