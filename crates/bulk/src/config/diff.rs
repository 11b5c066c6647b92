//! In which keys two sections of the engine differ, as far as it follows them while it runs.
//!
//! Every key by its own name, so that whoever reloads reads what he wrote; a tenant is one key. What an
//! engine cannot change while it runs is not among them: that waits for the next start.

use super::BulkConfig;

impl BulkConfig {
    /// The keys that hold otherwise in another section, by name.
    pub(crate) fn changed(&self, other: &Self) -> Vec<String> {
        let own = self.plain(other).into_iter().chain(self.within(other));
        let own = own.filter(|(_, differs)| *differs);
        let keys = own.map(|(key, _)| format!("bulk.{key}"));
        keys.chain(self.tenants_changed(other)).collect()
    }

    /// Those of the section itself.
    fn plain(&self, other: &Self) -> [(&'static str, bool); 10] {
        [
            ("scheduler", self.scheduler != other.scheduler),
            ("lease", self.lease != other.lease),
            ("heartbeat", self.heartbeat != other.heartbeat),
            ("recoveries", self.recoveries != other.recoveries),
            ("timeout", self.timeout != other.timeout),
            (
                "action_timeout",
                self.action_timeout != other.action_timeout,
            ),
            ("grace", self.grace != other.grace),
            (
                "ready_queue_max",
                self.ready_queue_max != other.ready_queue_max,
            ),
            ("queue_max", self.queue_max != other.queue_max),
            ("global_rate", self.global_rate != other.global_rate),
        ]
    }

    /// Those of the sections in it.
    fn within(&self, other: &Self) -> [(&'static str, bool); 6] {
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

    fn tenants_changed<'a>(&'a self, other: &'a Self) -> impl Iterator<Item = String> + 'a {
        let (old, new) = (&self.tenants, &other.tenants);
        let gone = old.keys().filter(|name| !new.contains_key(*name));
        let differ = new
            .iter()
            .filter(|(name, rule)| old.get(*name) != Some(*rule));
        let names = gone.chain(differ.map(|(name, _)| name));
        names.map(|name| format!("bulk.tenants.{name}"))
    }
}

#[cfg(test)]
mod tests {
    use crate::config::{Config, Environment, Source};

    use super::*;

    fn section(text: &str) -> BulkConfig {
        let source = [Source::new("test", text)];
        let config = Config::read(&source, &Environment::empty());
        config.expect("a configuration").bulk
    }

    // Two tenants: one is gone, the other is new; a third stays and is not told.
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
        let told = [
            "bulk.timeout",
            "bulk.workers",
            "bulk.retry",
            "bulk.tenants.gone",
            "bulk.tenants.came",
        ];
        assert_eq!(old.changed(&new), told);
        assert_eq!(old.changed(&old), [""; 0]);
    }
}
