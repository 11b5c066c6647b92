//! The running program: a client that governs, the sidecar before it and the admin API beside it.
//!
//! Everything that can go wrong goes wrong before anything is served: the configuration is read, the
//! client made and both ports opened first. The end is the same in reverse: no new connections, then
//! the calls under way, then what runs beside them.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use outflow::config::Mistakes;
use outflow::{CannotStart, InitError, Outflow, SystemClock, Tasks};

use crate::listener::{Address, CannotListen, Listener};
use crate::sources::Sources;
use crate::station::Station;
use crate::{admin, sidecar};

/// The program while it runs.
pub struct Program {
    station: Arc<Station>,
    sidecar: Address,
    admin: Address,
}

impl Program {
    /// Starts everything, inside of a runtime.
    ///
    /// # Errors
    /// If anything of it is not possible. Nothing is left running then.
    pub async fn start(sources: Sources) -> Result<Self, StartError> {
        let config = sources.read().map_err(StartError::Config)?;
        let calls = Listener::open(&config.server.listen).await;
        let calls = calls.map_err(StartError::Listen)?;
        let operators = Listener::open(&config.admin.listen).await;
        let operators = operators.map_err(StartError::Listen)?;
        let client = Outflow::init(config.clone()).map_err(StartError::Client)?;
        let tasks = Tasks::new(
            OURSELVES,
            client.events().clone(),
            Arc::new(SystemClock::new()),
        );
        let (sidecar, admin) = (calls.address().clone(), operators.address().clone());
        let station = Arc::new(Station::new(client, config, sources, tasks));
        sidecar::open(&station, calls).map_err(StartError::Tasks)?;
        admin::open(&station, operators).map_err(StartError::Tasks)?;
        Ok(Self {
            station,
            sidecar,
            admin,
        })
    }

    /// What its rooms share.
    pub const fn station(&self) -> &Arc<Station> {
        &self.station
    }

    /// Where calls are taken.
    pub const fn sidecar(&self) -> &Address {
        &self.sidecar
    }

    /// Where it is operated.
    pub const fn admin(&self) -> &Address {
        &self.admin
    }

    /// Takes no more calls, waits for those under way as long as the configuration says, and ends.
    /// Says whether all of them could finish.
    pub async fn stop(self) -> bool {
        let grace = self.station.config().server.grace;
        let connections = self.station.tasks().shutdown(grace).await;
        let calls = self.station.client().close(LAST_CALLS).await;
        connections.is_clean() && calls
    }
}

/// Why the program could not start.
#[derive(Debug)]
#[non_exhaustive]
pub enum StartError {
    /// The configuration has mistakes.
    Config(Mistakes),
    /// A port could not be opened.
    Listen(CannotListen),
    /// The client could not be made.
    Client(InitError),
    /// Nothing can be started here.
    Tasks(CannotStart),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Config(mistakes) => mistakes.fmt(f),
            Self::Listen(why) => why.fmt(f),
            Self::Client(why) => why.fmt(f),
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
