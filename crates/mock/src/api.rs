//! The mock API: its limits, its audit and its script.
//!
//! One value that is cheap to clone and can be served by any number of servers, which share its
//! limits and audit. Everything that happens to a request at its arrival happens under one lock,
//! including reading the time. So the audit is in the order of arrival, and no two requests are
//! judged against one state.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use fastrand::Rng;
use http::HeaderName;
use http::request::Parts;
use outflow_core::{Clock, Cost, Nanos};
use outflow_sync::{Mutex, MutexGuard};

use crate::arrival::{Arrival, Received};
use crate::audit::{Audit, Recorder, Totals, WaitAudit};
use crate::ban::BanList;
use crate::builder::Builder;
use crate::chat::TokenCount;
use crate::credential::{CallerKey, RequiredKey};
use crate::decision::{ArrivalDecision, ArrivedRequest};
use crate::dialect::Dialect;
use crate::enforcer::{Enforcer, QuotaRequest};
use crate::latency::Latency;
use crate::pattern::Pattern;
use crate::protocols::Protocols;
use crate::quota::Quota;
use crate::response::MockResponse;
use crate::route::Route;
use crate::script::Script;
use crate::throttle_response::RetryAfterForm;

/// Limits, audit and script of a mock. A [`Server`](crate::Server) serves it.
#[derive(Clone)]
pub struct MockApi {
    pub(crate) shared: Arc<MockShared>,
}

impl MockApi {
    /// Returns a builder for an API without limits that answers everything successfully.
    pub fn builder() -> Builder {
        Builder::new()
    }

    /// Returns all remembered requests.
    pub fn audit(&self) -> Audit {
        self.shared.lock().recorder.snapshot()
    }

    /// Returns the totals, which are never dropped; cheap to call.
    pub fn totals(&self) -> Totals {
        self.shared.lock().recorder.totals.clone()
    }

    /// Drops all remembered requests, but no limit, ban or rule; request numbers continue.
    pub fn forget(&self) {
        self.shared.lock().recorder.clear();
    }

    /// Replaces the script; its counters start at zero.
    pub fn rewrite(&self, script: Script) {
        self.shared.lock().script = script;
    }

    /// Replaces the limits, unused.
    pub fn limit_to(&self, quotas: Vec<Quota>) {
        self.shared.lock().enforcer = Enforcer::new(quotas);
    }

    /// Sets the response for these paths.
    pub fn answer(&self, paths: impl Into<Pattern>, answer: MockResponse) {
        let page = (paths.into(), Arc::new(answer));
        self.shared.lock().pages.insert(0, page);
    }

    /// Sets the delays to the server and back.
    pub fn delay(&self, there: Latency, back: Latency) {
        let mut state = self.shared.lock();
        (state.there, state.back) = (there, back);
    }

    /// Returns the server's clock, which stamps the audit.
    pub fn now(&self) -> Nanos {
        self.shared.clock.now()
    }
}

impl std::fmt::Debug for MockApi {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MockApi").finish_non_exhaustive()
    }
}

/// State shared by all connections.
pub(crate) struct MockShared {
    pub(crate) clock: Arc<dyn Clock + Send + Sync>,
    pub(crate) config: MockConfig,
    pub(crate) started: Nanos,
    pub(crate) connections: AtomicU64,
    pub(crate) state: Mutex<State>,
}

/// Configuration that never changes while the server runs.
pub(crate) struct MockConfig {
    pub(crate) key: CallerKey,
    pub(crate) routes: Vec<Route>,
    pub(crate) default_route: Arc<str>,
    pub(crate) cost_header: Option<HeaderName>,
    pub(crate) required_key: Option<RequiredKey>,
    pub(crate) token_count: Option<TokenCount>,
    pub(crate) recorded_headers: Vec<HeaderName>,
    pub(crate) dialects: Vec<Dialect>,
    pub(crate) refusing: (u16, RetryAfterForm),
    pub(crate) default_response: Arc<MockResponse>,
    pub(crate) protocols: Protocols,
}

