//! Builder of a client.

use std::fmt;
use std::sync::Arc;

use outflow_core::{InvalidRetryBudget, QuotaLedger};
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

/// Builder of a client.
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
#[must_use = "call `build` to get a client"]
#[derive(Default)]
pub struct OutflowBuilder {
    apis: Vec<Api>,
    timer: Option<SharedTimer>,
    events: Events,
    transport_deps: TransportDeps,
    cache: Option<Cache>,
    ledger: Option<Arc<dyn QuotaLedger>>,
}

impl OutflowBuilder {
    /// Adds an API.
    pub fn api(mut self, api: Api) -> Self {
        self.apis.push(api);
        self
    }

    /// Sets the clock; the default is the system's.
    pub fn timer(mut self, timer: SharedTimer) -> Self {
        self.timer = Some(timer);
        self
    }

    /// Sets the events, so that observers can subscribe before the first one.
    pub fn events(mut self, events: Events) -> Self {
        self.events = events;
        self
    }

    /// Sets a custom connector. It vouches for its destinations: addresses are not checked, and
    /// proxies are not used.
    pub fn connector(mut self, connect: Arc<dyn Connect>) -> Self {
        self.transport_deps.connect = Some(connect);
        self
    }

    /// Sets a custom resolver; the default is the system's. Its addresses are checked, too.
    pub fn resolver(mut self, names: Arc<dyn Resolve>) -> Self {
        self.transport_deps.names = Some(names);
        self
    }

    /// Sets the response cache; the default is 32 MiB of memory. For a cache with a directory, call
    /// [`Cache::flush`] from time to time.
    pub fn cache(mut self, cache: Cache) -> Self {
        self.cache = Some(cache);
        self
    }

    /// Sets the accounts through which processes share limits; the default is none.
    pub fn ledger(mut self, ledger: impl Into<Option<Arc<dyn QuotaLedger>>>) -> Self {
        self.ledger = ledger.into();
        self
    }

    /// Builds the client.
    ///
    /// # Errors
    /// If an API cannot be called as configured, or two have one name; every such API is named.
    pub fn build(self) -> Result<Outflow, InvalidClient> {
        let deps = ClientDeps {
            timer: self.timer.unwrap_or_else(|| Arc::new(SystemClock::new())),
            events: self.events,
            transport_deps: self.transport_deps,
            cache: self.cache.or_else(|| Cache::open(CacheSettings::default()).ok()),
            ledger: self.ledger,
        };
        let table = ApiTable::default();
        let plan = ReloadPlan::new(self.apis, &table, &deps)?;
        plan.apply(&table);
        Ok(Outflow::new(table, deps))
    }
}

impl fmt::Debug for OutflowBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.apis.iter().map(|api| &api.name);
        f.debug_list().entries(names).finish()
    }
}

/// APIs that cannot be called as configured.
#[derive(Debug)]
pub struct InvalidClient {
    errors: Vec<(SmolStr, InvalidClientReason)>,
}

impl InvalidClient {
    pub(super) const fn new(errors: Vec<(SmolStr, InvalidClientReason)>) -> Self {
        Self { errors }
    }

    /// Returns the number of invalid APIs.
    pub fn count(&self) -> usize {
        self.errors.len()
    }

    /// Returns each invalid API with its reason.
    pub fn apis(&self) -> impl Iterator<Item = (&SmolStr, &InvalidClientReason)> {
        self.errors.iter().map(|(name, reason)| (name, reason))
    }
}

/// Reason why an API cannot be called as configured.
#[derive(Debug)]
#[non_exhaustive]
pub enum InvalidClientReason {
    /// Another API has this name.
    DuplicateName,
    /// The rules contradict each other.
    Rules(InvalidRules),
    /// The retry budget is invalid.
    Retries(InvalidRetryBudget),
    /// No connection is possible.
    Transport(InvalidTransport),
    /// The key holds characters that its place does not allow.
    Credential,
}

impl fmt::Display for InvalidClientReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DuplicateName => f.write_str("another API has this name: rename one"),
            Self::Rules(reason) => reason.fmt(f),
            Self::Retries(reason) => reason.fmt(f),
            Self::Transport(reason) => reason.fmt(f),
            Self::Credential => {
                f.write_str("the key holds a character that a header does not allow: check it for a line end")
            }
        }
    }
}

impl fmt::Display for InvalidClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (name, reason)) in self.errors.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            write!(f, "api `{name}`: {reason}")?;
        }
        Ok(())
    }
}

impl std::error::Error for InvalidClient {}
