//! The client: made once, cloned anywhere, one way out for every call.
//!
//! It holds an outlet for each API and finds it by name; all else is the business of the outlet. Made
//! from a configuration it has a household, which writes its log and tidies up; what the client
//! promises holds whether or not any of that runs.

mod api_client;
mod api_handle;
mod api_table;
mod body;
mod builder;
mod call;
mod credential;
mod payload;
mod reload;
mod response;
mod services;

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use http::Method;
use smol_str::SmolStr;

pub use self::api_handle::ApiHandle;
pub use self::body::Body;
pub use self::builder::{InvalidClient, InvalidClientReason, OutflowBuilder};
pub use self::call::{CacheDirective, Call};
pub use self::reload::ReloadChanges;
pub use self::response::Response;
pub use self::services::InitError;

pub(crate) use self::api_client::{ApiClient, SharedCall};
pub(crate) use self::body::gather;
pub(crate) use self::call::{CallSpec, Idempotency, RetryMode};
pub(crate) use self::credential::forget;
pub(crate) use self::payload::RequestPayload;
pub(crate) use self::response::ResponseStats;

use self::api_client::ClientDeps;
use self::api_table::ApiTable;
use self::reload::ReloadPlan;
use self::services::BackgroundServices;
use crate::api::Api;
use crate::cache::Cache;
use crate::config::Config;
use crate::error::{Error, ErrorReason};
use crate::event::{Event, EventKind, Events, ReloadEvent};
use crate::metrics::Metrics;
use crate::send;
use crate::tasks::Tasks;
use crate::upstream::Upstream;

/// A client for a set of APIs. Clones are the same client.
///
/// ```no_run
/// use outflow::{Api, Outflow, Rules};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let mut github = Api::new("github", "https://api.github.com".parse()?);
/// github.rules = Rules::limited_to("10/s".parse()?);
/// let client = Outflow::init([github])?;
///
/// let answer = client.get("github", "/repos/rust-lang/rust").send().await?;
/// println!("{} after {:?}", answer.status(), answer.waited());
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Outflow {
    inner: Arc<ClientShared>,
}

struct ClientShared {
    roster: Arc<ApiTable>,
    /// What outlets that are to come are made with.
    parts: ClientDeps,
    /// Held by whoever changes the configuration or closes: one after the other, and never by a call.
    changing: Mutex<ClientState>,
    /// Calls that are being made. One between two attempts has no permit, so the doors do not know.
    under_way: AtomicUsize,
    household: OnceLock<BackgroundServices>,
}

/// Whether calls are let out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum ClientState {
    Open,
    Closed,
}

/// How much of an answer is waited for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ResponseShape {
    /// All of it.
    Whole,
    /// Its head.
    Flowing,
}

impl Outflow {
    /// A client as it is configured, or for a list of APIs, with its log, its metrics and its cache.
    /// Call it once, inside of a tokio runtime, and clone the client to wherever it is needed.
    ///
    /// A list of APIs writes no log of its own: what happens is told to `tracing` in any case.
    ///
    /// # Errors
    /// If an API cannot be called as it is configured (every such API is named), if the cache or a log
    /// cannot be kept where they should be, or outside of a runtime.
    pub fn init(config: impl Into<Config>) -> Result<Self, InitError> {
        let (client, household) = BackgroundServices::start(config.into())?;
        // The client was made a moment ago: nobody else can have given it a household.
        let _first = client.inner.household.set(household);
        Ok(client)
    }

    /// Goes on with another configuration, all of it or nothing, while calls go on. Calls under way end
    /// as they began; those that come after take the new one.
    ///
    /// An API of the same name keeps its door: what it used of its limits, its state of health, those
    /// who wait and those in flight, as [`Upstream::reconfigure`] says. One that is gone refuses those
    /// who wait; should it come back, what it used still counts. New secrets are kept out of the log
    /// from before their first use. What takes effect only when the program is started again is named
    /// in the [`ReloadChanges`].
    ///
    /// # Errors
    /// If an API cannot be called as it is configured; every such API is named, and nothing was changed.
    pub fn reload(&self, config: impl Into<Config>) -> Result<ReloadChanges, InvalidClient> {
        let standing = self.alone();
        let mut config = config.into();
        let household = self.inner.household.get();
        let apis = std::mem::take(&mut config.apis);
        if let Some(household) = household {
            household.learn_secrets(&apis, &config);
        }
        let planned = ReloadPlan::new(apis, &self.inner.roster, &self.inner.parts);
        let plan = planned.inspect_err(|wrong| {
            self.emit(ReloadEvent::Refused {
                mistakes: wrong.count(),
            })
        })?;
        if let Some(household) = household {
            household.know(plan.apis());
        }
        if *standing == ClientState::Closed {
            plan.close();
        }
        let mut changes = plan.apply(&self.inner.roster);
        if let Some(household) = household {
            changes.restart.extend(household.adopt(&config));
            let keys = household.adopt_bulk(&config).into_iter();
            changes.changed.extend(keys.map(SmolStr::from));
        }
        self.emit(ReloadEvent::applied(&changes));
        Ok(changes)
    }

    fn emit(&self, reload: ReloadEvent) {
        let parts = &self.inner.parts;
        parts.events.emit(|| Event {
            api: services::OURSELVES,
            at: parts.timer.now(),
            what: EventKind::Reloaded(reload),
        });
    }

