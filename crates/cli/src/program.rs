//! The running program: a client that governs, the sidecar before it and the admin API beside it.
//!
//! Everything that can go wrong goes wrong before anything is served: the configuration is read, the
//! client made and both ports opened first. The end is the same in reverse: no new connections, then
//! the calls under way, then what runs beside them.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use outflow::cache::DiskState;
use outflow::config::Diagnostics;
use outflow::core::HealthOverride;
use outflow::{InitError, Outflow, SpawnError, SystemClock, Tasks, Upstream};
use outflow_bulk::{OpenError, RunningEngine};
use outflow_listener::{
    ActivatedSockets, ListenAddr, ListenError, ListenTarget, Listener, SocketPurpose,
};

use crate::app_state::{AppState, Exposure};
use crate::config::ProgramConfig;
use crate::config_sources::ConfigSources;
use crate::reload;

/// The program while it runs.
pub struct Program {
    station: Arc<AppState>,
    sidecar: ListenAddr,
    admin: ListenAddr,
}

impl Program {
    /// Starts everything, inside of a runtime, and reads the configuration again whenever a file of it
    /// changes.
    ///
    /// # Errors
    /// If anything of it is not possible. Nothing is left running then.
    pub async fn start(sources: ConfigSources) -> Result<Self, StartError> {
        Self::start_watching(sources, ConfigWatch::Files).await
    }

    /// The same, watching the files or not. SIGHUP has them read again in any case.
    ///
    /// # Errors
    /// As [`Program::start`].
    pub async fn start_watching(
        sources: ConfigSources,
        watch: ConfigWatch,
    ) -> Result<Self, StartError> {
        let config = sources.read().map_err(StartError::Config)?;
        Self::start_with(config, sources, watch).await
    }

    /// The same with what was just read from the sources, for whoever had to look at it before: a large
    /// configuration is not read twice.
    ///
    /// # Errors
    /// As [`Program::start`].
    pub async fn start_with(
        config: ProgramConfig,
        sources: ConfigSources,
        watch: ConfigWatch,
    ) -> Result<Self, StartError> {
        let mut given = ActivatedSockets::from_env();
        let calls = listener(&mut given, SocketPurpose::Calls, &config.server.listen).await?;
        let operators = listener(&mut given, SocketPurpose::Admin, &config.admin.listen).await?;
        let (sidecar, admin) = (calls.address().clone(), operators.address().clone());
        let doors = Exposure::new(&sidecar, &admin);
        if let Some(section) = doors.missing_token(&config) {
            return Err(StartError::Unguarded(section));
        }
        let client = Outflow::init(config.client.clone()).map_err(StartError::Client)?;
        alone(&client, &config)?;
        if sources.is_offline() {
            hold_asleep(client.upstreams());
        }
        let tasks = Tasks::new(
            OURSELVES,
            client.events().clone(),
            Arc::new(SystemClock::new()),
        );
        let bulk = bulk(&client, &config, &sources).await?;
        let station = AppState::new(client, config, sources, tasks).behind(doors);
        let station = Arc::new(station.working_on(bulk));
        station.sidecar().open(calls).map_err(StartError::Tasks)?;
        outflow_admin::open(station.clone(), operators).map_err(StartError::Tasks)?;
        reload::on_hangup(&station).map_err(StartError::Tasks)?;
        if watch == ConfigWatch::Files {
            reload::on_change(&station).map_err(StartError::Tasks)?;
        }
        station.supervisor.ready();
        Ok(Self {
            station,
            sidecar,
            admin,
        })
    }

    /// What its rooms share.
    pub const fn station(&self) -> &Arc<AppState> {
        &self.station
    }

    /// Where calls are taken.
    pub const fn sidecar(&self) -> &ListenAddr {
        &self.sidecar
    }

    /// Where it is operated.
    pub const fn admin(&self) -> &ListenAddr {
        &self.admin
    }

