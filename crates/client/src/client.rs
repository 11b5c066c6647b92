//! Client for a set of APIs: built once, cloned anywhere, one path for every call.
//!
//! It finds the [`ApiClient`] of an API by name. A client built from a configuration also has
//! background services, which write its log and do maintenance; its guarantees hold without them.

mod api_client;
mod api_handle;
mod api_table;
mod body;
mod builder;
mod call;
mod credential;
mod global;
mod payload;
mod reload;
mod response;
mod services;

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use http::Method;
use outflow_core::QuotaLedger;
use outflow_sync::Mutex;
use smol_str::SmolStr;

pub use self::api_handle::ApiHandle;
pub use self::body::Body;
pub use self::builder::{InvalidClient, InvalidClientReason, OutflowBuilder};
pub use self::call::{CacheDirective, Call};
pub use self::global::{delete, get, global, init, post, put, request};
pub use self::reload::ReloadChanges;
pub use self::response::Response;
pub use self::services::InitError;

pub(crate) use self::api_client::{ApiClient, SharedCall};
pub(crate) use self::body::{BoundedBody, BrokenBody, collect_body, collect_within};
pub(crate) use self::call::{CallSpec, Idempotency, RetryMode, is_connection_header};
pub(crate) use self::credential::{is_identifying_name, strip_credentials};
pub(crate) use self::payload::RequestPayload;
pub(crate) use self::response::ResponseStats;

use self::api_client::ClientDeps;
use self::api_table::ApiTable;
use self::reload::ReloadPlan;
use self::services::BackgroundServices;
use crate::api::Api;
use crate::cache::Cache;
use crate::config::{Config, SectionChanges};
use crate::count_guard::CountGuard;
use crate::error::{Error, ErrorReason};
use crate::event::{Event, EventKind, Events, ReloadEvent};
use crate::metrics::{ApiLabels, Metrics};
use crate::send;
use crate::tasks::Tasks;
use crate::upstream::{CallDecision, Upstream};

/// Client for a set of APIs. Clones share one client.
///
/// ```no_run
/// use outflow::{Api, Outflow, Rules};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let mut github = Api::new("github", "https://api.github.com".parse()?);
/// github.rules = Rules::with_limit("10/s".parse()?);
/// let client = Outflow::init([github])?;
///
/// let response = client.get("github", "/repos/rust-lang/rust").send().await?;
/// println!("{} after {:?}", response.status(), response.waited());
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Outflow {
    inner: Arc<ClientShared>,
}

struct ClientShared {
    table: Arc<ApiTable>,
    /// Dependencies of API clients created later.
    deps: ClientDeps,
    /// True once the client is closed. Held during a reload or close, and never by a call.
    is_closed: Mutex<bool>,
    /// Calls in progress. Between two attempts a call has no permit, so the upstreams do not know
    /// it.
    in_progress: AtomicUsize,
    services: OnceLock<BackgroundServices>,
}

/// Part of a response that a call waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ResponseShape {
    /// Head and body.
    Buffered,
    /// Head only.
    Streaming,
}

impl Outflow {
    /// Builds a client from a configuration or a list of APIs, with log, metrics and cache. Call it
    /// once inside a tokio runtime and clone the client.
    ///
    /// A list of APIs writes no log of its own; events go to `tracing` in any case.
    ///
    /// # Errors
    /// If an API cannot be called as configured (every such API is named), if the cache or a log is
    /// not writable, or outside of a runtime.
    pub fn init(config: impl Into<Config>) -> Result<Self, InitError> {
        let (client, services) = BackgroundServices::start(config.into())?;
        // The client is new, so no services are set.
        let _first = client.inner.services.set(services);
        Ok(client)
    }

    /// Applies another configuration, all of it or nothing, while calls continue. Calls in progress
    /// end with the old one; later calls use the new one.
    ///
    /// An API of the same name keeps its upstream: limit usage, health, waiters and attempts in
    /// flight, as [`Upstream::reconfigure`] describes. A removed API refuses its waiters; if it
    /// comes back, its usage still counts. New secrets are redacted from the log before their first
    /// use. The [`ReloadChanges`] name settings that need a restart.
    ///
    /// # Errors
    /// If an API cannot be called as configured; every such API is named, and nothing is changed.
    pub fn reload(&self, config: impl Into<Config>) -> Result<ReloadChanges, InvalidClient> {
        self.reload_with(config, SectionChanges::default())
    }

