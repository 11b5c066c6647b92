//! Builder of a mock API.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use fastrand::Rng;
use http::HeaderName;
use outflow_core::Clock;
use outflow_sync::Mutex;

use crate::api::{MockApi, MockConfig, MockShared, State};
use crate::audit::Recorder;
use crate::ban::{BanList, Bans};
use crate::chat::TokenCount;
use crate::clock::TokioClock;
use crate::credential::{CallerKey, RequiredKey};
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

/// Builds a [`MockApi`].
pub struct Builder {
    quotas: Vec<Quota>,
    config: MockConfig,
    state: State,
    clock: Option<Arc<dyn Clock + Send + Sync>>,
}

impl Builder {
    pub(crate) fn new() -> Self {
        let config = MockConfig {
            key: CallerKey::None,
            routes: Vec::new(),
            default_route: DEFAULT_ROUTE.into(),
            cost_header: None,
            required_key: None,
            token_count: None,
            recorded_headers: Vec::new(),
            dialects: Vec::new(),
            refusing: (429, RetryAfterForm::Seconds),
            default_response: Arc::new(MockResponse::default()),
            protocols: Protocols::Both,
        };
        let state = State {
            enforcer: Enforcer::new(Vec::new()),
            bans: BanList::default(),
            script: Script::new(),
            pages: Vec::new(),
            recorder: Recorder::new(usize::MAX),
            there: Latency::None,
            back: Latency::None,
            rng: Rng::with_seed(0),
        };
        Self {
            quotas: Vec::new(),
            config,
            state,
            clock: None,
        }
    }

    /// Adds a limit.
    #[must_use]
    pub fn limit(mut self, quota: Quota) -> Self {
        self.quotas.push(quota);
        self
    }

    /// Adds a route after the earlier ones.
    #[must_use]
    pub fn route(mut self, route: Route) -> Self {
        self.config.routes.push(route);
        self
    }

    /// Sets the credential that identifies callers.
    #[must_use]
    pub fn key(mut self, key: CallerKey) -> Self {
        self.config.key = key;
        self
    }

    /// Answers requests without this exact header with 401, before all limits.
    #[must_use]
    pub fn requiring(mut self, header: HeaderName, value: &str) -> Self {
        self.config.required_key = Some(RequiredKey {
            header,
            value: value.into(),
        });
        self
    }

    /// Takes the cost of a chat request from its body, as language models do: the words of the prompt and of the
    /// completion. The body is read before the request arrives.
    #[must_use]
    pub fn counting_tokens(mut self, count: TokenCount) -> Self {
        self.config.token_count = Some(count);
        self
    }

    /// Takes the cost of a request from this header, if present.
    #[must_use]
    pub fn cost_from(mut self, header: HeaderName) -> Self {
        self.config.cost_header = Some(header);
        self
    }

    /// Records this request header in the audit.
    #[must_use]
    pub fn noting(mut self, header: HeaderName) -> Self {
        self.config.recorded_headers.push(header);
        self
    }

    /// Reports the limits in these headers too.
    #[must_use]
    pub fn dialect(mut self, dialect: Dialect) -> Self {
        self.config.dialects.push(dialect);
        self
    }

    /// Sets the status and the form of the wait for refusals; 429 and seconds by default.
    #[must_use]
    pub fn refusing(mut self, status: u16, form: RetryAfterForm) -> Self {
        self.config.refusing = (status, form);
        self
    }

    /// Bans callers that continue after refusals.
    #[must_use]
    pub fn banning(mut self, bans: Bans) -> Self {
        self.state.bans = BanList::new(Some(bans));
        self
    }

    /// Sets the script of faults.
    #[must_use]
    pub fn script(mut self, script: Script) -> Self {
        self.state.script = script;
        self
    }

    /// Sets the response for these paths; the first match decides.
    #[must_use]
    pub fn answer(mut self, paths: impl Into<Pattern>, answer: MockResponse) -> Self {
        self.state.pages.push((paths.into(), Arc::new(answer)));
        self
    }

    /// Remembers only the last `max` requests and waits, for long runs; totals are always kept.
    #[must_use]
    pub fn remembering(mut self, max: usize) -> Self {
        self.state.recorder = Recorder::new(max);
        self
    }

    /// Sets the offered versions of HTTP.
    #[must_use]
    pub fn protocols(mut self, protocols: Protocols) -> Self {
        self.config.protocols = protocols;
        self
    }

    /// Sets the delays to the server and back. A request arrives after the first delay.
    #[must_use]
    pub fn delay(mut self, there: Latency, back: Latency) -> Self {
        (self.state.there, self.state.back) = (there, back);
        self
    }

    /// Sets the seed of delays.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.state.rng = Rng::with_seed(seed);
        self
    }

    /// Sets the clock, instead of tokio's.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock + Send + Sync>) -> Self {
        self.clock = Some(clock);
        self
    }

    /// Builds the API.
    ///
    /// # Errors
    /// If a limit is for a route that does not exist.
    pub fn build(mut self) -> Result<MockApi, InvalidApi> {
        let routes = &self.config.routes;
        let named = |route: &str| route == DEFAULT_ROUTE || routes.iter().any(|known| &*known.name == route);
        let mut wanted = self.quotas.iter().filter_map(|quota| quota.route.as_ref());
        if let Some(route) = wanted.find(|route| !named(route)) {
            return Err(InvalidApi::NoSuchRoute(Arc::clone(route)));
        }
        self.state.enforcer = Enforcer::new(self.quotas);
        let clock = self.clock.unwrap_or_else(|| Arc::new(TokioClock::new()));
        Ok(MockApi {
            shared: Arc::new(MockShared {
                started: clock.now(),
                clock,
                config: self.config,
                connections: AtomicU64::new(0),
                state: Mutex::new(self.state),
            }),
        })
    }
}

/// Reason that an API cannot be built.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum InvalidApi {
    /// A limit is for a route that does not exist.
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