    /// Takes no more calls, waits for those under way as long as the configuration says, and ends.
    /// Connections on which nothing happens are closed at once. Says whether all calls could finish.
    /// Dropped, it ends without waiting any longer.
    pub async fn stop(self) -> bool {
        self.station.supervisor.stopping();
        let grace = self.station.config().server.grace;
        let connections = self.station.tasks().shutdown(grace);
        let (connections, jobs) = tokio::join!(connections, self.stop_jobs());
        let calls = self.station.client().close(LAST_CALLS).await;
        connections.is_clean() && jobs && calls
    }

    /// Jobs that could not finish are given back, and are begun again by whoever has the store next: that
    /// is no failure.
    async fn stop_jobs(&self) -> bool {
        let Some(bulk) = &self.station.bulk else {
            return true;
        };
        bulk.wait_previous_window().await;
        bulk.close().await
    }
}

/// Whether the configuration is read again by itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ConfigWatch {
    /// When one of its files changes.
    #[default]
    Files,
    /// Only when somebody asks for it.
    Nothing,
}

/// The socket that was handed over for this, or one of our own.
async fn listener(
    given: &mut ActivatedSockets,
    purpose: SocketPurpose,
    place: &ListenTarget,
) -> Result<Listener, StartError> {
    match given.take(purpose).map_err(StartError::Given)? {
        Some(listener) => Ok(listener),
        None => Listener::open(place).await.map_err(StartError::Listen),
    }
}

/// The engine for jobs, if it is wanted.
async fn bulk(
    client: &Outflow,
    config: &ProgramConfig,
    sources: &ConfigSources,
) -> Result<Option<RunningEngine>, StartError> {
    if !sources.is_bulk() {
        return Ok(None);
    }
    let bulk = RunningEngine::new(client, &config.client.apis, &config.bulk).await;
    bulk.map(Some).map_err(StartError::Bulk)
}

/// Holds these APIs asleep. No timer leaves it; an operator's release does.
pub(crate) fn hold_asleep(doors: impl IntoIterator<Item = Upstream>) {
    for door in doors {
        door.force_health(None, HealthOverride::Sleep);
    }
}

/// Two programs that keep answers in one directory would each know half of them. The cache holds a lock
/// on its directory for as long as it is open, and says who was first.
fn alone(client: &Outflow, config: &ProgramConfig) -> Result<(), StartError> {
    let state = client.cache().map(|cache| cache.report().state);
    match (&config.client.cache.dir, state) {
        (Some(dir), Some(DiskState::Elsewhere)) => Err(StartError::InUse(dir.clone())),
        _ => Ok(()),
    }
}

/// Why the program could not start.
#[derive(Debug)]
#[non_exhaustive]
pub enum StartError {
    /// The configuration has mistakes.
    Config(Diagnostics),
    /// A port could not be opened.
    Listen(ListenError),
    /// What the supervisor handed over cannot be listened on.
    Given(io::Error),
    /// Others can reach the socket of this section, and it asks for no token.
    Unguarded(&'static str),
    /// Another program keeps its answers in this directory.
    InUse(PathBuf),
    /// The client could not be made.
    Client(InitError),
    /// The engine for jobs cannot begin.
    Bulk(OpenError),
    /// Nothing can be started here.
    Tasks(SpawnError),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Config(mistakes) => mistakes.fmt(f),
            Self::Listen(why) => why.fmt(f),
            Self::Given(why) => write!(
                f,
                "the supervisor handed over what cannot be listened on ({why}): look at its socket unit"
            ),
            Self::Unguarded(section) => write!(
                f,
                "whoever reaches the socket that was handed over could use your keys: name a secret in \
                 `{section}.token_env` or `{section}.token_file`, or have it listen on 127.0.0.1"
            ),
            Self::InUse(dir) => write!(
                f,
                "another program, perhaps another outflow, uses the directory {}: stop it or set \
                 `cache.dir` to another",
                dir.display()
            ),
            Self::Client(why) => why.fmt(f),
            Self::Bulk(why) => why.fmt(f),
            Self::Tasks(why) => why.fmt(f),
        }
    }
}

impl std::error::Error for StartError {}

/// Under this name the program's own work is reported, beside the APIs.
const OURSELVES: &str = "outflow";

/// Whoever still calls when all connections are closed is the program itself, and has said what it had
/// to.
const LAST_CALLS: Duration = Duration::from_secs(1);
