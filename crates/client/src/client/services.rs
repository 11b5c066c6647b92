//! What runs beside a client that was made from a configuration: its log, its metrics, the cache's
//! writer, and housekeeping.
//!
//! No call needs any of it to be right. A log that cannot be written drops lines, a writer that is gone
//! leaves the cache in memory, and limits and health look at the clock whenever they are asked. So this
//! is started after the client and drained after its last call.

mod file_writers;
mod gauges;
mod init_error;
mod maintenance;

use std::sync::Arc;
use std::time::Duration;

use smol_str::SmolStr;

use self::file_writers::snapshot;
use self::gauges::UpstreamGauges;
pub use self::init_error::InitError;
use self::maintenance::{keep_house, write_answers};
use super::Outflow;
use super::api_table::ApiTable;
use crate::api::Api;
use crate::cache::{Cache, CacheSettings};
use crate::clock::SystemClock;
use crate::config::{Config, LogLevel, Section as _};
use crate::event::Events;
use crate::log::{Log, LogSender, TracingObserver};
use crate::metrics::{ApiLabels, Metrics};
use crate::redact::Scrubber;
use crate::tasks::{ShutdownReport, Tasks};

/// All that runs beside a client.
pub(super) struct BackgroundServices {
    pub(super) metrics: Arc<Metrics>,
    pub(super) tasks: Tasks,
    events: Events,
    scrubber: Scrubber,
    log: Option<Log>,
    lines: Option<LogSender>,
    /// What it was started with, and runs with until it is started again; the APIs are not among it.
    begun: Config,
}

impl BackgroundServices {
    /// A client as it is configured, and what runs beside it.
    pub(super) fn start(mut config: Config) -> Result<(Outflow, Self), InitError> {
        let cache = Cache::open(cache_settings(&config.cache)).map_err(InitError::Cache)?;
        let apis = std::mem::take(&mut config.apis);
        let household = Self::new(&apis, config)?;
        let (tasks, events) = (&household.tasks, &household.events);
        let builder = Outflow::builder().events(events.clone());
        let builder = builder.cache(cache.clone());
        let apis = apis.into_iter();
        let client = apis.fold(builder, super::OutflowBuilder::api).build();
        let client = client.map_err(InitError::Client)?;
        let roster = Arc::clone(&client.inner.roster);
        household.add_gauges(Arc::clone(&roster));
        keep_house(tasks, roster)?;
        write_answers(tasks, cache, events.clone())?;
        Ok((client, household))
    }

    /// Those who listen and write, before there is anything to hear.
    fn new(apis: &[Api], config: Config) -> Result<Self, InitError> {
        let (events, scrubber) = (Events::new(), Scrubber::new());
        learn(&scrubber, apis, &config);
        let metrics = Arc::new(Metrics::new(apis.iter().map(ApiLabels::from)));
        let clock = Arc::new(SystemClock::new());
        let tasks = Tasks::new(OURSELVES, events.clone(), clock);
        events.subscribe(metrics.clone());
        events.subscribe(Arc::new(TracingObserver::new(scrubber.clone())));
        let log = file_writers::log(&config, scrubber.clone(), &tasks)?;
        if let Some(log) = &log {
            events.subscribe(Arc::new(log.clone()));
        }
        let lines = file_writers::lines(&config, &metrics, &tasks)?;
        Ok(Self {
            metrics,
            tasks,
            events,
            scrubber,
            log,
            lines,
            begun: config,
        })
    }

    /// Has the metrics ask the doors how they stand, and the writers what they dropped.
    fn add_gauges(&self, roster: Arc<ApiTable>) {
        self.metrics.add_source(Arc::new(UpstreamGauges(roster)));
        if let Some(log) = &self.log {
            self.metrics.add_source(Arc::new(log.clone()));
        }
        if let Some(lines) = &self.lines {
            self.metrics.add_source(Arc::new(lines.clone()));
        }
    }

    /// Keeps these secrets out of every line from now on.
    pub(super) fn learn_secrets(&self, apis: &[Api], config: &Config) {
        learn(&self.scrubber, apis, config);
    }

    /// Counts for these APIs too.
    pub(super) fn know<'a>(&self, apis: impl Iterator<Item = &'a Api>) {
        self.metrics.register(apis.map(ApiLabels::from));
    }

    /// Follows other settings as far as that is possible. Answers the keys that have to wait until the
    /// program is started again: what holds a file, a port or a directory open.
    pub(super) fn adopt(&self, config: &Config) -> Vec<String> {
        if let Some(log) = &self.log {
            log.set_level(file_writers::level(config.log.level));
        }
        let unlogged = self.log.is_none() && config.log.level != LogLevel::Off;
        let (old, new) = (&self.begun, config);
        let mut keys = Vec::new();
        if unlogged {
            keys.push("log.level".to_owned());
        }
        keys.extend(old.log.restart_keys(&new.log));
        keys.extend(old.metrics.restart_keys(&new.metrics));
        keys.extend(old.cache.restart_keys(&new.cache));
        keys
    }

    /// Lets everything finish what it began.
    pub(super) async fn drain(&self, patience: Duration) -> ShutdownReport {
        self.close();
        self.tasks.shutdown(patience).await
    }

    /// The numbers since the last interval are in no line yet: they are written before the end.
    fn close(&self) {
        if let Some(log) = &self.log {
            log.close();
        }
        if let Some(lines) = &self.lines {
            lines.send(&snapshot(&self.metrics));
            lines.close();
        }
    }
}

/// Observers hold doors and doors hold observers: somebody has to let go.
impl Drop for BackgroundServices {
    fn drop(&mut self) {
        self.close();
        self.events.silence();
    }
}

fn cache_settings(configured: &crate::config::CacheSection) -> CacheSettings {
    let usual = CacheSettings::default();
    let in_memory = configured.dir.is_none();
    CacheSettings {
        dir: configured.dir.clone(),
        memory: if in_memory {
            configured.size
        } else {
            usual.memory.min(configured.size)
        },
        disk: configured.size,
    }
}

/// What no line may hold.
fn learn(scrubber: &Scrubber, apis: &[Api], config: &Config) {
    for credential in apis.iter().filter_map(|api| api.credential.as_ref()) {
        scrubber.learn(&credential.secret);
    }
    for secret in &config.secrets {
        scrubber.learn(secret);
    }
}

/// The API of what happens at none.
pub(super) const OURSELVES: SmolStr = SmolStr::new_static("outflow");
