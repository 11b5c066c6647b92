//! The strict API itself: what it enforces, what it has seen, what it will do.
//!
//! One value that is cheap to clone and can be served in any number of places at once; all of them
//! share its limits and its audit. Everything that happens to a request at its arrival happens under
//! one lock, in which its time is read too: so the audit is in the order of arrival, and no two
//! requests are judged against the same state.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fastrand::Rng;
use http::HeaderName;
use http::request::Parts;
use outflow_core::{Clock, Cost, Nanos};

use crate::arrival::{Arrival, Received};
use crate::audit::{Audit, Recorder, Totals, WaitAudit};
use crate::ban::BanList;
use crate::builder::Builder;
use crate::credential::CallerKey;
use crate::decision::{ArrivalDecision, Case};
use crate::dialect::Dialect;
use crate::enforcer::{Ask, Enforcer};
use crate::latency::Latency;
use crate::pattern::Pattern;
use crate::protocols::Protocols;
use crate::quota::Quota;
use crate::response::MockResponse;
use crate::route::Route;
use crate::script::Script;
use crate::throttle_response::RetryAfterForm;

/// A server's mind: limits, audit and script. Where it is served is a [`Server`](crate::Server).
#[derive(Clone)]
pub struct MockApi {
    pub(crate) shared: Arc<Shared>,
}

impl MockApi {
    /// An API without limits that answers everything well, to be made stricter.
    pub fn builder() -> Builder {
        Builder::new()
    }

    /// All requests that are remembered, as they stand now.
    pub fn audit(&self) -> Audit {
        self.shared.lock().recorder.snapshot()
    }

    /// The numbers that are never forgotten; cheap to ask for.
    pub fn totals(&self) -> Totals {
        self.shared.lock().recorder.totals().clone()
    }

    /// Forgets all that was seen, and no limit, ban or rule; requests are numbered on.
    pub fn forget(&self) {
        self.shared.lock().recorder.clear();
    }

    /// Misbehaves by another script from now on; numbers in it count anew.
    pub fn rewrite(&self, script: Script) {
        self.shared.lock().script = script;
    }

    /// Enforces other limits from now on; nothing is used of them yet.
    pub fn limit_to(&self, quotas: Vec<Quota>) {
        self.shared.lock().enforcer = Enforcer::new(quotas);
    }

    /// Gives these paths another answer from now on.
    pub fn answer(&self, paths: impl Into<Pattern>, answer: MockResponse) {
        let page = (paths.into(), Arc::new(answer));
        self.shared.lock().pages.insert(0, page);
    }

    /// Makes the ways there and back take other times from now on.
    pub fn delay(&self, there: Latency, back: Latency) {
        let mut state = self.shared.lock();
        (state.there, state.back) = (there, back);
    }

    /// The server's clock now, in which the audit tells its times.
    pub fn now(&self) -> Nanos {
        self.shared.clock.now()
    }
}

impl std::fmt::Debug for MockApi {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StrictApi").finish_non_exhaustive()
    }
}

/// What all connections share.
pub(crate) struct Shared {
    pub(crate) clock: Arc<dyn Clock + Send + Sync>,
    pub(crate) manners: Manners,
    pub(crate) started: Nanos,
    pub(crate) connections: AtomicU64,
    pub(crate) state: Mutex<State>,
}

/// What never changes while the server runs.
pub(crate) struct Manners {
    pub(crate) key: CallerKey,
    pub(crate) routes: Vec<Route>,
    pub(crate) default_route: Arc<str>,
    pub(crate) cost_header: Option<HeaderName>,
    pub(crate) noted: Vec<HeaderName>,
    pub(crate) dialects: Vec<Dialect>,
    pub(crate) refusing: (u16, RetryAfterForm),
    pub(crate) usual: Arc<MockResponse>,
    pub(crate) protocols: Protocols,
}

/// What every arrival changes.
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

impl Shared {
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn next_connection(&self) -> u64 {
        self.connections.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn draw_ways(&self) -> (Duration, Duration) {
        let state = &mut *self.lock();
        let there = state.there.draw(&mut state.rng);
        (there, state.back.draw(&mut state.rng))
    }

    /// A request arrives: it is stamped, judged and written down.
    pub(crate) fn arrive(
        &self,
        request: &Parts,
        received: Nanos,
        connection: u64,
    ) -> ArrivalDecision {
        let ask = self.ask(request);
        let state = &mut *self.lock();
        let moment = self.clock.moment();
        let number = state.recorder.next_number();
        let case = Case {
            shared: self,
            request,
            ask: &ask,
            moment,
        };
        let mut ruling = case.judge(state);
        ruling.number = number;
        let header = |name| request.headers.get(name).cloned();
        let noted = self.manners.noted.iter();
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
            verdict: ruling.verdict.clone(),
            status: None,
            body: Received::Cut(0),
            idempotency_key: header(&IDEMPOTENCY_KEY),
            headers: noted
                .filter_map(|name| Some((name.clone(), header(name)?)))
                .collect(),
        });
        ruling
    }

    /// An answer leaves, on a connection of its own or among others.
    pub(crate) fn answered(&self, ruling: &ArrivalDecision, status: u16, on: Option<u64>) {
        let mut state = self.lock();
        state.recorder.answered(ruling.number, status);
        if let Some((scope, until)) = ruling.wait.clone() {
            let told = WaitAudit {
                scope,
                told: self.clock.now(),
                until,
                number: ruling.number,
                on,
            };
            state.recorder.record_wait(told);
        }
    }

    fn ask(&self, request: &Parts) -> Ask {
        let manners = &self.manners;
        let path = request.uri.path();
        let route = manners
            .routes
            .iter()
            .find(|route| route.means(&request.method, path));
        let said = manners.cost_header.as_ref().and_then(|name| {
            let text = request.headers.get(name)?.to_str().ok()?;
            text.parse().ok().map(Cost::new)
        });
        Ask {
            caller: manners.key.caller(request),
            route: Arc::clone(route.map_or(&manners.default_route, |route| &route.name)),
            cost: said.unwrap_or(route.map_or(Cost::ONE, |route| route.cost)),
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
