//! The rules of tenants, which the store keeps for all processes.
//!
//! It is told them when an engine starts and when its settings change, and once more when it has lost
//! everything: without that, a tenant that may have one call at a time would have as many as there are
//! places, from then until the next restart.

use std::sync::atomic::Ordering;

use outflow_store::{JobStore, PageRequest, StoreError, StoreResult};

use crate::engine::EngineContext;

impl<S: JobStore> EngineContext<S> {
    /// Has the store serve all tenants as the settings say, and nobody by a rule that they say no more.
    pub(crate) async fn keep_rules(&self) -> StoreResult<()> {
        let (settings, store) = (self.settings.load_full(), &self.store);
        store.set_default_rule(settings.tenant.clone()).await?;
        for (tenant, rule) in &settings.tenants {
            store.set_rule(tenant, rule.clone()).await?;
        }
        let mut page = PageRequest::default();
        loop {
            let known = store.tenants(page.clone()).await?;
            let Some(last) = known.last() else {
                return Ok(());
            };
            page.after = Some(last.name.clone());
            let own = known.into_iter().filter(|report| report.ruled);
            for report in own.filter(|own| !settings.tenants.contains_key(&own.name)) {
                store.remove_rule(&report.name).await?;
            }
        }
    }

    /// Tells the rules again if they were lost.
    pub(crate) async fn keep_lost_rules(&self) -> StoreResult<()> {
        if !self.forgotten.swap(false, Ordering::Relaxed) {
            return Ok(());
        }
        self.keep_rules()
            .await
            .inspect_err(|_| self.forgotten.store(true, Ordering::Relaxed))
    }
}

impl<S> EngineContext<S> {
    /// Notes it if the store has lost everything.
    pub(crate) fn note_loss(&self, error: &StoreError) {
        if error.is_lost() {
            self.forgotten.store(true, Ordering::Relaxed);
        }
    }
}
