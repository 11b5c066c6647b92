//! The bulk engine inside the program: where it keeps its jobs, and how it begins and ends.
//!
//! The same engine stands behind `outflow serve --bulk`, which takes jobs over the admin API, and behind
//! `outflow bulk run`, which takes them from a file and ends with it. It sends by the program's own client,
//! so that jobs and calls of the sidecar share every limit.

mod earlier;
mod forecast;
mod line;
mod misfit;
mod settings;
mod stored;
pub(crate) mod told;

use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use outflow::config::BulkSection;
use outflow::{CannotStart, Config, Outflow, SystemClock, Tasks};
use outflow_bulk::{BulkError, Settings};
use outflow_store::{Embedded, InvalidName, Redis, StoreError, Writer};
use secrecy::SecretString;

pub(crate) use earlier::Earlier;
pub(crate) use forecast::{Allowance, Demand, Forecast};
pub(crate) use line::JobLine;
pub(crate) use settings::{Place, data};
pub(crate) use stored::Stored;

/// The engine of this program.
pub(crate) type Engine = outflow_bulk::Engine<Stored>;

/// The engine, and what keeps its store alive.
pub(crate) struct Bulk {
    engine: Engine,
    storeroom: Tasks,
}

/// A store that is open, and nobody works on its jobs yet.
///
/// Opening it takes the lock of its directory. Whoever keeps something beside the jobs opens the store
/// first, so that two processes never write there at once.
pub(crate) struct Opened {
    store: Arc<Stored>,
    storeroom: Tasks,
}

impl Opened {
    /// Opens the store.
    pub(crate) async fn at(client: &Outflow, place: Place) -> Result<Self, CannotBulk> {
        let events = client.events().clone();
        let storeroom = Tasks::new(OURSELVES, events, Arc::new(SystemClock::new()));
        let store = match place {
            Place::Dir(dir) => opened(&dir, &storeroom)?,
            Place::Server(options) => {
                let store = Redis::connect(options).await;
                Stored::shared(store.map_err(CannotBulk::Store)?)
            }
        };
        Ok(Self {
            store: Arc::new(store),
            storeroom,
        })
    }

    /// The store.
    pub(crate) const fn store(&self) -> &Arc<Stored> {
        &self.store
    }

    /// Lets an engine begin with whatever waits in it.
    pub(crate) async fn begin(
        self,
        client: &Outflow,
        settings: Settings,
        secret: Option<SecretString>,
    ) -> Result<Bulk, CannotBulk> {
        let builder = outflow_bulk::Engine::builder(client.clone(), self.store);
        let mut builder = builder.settings(settings);
        if let Some(secret) = secret {
            builder = builder.webhook_secret(secret);
        }
        Ok(Bulk {
            engine: builder.start().await.map_err(CannotBulk::Engine)?,
            storeroom: self.storeroom,
        })
    }

    /// Lets the store write what it has, and stop.
    pub(crate) async fn close(self) -> bool {
        self.store.end();
        self.storeroom.shutdown(LAST_WRITES).await.is_clean()
    }
}

impl Bulk {
    /// The engine that a configuration asks for.
    pub(crate) async fn of(client: &Outflow, config: &Config) -> Result<Self, CannotBulk> {
        let section = &config.bulk;
        let settings = Settings::of(section).map_err(CannotBulk::Name)?;
        let place = Place::of(section);
        let earlier = Earlier::of(&place);
        let opened = Opened::at(client, place).await?;
        opened.store().rest_until(earlier.over_by(config));
        let secret = section.webhook_secret.clone();
        opened.begin(client, settings, secret).await
    }

    /// Goes on as another configuration says, without waiting for it. Where jobs are kept stays as it is
    /// until the next start.
    pub(crate) fn adopt(&self, section: &BulkSection, tasks: &Tasks) {
        // The names of tenants were read with the rest, so there is no wrong one among them.
        let Ok(settings) = Settings::of(section) else {
            return;
        };
        let engine = self.engine.clone();
        // Refused only while the program stops.
        let _stopping = tasks.once("bulk settings", async move {
            // What the store does not take now it is told again at the next reload.
            let _later = engine.adopt(settings).await;
        });
    }

    /// The engine.
    pub(crate) const fn engine(&self) -> &Engine {
        &self.engine
    }

    /// The store.
    pub(crate) fn store(&self) -> &Arc<Stored> {
        self.engine.store()
    }

    /// Starts no more jobs, waits for those under way, gives back the rest and closes the store. Says
    /// whether nothing had to be given back. What was done may be asked for until [`close`](Self::close).
    pub(crate) async fn rest(&self) -> bool {
        self.engine.stop().await
    }

    /// Lets the store write what it has, and stop. Says whether it did in time.
    pub(crate) async fn close(&self) -> bool {
        self.store().end();
        self.storeroom.shutdown(LAST_WRITES).await.is_clean()
    }

    /// Both, one after the other.
    pub(crate) async fn stop(&self) -> bool {
        let rested = self.rest().await;
        self.close().await && rested
    }
}

impl fmt::Debug for Bulk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bulk").finish_non_exhaustive()
    }
}

fn opened(dir: &Path, storeroom: &Tasks) -> Result<Stored, CannotBulk> {
    let opened = Embedded::open(dir, Arc::new(SystemClock::new()));
    let (store, writer) = opened.map_err(CannotBulk::Store)?;
    let write = on_its_own(writer);
    storeroom
        .thread("job store", move |_| write())
        .map_err(CannotBulk::Tasks)?;
    Ok(Stored::here(store))
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
pub enum CannotBulk {
    /// The store cannot be opened.
    Store(StoreError),
    /// A tenant's name in the configuration is none.
    Name(InvalidName),
    /// The engine cannot begin.
    Engine(BulkError),
    /// Nothing can be started here.
    Tasks(CannotStart),
}

impl fmt::Display for CannotBulk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Store(why) => why.fmt(f),
            Self::Name(why) => write!(f, "`bulk.tenants`: {why}"),
            Self::Engine(why) => why.fmt(f),
            Self::Tasks(why) => why.fmt(f),
        }
    }
}

impl std::error::Error for CannotBulk {}

/// Under this name the store's own work is reported.
const OURSELVES: &str = "bulk";

/// Enough for a disk that is busy; what is not written by then is done again.
const LAST_WRITES: Duration = Duration::from_secs(10);
