//! Settings of the engine.

use std::collections::BTreeMap;
use std::time::Duration;

use outflow::Rules;
use outflow_core::{Backoff, CongestionRule, Limit};
use outflow_store::{ActionSpec, Name, StoreLimits, TenantRule};

use crate::config::{BulkConfig, BulkStore};

/// Settings of the engine. [`Default`] fits most uses.
#[derive(Clone, PartialEq, Debug)]
pub struct EngineSettings {
    /// Scheduler.
    pub scheduler: SchedulerKind,
    /// Number of jobs that run at once.
    pub workers: WorkerSettings,
    /// Time that a session lives without a heartbeat. A longer lease recovers the jobs of a dead process later, a
    /// shorter one takes the jobs of a process that only stalled.
    pub lease: Duration,
    /// Interval of heartbeats; a third of the lease tolerates two lost ones.
    pub heartbeat: Duration,
    /// Number of dead workers after which a job is dead-lettered.
    pub recoveries: u32,
    /// Timeout of one attempt, unless the job has its own.
    pub timeout: Duration,
    /// Timeout of an action without progress, unless it has its own: it fails then, and its waiting jobs are cancelled.
    pub action_timeout: Duration,
    /// Time that a shutdown waits for jobs in flight before it returns them.
    pub grace: Duration,
    /// Backoff of retries.
    pub backoff: Backoff,
    /// Number of jobs at most that are reported as ready; later ones are reported as waiting.
    pub ready_queue_max: u64,
    /// Number of queued jobs at most; submissions beyond it are rejected.
    pub queue_max: u64,
    /// Rate per second of all tenants together, which also gives the reported speeds.
    pub global_rate: u64,
    /// Shortest and longest wait of the congestion formula.
    pub congestion: CongestionRule,
    /// Interval of congestion samples.
    pub snapshot_every: Duration,
    /// Rule of tenants without their own.
    pub tenant: TenantRule,
    /// Tenants with their own rules.
    pub tenants: BTreeMap<Name, TenantRule>,
    /// Retention of stored data.
    pub retention: RetentionSettings,
    /// True if other machines share the store: it then checks the limits of tenants and the global rate. The limits of
    /// an API are shared through its upstream.
    pub shared: bool,
}

impl EngineSettings {
    /// Returns the settings of a configuration. Limits are shared if the store is.
    ///
    /// ```
    /// use outflow_bulk::EngineSettings;
    /// use outflow_bulk::config::BulkConfig;
    ///
    /// let settings = EngineSettings::from_section(&BulkConfig::default());
    /// assert_eq!(settings, EngineSettings::default());
    /// ```
    pub fn from_section(section: &BulkConfig) -> Self {
        Self {
            shared: matches!(section.store, BulkStore::Redis(_)),
            ..section.engine.clone()
        }
    }

    /// Returns an action with the default timeout and retention.
    pub fn action(&self, id: Name) -> ActionSpec {
        ActionSpec {
            timeout: self.action_timeout,
            keep: self.retention.results,
            ..ActionSpec::new(id)
        }
    }

    /// Returns the tenant's own limit, if it has one.
    pub fn tenant_limit(&self, tenant: &Name) -> Option<Limit> {
        self.rule(tenant).rate.map(Limit::sliding)
    }

    /// Returns the number of calls to an API that its limits or those of the tenants let be in flight.
    pub(crate) fn calls_in_flight(&self, rules: &Rules) -> u32 {
        let own = self.tenants.values().any(|rule| rule.rate.is_some());
        let limited = own || self.tenant.rate.is_some();
        let allowed = rules.in_flight_at_limits();
        let allowed = allowed.or_else(|| limited.then(|| rules.concurrency()));
        allowed.unwrap_or(0).min(rules.concurrency())
    }

    /// Returns the limits that a shared store checks.
    pub(crate) fn store_limits(&self) -> Option<StoreLimits> {
        let global = Some(self.global_rate);
        self.shared.then_some(StoreLimits { global })
    }

    /// Returns the rule of a tenant.
    pub(crate) fn rule(&self, tenant: &Name) -> &TenantRule {
        self.tenants.get(tenant).unwrap_or(&self.tenant)
    }
}

