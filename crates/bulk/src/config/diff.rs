//! Keys in which two configurations differ and that a running engine follows.
//!
//! Each key has its own name, so that an operator recognises it after a reload; a tenant is one key. Keys
//! that need a restart are not included.

use std::collections::BTreeMap;

use outflow_config::SectionChanges;
use outflow_store::{Name, TenantRule};

use super::BulkConfig;
use crate::settings::EngineSettings;

impl BulkConfig {
    /// Returns the keys that differ from another configuration.
    pub fn changed_keys(&self, other: &Self) -> Vec<String> {
        let (old, new) = (&self.engine, &other.engine);
        let mut keys = plain_keys(old, new);
        keys.extend(table_keys(old, new));
        keys.extend(tenant_keys(&old.tenants, &new.tenants));
        keys
    }
}

/// Compares the keys of the section itself.
fn plain_keys(old: &EngineSettings, new: &EngineSettings) -> Vec<String> {
    SectionChanges::differing([
        ("bulk.scheduler", old.scheduler != new.scheduler),
        ("bulk.lease", old.lease != new.lease),
        ("bulk.heartbeat", old.heartbeat != new.heartbeat),
        ("bulk.recoveries", old.recoveries != new.recoveries),
        ("bulk.timeout", old.timeout != new.timeout),
        ("bulk.action_timeout", old.action_timeout != new.action_timeout),
        ("bulk.grace", old.grace != new.grace),
        ("bulk.ready_queue_max", old.ready_queue_max != new.ready_queue_max),
        ("bulk.queue_max", old.queue_max != new.queue_max),
        ("bulk.global_rate", old.global_rate != new.global_rate),
    ])
}

/// Compares the tables of the section.
fn table_keys(old: &EngineSettings, new: &EngineSettings) -> Vec<String> {
    let congestion = |of: &EngineSettings| (of.congestion, of.snapshot_every, of.retention.statistics);
    let retention = |of: &EngineSettings| (of.retention.results, of.retention.names, of.retention.dead);
    SectionChanges::differing([
        ("bulk.workers", old.workers != new.workers),
        ("bulk.retry", old.backoff != new.backoff),
        ("bulk.congestion", congestion(old) != congestion(new)),
        ("bulk.tenant", old.tenant != new.tenant),
        ("bulk.retention", retention(old) != retention(new)),
    ])
}

/// Rules of single tenants.
type RuleMap = BTreeMap<Name, TenantRule>;

fn tenant_keys<'a>(old: &'a RuleMap, new: &'a RuleMap) -> impl Iterator<Item = String> + 'a {
    let gone = old.keys().filter(|name| !new.contains_key(*name));
    let differ = new.iter().filter(|(name, rule)| old.get(*name) != Some(*rule));
    let names = gone.chain(differ.map(|(name, _)| name));
    names.map(|name| format!("bulk.tenants.{name}"))
}

#[cfg(test)]
mod tests {
    use outflow::config::{Environment, Source, load};

    use super::*;

    fn section(text: &str) -> BulkConfig {
        let source = [Source::new("test", text)];
        load(&source, &Environment::empty()).read(&Environment::empty())
    }

    // One tenant is gone and one is new; a third stays and is not named.
    #[test]
    fn every_key_that_differs_is_named_and_no_other() {
        let old = section(
            "[bulk]\ntimeout = \"5s\"\nretry.max = \"9s\"\n\
             tenants.gone.weight = 2\ntenants.same.weight = 2\n",
        );
        let new = section(
            "[bulk]\ntimeout = \"6s\"\nworkers.max = 70\n\
             tenants.came.weight = 2\ntenants.same.weight = 2\n",
        );
        let changed = [
            "bulk.timeout",
            "bulk.workers",
            "bulk.retry",
            "bulk.tenants.gone",
            "bulk.tenants.came",
        ];
        assert_eq!(old.changed_keys(&new), changed);
        assert_eq!(old.changed_keys(&old), [""; 0]);
    }
}
