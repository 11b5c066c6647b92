//! The running program: client, sidecar and admin API.
//!
//! All steps that can fail run before the first call is served: read the configuration, build the client,
//! open both ports. Shutdown reverses the order: it closes the ports, then finishes calls in flight, then
//! ends background tasks.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use outflow::cache::DiskState;
use outflow::config::Diagnostics;
use outflow::core::HealthOverride;
use outflow::{InitError, Outflow, OverrideNote, SpawnError, SystemClock, Tasks, Upstream};
use outflow_bulk::{OpenError, RunningEngine};
use outflow_listener::{ActivatedSockets, ListenAddr, ListenError, ListenTarget, Listener, SocketPurpose};
use outflow_store::StoreError;

use crate::app_state::AppState;
use crate::config::ProgramConfig;
use crate::config_sources::ConfigSources;
use crate::public_listener_token::ProgramExposure;
use crate::reload;
use crate::shared_ledger;

/// The running program.
pub struct Program {
    state: Arc<AppState>,
    sidecar: ListenAddr,
    admin: ListenAddr,
}

impl Program {
    /// Starts the program inside of a runtime, and reloads the configuration whenever one of its files
    /// changes.
    ///
    /// # Errors
    /// If a step fails. Nothing is left running then.
    pub async fn start(sources: ConfigSources) -> Result<Self, StartError> {
        Self::start_watching(sources, ConfigWatch::Files).await
    }

    /// Starts the program with or without a watch on the files. SIGHUP reloads in either case.
    ///
    /// # Errors
    /// As [`Program::start`].
    pub async fn start_watching(sources: ConfigSources, watch: ConfigWatch) -> Result<Self, StartError> {
        let config = sources.read().map_err(StartError::Config)?;
        Self::start_with(config, sources, watch).await
    }

    /// Starts the program with a configuration that was just read from the sources. A large configuration is
    /// not read twice.
    ///
    /// # Errors
    /// As [`Program::start`].
    pub async fn start_with(
        config: ProgramConfig,
        sources: ConfigSources,
        watch: ConfigWatch,
    ) -> Result<Self, StartError> {
        let mut given = ActivatedSockets::from_env();
        let sidecar_listener = open_listener(&mut given, SocketPurpose::Calls, &config.server.listen).await?;
        let admin_listener = open_listener(&mut given, SocketPurpose::Admin, &config.admin.listen).await?;
        let (sidecar, admin) = (sidecar_listener.address().clone(), admin_listener.address().clone());
        let exposure = ProgramExposure::new(&sidecar, &admin);
        if let Some(section) = exposure.missing_token(&config) {
            return Err(StartError::Unguarded(section));
        }
        let shared = shared_ledger::client_config(&config).map_err(StartError::Ledger)?;
        let client = Outflow::init(shared).map_err(StartError::Client)?;
        check_cache_dir(&client, &config)?;
        if sources.offline {
            force_sleep(client.upstreams());
        }
        let tasks = Tasks::new(TASK_OWNER, client.events().clone(), Arc::new(SystemClock::new()));
        let bulk = start_bulk(&client, &config, &sources).await?;
        let state = Arc::new(AppState {
            exposure,
            bulk,
            ..AppState::new(client, config, sources, tasks)
        });
        state.sidecar().open(sidecar_listener).map_err(StartError::Tasks)?;
        outflow_admin::open(state.clone(), admin_listener).map_err(StartError::Tasks)?;
        reload::on_hangup(&state).map_err(StartError::Tasks)?;
        if watch == ConfigWatch::Files {
            reload::on_change(&state).map_err(StartError::Tasks)?;
        }
        state.service_manager.ready();
        Ok(Self { state, sidecar, admin })
    }

    /// Returns the shared state.
    pub const fn state(&self) -> &Arc<AppState> {
        &self.state
    }

    /// Returns the address of the sidecar.
    pub const fn sidecar(&self) -> &ListenAddr {
        &self.sidecar
    }

    /// Returns the address of the admin API.
    pub const fn admin(&self) -> &ListenAddr {
        &self.admin
    }