    /// A client that is put together piece by piece.
    pub fn builder() -> OutflowBuilder {
        OutflowBuilder::default()
    }

    /// A GET of a path of an API.
    pub fn get(&self, api: &str, path: &str) -> Call {
        self.request(Method::GET, api, path)
    }

    /// A POST to a path of an API.
    pub fn post(&self, api: &str, path: &str) -> Call {
        self.request(Method::POST, api, path)
    }

    /// A PUT to a path of an API.
    pub fn put(&self, api: &str, path: &str) -> Call {
        self.request(Method::PUT, api, path)
    }

    /// A DELETE of a path of an API.
    pub fn delete(&self, api: &str, path: &str) -> Call {
        self.request(Method::DELETE, api, path)
    }

    /// A call of any method to a path of an API.
    pub fn request(&self, method: Method, api: &str, path: &str) -> Call {
        Call::new(self.clone(), method, api, path)
    }

    /// Looks an API up once, for several uses of it.
    pub fn handle(&self, api: &str) -> Option<ApiHandle> {
        let found = self.inner.roster.find(api)?;
        Some(ApiHandle::new(self.clone(), found))
    }

    /// The door of an API, for whoever sends by other means or wants to look at it.
    pub fn upstream(&self, api: &str) -> Option<Upstream> {
        let outlet = self.inner.roster.find(api)?;
        Some(outlet.upstream.clone())
    }

    /// The configuration of an API.
    pub fn api(&self, name: &str) -> Option<Arc<Api>> {
        let outlet = self.inner.roster.find(name)?;
        Some(Arc::clone(&outlet.api))
    }

    /// The names of its APIs, in no order.
    pub fn apis(&self) -> impl Iterator<Item = SmolStr> {
        let names: Vec<_> = self.inner.roster.all().keys().cloned().collect();
        names.into_iter()
    }

    /// Where its events are told.
    pub fn events(&self) -> &Events {
        &self.inner.parts.events
    }

    /// The doors of all its APIs, in no order.
    pub fn upstreams(&self) -> impl Iterator<Item = Upstream> {
        let outlets = self.inner.roster.all();
        let doors: Vec<_> = outlets
            .values()
            .map(|outlet| outlet.upstream.clone())
            .collect();
        doors.into_iter()
    }

    /// What it counts, if it was made from a configuration.
    pub fn metrics(&self) -> Option<&Arc<Metrics>> {
        self.inner.household.get().map(|house| &house.metrics)
    }

    /// Where it keeps answers, for APIs that want them kept.
    pub fn cache(&self) -> Option<&Cache> {
        self.inner.parts.cache.as_ref()
    }

    /// The work that runs beside it, if it was made from a configuration.
    pub fn tasks(&self) -> Option<&Tasks> {
        self.inner.household.get().map(|house| &house.tasks)
    }

    /// Lets no more calls out, waits until those under way are over, and then until what runs beside
    /// it has finished, but for neither longer than that. Says whether both were over.
    pub async fn close(&self, patience: Duration) -> bool {
        self.shut();
        let quiet = tokio::time::timeout(patience, self.idle()).await.is_ok();
        let drained = match self.inner.household.get() {
            Some(household) => household.drain(patience).await.is_clean(),
            None => true,
        };
        quiet && drained
    }

    fn shut(&self) {
        *self.alone() = ClientState::Closed;
        for door in self.inner.roster.upstreams() {
            door.close();
        }
    }

    /// Waits until nobody else changes anything.
    fn alone(&self) -> MutexGuard<'_, ClientState> {
        let changing = self.inner.changing.lock();
        changing.unwrap_or_else(PoisonError::into_inner)
    }

    async fn idle(&self) {
        while !self.is_idle() {
            tokio::time::sleep(GLANCE).await;
        }
    }

    /// Whether no call is being made and no answer is being read.
    fn is_idle(&self) -> bool {
        let none_made = self.inner.under_way.load(Ordering::Acquire) == 0;
        none_made && self.inner.roster.upstreams().iter().all(Upstream::is_idle)
    }

    pub(crate) async fn make(
        &self,
        found: Option<Arc<ApiClient>>,
        mut wish: Box<CallSpec>,
        shape: ResponseShape,
    ) -> Result<Response, Error> {
        let _counted = UnderWay::new(&self.inner.under_way);
        if let Some(mistake) = wish.mistake.take() {
            return Err(mistake.into());
        }
        let Some(outlet) = found.or_else(|| self.inner.roster.find(&wish.api)) else {
            return Err(ErrorReason::UnknownApi(wish.api).into());
        };
        send::make(&outlet, wish, shape).await
    }

    fn new(roster: ApiTable, parts: ClientDeps) -> Self {
        Self {
            inner: Arc::new(ClientShared {
                roster: Arc::new(roster),
                parts,
                changing: Mutex::new(ClientState::Open),
                under_way: AtomicUsize::new(0),
                household: OnceLock::new(),
            }),
        }
    }
}

impl fmt::Debug for Outflow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.apis()).finish()
    }
}

/// A call that is being made, until it ended or whoever waited for it left.
struct UnderWay<'a>(&'a AtomicUsize);

impl<'a> UnderWay<'a> {
    fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::AcqRel);
        Self(count)
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// How often closing looks whether the last call is over. It happens once in the life of a client,
/// and nobody notices a hundredth of a second there.
const GLANCE: Duration = Duration::from_millis(10);