    /// Reloads as [`Outflow::reload`], and reports the changes of the program's other sections with its
    /// own.
    ///
    /// # Errors
    /// Returns an error as [`Outflow::reload`].
    pub fn reload_with(
        &self,
        config: impl Into<Config>,
        others: SectionChanges,
    ) -> Result<ReloadChanges, InvalidClient> {
        let is_closed = self.inner.is_closed.lock();
        let mut config = config.into();
        let services = self.inner.services.get();
        let apis = std::mem::take(&mut config.apis);
        if let Some(services) = services {
            services::add_secrets(&services.scrubber, &apis, &config);
        }
        let planned = ReloadPlan::new(apis, &self.inner.table, &self.inner.deps);
        let plan = planned.inspect_err(|invalid| {
            self.emit(ReloadEvent::Refused {
                errors: invalid.count(),
            })
        })?;
        if let Some(services) = services {
            let next: Vec<_> = plan.apis().map(ApiLabels::from).collect();
            services.metrics.register(next.iter().cloned());
            // Series that this reload removes stay until the next one, for a last scrape and calls in flight.
            services
                .metrics
                .retain(next.into_iter().chain(self.inner.table.labels()));
        }
        if *is_closed {
            plan.close();
        }
        let mut changes = plan.apply(&self.inner.table);
        if let Some(services) = services {
            changes.restart.extend(services.reconfigure(&config));
        }
        changes.restart.extend(others.restart);
        let keys = others.changed.into_iter().map(SmolStr::from);
        changes.changed.extend(keys);
        self.emit(ReloadEvent::applied(&changes));
        Ok(changes)
    }

    fn emit(&self, reload: ReloadEvent) {
        let deps = &self.inner.deps;
        deps.events.emit(|| Event {
            api: services::SELF_API,
            at: deps.timer.now(),
            trace: crate::trace::TraceId::NONE,
            what: EventKind::Reloaded(reload),
        });
    }

    /// Returns a builder.
    pub fn builder() -> OutflowBuilder {
        OutflowBuilder::default()
    }

    /// Returns the ledger through which processes share limits, if they do.
    pub fn ledger(&self) -> Option<&dyn QuotaLedger> {
        self.inner.deps.ledger.as_deref()
    }

    /// Starts a GET of a path.
    pub fn get(&self, api: &str, path: &str) -> Call {
        self.request(Method::GET, api, path)
    }

    /// Starts a POST to a path.
    pub fn post(&self, api: &str, path: &str) -> Call {
        self.request(Method::POST, api, path)
    }

    /// Starts a PUT to a path.
    pub fn put(&self, api: &str, path: &str) -> Call {
        self.request(Method::PUT, api, path)
    }

    /// Starts a DELETE of a path.
    pub fn delete(&self, api: &str, path: &str) -> Call {
        self.request(Method::DELETE, api, path)
    }

    /// Starts a call with any method.
    pub fn request(&self, method: Method, api: &str, path: &str) -> Call {
        Call::new(Some(self.clone()), method, api, path)
    }

    /// Looks an API up once, for several uses of it.
    pub fn handle(&self, api: &str) -> Option<ApiHandle> {
        let found = self.inner.table.find(api)?;
        Some(ApiHandle::new(self.clone(), found))
    }

    /// Returns the upstream of an API, for other HTTP clients or for inspection.
    pub fn upstream(&self, api: &str) -> Option<Upstream> {
        let client = self.inner.table.find(api)?;
        Some(client.upstream.clone())
    }

    /// Returns the configuration of an API.
    pub fn api(&self, name: &str) -> Option<Arc<Api>> {
        let client = self.inner.table.find(name)?;
        Some(Arc::clone(&client.api))
    }

    /// Returns the names of its APIs, unordered.
    pub fn apis(&self) -> impl Iterator<Item = SmolStr> {
        let names: Vec<_> = self.inner.table.all().keys().cloned().collect();
        names.into_iter()
    }

    /// Returns the events that observers subscribe to.
    pub fn events(&self) -> &Events {
        &self.inner.deps.events
    }