impl Default for EngineSettings {
    fn default() -> Self {
        Self {
            scheduler: SchedulerKind::Permit,
            workers: WorkerSettings::default(),
            lease: Duration::from_secs(10),
            heartbeat: Duration::from_secs(3),
            recoveries: 2,
            timeout: Duration::from_secs(30),
            action_timeout: Duration::from_hours(1),
            grace: Duration::from_secs(30),
            backoff: Backoff::default(),
            ready_queue_max: 10_000,
            queue_max: 10_000_000,
            global_rate: 10_000,
            congestion: CongestionRule::default(),
            snapshot_every: Duration::from_secs(1),
            tenant: TenantRule::default(),
            tenants: BTreeMap::new(),
            retention: RetentionSettings::default(),
            shared: false,
        }
    }
}

/// Scheduler of jobs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum SchedulerKind {
    /// Acquires a permit first, then claims the next job: no job is ever deferred.
    #[default]
    Permit,
    /// Claims a job, and defers it by the congestion formula if it lacks quota.
    Backoff,
    /// Claims a job, and defers it by the formula's shortest wait if it lacks quota.
    Fixed,
}

impl SchedulerKind {
    /// Returns the name in configurations and reports.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Permit => "permit",
            Self::Backoff => "backoff",
            Self::Fixed => "fixed",
        }
    }
}

/// Number of jobs that run at once. Between the bounds it follows the number of queued jobs per worker: up fast while
/// that stays above `depth`, down slowly when it falls.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WorkerSettings {
    /// Least number; without one, the number that the limits of the APIs let be in flight, and at least ten.
    pub min: Option<usize>,
    /// Greatest number; without one, two hundred, or the least number if that is more.
    pub max: Option<usize>,
    /// Number of queued jobs per worker above which the pool grows.
    pub depth: u64,
}

impl Default for WorkerSettings {
    /// Returns bounds that follow the limits, so that these bind and not the workers.
    fn default() -> Self {
        Self {
            min: None,
            max: None,
            depth: 20,
        }
    }
}

/// Bounds of the worker pool where the limits are known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct WorkerBounds {
    pub(crate) min: usize,
    pub(crate) max: usize,
    pub(crate) depth: u64,
}

impl WorkerSettings {
    /// Returns the bounds where the limits let this many calls be in flight.
    pub(crate) fn bounds(self, in_flight: usize) -> WorkerBounds {
        let auto = in_flight.max(MIN_WORKERS).min(self.max.unwrap_or(usize::MAX));
        let min = self.min.unwrap_or(auto).max(1);
        WorkerBounds {
            min,
            max: self.max.unwrap_or(MAX_WORKERS).max(min),
            depth: self.depth,
        }
    }
}

/// Handlers and APIs without limits start with these.
const MIN_WORKERS: usize = 10;

/// Enough for handlers and APIs without limits while work piles up.
const MAX_WORKERS: usize = 200;

/// Retention of stored data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RetentionSettings {
    /// Results of jobs, and ended actions.
    pub results: Duration,
    /// Ids of ended jobs, which detect duplicates.
    pub names: Duration,
    /// Dead letters.
    pub dead: Duration,
    /// Congestion samples.
    pub statistics: Duration,
}

impl RetentionSettings {
    /// Returns the interval of garbage collection. Data kept for days may stay a minute longer, data kept for seconds
    /// a tenth longer, or a second.
    pub(crate) fn sweep_every(&self) -> Duration {
        let shortest = self.results.min(self.names).min(self.dead);
        (shortest / 10).clamp(MIN_SWEEP, MAX_SWEEP)
    }
}

/// A sweep that finds nothing costs the store one step, which is little once a second.
const MIN_SWEEP: Duration = Duration::from_secs(1);

/// Data that is kept for days may stay this much longer.
const MAX_SWEEP: Duration = Duration::from_mins(1);

impl Default for RetentionSettings {
    fn default() -> Self {
        let day = Duration::from_hours(24);
        Self {
            results: day,
            names: day,
            dead: day * 30,
            statistics: Duration::from_hours(1),
        }
    }
}

#[cfg(test)]
mod tests {
    use outflow::config::{Environment, SECTIONS, Source, load};
    use outflow_core::{Priority, Weight};

    use super::*;

