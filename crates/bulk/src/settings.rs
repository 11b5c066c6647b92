//! How the engine works, as plain values.

use std::collections::BTreeMap;
use std::time::Duration;

use outflow_core::{Backoff, CongestionRule, Limit};
use outflow_store::{ActionSpec, Defer, InvalidName, Name, TenantRule};

use crate::config::{BulkConfig, BulkScheduler, BulkStore, BulkTenant};

/// How the engine works. [`Default`] is what most want.
#[derive(Clone, PartialEq, Debug)]
pub struct EngineSettings {
    /// How a job gets its turn.
    pub scheduler: SchedulerKind,
    /// How many jobs are worked on at once.
    pub crew: WorkerSettings,
    /// How long a worker is believed to live without a word of it. Longer means that the jobs of a
    /// dead one come back later, shorter that one which was only stopped for a moment loses its own.
    pub lease: Duration,
    /// How often it gives that word; a third of the lease forgives two that got lost.
    pub beat: Duration,
    /// How often a job may take its worker down with it before it is buried.
    pub recoveries: u32,
    /// How long one attempt may take, unless the job says otherwise.
    pub timeout: Duration,
    /// How long an action may take, unless it says otherwise: then it fails, and what has not begun is
    /// cancelled.
    pub action_timeout: Duration,
    /// How long a shutdown waits for jobs under way before it gives them back.
    pub grace: Duration,
    /// How long a failed job waits before it is tried again.
    pub backoff: Backoff,
    /// How many jobs at most are told to be ready; those behind them are told to wait.
    pub ready_queue_max: u64,
    /// How many jobs wait at most; more are refused when they are submitted.
    pub queue_max: u64,
    /// The rate of all tenants together, a second, that speeds are told by.
    pub global_rate: u64,
    /// The formula's shortest and longest wait.
    pub congestion: CongestionRule,
    /// How often the congestion of each tenant is written down.
    pub snapshot_every: Duration,
    /// What a tenant may that is not named below.
    pub tenant: TenantRule,
    /// Tenants with a rule of their own.
    pub tenants: BTreeMap<Name, TenantRule>,
    /// How long things are kept.
    pub retention: RetentionSettings,
    /// How limits are kept with other machines, where the store is shared.
    pub shared: Option<SharedLimitSettings>,
}

impl EngineSettings {
    /// As a configuration says. Limits are shared where the store is.
    ///
    /// # Errors
    /// If a tenant has a name that no store takes; a section that was read from a text has none.
    ///
    /// ```
    /// use outflow_bulk::EngineSettings;
    /// use outflow_bulk::config::BulkConfig;
    ///
    /// let settings = EngineSettings::from_section(&BulkConfig::default())?;
    /// assert_eq!(settings, EngineSettings::default());
    /// # Ok::<(), outflow_store::InvalidName>(())
    /// ```
    pub fn from_section(section: &BulkConfig) -> Result<Self, InvalidName> {
        let mut tenants = BTreeMap::new();
        for (name, own) in &section.tenants {
            tenants.insert(Name::new(name)?, rule(own));
        }
        let shared = SharedLimitSettings {
            guard: section.shared.guard,
            horizon: section.shared.horizon,
        };
        Ok(Self {
            scheduler: SchedulerKind::from_configured(section.scheduler),
            crew: WorkerSettings::from_section(section),
            lease: section.lease,
            beat: section.heartbeat,
            recoveries: section.recoveries,
            timeout: section.timeout,
            action_timeout: section.action_timeout,
            grace: section.grace,
            backoff: section.retry,
            ready_queue_max: section.ready_queue_max,
            queue_max: section.queue_max,
            global_rate: section.global_rate,
            congestion: section.congestion,
            snapshot_every: section.snapshot_interval,
            tenant: rule(&section.tenant),
            tenants,
            retention: RetentionSettings::from_section(section),
            shared: matches!(section.store, BulkStore::Redis(_)).then_some(shared),
        })
    }

    /// An action of this name that is like all others.
    pub fn action(&self, id: Name) -> ActionSpec {
        ActionSpec {
            timeout: self.action_timeout,
            keep: self.retention.results,
            ..ActionSpec::new(id)
        }
    }

    /// What a tenant may use at most, if less than everybody.
    pub fn limit_of(&self, tenant: &Name) -> Option<Limit> {
        self.rule(tenant).rate.map(Limit::sliding)
    }

    /// By how much a job is put off that finds no room.
    pub(crate) const fn put_off(&self) -> Defer {
        match self.scheduler {
            SchedulerKind::Fixed => Defer::Fixed(self.congestion.base()),
            SchedulerKind::Permit | SchedulerKind::Backoff => Defer::Formula {
                rule: self.congestion,
                global: self.global_rate,
            },
        }
    }

    /// What this tenant may.
    pub(crate) fn rule(&self, tenant: &Name) -> &TenantRule {
        self.tenants.get(tenant).unwrap_or(&self.tenant)
    }
}

