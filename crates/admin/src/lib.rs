//! The admin API: reports, controls and the dashboard, on a port of its own.
//!
//! It speaks HTTP/1.1 and JSON. It reads the client's own reports and changes state through the interfaces
//! that calls use. Every request passes the guard first, whatever its path. This crate decides nothing about
//! a call, and no call waits for it. It reads no configuration file: [`ProgramState`] does that.

mod accept;
mod api_param;
mod assets;
mod attempt_result;
mod audit;
mod bulk;
mod call_target;
mod config;
mod event_json;
mod event_stream;
mod explain;
#[doc(hidden)]
pub mod fuzzing;
mod guard;
mod health_control;
mod json_body;
mod labels;
mod leased_permits;
mod millis;
mod permit_routes;
mod problem;
mod program_state;
mod queries;
mod reload;
mod routes;
mod snapshot;

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use http::{HeaderName, HeaderValue, header};
use outflow::{Api, CancelToken, SpawnError, SystemClock, Upstream};
use outflow_core::{Clock, Nanos};
use outflow_listener::{ListenAddr, Listener};

use self::accept::AdminAcceptor;
use self::audit::{AuditActor, AuditChange, AuditLog};
use self::event_stream::EventStream;
use self::guard::AdminGuard;
use self::leased_permits::LeasedPermits;
use self::problem::AdminProblem;

pub use self::config::AdminConfig;
pub use self::program_state::{AdminSettings, ProgramState, ReloadFailure};

/// State that all requests share.
struct Admin {
    program: Arc<dyn ProgramState>,
    guard: AdminGuard,
    permits: Arc<LeasedPermits>,
    stream: Arc<EventStream>,
    audit: AuditLog,
    clock: SystemClock,
    started: Nanos,
    stop: CancelToken,
}

/// State that a handler gets.
type AdminState = State<Arc<Admin>>;

/// Serves operators on this listener until the program stops.
///
/// # Errors
/// If the tasks of the program are shut down already.
pub fn open(program: Arc<dyn ProgramState>, listener: Listener) -> Result<(), SpawnError> {
    let tasks = program.tasks().clone();
    let admin = Arc::new(Admin::new(program, listener.address()));
    let events = admin.program.client().events();
    events.subscribe(admin.stream.clone());
    let permits = Arc::clone(&admin.permits);
    tasks.spawn("permits", move |stop| {
        let permits = Arc::clone(&permits);
        async move { permits.expire_leases(&SystemClock::new(), stop).await }
    })?;
    bulk::forward_events(&admin)?;
    let acceptor = Arc::new(AdminAcceptor::new(admin, listener)?);
    tasks.spawn("admin", move |stop| {
        let acceptor = Arc::clone(&acceptor);
        async move { acceptor.accept(stop).await }
    })
}

fn build_router(admin: &Arc<Admin>) -> Router {
    let guarded = from_fn_with_state(Arc::clone(admin), guard_request);
    routes::router().layer(guarded).with_state(Arc::clone(admin))
}

/// Runs a request if the guard allows it, and adds the common headers to every response.
async fn guard_request(State(admin): AdminState, request: Request, next: Next) -> Response {
    let (head, body) = request.into_parts();
    let settings = admin.program.admin_settings();
    let mut response = match admin.guard.check(&head, settings.token.as_ref()) {
        Ok(()) => next.run(Request::from_parts(head, body)).await,
        Err(problem) => problem.into_response(),
    };
    for (name, value) in COMMON_HEADERS {
        let value = HeaderValue::from_static(value);
        response.headers_mut().insert(name, value);
    }
    response
}

impl Admin {
    fn new(program: Arc<dyn ProgramState>, address: &ListenAddr) -> Self {
        let clock = SystemClock::new();
        Self {
            guard: AdminGuard::new(address),
            permits: Arc::default(),
            stream: Arc::new(EventStream::new(clock)),
            audit: AuditLog::default(),
            started: clock.now(),
            clock,
            stop: program.tasks().cancel_token(),
            program,
        }
    }

    /// Returns the upstream of an API.
    fn upstream(&self, api: &str) -> Result<Upstream, AdminProblem> {
        let upstream = self.program.client().upstream(api);
        upstream.ok_or_else(AdminProblem::unknown_api)
    }

    /// Returns all upstreams, sorted by name.
    fn upstreams(&self) -> Vec<Upstream> {
        let mut upstreams: Vec<_> = self.program.client().upstreams().collect();
        upstreams.sort_by(|one, other| one.name().cmp(other.name()));
        upstreams
    }

    /// Returns the configuration of an API.
    fn configured(&self, api: &str) -> Option<Arc<Api>> {
        self.program.client().api(api)
    }

    /// Records a change in the audit log.
    fn record(&self, change: AuditChange, actor: &AuditActor) {
        let events = self.program.client().events();
        self.audit.record(change, actor, &self.clock, events);
    }
}

/// Headers of every response: a browser may be made to show any of them.
const COMMON_HEADERS: [(HeaderName, &str); 7] = [
    (header::CONTENT_SECURITY_POLICY, assets::POLICY),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::CACHE_CONTROL, "no-store"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
];