    fn read(text: &str) -> EngineSettings {
        let source = Source::new("outflow.toml", text);
        let environment = Environment::from_iter([("WHERE", "redis://:pw@localhost")]);
        let document = load(&[source], &environment);
        let section: BulkConfig = document.read(&environment);
        document.close(&SECTIONS).expect("no error");
        EngineSettings::from_section(&section)
    }

    // A written number holds; what is not written follows the limits.
    #[test]
    fn workers_follow_the_limits_unless_a_number_is_written() {
        let bounds = |min, max, in_flight| {
            let depth = 20;
            let bounds = WorkerSettings { min, max, depth }.bounds(in_flight);
            (bounds.min, bounds.max)
        };
        assert_eq!(bounds(None, None, 0), (10, 200));
        assert_eq!(bounds(None, None, 300), (300, 300));
        assert_eq!(bounds(None, Some(50), 300), (50, 50));
        assert_eq!(bounds(None, Some(5), 0), (5, 5));
        assert_eq!(bounds(Some(4), None, 300), (4, 200));
        assert_eq!(bounds(Some(3), Some(7), 300), (3, 7));
    }

    // Earlier versions scheduled starts ahead on a shared store.
    #[test]
    fn keys_of_scheduled_starts_are_accepted_with_a_warning() {
        let text = "[bulk.shared]\nguard = \"1ms\"\nhorizon = \"2ms\"\n";
        let environment = Environment::empty();
        let document = load(&[Source::new("outflow.toml", text)], &environment);
        let section: BulkConfig = document.read(&environment);
        let warnings = document.close(&SECTIONS).expect("no error").warnings.to_string();
        assert_eq!(warnings.matches("this has no effect").count(), 2, "{warnings}");
        assert_eq!(EngineSettings::from_section(&section), EngineSettings::default());
    }

    #[test]
    fn an_empty_configuration_is_the_default() {
        assert_eq!(read(""), EngineSettings::default());
    }

    // Every key that has a field, each with its own value, so that a swap is noticed.
    #[test]
    fn every_key_reaches_its_field() {
        let text = "
            [bulk]
            scheduler = \"backoff\"
            store = \"redis\"
            redis.url_env = \"WHERE\"
            workers = { min = 3, max = 7, depth = 5 }
            lease = \"21s\"
            heartbeat = \"6s\"
            recoveries = 4
            timeout = \"22s\"
            action_timeout = \"27s\"
            grace = \"23s\"
            retry = { base = \"2s\", max = \"24s\" }
            ready_queue_max = 101
            queue_max = 102
            global_rate = 103
            congestion.base_backoff = \"3s\"
            congestion.max_backoff = \"25s\"
            congestion.snapshot_interval = \"4s\"
            congestion.stats_retention = \"26s\"
            tenant = { weight = 2, priority = \"low\", rate = \"9/s\", in_flight = 8 }
            tenants.\"urn:a/1\" = { priority = \"high\", rate = \"none\" }
            retention = { results = \"31s\", names = \"32s\", dead = \"33s\" }
        ";
        let seconds = Duration::from_secs;
        let default = TenantRule {
            weight: Weight::new(2).expect("positive"),
            priority: Priority::Low,
            rate: Some("9/s".parse().expect("a rate")),
            in_flight: Some(8),
        };
        let one = TenantRule {
            priority: Priority::High,
            rate: None,
            ..default
        };
        let expected = EngineSettings {
            scheduler: SchedulerKind::Backoff,
            workers: WorkerSettings {
                min: Some(3),
                max: Some(7),
                depth: 5,
            },
            lease: seconds(21),
            heartbeat: seconds(6),
            recoveries: 4,
            timeout: seconds(22),
            action_timeout: seconds(27),
            grace: seconds(23),
            backoff: Backoff::full_jitter(seconds(2), seconds(24)).expect("valid"),
            ready_queue_max: 101,
            queue_max: 102,
            global_rate: 103,
            congestion: CongestionRule::new(seconds(3), seconds(25)).expect("valid"),
            snapshot_every: seconds(4),
            tenant: default,
            tenants: BTreeMap::from([(Name::new("urn:a/1").expect("a name"), one)]),
            retention: RetentionSettings {
                results: seconds(31),
                names: seconds(32),
                dead: seconds(33),
                statistics: seconds(26),
            },
            shared: true,
        };
        assert_eq!(read(text), expected);
    }
}
