//! Keys in which two configurations differ and that a running engine follows.
//!
//! Each key has its own name, so that an operator recognises it after a reload; a tenant is one key. Keys
//! that need a restart are not included.

use super::BulkConfig;

impl BulkConfig {
    /// Returns the keys that differ from another configuration.
    pub fn changed_keys(&self, other: &Self) -> Vec<String> {
        let own = self.plain_keys(other).into_iter().chain(self.table_keys(other));
        let own = own.filter(|(_, differs)| *differs);
        let keys = own.map(|(key, _)| format!("bulk.{key}"));
        keys.chain(self.tenant_keys(other)).collect()
    }

    /// Compares the keys of the section itself.
    fn plain_keys(&self, other: &Self) -> [(&'static str, bool); 10] {
        [
            ("scheduler", self.scheduler != other.scheduler),
            ("lease", self.lease != other.lease),
            ("heartbeat", self.heartbeat != other.heartbeat),
            ("recoveries", self.recoveries != other.recoveries),
            ("timeout", self.timeout != other.timeout),
            ("action_timeout", self.action_timeout != other.action_timeout),
            ("grace", self.grace != other.grace),
            ("ready_queue_max", self.ready_queue_max != other.ready_queue_max),
            ("queue_max", self.queue_max != other.queue_max),
            ("global_rate", self.global_rate != other.global_rate),
        ]
    }

    /// Compares the tables of the section.
    fn table_keys(&self, other: &Self) -> [(&'static str, bool); 6] {
        let congestion = |bulk: &Self| {
            let spans = (bulk.snapshot_interval, bulk.stats_retention);
            (bulk.congestion, spans)
        };
        [
            ("workers", self.workers != other.workers),
            ("retry", self.retry != other.retry),
            ("congestion", congestion(self) != congestion(other)),
            ("tenant", self.tenant != other.tenant),
            ("retention", self.retention != other.retention),
            ("shared", self.shared != other.shared),
        ]
    }

    fn tenant_keys<'a>(&'a self, other: &'a Self) -> impl Iterator<Item = String> + 'a {
        let (old, new) = (&self.tenants, &other.tenants);
        let gone = old.keys().filter(|name| !new.contains_key(*name));
        let differ = new.iter().filter(|(name, rule)| old.get(*name) != Some(*rule));
        let names = gone.chain(differ.map(|(name, _)| name));
        names.map(|name| format!("bulk.tenants.{name}"))
    }
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
