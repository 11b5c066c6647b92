//! How a strict API is put together.

use std::fmt;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};

use fastrand::Rng;
use http::HeaderName;
use outflow_core::Clock;

use crate::api::{Manners, MockApi, Shared, State};
use crate::audit::{Keep, Recorder};
use crate::ban::{BanList, Bans};
use crate::clock::TokioClock;
use crate::credential::CallerKey;
use crate::dialect::Dialect;
use crate::enforcer::Enforcer;
use crate::latency::Latency;
use crate::pattern::Pattern;
use crate::protocols::Protocols;
use crate::quota::Quota;
use crate::response::MockResponse;
use crate::route::{DEFAULT_ROUTE, Route};
use crate::script::Script;
use crate::throttle_response::RetryAfterForm;

/// Puts a [`MockApi`] together.
pub struct Builder {
    quotas: Vec<Quota>,
    routes: Vec<Route>,
    key: CallerKey,
    cost_header: Option<HeaderName>,
    noted: Vec<HeaderName>,
    dialects: Vec<Dialect>,
    refusing: (u16, RetryAfterForm),
    bans: Option<Bans>,
    script: Script,
    pages: Vec<(Pattern, Arc<MockResponse>)>,
    keep: Keep,
    protocols: Protocols,
    there: Latency,
    back: Latency,
    seed: u64,
    clock: Option<Arc<dyn Clock + Send + Sync>>,
}

impl Builder {
    pub(crate) fn new() -> Self {
        Self {
            quotas: Vec::new(),
            routes: Vec::new(),
            key: CallerKey::Nobody,
            cost_header: None,
            noted: Vec::new(),
            dialects: Vec::new(),
            refusing: (429, RetryAfterForm::Seconds),
            bans: None,
            script: Script::new(),
            pages: Vec::new(),
            keep: Keep::All,
            protocols: Protocols::Both,
            there: Latency::None,
            back: Latency::None,
            seed: 0,
            clock: None,
        }
    }

    /// Enforces one more limit.
    #[must_use]
    pub fn limit(mut self, quota: Quota) -> Self {
        self.quotas.push(quota);
        self
    }

    /// Names a set of paths, behind those named before.
    #[must_use]
    pub fn route(mut self, route: Route) -> Self {
        self.routes.push(route);
        self
    }

    /// Tells callers apart by this.
    #[must_use]
    pub fn key(mut self, key: CallerKey) -> Self {
        self.key = key;
        self
    }

    /// Takes the cost of a request from this header, if it has it.
    #[must_use]
    pub fn cost_from(mut self, header: HeaderName) -> Self {
        self.cost_header = Some(header);
        self
    }

    /// Writes this request header down in the audit.
    #[must_use]
    pub fn noting(mut self, header: HeaderName) -> Self {
        self.noted.push(header);
        self
    }

    /// Tells how the limits stand in these headers too.
    #[must_use]
    pub fn dialect(mut self, dialect: Dialect) -> Self {
        self.dialects.push(dialect);
        self
    }

    /// Refuses what is over a limit with this status and form of wait; 429 and seconds unless told.
    #[must_use]
    pub fn refusing(mut self, status: u16, tell: RetryAfterForm) -> Self {
        self.refusing = (status, tell);
        self
    }

    /// Bans who goes on after refusals.
    #[must_use]
    pub fn banning(mut self, bans: Bans) -> Self {
        self.bans = Some(bans);
        self
    }

    /// Misbehaves by this script.
    #[must_use]
    pub fn script(mut self, script: Script) -> Self {
        self.script = script;
        self
    }

    /// Gives these paths this answer; the first that match decide.
    #[must_use]
    pub fn answer(mut self, paths: impl Into<Pattern>, answer: MockResponse) -> Self {
        self.pages.push((paths.into(), Arc::new(answer)));
        self
    }

    /// Remembers only the last so many requests and waits, for long runs; totals are always kept.
    #[must_use]
    pub fn remembering(mut self, most: usize) -> Self {
        self.keep = Keep::Last(most);
        self
    }

    /// Speaks only these versions of HTTP.
    #[must_use]
    pub fn protocols(mut self, protocols: Protocols) -> Self {
        self.protocols = protocols;
        self
    }

    /// Makes the way there and the way back take time. A request arrives when its way there ends.
    #[must_use]
    pub fn delay(mut self, there: Latency, back: Latency) -> Self {
        (self.there, self.back) = (there, back);
        self
    }

    /// Draws delays from another seed.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Reads the time here instead of from tokio's clock.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock + Send + Sync>) -> Self {
        self.clock = Some(clock);
        self
    }

    /// The API.
    ///
    /// # Errors
    /// If a limit is for a route that nobody named.
    pub fn build(self) -> Result<MockApi, InvalidApi> {
        let named = |route: &str| {
            route == DEFAULT_ROUTE || self.routes.iter().any(|known| &*known.name == route)
        };
        let wanted = self.quotas.iter().filter_map(|quota| quota.route.as_ref());
        if let Some(route) = wanted.into_iter().find(|route| !named(route)) {
            return Err(InvalidApi::NoSuchRoute(Arc::clone(route)));
        }
        Ok(self.built())
    }

    fn built(self) -> MockApi {
        let clock = self.clock.unwrap_or_else(|| Arc::new(TokioClock::new()));
        let state = State {
            enforcer: Enforcer::new(self.quotas),
            bans: BanList::new(self.bans),
            script: self.script,
            pages: self.pages,
            recorder: Recorder::new(self.keep),
            there: self.there,
            back: self.back,
            rng: Rng::with_seed(self.seed),
        };
        let manners = Manners {
            key: self.key,
            routes: self.routes,
            default_route: DEFAULT_ROUTE.into(),
            cost_header: self.cost_header,
            noted: self.noted,
            dialects: self.dialects,
            refusing: self.refusing,
            usual: Arc::new(MockResponse::default()),
            protocols: self.protocols,
        };
        MockApi {
            shared: Arc::new(Shared {
                started: clock.now(),
                clock,
                manners,
                connections: AtomicU64::new(0),
                state: Mutex::new(state),
            }),
        }
    }
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder").finish_non_exhaustive()
    }
}

/// Why an API cannot be built.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum InvalidApi {
    /// A limit is for a route that nobody named.
    NoSuchRoute(Arc<str>),
}

impl fmt::Display for InvalidApi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSuchRoute(name) => {
                write!(f, "no route is called `{name}`: add it before limiting it")
            }
        }
    }
}

impl std::error::Error for InvalidApi {}
