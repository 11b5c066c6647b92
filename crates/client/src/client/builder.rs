//! How a client is put together.

use std::fmt;
use std::sync::Arc;

use outflow_core::InvalidRetryBudget;
use smol_str::SmolStr;

use super::Outflow;
use super::api_client::ClientDeps;
use super::api_table::ApiTable;
use super::reload::ReloadPlan;
use crate::api::Api;
use crate::cache::{Cache, CacheSettings};
use crate::clock::SystemClock;
use crate::event::Events;
use crate::http::{Connect, InvalidTransport, Resolve, TransportDeps};
use crate::upstream::{InvalidRules, SharedTimer};

/// A client that is being put together.
///
/// ```
/// use std::sync::Arc;
/// use outflow::{Api, Outflow, SystemClock};
///
/// let client = Outflow::builder()
///     .api(Api::new("local", "http://localhost:8080".parse()?))
///     .timer(Arc::new(SystemClock::new()))
///     .build()?;
/// assert!(client.upstream("local").is_some());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a client is made by `build`"]
#[derive(Default)]
pub struct OutflowBuilder {
    apis: Vec<Api>,
    timer: Option<SharedTimer>,
    events: Events,
    wiring: TransportDeps,
    cache: Option<Cache>,
}

impl OutflowBuilder {
    /// Adds an API.
    pub fn api(mut self, api: Api) -> Self {
        self.apis.push(api);
        self
    }

    /// Takes the time from here; the system's clock otherwise.
    pub fn timer(mut self, timer: SharedTimer) -> Self {
        self.timer = Some(timer);
        self
    }

    /// Tells events here, so that somebody can listen from the first one on.
    pub fn events(mut self, events: Events) -> Self {
        self.events = events;
        self
    }

    /// Connects by this way and no other. Where it leads is its own responsibility: addresses are not
    /// looked at, and proxies are not used.
    pub fn connector(mut self, connect: Arc<dyn Connect>) -> Self {
        self.wiring.connect = Some(connect);
        self
    }

    /// Resolves names by this; the system's resolver otherwise. Its answers are looked at all the
    /// same.
    pub fn resolver(mut self, names: Arc<dyn Resolve>) -> Self {
        self.wiring.names = Some(names);
        self
    }

    /// Keeps answers here, for the APIs that want them kept; in 32 MiB of memory otherwise. Who gives
    /// a cache with a directory also calls [`Cache::flush`] from time to time.
    pub fn cache(mut self, cache: Cache) -> Self {
        self.cache = Some(cache);
        self
    }

    /// The client.
    ///
    /// # Errors
    /// If an API cannot be called as it is configured, or two have one name; every such API is named.
    pub fn build(self) -> Result<Outflow, InvalidClient> {
        let timer: SharedTimer = match self.timer {
            Some(timer) => timer,
            None => Arc::new(SystemClock::new()),
        };
        let cache = match self.cache {
            Some(cache) => Some(cache),
            None => Cache::open(CacheSettings::default()).ok(),
        };
        let parts = ClientDeps {
            timer,
            events: self.events,
            wiring: self.wiring,
            cache,
        };
        let roster = ApiTable::default();
        let plan = ReloadPlan::new(self.apis, &roster, &parts)?;
        plan.apply(&roster);
        Ok(Outflow::new(roster, parts))
    }
}

impl fmt::Debug for OutflowBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.apis.iter().map(|api| &api.name);
        f.debug_list().entries(names).finish()
    }
}

/// Every API that cannot be called as it is configured.
#[derive(Debug)]
pub struct InvalidClient {
    unfit: Vec<(SmolStr, InvalidClientReason)>,
}

impl InvalidClient {
    pub(super) const fn new(unfit: Vec<(SmolStr, InvalidClientReason)>) -> Self {
        Self { unfit }
    }

    /// How many APIs that is.
    pub fn count(&self) -> usize {
        self.unfit.len()
    }

    /// Each API with what is wrong with it.
    pub fn apis(&self) -> impl Iterator<Item = (&SmolStr, &InvalidClientReason)> {
        self.unfit.iter().map(|(name, why)| (name, why))
    }
}

/// Why an API cannot be called as it is configured.
#[derive(Debug)]
#[non_exhaustive]
pub enum InvalidClientReason {
    /// Another API has its name.
    Twice,
    /// Its rules contradict each other.
    Rules(InvalidRules),
    /// Its budget of retries is none.
    Retries(InvalidRetryBudget),
    /// There can be no connections to it.
    Transport(InvalidTransport),
    /// Its key holds what its place cannot.
    Credential,
}

impl fmt::Display for InvalidClientReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Twice => f.write_str("another API has this name: rename one"),
            Self::Rules(why) => why.fmt(f),
            Self::Retries(why) => why.fmt(f),
            Self::Transport(why) => why.fmt(f),
            Self::Credential => {
                f.write_str("the key holds what a header cannot: look for a line end in it")
            }
        }
    }
}

impl fmt::Display for InvalidClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (name, why)) in self.unfit.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            write!(f, "api `{name}`: {why}")?;
        }
        Ok(())
    }
}

impl std::error::Error for InvalidClient {}