/// Request on its way to the server.
#[derive(Clone)]
pub(crate) struct ReceivedRequest {
    pub(crate) parts: Arc<Parts>,
    /// Time at which its head was read.
    pub(crate) at: Nanos,
    /// Tokens of its prompt and of the longest completion, if the server counts them.
    pub(crate) tokens: Option<Cost>,
}

/// State that every arrival changes.
pub(crate) struct State {
    pub(crate) enforcer: Enforcer,
    pub(crate) bans: BanList,
    pub(crate) script: Script,
    pub(crate) pages: Vec<(Pattern, Arc<MockResponse>)>,
    pub(crate) recorder: Recorder,
    pub(crate) there: Latency,
    pub(crate) back: Latency,
    pub(crate) rng: Rng,
}

impl MockShared {
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    pub(crate) fn draw_delays(&self) -> (Duration, Duration) {
        let state = &mut *self.lock();
        let there = state.there.draw(&mut state.rng);
        (there, state.back.draw(&mut state.rng))
    }

    /// Handles an arriving request: stamps, judges and records it.
    pub(crate) fn arrive(&self, request: &ReceivedRequest, connection: u64) -> ArrivalDecision {
        let ReceivedRequest { parts, at, tokens } = request;
        let (request, received) = (&**parts, *at);
        let ask = self.ask(request, *tokens);
        let state = &mut *self.lock();
        let moment = self.clock.moment();
        let number = state.recorder.next;
        let arrived = ArrivedRequest {
            shared: self,
            request,
            ask: &ask,
            moment,
        };
        let mut decision = arrived.judge(state);
        decision.number = number;
        let header = |name| request.headers.get(name).cloned();
        let recorded_headers = self.config.recorded_headers.iter();
        state.recorder.arrived(Arrival {
            number,
            received,
            at: moment.now,
            connection,
            caller: ask.caller,
            route: ask.route,
            method: request.method.clone(),
            path: request.uri.path().into(),
            cost: ask.cost,
            verdict: decision.verdict.clone(),
            status: None,
            body: Received::Cut(0),
            idempotency_key: header(&IDEMPOTENCY_KEY),
            headers: recorded_headers
                .filter_map(|name| Some((name.clone(), header(name)?)))
                .collect(),
        });
        decision
    }

    /// Records a response, with its connection if that carries one request at a time.
    pub(crate) fn answered(&self, decision: &ArrivalDecision, status: u16, on: Option<u64>) {
        let mut state = self.lock();
        state.recorder.answered(decision.number, status);
        if let Some((scope, until)) = decision.wait.clone() {
            let wait = WaitAudit {
                scope,
                sent_at: self.clock.now(),
                until,
                number: decision.number,
                on,
            };
            state.recorder.record_wait(wait);
        }
    }

    fn ask(&self, request: &Parts, tokens: Option<Cost>) -> QuotaRequest {
        let config = &self.config;
        let path = request.uri.path();
        let route = config.routes.iter().find(|route| route.matches(&request.method, path));
        let header_cost = config.cost_header.as_ref().and_then(|name| {
            let text = request.headers.get(name)?.to_str().ok()?;
            text.parse().ok().map(Cost::new)
        });
        QuotaRequest {
            caller: config.key.caller(request),
            route: Arc::clone(route.map_or(&config.default_route, |route| &route.name)),
            cost: header_cost
                .or(tokens)
                .unwrap_or(route.map_or(Cost::ONE, |route| route.cost)),
        }
    }
}

impl State {
    pub(crate) fn page(&self, path: &str) -> Option<&Arc<MockResponse>> {
        let mut pages = self.pages.iter();
        let (_, answer) = pages.find(|(pattern, _)| pattern.matches(path))?;
        Some(answer)
    }
}

static IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
