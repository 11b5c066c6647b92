//! The bulk engine inside the program: where it keeps its jobs, and how it begins and ends.
//!
//! The same engine stands behind `outflow serve --bulk`, which takes jobs over the admin API, and behind
//! `outflow bulk run`, which takes them from a file and ends with it. It sends by the program's own client,
//! so that jobs and calls of the sidecar share every limit.

mod any_store;
mod job_line;
mod location;
mod previous_run;
mod shape_error;
mod tenant_bounds;
pub(crate) mod views;

use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use outflow::config::BulkConfig;
use outflow::{Config, Outflow, SpawnError, SystemClock, Tasks};
use outflow_bulk::{BulkError, EngineSettings};
use outflow_store::{EmbeddedStore, InvalidName, RedisStore, StoreError, Writer};
use secrecy::SecretString;

pub(crate) use any_store::AnyStore;
pub(crate) use job_line::JobLine;
pub(crate) use location::{StoreLocation, data};
pub(crate) use previous_run::PreviousRun;
pub(crate) use tenant_bounds::{JobRate, TenantBounds, Workload};

/// The engine of this program.
pub(crate) type Engine = outflow_bulk::Engine<AnyStore>;

/// The engine, and what keeps its store alive.
pub(crate) struct RunningEngine {
    engine: Engine,
    storeroom: Tasks,
}

/// A store that is open, and nobody works on its jobs yet.
///
/// Opening it takes the lock of its directory. Whoever keeps something beside the jobs opens the store
/// first, so that two processes never write there at once.
pub(crate) struct OpenStore {
    store: Arc<AnyStore>,
    storeroom: Tasks,
}

impl OpenStore {
    /// Opens the store.
    pub(crate) async fn open(client: &Outflow, place: StoreLocation) -> Result<Self, OpenError> {
        let events = client.events().clone();
        let storeroom = Tasks::new(OURSELVES, events, Arc::new(SystemClock::new()));
        let store = match place {
            StoreLocation::Dir(dir) => opened(&dir, &storeroom)?,
            StoreLocation::Server(options) => {
                let store = RedisStore::connect(options).await;
                AnyStore::shared(store.map_err(OpenError::Store)?)
            }
        };
        Ok(Self {
            store: Arc::new(store),
            storeroom,
        })
    }

    /// The store.
    pub(crate) const fn store(&self) -> &Arc<AnyStore> {
        &self.store
    }

    /// Lets an engine begin with whatever waits in it.
    pub(crate) async fn begin(
        self,
        client: &Outflow,
        settings: EngineSettings,
        secret: Option<SecretString>,
    ) -> Result<RunningEngine, OpenError> {
        let builder = outflow_bulk::Engine::builder(client.clone(), self.store);
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
    pub(crate) async fn close(self) -> bool {
        self.store.end();
        self.storeroom.shutdown(LAST_WRITES).await.is_clean()
    }
}

impl RunningEngine {
    /// The engine that a configuration asks for.
    pub(crate) async fn new(client: &Outflow, config: &Config) -> Result<Self, OpenError> {
        let section = &config.bulk;
        let settings = EngineSettings::from_section(section).map_err(OpenError::Name)?;
        let place = StoreLocation::from_section(section);
        let earlier = PreviousRun::from_location(&place);
        let opened = OpenStore::open(client, place).await?;
        opened.store().rest_until(earlier.over_by(config));
        let secret = section.webhook_secret.clone();
        opened.begin(client, settings, secret).await
    }

    /// Goes on as another configuration says, without waiting for it. Where jobs are kept stays as it is
    /// until the next start.
    pub(crate) fn adopt(&self, section: &BulkConfig, tasks: &Tasks) {
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
    pub(crate) const fn engine(&self) -> &Engine {
        &self.engine
    }

    /// The store.
    pub(crate) fn store(&self) -> &Arc<AnyStore> {
        self.engine.store()
    }

    /// Starts no more jobs, waits for those under way, gives back the rest and closes the store. Says
    /// whether nothing had to be given back. What was done may be asked for until [`close`](Self::close).
    pub(crate) async fn wait_previous_window(&self) -> bool {
        self.engine.stop().await
    }

    /// Lets the store write what it has, and stop. Says whether it did in time.
    pub(crate) async fn close(&self) -> bool {
        self.store().end();
        self.storeroom.shutdown(LAST_WRITES).await.is_clean()
    }

    /// Both, one after the other.
    pub(crate) async fn stop(&self) -> bool {
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
    Ok(AnyStore::here(store))
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
