//! The bulk engine inside the program: where it keeps its jobs, and how it begins and ends.
//!
//! The same engine stands behind `outflow serve --bulk`, which takes jobs over the admin API, and behind
//! `outflow bulk run`, which takes them from a file and ends with it. It sends by the program's own client,
//! so that jobs and calls of the sidecar share every limit.

mod forecast;
mod line;
mod settings;
mod stored;
pub(crate) mod told;

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use outflow::{CannotStart, Events, Outflow, SystemClock, Tasks};
use outflow_bulk::{BulkError, Settings};
use outflow_store::{Embedded, StoreError, Writer};

pub(crate) use forecast::{Demand, Forecast};
pub(crate) use line::JobLine;
pub(crate) use settings::{Place, data, place, settings};
pub(crate) use stored::Stored;

/// The engine of this program.
pub(crate) type Engine = outflow_bulk::Engine<Stored>;

/// The engine, and what keeps its store alive.
pub(crate) struct Bulk {
    engine: Engine,
    storeroom: Tasks,
}

impl Bulk {
    /// Opens the store and lets the engine begin with whatever waits in it.
    pub(crate) async fn start(
        client: &Outflow,
        place: Place,
        settings: Settings,
    ) -> Result<Self, CannotBulk> {
        let clock = Arc::new(SystemClock::new());
        let storeroom = Tasks::new(OURSELVES, Events::new(), Arc::clone(&clock) as _);
        let store = match place {
            Place::Dir(dir) => {
                std::fs::create_dir_all(&dir).map_err(|why| CannotBulk::Dir(dir.clone(), why))?;
                let (store, writer) = Embedded::open(&dir, clock).map_err(CannotBulk::Store)?;
                let write = on_its_own(writer);
                storeroom
                    .thread("job store", move |_| write())
                    .map_err(CannotBulk::Tasks)?;
                Stored::Here(store)
            }
        };
        let builder = outflow_bulk::Engine::builder(client.clone(), Arc::new(store));
        let engine = builder.settings(settings).start().await;
        Ok(Self {
            engine: engine.map_err(CannotBulk::Engine)?,
            storeroom,
        })
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
    /// The directory cannot be made.
    Dir(PathBuf, std::io::Error),
    /// The store cannot be opened.
    Store(StoreError),
    /// The engine cannot begin.
    Engine(BulkError),
    /// Nothing can be started here.
    Tasks(CannotStart),
}

impl fmt::Display for CannotBulk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dir(dir, why) => write!(
                f,
                "the directory {} cannot be made ({why}): name one that can",
                dir.display()
            ),
            Self::Store(why) => why.fmt(f),
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