    /// Rejects new calls, waits for calls in flight up to `server.grace`, and ends. Idle connections are
    /// closed at once. Returns true if all calls finished. Dropping the future ends the program without
    /// further waiting.
    pub async fn stop(self) -> bool {
        self.state.service_manager.stopping();
        let grace = self.state.config().server.grace;
        let connections = self.state.tasks().shutdown(grace);
        let (connections, jobs) = tokio::join!(connections, self.stop_jobs());
        let calls = self.state.client().close(LAST_CALLS).await;
        connections.is_clean() && jobs && calls
    }

    /// Releases unfinished jobs. The next process that opens the store starts them again, so this is no
    /// failure.
    async fn stop_jobs(&self) -> bool {
        let Some(bulk) = &self.state.bulk else {
            return true;
        };
        bulk.drain().await;
        bulk.close().await
    }
}

/// Trigger of a reload.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ConfigWatch {
    /// A change of one of the files.
    #[default]
    Files,
    /// Only SIGHUP or the admin API.
    Nothing,
}

/// Returns the socket that the service manager passed for this purpose, or opens one.
async fn open_listener(
    given: &mut ActivatedSockets,
    purpose: SocketPurpose,
    target: &ListenTarget,
) -> Result<Listener, StartError> {
    match given.take(purpose).map_err(StartError::Given)? {
        Some(listener) => Ok(listener),
        None => Listener::open(target).await.map_err(StartError::Listen),
    }
}

/// Starts the bulk engine, if it is enabled.
async fn start_bulk(
    client: &Outflow,
    config: &ProgramConfig,
    sources: &ConfigSources,
) -> Result<Option<RunningEngine>, StartError> {
    if !sources.bulk {
        return Ok(None);
    }
    let bulk = RunningEngine::new(client, &config.client.apis, &config.bulk).await;
    bulk.map(Some).map_err(StartError::Bulk)
}

/// Forces these APIs to sleep. No timer ends it; an operator's release does.
pub(crate) fn force_sleep(upstreams: impl IntoIterator<Item = Upstream>) {
    for upstream in upstreams {
        let note = OverrideNote::new("--offline", None);
        upstream.force_health_by(None, HealthOverride::Sleep, &note);
    }
}

/// Fails if another program uses the cache directory: each of the two would know half of the entries. The
/// cache locks its directory while it is open.
fn check_cache_dir(client: &Outflow, config: &ProgramConfig) -> Result<(), StartError> {
    let state = client.cache().map(|cache| cache.report().state);
    match (&config.client.cache.dir, state) {
        (Some(dir), Some(DiskState::Elsewhere)) => Err(StartError::InUse(dir.clone())),
        _ => Ok(()),
    }
}

/// Reason why the program could not start.
#[derive(Debug)]
#[non_exhaustive]
pub enum StartError {
    /// The configuration has errors.
    Config(Diagnostics),
    /// A port could not be opened.
    Listen(ListenError),
    /// The service manager passed a socket that cannot be used.
    Given(io::Error),
    /// Other machines can reach the socket of this section, and it asks for no token.
    Unguarded(&'static str),
    /// Another program uses this cache directory.
    InUse(PathBuf),
    /// The client could not be built.
    Client(InitError),
    /// The ledger of the shared limits cannot be opened.
    Ledger(StoreError),
    /// The bulk engine cannot start.
    Bulk(OpenError),
    /// Tasks cannot be spawned.
    Tasks(SpawnError),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Config(diagnostics) => diagnostics.fmt(f),
            Self::Listen(why) => why.fmt(f),
            Self::Given(why) => write!(
                f,
                "the service manager passed a socket that cannot be used ({why}): check its socket unit"
            ),
            Self::Unguarded(section) => write!(
                f,
                "every client of the passed socket could use your keys: name a secret in \
                 `{section}.token_env` or `{section}.token_file`, or listen on 127.0.0.1"
            ),
            Self::InUse(dir) => write!(
                f,
                "another program, perhaps another outflow, uses the directory {}: stop it or set \
                 `cache.dir` to another",
                dir.display()
            ),
            Self::Client(why) => why.fmt(f),
            Self::Ledger(why) => why.fmt(f),
            Self::Bulk(why) => why.fmt(f),
            Self::Tasks(why) => why.fmt(f),
        }
    }
}

impl std::error::Error for StartError {}

/// Name under which the program's own tasks are reported, next to the APIs.
const TASK_OWNER: &str = "outflow";

/// Only the program itself can still have calls in flight after all connections are closed.
const LAST_CALLS: Duration = Duration::from_secs(1);
