//! What runs beside a client that was made from a configuration: its log, its metrics, the cache's
//! writer, and housekeeping.
//!
//! No call needs any of it to be right. A log that cannot be written drops lines, a writer that is gone
//! leaves the cache in memory, and limits and health look at the clock whenever they are asked. So this
//! is started after the client and drained after its last call.

use std::fmt;
use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use outflow_core::{Clock, OutcomeCounts, Rate, State};
use smol_str::SmolStr;
use tracing::Level;

use super::roster::Roster;
use super::{InvalidClient, Outflow};
use crate::api::Api;
use crate::cache::{Cache, CacheError, CacheSettings, DiskState};
use crate::clock::SystemClock;
use crate::config::{Config, LogFormat, LogLevel, Ndjson};
use crate::event::{Event, Events, What};
use crate::log::{Format, InvalidRolling, Lines, Log, LogPump, LogSettings, Narrator, RollingFile};
use crate::metrics::{Known, Metrics, Reading, Source};
use crate::ndjson;
use crate::redact::Scrubber;
use crate::tasks::{CannotStart, Drained, Stop, Tasks};
use crate::upstream::{Upstream, UpstreamReport};

/// All that runs beside a client.
pub(super) struct Household {
    pub(super) metrics: Arc<Metrics>,
    pub(super) tasks: Tasks,
    events: Events,
    scrubber: Scrubber,
    log: Option<Log>,
    lines: Option<Lines>,
    /// What it was started with, and runs with until it is started again; the APIs are not among it.
    begun: Config,
}

impl Household {
    /// A client as it is configured, and what runs beside it.
    pub(super) fn found(mut config: Config) -> Result<(Outflow, Self), InitError> {
        let (events, clock) = (Events::new(), Arc::new(SystemClock::new()));
        let metrics = Arc::new(Metrics::new(config.apis.iter().map(Known::from)));
        events.subscribe(metrics.clone());
        let scrubber = Scrubber::new();
        learn(&scrubber, &config.apis, &config);
        events.subscribe(Arc::new(Narrator::new(scrubber.clone())));
        let cache = Cache::open(kept(&config.cache)).map_err(InitError::Cache)?;
        let tasks = Tasks::new(OURSELVES, events.clone(), clock);
        let log = log(&config, scrubber.clone(), &tasks)?;
        let lines = lines(&config, &metrics, &tasks)?;
        let builder = Outflow::builder()
            .events(events.clone())
            .cache(cache.clone());
        let apis = std::mem::take(&mut config.apis).into_iter();
        let client = apis.fold(builder, super::Builder::api).build();
        let client = client.map_err(InitError::Client)?;
        let roster = Arc::clone(&client.inner.roster);
        metrics.ask(Arc::new(Doors(Arc::clone(&roster))));
        if let Some(log) = &log {
            events.subscribe(Arc::new(log.clone()));
            metrics.ask(Arc::new(log.clone()));
        }
        keep_house(&tasks, roster)?;
        write_answers(&tasks, cache, events.clone())?;
        let household = Self {
            metrics,
            tasks,
            events,
            scrubber,
            log,
            lines,
            begun: config,
        };
        Ok((client, household))
    }

    /// Keeps these secrets out of every line from now on.
    pub(super) fn learn_secrets(&self, apis: &[Api], config: &Config) {
        learn(&self.scrubber, apis, config);
    }

    /// Counts for these APIs too.
    pub(super) fn know<'a>(&self, apis: impl Iterator<Item = &'a Api>) {
        self.metrics.know(apis.map(Known::from));
    }

    /// Follows other settings as far as that is possible. Answers the keys that have to wait until the
    /// program is started again: what holds a file, a port or a directory open.
    pub(super) fn adopt(&self, config: &Config) -> Vec<String> {
        if let Some(log) = &self.log {
            log.set_level(level(config.log.level));
        }
        let unlogged = self.log.is_none() && config.log.level != LogLevel::Off;
        let (old, new) = (&self.begun, config);
        let differences = [
            ("log.level", unlogged),
            ("log.format", old.log.format != new.log.format),
            ("log.file", old.log.file != new.log.file),
            ("log.max_size", old.log.max_size != new.log.max_size),
            ("log.max_files", old.log.max_files != new.log.max_files),
            ("metrics.ndjson", old.metrics.ndjson != new.metrics.ndjson),
            (
                "metrics.interval",
                old.metrics.interval != new.metrics.interval,
            ),
            ("cache.dir", old.cache.dir != new.cache.dir),
            ("cache.size", old.cache.size != new.cache.size),
            ("server.listen", old.server.listen != new.server.listen),
            ("server.workers", old.server.workers != new.server.workers),
            ("admin.listen", old.admin.listen != new.admin.listen),
        ];
        let waiting = differences.into_iter().filter(|(_, differs)| *differs);
        waiting.map(|(key, _)| key.to_owned()).collect()
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
        ..usual
    }
}