    /// Returns the upstreams of all its APIs, unordered.
    pub fn upstreams(&self) -> impl Iterator<Item = Upstream> {
        let clients = self.inner.table.all();
        let upstreams: Vec<_> = clients.values().map(|client| client.upstream.clone()).collect();
        upstreams.into_iter()
    }

    /// Returns the metrics of a client built from a configuration.
    pub fn metrics(&self) -> Option<&Arc<Metrics>> {
        self.inner.services.get().map(|services| &services.metrics)
    }

    /// Returns the response cache.
    pub fn cache(&self) -> Option<&Cache> {
        self.inner.deps.cache.as_ref()
    }

    /// Returns the background tasks of a client built from a configuration.
    pub fn tasks(&self) -> Option<&Tasks> {
        self.inner.services.get().map(|services| &services.tasks)
    }

    /// Refuses new calls, waits for calls in progress and then for the background services, each up
    /// to `grace`. Returns true if both finished. Quota that this process holds is free for others.
    pub async fn close(&self, grace: Duration) -> bool {
        self.close_upstreams();
        let is_idle = tokio::time::timeout(grace, self.wait_idle()).await.is_ok();
        self.leave_accounts();
        let is_clean = match self.inner.services.get() {
            Some(services) => services.shutdown(grace).await.is_clean(),
            None => true,
        };
        is_idle && is_clean
    }

    fn close_upstreams(&self) {
        *self.inner.is_closed.lock() = true;
        for upstream in self.inner.table.upstreams() {
            upstream.close();
        }
    }

    fn leave_accounts(&self) {
        let Some(ledger) = &self.inner.deps.ledger else {
            return;
        };
        // A renewal that is on its way is answered first; the next one reports the rest.
        for _ in 0..2 {
            self.inner.table.upstreams().iter().for_each(Upstream::leave_accounts);
            ledger.flush(LEDGER_PATIENCE);
        }
    }

    async fn wait_idle(&self) {
        while !self.is_idle() {
            tokio::time::sleep(IDLE_POLL).await;
        }
    }

    /// Returns true if no call is in progress and no response is being read.
    fn is_idle(&self) -> bool {
        let has_no_calls = self.inner.in_progress.load(Ordering::Acquire) == 0;
        has_no_calls && self.inner.table.upstreams().iter().all(Upstream::is_idle)
    }

    pub(crate) async fn make(
        &self,
        found: Option<Arc<ApiClient>>,
        mut spec: Box<CallSpec>,
        shape: ResponseShape,
    ) -> Result<Response, Error> {
        let _counted = CountGuard::new(&self.inner.in_progress);
        let client = self.find_client(found, &mut spec)?;
        send::make(&client, spec, shape).await
    }

    pub(crate) async fn explain(
        &self,
        found: Option<Arc<ApiClient>>,
        mut spec: Box<CallSpec>,
    ) -> Result<CallDecision, Error> {
        let client = self.find_client(found, &mut spec)?;
        send::explain(&client, spec).await
    }

    /// Returns the client of a call's API, unless the call is invalid.
    fn find_client(&self, found: Option<Arc<ApiClient>>, spec: &mut CallSpec) -> Result<Arc<ApiClient>, Error> {
        if let Some(error) = spec.error.take() {
            return Err(error.into());
        }
        let client = found.or_else(|| self.inner.table.find(&spec.api));
        client.ok_or_else(|| ErrorReason::UnknownApi(spec.api.clone()).into())
    }

    fn new(table: ApiTable, deps: ClientDeps) -> Self {
        Self {
            inner: Arc::new(ClientShared {
                table: Arc::new(table),
                deps,
                is_closed: Mutex::new(false),
                in_progress: AtomicUsize::new(0),
                services: OnceLock::new(),
            }),
        }
    }
}

impl fmt::Debug for Outflow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.apis()).finish()
    }
}

/// A ledger on this host answers within microseconds, or its processes are stopped.
const LEDGER_PATIENCE: Duration = Duration::from_millis(200);

/// Interval of the idle check while closing. Closing happens once per client, where ten
/// milliseconds do not matter.
const IDLE_POLL: Duration = Duration::from_millis(10);
