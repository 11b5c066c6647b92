//! Rules of tenants, which the store keeps for all processes.
//!
//! An engine stores them when it starts, when its settings change, and when the store lost its data. Otherwise a
//! tenant with one call at a time could use every worker slot until the next restart.

use std::sync::atomic::{AtomicBool, Ordering};

use outflow_store::{JobStore, PageRequest, StoreError, StoreResult};

use crate::engine::EngineContext;

/// Mark of a store that lost the rules.
#[derive(Debug, Default)]
pub(crate) struct RuleSync {
    lost: AtomicBool,
}

impl RuleSync {
    /// Marks the rules as lost if the store lost its data.
    pub(crate) fn note_error(&self, error: &StoreError) {
        if error.is_lost() {
            self.lost.store(true, Ordering::Relaxed);
        }
    }
}

impl<S: JobStore> EngineContext<S> {
    /// Stores the rules of the settings, and removes all others.
    pub(crate) async fn store_rules(&self) -> StoreResult<()> {
        let (settings, store) = (self.settings.load_full(), &self.store);
        store.set_default_rule(settings.tenant).await?;
        for (tenant, rule) in &settings.tenants {
            store.set_rule(tenant, *rule).await?;
        }
        let mut page = PageRequest::default();
        loop {
            let tenants = store.tenants(page.clone()).await?;
            let Some(last) = tenants.last() else {
                return Ok(());
            };
            page.after = Some(last.name.clone());
            let own = tenants.into_iter().filter(|report| report.ruled);
            for report in own.filter(|own| !settings.tenants.contains_key(&own.name)) {
                store.remove_rule(&report.name).await?;
            }
        }
    }

    /// Stores the rules again if the store lost them.
    pub(crate) async fn restore_lost_rules(&self) -> StoreResult<()> {
        if !self.rule_sync.lost.swap(false, Ordering::Relaxed) {
            return Ok(());
        }
        self.store_rules()
            .await
            .inspect_err(|_| self.rule_sync.lost.store(true, Ordering::Relaxed))
    }
}
