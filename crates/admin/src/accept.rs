//! Connections of operators: accepted and served. If all others are busy, a connection gets its health check answered,
//! and nothing else.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use http::StatusCode;
use http::header::RETRY_AFTER;
use http_body::{Frame, SizeHint};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use outflow::{CancelToken, SpawnError, TaskGroup};
use outflow_listener::{
    ActiveRequest, ConnectionLimits, ConnectionMaximum, ConnectionSlot, IdleTracker, InboundConnection, Listener,
    PeerAddr,
};
use smol_str::{SmolStr, format_smolstr};
use tokio::sync::oneshot;

use crate::audit::AuditActor;
use crate::problem::AdminProblem;
use crate::{Admin, build_router};

/// Accept loop of the admin port.
pub(crate) struct AdminAcceptor {
    router: Router,
    admin: Arc<Admin>,
    listener: Listener,
    limits: Arc<ConnectionLimits>,
    connections: TaskGroup,
}

impl AdminAcceptor {
    pub(crate) fn new(admin: Arc<Admin>, listener: Listener) -> Result<Self, SpawnError> {
        let connections = admin.program.tasks().task_group("admin connections")?;
        Ok(Self {
            router: build_router(&admin),
            admin,
            listener,
            limits: Arc::default(),
            connections,
        })
    }

    pub(crate) async fn accept(&self, stop: CancelToken) {
        let mut reserve = VecDeque::new();
        while let Some((connection, peer)) = self.listener.next(&stop).await {
            let max = self.admin.program.admin_settings().max_connections;
            let maximum = ConnectionMaximum {
                in_total: max,
                per_address: max,
            };
            // Spawning fails only while the program stops.
            let _stopping = match self.limits.reserve(peer, maximum) {
                Ok(slot) => self.serve(connection, peer, slot, stop.clone()),
                Err(_) => self.serve_health(connection, peer, &mut reserve),
            };
        }
    }

    fn serve(
        &self,
        connection: InboundConnection,
        peer: PeerAddr,
        slot: ConnectionSlot,
        stop: CancelToken,
    ) -> Result<(), SpawnError> {
        let builder = self.connection_builder();
        let router = self.router.clone().layer(axum::Extension(actor(peer)));
        let router = router.layer(from_fn_with_state(slot.tracker().clone(), track_request));
        let service = TowerToHyperService::new(router);
        let connection = builder.serve_connection(TokioIo::new(connection), service);
        self.connections.spawn(async move {
            let mut connection = std::pin::pin!(connection);
            tokio::select! {
                _ended = &mut connection => return,
                () = slot.tracker().evicted() => {
                    connection.as_mut().graceful_shutdown();
                    if slot.tracker().is_idle() {
                        return;
                    }
                }
                () = stop.cancelled() => connection.as_mut().graceful_shutdown(),
            }
            // Waiting requests are cancelled too; only a client that does not read delays the end.
            let _ended = tokio::time::timeout(CLOSE_TIMEOUT, connection).await;
        })
    }

    /// Answers one health check, and any other request with a rejection. A connection beyond the reserve takes the
    /// place of the oldest one there: a health check is over sooner than as many others arrive.
    fn serve_health(
        &self,
        connection: InboundConnection,
        peer: PeerAddr,
        reserve: &mut VecDeque<oneshot::Sender<()>>,
    ) -> Result<(), SpawnError> {
        let router = self.router.clone().layer(axum::Extension(actor(peer)));
        let service = TowerToHyperService::new(router.layer(from_fn(reject_all_but_health)));
        let mut builder = self.connection_builder();
        let connection = builder
            .keep_alive(false)
            .serve_connection(TokioIo::new(connection), service);
        let (place, displaced) = oneshot::channel();
        if reserve.len() == HEALTH_RESERVE {
            reserve.pop_front();
        }
        reserve.push_back(place);
        // A client that does not read gets no answer.
        self.connections.spawn(async move {
            tokio::select! {
                _ended = tokio::time::timeout(CLOSE_TIMEOUT, connection) => {}
                _left = displaced => {}
            }
        })
    }

    fn connection_builder(&self) -> http1::Builder {
        let settings = self.admin.program.admin_settings();
        let mut builder = http1::Builder::new();
        builder
            .timer(TokioTimer::new())
            .header_read_timeout(settings.header_timeout)
            .max_headers(usize::from(settings.max_headers))
            .max_buf_size(MAX_HEAD);
        builder
    }
}

/// Rejects a request for which there is no place, unless it asks for the health of the program.
async fn reject_all_but_health(request: Request, next: Next) -> Response {
    if matches!(request.uri().path(), "/healthz" | "/readyz") {
        return next.run(request).await;
    }
    let detail = "all connections of the admin port are busy: close streams of events";
    let problem = AdminProblem::new(StatusCode::SERVICE_UNAVAILABLE, "too_many_connections", detail);
    ([(RETRY_AFTER, "1")], problem).into_response()
}

/// Marks the connection as busy until the response is written.
async fn track_request(State(tracker): State<IdleTracker>, request: Request, next: Next) -> Response {
    let active = tracker.begin();
    let response = next.run(request).await;
    response.map(|body| Body::new(TrackedBody { body, active }))
}

/// Body of a response whose request is in progress until the body is dropped.
struct TrackedBody {
    body: Body,
    #[expect(dead_code, reason = "held until it is dropped")]
    active: ActiveRequest,
}

impl http_body::Body for TrackedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

pub(crate) fn actor(peer: PeerAddr) -> AuditActor {
    AuditActor(match peer {
        PeerAddr::Remote(address) => format_smolstr!("{address}"),
        PeerAddr::Local => SmolStr::new_static("local socket"),
    })
}

/// Connections for health checks while all others are busy; each lasts a second at most.
const HEALTH_RESERVE: usize = 32;

/// Far more than a browser sends.
const MAX_HEAD: usize = 64 * 1024;

/// Long enough for the last bytes of a response to a client that reads.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
