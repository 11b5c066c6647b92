//! What runs beside a client that was made from a configuration: its log, its metrics, the cache's
//! writer, and housekeeping.
//!
//! No call needs any of it to be right. A log that cannot be written drops lines, a writer that is gone
//! leaves the cache in memory, and limits and health look at the clock whenever they are asked. So this
//! is started after the client and drained after its last call.

mod failure;
mod standing;
mod upkeep;
mod writing;

use std::sync::Arc;
use std::time::Duration;

use smol_str::SmolStr;

pub use self::failure::InitError;
use self::standing::Doors;
use self::upkeep::{keep_house, rhythm, write_answers};
use self::writing::snapshot;
use super::Outflow;
use crate::cache::{Cache, CacheSettings};
use crate::clock::SystemClock;
use crate::config::Config;
use crate::event::Events;
use crate::log::{Lines, Log, Narrator};
use crate::metrics::{Known, Metrics};
use crate::redact::Scrubber;
use crate::tasks::{Drained, Tasks};
use crate::upstream::Upstream;

/// All that runs beside a client.
pub(super) struct Household {
    pub(super) metrics: Arc<Metrics>,
    pub(super) tasks: Tasks,
    events: Events,
    log: Option<Log>,
    lines: Option<Lines>,
}

impl Household {
    /// A client as it is configured, and what runs beside it.
    pub(super) fn found(config: Config) -> Result<(Outflow, Self), InitError> {
        let cache = Cache::open(kept(&config.cache)).map_err(InitError::Cache)?;
        let household = Self::of(&config)?;
        let (tasks, events) = (&household.tasks, &household.events);
        let builder = Outflow::builder().events(events.clone());
        let builder = builder.cache(cache.clone());
        let every = rhythm(&config);
        let apis = config.apis.into_iter();
        let client = apis.fold(builder, super::Builder::api).build();
        let client = client.map_err(InitError::Client)?;
        let doors: Vec<_> = client.upstreams().cloned().collect();
        household.ask(doors.clone());
        keep_house(tasks, doors, every)?;
        write_answers(tasks, cache, events.clone())?;
        Ok((client, household))
    }

    /// Those who listen and write, before there is anything to hear.
    fn of(config: &Config) -> Result<Self, InitError> {
        let (events, scrubber) = (Events::new(), secrets(config));
        let metrics = Arc::new(Metrics::new(config.apis.iter().map(Known::from)));
        let clock = Arc::new(SystemClock::new());
        let tasks = Tasks::new(OURSELVES, events.clone(), clock);
        events.subscribe(metrics.clone());
        events.subscribe(Arc::new(Narrator::new(scrubber.clone())));
        let log = writing::log(config, scrubber, &tasks)?;
        if let Some(log) = &log {
            events.subscribe(Arc::new(log.clone()));
        }
        let lines = writing::lines(config, &metrics, &tasks)?;
        Ok(Self {
            metrics,
            tasks,
            events,
            log,
            lines,
        })
    }

    /// Has the metrics ask the doors how they stand, and the writers what they dropped.
    fn ask(&self, doors: Vec<Upstream>) {
        self.metrics.ask(Arc::new(Doors(doors)));
        if let Some(log) = &self.log {
            self.metrics.ask(Arc::new(log.clone()));
        }
        if let Some(lines) = &self.lines {
            self.metrics.ask(Arc::new(lines.clone()));
        }
    }

    /// Lets everything finish what it began.
    pub(super) async fn drain(&self, patience: Duration) -> Drained {
        self.close();
        self.tasks.shutdown(patience).await
    }

    /// The numbers since the last interval are in no line yet: they are written before the end.
    fn close(&self) {
        if let Some(log) = &self.log {
            log.close();
        }
        if let Some(lines) = &self.lines {
            lines.send(snapshot(&self.metrics));
            lines.close();
        }
    }
}

/// Observers hold doors and doors hold observers: somebody has to let go.
impl Drop for Household {
    fn drop(&mut self) {
        self.close();
        self.events.silence();
    }
}

fn kept(configured: &crate::config::CacheSettings) -> CacheSettings {
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
fn secrets(config: &Config) -> Scrubber {
    let scrubber = Scrubber::new();
    for credential in config.apis.iter().filter_map(|api| api.credential.as_ref()) {
        scrubber.learn(&credential.secret);
    }
    for token in [&config.server.token, &config.admin.token]
        .into_iter()
        .flatten()
    {
        scrubber.learn(token);
    }
    scrubber
}

/// The API of what happens at none.
const OURSELVES: SmolStr = SmolStr::new_static("outflow");