/// What no line may hold.
fn learn(scrubber: &Scrubber, apis: &[Api], config: &Config) {
    for credential in apis.iter().filter_map(|api| api.credential.as_ref()) {
        scrubber.learn(&credential.secret);
    }
    for token in [&config.server.token, &config.admin.token]
        .into_iter()
        .flatten()
    {
        scrubber.learn(token);
    }
}

fn log(config: &Config, scrubber: Scrubber, tasks: &Tasks) -> Result<Option<Log>, InitError> {
    let Some(level) = level(config.log.level) else {
        return Ok(None);
    };
    let settings = LogSettings {
        format: match config.log.format {
            LogFormat::Logfmt => Format::Logfmt,
            LogFormat::Json => Format::Json,
        },
        level,
        scrubber,
        ..LogSettings::new(Arc::new(SystemClock::new()))
    };
    let (log, pump) = match &config.log.file {
        Some(file) => {
            let (size, files) = (config.log.max_size, config.log.max_files);
            let file = RollingFile::new(file, size, files).map_err(InitError::Log)?;
            Log::new(settings, file)
        }
        None => Log::new(settings, std::io::stderr()),
    };
    write_lines(tasks, "log", pump)?;
    Ok(Some(log))
}

const fn level(configured: LogLevel) -> Option<Level> {
    match configured {
        LogLevel::Off => None,
        LogLevel::Error => Some(Level::ERROR),
        LogLevel::Warn => Some(Level::WARN),
        LogLevel::Info => Some(Level::INFO),
        LogLevel::Debug => Some(Level::DEBUG),
        LogLevel::Trace => Some(Level::TRACE),
    }
}

/// Metrics as lines of JSON, where they are wanted.
fn lines(
    config: &Config,
    metrics: &Arc<Metrics>,
    tasks: &Tasks,
) -> Result<Option<Lines>, InitError> {
    let sink: Box<dyn Write + Send> = match &config.metrics.ndjson {
        Ndjson::Off => return Ok(None),
        Ndjson::Stdout => Box::new(std::io::stdout()),
        Ndjson::File(path) => {
            let (size, files) = (config.log.max_size, config.log.max_files);
            Box::new(RollingFile::new(path, size, files).map_err(InitError::Log)?)
        }
    };
    let (lines, pump) = Lines::new(sink);
    write_lines(tasks, "metrics-writer", pump)?;
    let (metrics, told, every) = (Arc::clone(metrics), lines.clone(), config.metrics.interval);
    let work = move |stop: Stop| {
        let (metrics, told) = (Arc::clone(&metrics), told.clone());
        every_so_often(stop, every, move || {
            told.send(snapshot(&metrics));
        })
    };
    tasks.spawn("metrics", work).map_err(InitError::Tasks)?;
    Ok(Some(lines))
}

fn snapshot(metrics: &Metrics) -> String {
    ndjson::snapshot_line(metrics, SystemClock::new().wall())
}

fn write_lines(tasks: &Tasks, name: &'static str, pump: LogPump) -> Result<(), InitError> {
    let pump = Mutex::new(pump);
    let work = move |_: &Stop| pump.lock().unwrap_or_else(PoisonError::into_inner).run();
    tasks.thread(name, work).map_err(InitError::Tasks)
}

/// How often the statistics are brought up to date: as the most impatient API wants it.
fn rhythm(roster: &Roster) -> Duration {
    let outlets = roster.all();
    let wanted = outlets.values().map(|outlet| outlet.api.rules.thresholds);
    let every = wanted.map(|thresholds| thresholds.statistics_every).min();
    every
        .unwrap_or(LONGEST_RHYTHM)
        .clamp(SHORTEST_RHYTHM, LONGEST_RHYTHM)
}

fn keep_house(tasks: &Tasks, roster: Arc<Roster>) -> Result<(), InitError> {
    let tidy = move |stop: Stop| {
        let roster = Arc::clone(&roster);
        async move {
            loop {
                tokio::select! {
                    () = stop.told() => return,
                    () = tokio::time::sleep(rhythm(&roster)) => {}
                }
                roster.doors().iter().for_each(Upstream::tidy);
            }
        }
    };
    tasks.spawn("tidy", tidy).map_err(InitError::Tasks)
}

