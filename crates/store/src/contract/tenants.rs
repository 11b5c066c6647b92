//! Rules, reports and congestion of tenants.

use std::future::Future;
use std::time::Duration;

use super::StoreResult;
use crate::name::Name;
use crate::tenant::{CongestionSample, PageRequest, TenantReport, TenantRule};

/// Tenants of a job store.
pub trait TenantStore: Send + Sync + 'static {
    /// Sets the rule of every tenant without one of its own, for all lanes and waiting jobs, from the next
    /// claim on. A shared store keeps it until it is set again; a store of one process starts with
    /// [`TenantRule::default`].
    fn set_default_rule(&self, rule: TenantRule) -> impl Future<Output = StoreResult<()>> + Send;

    /// Gives a tenant its own rule, effective like the default rule. The store keeps it until it is set
    /// again or removed, even if the tenant has no work.
    fn set_rule(&self, tenant: &Name, rule: TenantRule) -> impl Future<Output = StoreResult<()>> + Send;

    /// Removes a tenant's own rule, so that the default rule applies. Without one it changes nothing.
    fn remove_rule(&self, tenant: &Name) -> impl Future<Output = StoreResult<()>> + Send;

    /// Queues deferred jobs of a tenant at once, those due first, at most `limit`. Returns the number that
    /// is still deferred.
    fn release_deferred(&self, tenant: &Name, limit: u64) -> impl Future<Output = StoreResult<u64>> + Send;

    /// Counts the tenants that have work.
    fn active_tenants(&self) -> impl Future<Output = StoreResult<u64>> + Send;

    /// Reports one tenant, or nothing if the store does not know it.
    fn tenant(&self, name: &Name) -> impl Future<Output = StoreResult<Option<TenantReport>>> + Send;

    /// Reports tenants in the order of their names.
    fn tenants(&self, page: PageRequest) -> impl Future<Output = StoreResult<Vec<TenantReport>>> + Send;

    /// Records the congestion of each tenant with work, and drops samples older than `keep`.
    fn sample_congestion(&self, keep: Duration) -> impl Future<Output = StoreResult<()>> + Send;

    /// Returns the last samples of a tenant, the oldest first.
    fn congestion_history(
        &self,
        tenant: &Name,
        limit: usize,
    ) -> impl Future<Output = StoreResult<Vec<CongestionSample>>> + Send;

    /// Clears a tenant's statistics and history. Refused while it has deferred jobs.
    fn reset_congestion(&self, tenant: &Name) -> impl Future<Output = StoreResult<()>> + Send;
}
