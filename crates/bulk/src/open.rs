//! Start and end of the bulk engine inside a program, with its store.
//!
//! `outflow serve --bulk` feeds the engine over the admin API, `outflow bulk run` from a file. It sends
//! through the program's own client, so that jobs and sidecar calls share every limit.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use outflow::{Api, Outflow, SpawnError, SystemClock, Tasks};
use outflow_core::WallTime;
use outflow_store::{AnyStore, EmbeddedStore, RedisStore, StoreError, Writer};
use outflow_sync::Mutex;
use secrecy::SecretString;

use crate::config::BulkConfig;
use crate::config::location::StoreLocation;
use crate::engine::Engine;
use crate::error::BulkError;
use crate::previous_run::PreviousRun;
use crate::settings::EngineSettings;
use crate::submit::lane::Lane;

/// Engine over a store of either kind.
pub type StoreEngine = Engine<AnyStore>;

/// Engine with the tasks of its store.
pub struct RunningEngine {
    engine: StoreEngine,
    store_tasks: Tasks,
}

/// Open store without an engine.
///
/// Opening it locks its directory. Open the store before other files of the directory, so that two processes
/// never write there at once.
pub struct OpenStore {
    store: Arc<AnyStore>,
    store_tasks: Tasks,
}

impl OpenStore {
    /// Opens the store.
    ///
    /// # Errors
    /// If the store cannot be opened, or tasks cannot be started.
    pub async fn open(client: &Outflow, location: StoreLocation) -> Result<Self, OpenError> {
        let events = client.events().clone();
        let store_tasks = Tasks::new(TASK_OWNER, events, Arc::new(SystemClock::new()));
        let store = match location {
            StoreLocation::Dir(dir) => open_embedded(&dir, &store_tasks)?,
            StoreLocation::Server(options) => {
                let store = RedisStore::connect(options).await;
                AnyStore::redis(store.map_err(OpenError::Store)?, Arc::new(SystemClock::new()))
            }
        };
        Ok(Self {
            store: Arc::new(store),
            store_tasks,
        })
    }

    /// Returns the store.
    pub const fn store(&self) -> &Arc<AnyStore> {
        &self.store
    }

    /// Starts no job of these APIs before these instants.
    pub fn hold_back(&self, instants: BTreeMap<String, WallTime>) {
        self.store.hold_lanes(move |lane| match Lane::from_name(lane) {
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
            store_tasks: self.store_tasks,
        })
    }

    /// Flushes and closes the store. Returns true if it finished in time.
    pub async fn close(self) -> bool {
        self.store.end();
        self.store_tasks.shutdown(LAST_WRITES).await.is_clean()
    }
}

impl RunningEngine {
    /// Starts the engine that a configuration describes.
    ///
    /// # Errors
    /// If the store or the engine cannot start.
    pub async fn new(client: &Outflow, apis: &[Api], section: &BulkConfig) -> Result<Self, OpenError> {
        let settings = EngineSettings::from_section(section);
        let location = StoreLocation::from_section(section);
        let previous = PreviousRun::from_location(&location);
        let opened = OpenStore::open(client, location).await?;
        opened.hold_back(previous.over_by(apis, section));
        let secret = section.webhook_secret.clone();
        opened.begin(client, settings, secret).await
    }

    /// Applies another configuration in the background. The location of jobs changes only with a restart.
    pub fn reconfigure(&self, section: &BulkConfig, tasks: &Tasks) {
        let settings = EngineSettings::from_section(section);
        let engine = self.engine.clone();
        // Fails only while the program stops.
        let _stopping = tasks.spawn_once("bulk settings", async move {
            // A store that fails now gets the settings at the next reload.
            let _later = engine.reconfigure(settings).await;
        });
    }

    /// Returns the engine.
    pub const fn engine(&self) -> &StoreEngine {
        &self.engine
    }

    /// Returns the store.
    pub fn store(&self) -> &Arc<AnyStore> {
        self.engine.store()
    }

    /// Starts no more jobs, waits for jobs in flight and releases the rest. Returns true if no job was
    /// released. Results stay readable until [`close`](Self::close).
    pub async fn drain(&self) -> bool {
        self.engine.stop().await
    }

    /// Flushes and closes the store. Returns true if it finished in time.
    pub async fn close(&self) -> bool {
        self.store().end();
        self.store_tasks.shutdown(LAST_WRITES).await.is_clean()
    }

    /// Drains the engine and closes the store. Returns true if both succeeded.
    pub async fn stop(&self) -> bool {
        let drained = self.drain().await;
        self.close().await && drained
    }
}

impl fmt::Debug for RunningEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunningEngine").finish_non_exhaustive()
    }
}

fn open_embedded(dir: &Path, store_tasks: &Tasks) -> Result<AnyStore, OpenError> {
    let opened = EmbeddedStore::open(dir, Arc::new(SystemClock::new()));
    let (store, writer) = opened.map_err(OpenError::Store)?;
    let write = run_once(writer);
    store_tasks
        .spawn_thread("job store", move |_| write())
        .map_err(OpenError::Tasks)?;
    Ok(AnyStore::embedded(store, Arc::new(SystemClock::new())))
}

/// Returns the body of the writer's thread. A writer runs once: after a panic it is not restarted, and the
/// store reports that.
fn run_once(writer: Writer) -> impl Fn() + Send + Sync {
    let slot = Mutex::new(Some(writer));
    move || {
        let writer = slot.lock().take();
        if let Some(writer) = writer {
            writer.run();
        }
    }
}

/// Reason why the engine could not start.
#[derive(Debug)]
pub enum OpenError {
    /// The store cannot be opened.
    Store(StoreError),
    /// The engine cannot start.
    Engine(BulkError),
    /// Tasks cannot be spawned.
    Tasks(SpawnError),
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Store(why) => why.fmt(f),
            Self::Engine(why) => why.fmt(f),
            Self::Tasks(why) => why.fmt(f),
        }
    }
}

impl std::error::Error for OpenError {}

/// Name under which the store's tasks are reported.
const TASK_OWNER: &str = "bulk";

/// Enough for a busy disk; jobs that are not written by then run again.
const LAST_WRITES: Duration = Duration::from_secs(10);