/// Writes answers as they come, and tells when the directory stops being written or is again: nobody
/// would notice a cache that forgets everything with its process.
fn write_answers(tasks: &Tasks, cache: Cache, events: Events) -> Result<(), InitError> {
    let first = cache.report().state;
    if !matches!(first, DiskState::None | DiskState::Used) {
        tell_disk(&events, first);
    }
    let write = move |stop: &Stop| {
        let mut known = first;
        while !stop.is_told() {
            cache.flush();
            let state = cache.report().state;
            if std::mem::replace(&mut known, state) != state {
                tell_disk(&events, state);
            }
            std::thread::park_timeout(WRITE_EVERY);
        }
        cache.flush();
    };
    tasks.thread("cache", write).map_err(InitError::Tasks)
}

fn tell_disk(events: &Events, state: DiskState) {
    events.emit(|| Event {
        api: OURSELVES,
        at: SystemClock::new().now(),
        what: What::Disk { state },
    });
}

async fn every_so_often(stop: Stop, every: Duration, work: impl Fn()) {
    let mut ticks = tokio::time::interval(every.max(Duration::from_millis(1)));
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = stop.told() => return,
            _ = ticks.tick() => work(),
        }
    }
}

/// How the doors stand, for whoever looks at the metrics.
struct Doors(Arc<Roster>);

impl Source for Doors {
    fn read(&self, tell: &mut dyn FnMut(&str, Reading)) {
        for door in self.0.doors() {
            tell(door.name(), reading(&door.report()));
        }
    }
}

fn reading(report: &UpstreamReport) -> Reading {
    let healths = || report.health.iter();
    let counts = healths().map(|health| health.snapshot.counts);
    let counts = counts.fold(OutcomeCounts::default(), sum);
    let groups = report.groups.iter().flat_map(|group| &group.limits);
    let rates = report
        .limits
        .iter()
        .chain(groups)
        .map(|limit| limit.limit.rate());
    let slowest = rates.min_by(|one, other| one.cmp_speed(*other));
    let states = healths().map(|health| health.snapshot.state);
    Reading {
        state: states
            .max_by_key(|state| gravity(*state))
            .unwrap_or(State::Normal),
        counts,
        error_ppm: counts.failure_ppm(),
        rate: slowest.map_or(0.0, Rate::as_per_second),
        concurrency: healths().map(|health| health.concurrency).sum(),
        waiting: u64::try_from(report.waiting).unwrap_or(u64::MAX),
        in_flight: healths().map(|health| u64::from(health.in_flight)).sum(),
    }
}

const fn sum(one: OutcomeCounts, other: OutcomeCounts) -> OutcomeCounts {
    OutcomeCounts {
        success: one.success.saturating_add(other.success),
        throttled: one.throttled.saturating_add(other.throttled),
        server: one.server.saturating_add(other.server),
        network: one.network.saturating_add(other.network),
        other: one.other.saturating_add(other.other),
    }
}

/// How ill a state is: of several, the worst is told.
const fn gravity(state: State) -> u8 {
    match state {
        State::Normal => 0,
        State::Throttle => 1,
        State::HalfOpen => 2,
        State::Sleep => 3,
        State::CacheOnly => 4,
    }
}

/// Why a client could not be made from its configuration.
#[derive(Debug)]
#[non_exhaustive]
pub enum InitError {
    /// APIs that cannot be called as they are configured.
    Client(InvalidClient),
    /// The cache's directory cannot be used.
    Cache(CacheError),
    /// A log file cannot be written as configured.
    Log(InvalidRolling),
    /// Nothing can run beside the client.
    Tasks(CannotStart),
}

impl fmt::Display for InitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Client(why) => why.fmt(f),
            Self::Cache(why) => why.fmt(f),
            Self::Log(why) => why.fmt(f),
            Self::Tasks(why) => why.fmt(f),
        }
    }
}

impl std::error::Error for InitError {}

/// The API of what happens at none.
pub(super) const OURSELVES: SmolStr = SmolStr::new_static("outflow");

/// More often, statistics would cost more than the calls they are about.
const SHORTEST_RHYTHM: Duration = Duration::from_millis(100);

/// Other APIs may come at any time, and theirs must not wait for an hour to be looked at.
const LONGEST_RHYTHM: Duration = Duration::from_mins(1);

/// An answer that is lost in a crash is asked for again; a disk that is written all the time is not
/// worth it.
const WRITE_EVERY: Duration = Duration::from_millis(200);
