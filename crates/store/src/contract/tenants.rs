//! Rules, reports and congestion of tenants.

use std::time::Duration;

use super::StoreFuture;
use crate::name::Name;
use crate::tenant::{CongestionRecord, CongestionSample, PageRequest, TenantReport, TenantRule};

/// Tenants of a job store.
pub trait TenantStore: Send + Sync + 'static {
    /// Sets the rule of every tenant without one of its own, for all lanes and waiting jobs, from the next
    /// claim on. A shared store keeps it until it is set again; a store of one process starts with
    /// [`TenantRule::default`].
    fn set_default_rule(&self, rule: TenantRule) -> impl StoreFuture<()>;

    /// Gives a tenant its own rule, effective like the default rule. The store keeps it until it is set
    /// again or removed, even if the tenant has no work.
    fn set_rule(&self, tenant: &Name, rule: TenantRule) -> impl StoreFuture<()>;

    /// Removes a tenant's own rule, so that the default rule applies. Without one it changes nothing.
    fn remove_rule(&self, tenant: &Name) -> impl StoreFuture<()>;

    /// Queues deferred jobs of a tenant at once, those due first, at most `limit`. Returns the number that
    /// is still deferred.
    fn release_deferred(&self, tenant: &Name, limit: u64) -> impl StoreFuture<u64>;

    /// Counts the tenants that have work.
    fn active_tenants(&self) -> impl StoreFuture<u64>;

    /// Reports one tenant, or nothing if the store does not know it.
    fn tenant(&self, name: &Name) -> impl StoreFuture<Option<TenantReport>>;

    /// Reports tenants in the order of their names.
    fn tenants(&self, page: PageRequest) -> impl StoreFuture<Vec<TenantReport>>;

    /// Returns true for the first caller in each interval of this length: of all machines on a shared store,
    /// one takes the samples of an interval.
    fn begin_sampling(&self, every: Duration) -> impl StoreFuture<bool>;

    /// Records the congestion of these tenants, and drops their samples older than `keep`. A tenant without
    /// work is left out.
    fn record_congestion(&self, samples: Vec<CongestionRecord>, keep: Duration) -> impl StoreFuture<()>;

    /// Returns the last samples of a tenant, the oldest first.
    fn congestion_history(&self, tenant: &Name, limit: usize) -> impl StoreFuture<Vec<CongestionSample>>;

    /// Clears a tenant's statistics and history. Refused while it has deferred jobs.
    fn reset_congestion(&self, tenant: &Name) -> impl StoreFuture<()>;
}