impl Default for EngineSettings {
    fn default() -> Self {
        Self {
            scheduler: SchedulerKind::Permit,
            crew: WorkerSettings::default(),
            lease: Duration::from_secs(10),
            beat: Duration::from_secs(3),
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
            shared: None,
        }
    }
}

/// How a job gets its turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum SchedulerKind {
    /// A permit is taken first, then the job whose turn it is: nothing is ever put off.
    #[default]
    Permit,
    /// A job is taken, and put off by the formula if there is no room for it.
    Backoff,
    /// A job is taken, and put off by the formula's shortest wait if there is no room for it.
    Fixed,
}

impl SchedulerKind {
    const fn from_configured(configured: BulkScheduler) -> Self {
        match configured {
            BulkScheduler::Permit => Self::Permit,
            BulkScheduler::Backoff => Self::Backoff,
            BulkScheduler::Fixed => Self::Fixed,
        }
    }

    /// As configuration and reports spell it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Permit => "permit",
            Self::Backoff => "backoff",
            Self::Fixed => "fixed",
        }
    }
}

/// How many jobs are worked on at once. Between the two bounds the number follows how many jobs wait for
/// each that is worked on: up fast when it stays above `depth`, down slowly when it falls.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WorkerSettings {
    /// At least so many.
    pub least: usize,
    /// At most so many.
    pub most: usize,
    /// How many jobs may wait for each before there are more.
    pub depth: u64,
}

impl WorkerSettings {
    fn from_section(section: &BulkConfig) -> Self {
        let places = |count: u32| usize::try_from(count).unwrap_or(usize::MAX);
        Self {
            least: places(section.workers.min),
            most: places(section.workers.max),
            depth: section.workers.depth,
        }
    }
}

impl Default for WorkerSettings {
    /// Ten, and as many as a busy API and a slow one need together when work piles up.
    fn default() -> Self {
        Self {
            least: 10,
            most: 200,
            depth: 20,
        }
    }
}

/// How long things are kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RetentionSettings {
    /// What came of jobs, and actions that are over.
    pub results: Duration,
    /// The names of finished jobs, by which one that is submitted again is known.
    pub names: Duration,
    /// Dead letters.
    pub dead: Duration,
    /// Congestion as it was.
    pub statistics: Duration,
}

impl RetentionSettings {
    const fn from_section(section: &BulkConfig) -> Self {
        Self {
            results: section.retention.results,
            names: section.retention.names,
            dead: section.retention.dead,
            statistics: section.stats_retention,
        }
    }

    /// How often to look for what is too old. What is kept for days may stay a minute longer, and what is
    /// kept for seconds a tenth longer, or a second.
    pub(crate) fn sweep_every(&self) -> Duration {
        let shortest = self.results.min(self.names).min(self.dead);
        (shortest / 10).clamp(SWEEP_LEAST, SWEEP_MOST)
    }
}

/// A sweep that finds nothing costs a store a step: one a second is nothing.
const SWEEP_LEAST: Duration = Duration::from_secs(1);

/// As long as nobody minds that something is there which is kept for days.
const SWEEP_MOST: Duration = Duration::from_mins(1);

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

/// How limits are kept with other machines that claim from the same store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SharedLimitSettings {
    /// By how much windows are widened, for starts that are a little early or late.
    pub guard: Duration,
    /// How far ahead jobs are claimed: more than a machine ever stalls.
    pub horizon: Duration,
}

impl Default for SharedLimitSettings {
    fn default() -> Self {
        Self {
            guard: Duration::from_millis(5),
            horizon: Duration::from_millis(250),
        }
    }
}

const fn rule(configured: &BulkTenant) -> TenantRule {
    TenantRule {
        weight: configured.weight,
        priority: configured.priority,
        rate: configured.rate,
        in_flight: configured.in_flight,
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
        EngineSettings::from_section(&section).expect("good names")
    }

    #[test]
    fn nothing_said_is_the_default() {
        assert_eq!(read(""), EngineSettings::default());
    }

    // Every key that has a field, each with a value of its own, so that no two can be mixed up.
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
            shared = { guard = \"1ms\", horizon = \"2ms\" }
        ";
        let seconds = Duration::from_secs;
        let everybody = TenantRule {
            weight: Weight::new(2).expect("positive"),
            priority: Priority::Low,
            rate: Some("9/s".parse().expect("a rate")),
            in_flight: Some(8),
        };
        let one = TenantRule {
            priority: Priority::High,
            rate: None,
            ..everybody.clone()
        };
        let expected = EngineSettings {
            scheduler: SchedulerKind::Backoff,
            crew: WorkerSettings {
                least: 3,
                most: 7,
                depth: 5,
            },
            lease: seconds(21),
            beat: seconds(6),
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
            tenant: everybody,
            tenants: BTreeMap::from([(Name::new("urn:a/1").expect("a name"), one)]),
            retention: RetentionSettings {
                results: seconds(31),
                names: seconds(32),
                dead: seconds(33),
                statistics: seconds(26),
            },
            shared: Some(SharedLimitSettings {
                guard: Duration::from_millis(1),
                horizon: Duration::from_millis(2),
            }),
        };
        assert_eq!(read(text), expected);
    }
}
