//! The bulk engine inside the program: where it keeps its jobs, and how it begins and ends.
//!
//! The same engine stands behind `outflow serve --bulk`, which takes jobs over the admin API, and behind
//! `outflow bulk run`, which takes them from a file and ends with it. It sends by the program's own client,
//! so that jobs and calls of the sidecar share every limit.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use outflow::{Api, Outflow, SpawnError, SystemClock, Tasks};
use outflow_core::WallTime;
use outflow_store::{AnyStore, EmbeddedStore, InvalidName, RedisStore, StoreError, Writer};
use secrecy::SecretString;

use crate::config::BulkConfig;
use crate::config::location::StoreLocation;
use crate::engine::Engine;
use crate::error::BulkError;
use crate::previous_run::PreviousRun;
use crate::settings::EngineSettings;
use crate::submit::lane::Lane;

/// The engine over a store of either kind.
pub type StoreEngine = Engine<AnyStore>;

/// The engine, and what keeps its store alive.
pub struct RunningEngine {
    engine: StoreEngine,
    storeroom: Tasks,
}

/// A store that is open, and nobody works on its jobs yet.
///
/// Opening it takes the lock of its directory. Whoever keeps something beside the jobs opens the store
/// first, so that two processes never write there at once.
pub struct OpenStore {
    store: Arc<AnyStore>,
    storeroom: Tasks,
}

impl OpenStore {
    /// Opens the store.
    ///
    /// # Errors
    /// If the store cannot be opened, or tasks cannot be started.
    pub async fn open(client: &Outflow, place: StoreLocation) -> Result<Self, OpenError> {
        let events = client.events().clone();
        let storeroom = Tasks::new(OURSELVES, events, Arc::new(SystemClock::new()));
        let store = match place {
            StoreLocation::Dir(dir) => opened(&dir, &storeroom)?,
            StoreLocation::Server(options) => {
                let store = RedisStore::connect(options).await;
                AnyStore::redis(
                    store.map_err(OpenError::Store)?,
                    Arc::new(SystemClock::new()),
                )
            }
        };
        Ok(Self {
            store: Arc::new(store),
            storeroom,
        })
    }

    /// The store.
    pub const fn store(&self) -> &Arc<AnyStore> {
        &self.store
    }

    /// Starts no job of these APIs before these instants.
    pub fn hold_back(&self, instants: BTreeMap<String, WallTime>) {
        self.store
            .hold_lanes(move |lane| match Lane::from_name(lane) {
                Lane::Api { api, .. } => instants.get(&api).copied(),
                Lane::Handler(_) => None,
            });
    }

    /// Starts an engine on the jobs of the store.
    ///
    /// # Errors
    /// If the engine cannot start.
    pub async fn begin(
        self,
        client: &Outflow,
        settings: EngineSettings,
        secret: Option<SecretString>,
    ) -> Result<RunningEngine, OpenError> {
        let builder = Engine::builder(client.clone(), self.store);
        let mut builder = builder.settings(settings);
        if let Some(secret) = secret {
            builder = builder.webhook_secret(secret);
        }
        Ok(RunningEngine {
            engine: builder.start().await.map_err(OpenError::Engine)?,
            storeroom: self.storeroom,
        })
    }

    /// Lets the store write what it has, and stop.
    pub async fn close(self) -> bool {
        self.store.end();
        self.storeroom.shutdown(LAST_WRITES).await.is_clean()
    }
}

impl RunningEngine {
    /// Starts the engine that a configuration describes.
    ///
    /// # Errors
    /// If a tenant name is invalid, or the store or the engine cannot start.
    pub async fn new(
        client: &Outflow,
        apis: &[Api],
        section: &BulkConfig,
    ) -> Result<Self, OpenError> {
        let settings = EngineSettings::from_section(section).map_err(OpenError::Name)?;
        let place = StoreLocation::from_section(section);
        let earlier = PreviousRun::from_location(&place);
        let opened = OpenStore::open(client, place).await?;
        opened.hold_back(earlier.over_by(apis, section));
        let secret = section.webhook_secret.clone();
        opened.begin(client, settings, secret).await
    }

    /// Goes on as another configuration says, without waiting for it. Where jobs are kept stays as it is
    /// until the next start.
    pub fn reconfigure(&self, section: &BulkConfig, tasks: &Tasks) {
        // The names of tenants were read with the rest, so there is no wrong one among them.
        let Ok(settings) = EngineSettings::from_section(section) else {
            return;
        };
        let engine = self.engine.clone();
        // Refused only while the program stops.
        let _stopping = tasks.spawn_once("bulk settings", async move {
            // What the store does not take now it is told again at the next reload.
            let _later = engine.reconfigure(settings).await;
        });
    }

    /// The engine.
    pub const fn engine(&self) -> &StoreEngine {
        &self.engine
    }

    /// The store.
    pub fn store(&self) -> &Arc<AnyStore> {
        self.engine.store()
    }

    /// Starts no more jobs, waits for those under way, gives back the rest and closes the store. Says
    /// whether nothing had to be given back. What was done may be asked for until [`close`](Self::close).
    pub async fn wait_previous_window(&self) -> bool {
        self.engine.stop().await
    }

    /// Lets the store write what it has, and stop. Says whether it did in time.
    pub async fn close(&self) -> bool {
        self.store().end();
        self.storeroom.shutdown(LAST_WRITES).await.is_clean()
    }

    /// Both, one after the other.
    pub async fn stop(&self) -> bool {
        let rested = self.wait_previous_window().await;
        self.close().await && rested
    }
}

impl fmt::Debug for RunningEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bulk").finish_non_exhaustive()
    }
}

fn opened(dir: &Path, storeroom: &Tasks) -> Result<AnyStore, OpenError> {
    let opened = EmbeddedStore::open(dir, Arc::new(SystemClock::new()));
    let (store, writer) = opened.map_err(OpenError::Store)?;
    let write = on_its_own(writer);
    storeroom
        .spawn_thread("job store", move |_| write())
        .map_err(OpenError::Tasks)?;
    Ok(AnyStore::embedded(store, Arc::new(SystemClock::new())))
}

/// A writer is used up by running; if its thread fell, it is not started again, and the store says so.
fn on_its_own(writer: Writer) -> impl Fn() + Send + Sync {
    let seat = Mutex::new(Some(writer));
    move || {
        let writer = seat.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(writer) = writer {
            writer.run();
        }
    }
}

/// Why there is no engine.
#[derive(Debug)]
pub enum OpenError {
    /// The store cannot be opened.
    Store(StoreError),
    /// A tenant's name in the configuration is none.
    Name(InvalidName),
    /// The engine cannot begin.
    Engine(BulkError),
    /// Nothing can be started here.
    Tasks(SpawnError),
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Store(why) => why.fmt(f),
            Self::Name(why) => write!(f, "`bulk.tenants`: {why}"),
            Self::Engine(why) => why.fmt(f),
            Self::Tasks(why) => why.fmt(f),
        }
    }
}

impl std::error::Error for OpenError {}

/// Under this name the store's own work is reported.
const OURSELVES: &str = "bulk";

/// Enough for a disk that is busy; what is not written by then is done again.
const LAST_WRITES: Duration = Duration::from_secs(10);
