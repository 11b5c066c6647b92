//! Background services of a client built from a configuration: log, metrics, cache writer and
//! maintenance.
//!
//! No call depends on them. An unwritable log drops lines, without its writer the cache stays in
//! memory, and limits and health read the clock on demand. So the services start after the client
//! and shut down after its last call.

mod file_writers;
mod gauges;
mod init_error;
mod ledger;
mod maintenance;

use std::sync::Arc;
use std::time::Duration;

use outflow_core::Clock as _;
use smol_str::SmolStr;

use self::file_writers::snapshot;
use self::gauges::UpstreamGauges;
pub use self::init_error::InitError;
use self::ledger::open_ledger;
use self::maintenance::{spawn_cache_writer, spawn_maintenance};
use super::Outflow;
use super::api_table::ApiTable;
use crate::api::Api;
use crate::cache::{Cache, CacheSettings};
use crate::clock::SystemClock;
use crate::config::{Config, LogLevel, Section as _};
use crate::event::{Event, EventKind, Events};
use crate::log::{Log, LogSender, TracingObserver};
use crate::metrics::{ApiLabels, Metrics};
use crate::redact::Scrubber;
use crate::tasks::{ShutdownReport, Tasks};
use crate::trace::TraceId;

/// Background services of a client.
pub(super) struct BackgroundServices {
    pub(super) metrics: Arc<Metrics>,
    pub(super) tasks: Tasks,
    events: Events,
    pub(super) scrubber: Scrubber,
    log: Option<Log>,
    metric_lines: Option<LogSender>,
    /// Configuration at the start, which holds until a restart; without the APIs.
    initial: Config,
}

impl BackgroundServices {
    /// Builds a client with its background services.
    pub(super) fn start(mut config: Config) -> Result<(Outflow, Self), InitError> {
        let cache = Cache::open(cache_settings(&config.cache)).map_err(InitError::Cache)?;
        let (ledger, alone) = match config.ledger.take() {
            Some(ledger) => (Some(ledger), None),
            None => open_ledger(&config.shared)?,
        };
        let apis = std::mem::take(&mut config.apis);
        let services = Self::new(&apis, config)?;
        let (tasks, events) = (&services.tasks, &services.events);
        let builder = Outflow::builder().events(events.clone());
        let builder = builder.cache(cache.clone()).ledger(ledger);
        let apis = apis.into_iter();
        let client = apis.fold(builder, super::OutflowBuilder::api).build();
        let client = client.map_err(InitError::Client)?;
        let table = Arc::clone(&client.inner.table);
        services.add_gauges(Arc::clone(&table));
        spawn_maintenance(tasks, table)?;
        spawn_cache_writer(tasks, cache, events.clone())?;
        if alone.is_some() {
            emit_own(events, EventKind::Ledger { reason: alone });
        }
        Ok((client, services))
    }

    /// Starts observers and writers, before there are events.
    fn new(apis: &[Api], config: Config) -> Result<Self, InitError> {
        let (events, scrubber) = (Events::new(), Scrubber::new());
        add_secrets(&scrubber, apis, &config);
        let metrics = Arc::new(Metrics::new(apis.iter().map(ApiLabels::from)));
        let clock = Arc::new(SystemClock::new());
        let tasks = Tasks::new(SELF_API, events.clone(), clock);
        events.subscribe(metrics.clone());
        events.subscribe(Arc::new(TracingObserver::new(scrubber.clone())));
        let log = file_writers::log(&config, scrubber.clone(), &tasks)?;
        if let Some(log) = &log {
            events.subscribe(Arc::new(log.clone()));
        }
        let metric_lines = file_writers::metric_lines(&config, &metrics, &tasks)?;
        Ok(Self {
            metrics,
            tasks,
            events,
            scrubber,
            log,
            metric_lines,
            initial: config,
        })
    }

    /// Has the metrics read gauges from upstreams and drop counts from writers.
    fn add_gauges(&self, table: Arc<ApiTable>) {
        self.metrics.add_source(Arc::new(UpstreamGauges(table)));
        if let Some(log) = &self.log {
            self.metrics.add_source(Arc::new(log.clone()));
        }
        if let Some(metric_lines) = &self.metric_lines {
            self.metrics.add_source(Arc::new(metric_lines.clone()));
        }
    }

    /// Applies settings as far as possible. Returns the keys that need a restart: everything with
    /// an open file, port or directory.
    pub(super) fn reconfigure(&self, config: &Config) -> Vec<String> {
        if let Some(log) = &self.log {
            log.set_level(file_writers::level(config.log.level));
        }
        let needs_log = self.log.is_none() && config.log.level != LogLevel::Off;
        let (old, new) = (&self.initial, config);
        let mut keys = Vec::new();
        if needs_log {
            keys.push("log.level".to_owned());
        }
        keys.extend(old.log.restart_keys(&new.log));
        keys.extend(old.metrics.restart_keys(&new.metrics));
        keys.extend(old.cache.restart_keys(&new.cache));
        keys.extend(old.shared.restart_keys(&new.shared));
        keys
    }

    /// Lets every task finish its work.
    pub(super) async fn shutdown(&self, grace: Duration) -> ShutdownReport {
        self.close();
        self.tasks.shutdown(grace).await
    }

    /// Writes the numbers since the last interval before the end.
    fn close(&self) {
        if let Some(log) = &self.log {
            log.close();
        }
        if let Some(metric_lines) = &self.metric_lines {
            metric_lines.send(&snapshot(&self.metrics));
            metric_lines.close();
        }
    }
}

/// Observers hold upstreams and upstreams hold observers: this breaks the cycle.
impl Drop for BackgroundServices {
    fn drop(&mut self) {
        self.close();
        self.events.clear();
    }
}

fn cache_settings(configured: &crate::config::CacheSection) -> CacheSettings {
    let default = CacheSettings::default();
    let in_memory = configured.dir.is_none();
    CacheSettings {
        dir: configured.dir.clone(),
        memory: if in_memory {
            configured.size
        } else {
            default.memory.min(configured.size)
        },
        disk: configured.size,
    }
}

/// Adds all secrets of a configuration to the scrubber.
pub(super) fn add_secrets(scrubber: &Scrubber, apis: &[Api], config: &Config) {
    for credential in apis.iter().filter_map(|api| api.credential.as_ref()) {
        scrubber.learn(&credential.secret);
    }
    for secret in &config.secrets {
        scrubber.learn(secret);
    }
}

/// Emits an event that belongs to no API.
fn emit_own(events: &Events, what: EventKind) {
    events.emit(|| Event {
        api: SELF_API,
        at: SystemClock::new().now(),
        trace: TraceId::NONE,
        what,
    });
}

/// API name of events that belong to no API.
pub(super) const SELF_API: SmolStr = SmolStr::new_static("outflow");
