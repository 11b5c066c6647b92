//! One attempt over a connection pool.
//!
//! Each API has its own pool: a slow API cannot take another's connections, and trust and address
//! rules belong to the pool. A request may meet a closing connection; if nothing was sent, the
//! transport takes another. A connection with a timed-out response gets no further request.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use http::uri::Scheme;
use http::{Method, Request, Response};
use outflow_core::Fault;
use tokio::time::Instant;

use super::connect::Connect;
use super::deadline::AttemptDeadline;
use super::failure::{AttemptFailure, BytesSent, FailureKind, FailureMessage, INVALID_RESPONSE};
use super::pool::{BodyConnection, ConnectionAge, Pool, PoolOrigin, PooledConnection, UnansweredRequest};
use super::proxy::{ProxyRoutes, ProxyTable};
use super::request_body::{BodyProgress, OutgoingBody};
use super::resolve::{AddressGuard, CheckedResolver, Resolve};
use super::response_body::IncomingBody;
use super::response_framing::{check_framing, is_bodiless};
use super::system_resolver::SystemResolver;
use super::tls::{TrustStore, without_roots};
use super::tls_connector::{ConnectRoute, DirectConnector, TlsConnector};
use crate::api::{AddressPolicy, Api, Timeouts, TlsTrust};

/// Dependencies of transports beyond their API's settings.
#[derive(Clone, Default)]
pub(crate) struct TransportDeps {
    /// Custom connections of the program.
    pub(crate) connect: Option<Arc<dyn Connect>>,
    /// Custom resolver of the program.
    pub(crate) names: Option<Arc<dyn Resolve>>,
    /// Trust shared by all APIs.
    pub(crate) trust_store: Arc<TrustStore>,
}

impl TransportDeps {
    /// Returns the resolver of one API: the program's shared one, or the system with slots of its
    /// own.
    fn resolver(&self) -> Arc<dyn Resolve> {
        match &self.names {
            Some(names) => Arc::clone(names),
            None => Arc::new(SystemResolver::new()),
        }
    }
}

/// Connections to one API.
pub(crate) struct Transport {
    pool: Pool,
    timeouts: Timeouts,
}

impl Transport {
    pub(crate) fn new(api: &Api, deps: &TransportDeps) -> Result<Self, InvalidTransport> {
        let route = route(api, deps)?;
        let connector = TlsConnector::new(route, trust(api, &deps.trust_store)?, api.timeouts.connect);
        Ok(Self {
            pool: Pool::new(connector, &api.base_url, max_idle(api)),
            timeouts: api.timeouts,
        })
    }

    /// Sends a request and waits for the head of its response until the deadline.
    pub(crate) async fn send(
        &self,
        mut request: Request<OutgoingBody>,
        deadline: AttemptDeadline,
        hook: &mut impl SendHook,
    ) -> Result<Response<IncomingBody>, AttemptFailure> {
        let origin = self.pool.origin(request.uri()).ok_or(NO_HOST)?;
        let method = request.method().clone();
        let mut timeout = HeadTimeout {
            silence: deadline.max_silence(self.timeouts.read),
            deadline,
            progress: request.body().progress(),
            sent_at: None,
        };
        loop {
            let (mut connection, age) = self.acquire_connection(&origin, &mut timeout, hook).await?;
            let response = timeout.run(connection.send(&origin, request)).await;
            if matches!(&response, Err(failure) if failure.kind == READ_TIMEOUT) {
                self.pool.distrust(&origin, &connection);
            }
            match response? {
                Ok(response) => {
                    check_framing(&response).inspect_err(|_| self.pool.distrust(&origin, &connection))?;
                    let body_connection = self.pool.connection_for_body(origin, connection);
                    let mut response = self.incoming(response, &method, deadline, body_connection);
                    response.body_mut().confirm_empty().await?;
                    return Ok(response);
                }
                Err(UnansweredRequest {
                    unsent: Some(unsent), ..
                }) if age == ConnectionAge::Used => {
                    // Another connection may take long: the request has not left yet.
                    hook.on_unsent();
                    (request, timeout.sent_at) = (unsent, None);
                }
                Err(error) => {
                    if error.failure.kind == INVALID_RESPONSE {
                        self.pool.distrust(&origin, &connection);
                    }
                    return Err(error.failure);
                }
            }
        }
    }

    /// Gets a connection for a request and checks that its permit still holds.
    async fn acquire_connection(
        &self,
        origin: &Arc<PoolOrigin>,
        timeout: &mut HeadTimeout,
        hook: &mut impl SendHook,
    ) -> Result<(PooledConnection, ConnectionAge), AttemptFailure> {
        // The attempt's start is a few microseconds old; another clock read is not worth it.
        let mut now = timeout.deadline.begun;
        let (connection, age) = if let Some(connection) = self.pool.take_idle(origin, now) {
            (connection, ConnectionAge::Used)
        } else {
            // On the heap: nearly all requests find an idle connection.
            let opened = Box::pin(timeout.run(self.pool.connect(origin))).await??;
            now = Instant::now();
            opened
        };
        if hook.is_revoked() {
            self.pool.put_back(origin, connection);
            return Err(REVOKED);
        }
        hook.before_send();
        timeout.sent_at = Some(now);
        Ok((connection, age))
    }

    fn incoming(
        &self,
        response: Response<hyper::body::Incoming>,
        method: &Method,
        deadline: AttemptDeadline,
        body_connection: BodyConnection,
    ) -> Response<IncomingBody> {
        let silence = deadline.max_silence(self.timeouts.read);
        let is_bodiless = is_bodiless(method, response.status());
        response.map(|body| {
            let body = IncomingBody::new(body, silence, deadline, body_connection);
            if is_bodiless { body.without_data() } else { body }
        })
    }
}

/// Hooks around the moment a request leaves.
pub(crate) trait SendHook {
    /// Returns true if the permit was revoked. Asked once there is a connection, so that a request
    /// whose connection comes too late does not leave.
    fn is_revoked(&self) -> bool;

    /// Called before a connection takes the request and its first byte may leave.
    fn before_send(&mut self);

    /// Called when that connection returned the request unsent and another is needed.
    fn on_unsent(&mut self);
}

/// Timeout for the head of a response.
struct HeadTimeout {
    silence: Duration,
    deadline: AttemptDeadline,
    progress: Option<BodyProgress>,
    sent_at: Option<Instant>,
}

impl HeadTimeout {
    /// Runs work until it completes or the timeout passes.
    async fn run<W: Future>(&self, work: W) -> Result<W::Output, AttemptFailure> {
        let mut work = pin!(work);
        let mut timer = pin!(tokio::time::sleep_until(self.until()));
        poll_fn(|cx| {
            if let Poll::Ready(done) = work.as_mut().poll(cx) {
                return Poll::Ready(Ok(done));
            }
            while timer.as_mut().poll(cx).is_ready() {
                let until = self.until();
                if until <= timer.deadline() {
                    return Poll::Ready(Err(self.timeout_failure(until)));
                }
                timer.as_mut().reset(until);
            }
            Poll::Pending
        })
        .await
    }

    /// Returns the current timeout instant: progress of the body postpones it.
    fn until(&self) -> Instant {
        let moved = self.progress.as_ref().and_then(BodyProgress::last);
        let quiet = self.sent_at.max(moved).filter(|_| self.sent_at.is_some());
        quiet
            .and_then(|since| since.checked_add(self.silence))
            .map_or(self.deadline.at, |silent| silent.min(self.deadline.at))
    }

    fn timeout_failure(&self, until: Instant) -> AttemptFailure {
        let failure = match self.sent_at {
            None => AttemptFailure::new(Fault::ConnectTimeout, BytesSent::Nothing, "no connection in time"),
            Some(_) if self.progress.as_ref().is_some_and(BodyProgress::is_starved) => AttemptFailure::caller_stalled(),
            Some(_) => AttemptFailure::new(Fault::ReadTimeout, BytesSent::Something, "no response in time"),
        };
        self.deadline.attribute(until, failure)
    }
}

fn route(api: &Api, deps: &TransportDeps) -> Result<ConnectRoute, InvalidTransport> {
    if let Some(connect) = &deps.connect {
        return Ok(ConnectRoute::Custom(Arc::clone(connect)));
    }
    let guard = AddressGuard::from_api(api);
    let (resolver, timeout) = (deps.resolver(), api.timeouts.connect);
    let direct = |guard: &AddressGuard| {
        let names = CheckedResolver::new(Arc::clone(&resolver), guard.clone(), timeout);
        DirectConnector::new(names, guard.clone(), timeout)
    };
    let mut anywhere = api.clone();
    anywhere.addresses = AddressPolicy::Any;
    let routes = ProxyRoutes {
        to_proxy: direct(&AddressGuard::from_api(&anywhere)),
        direct: direct(&guard),
        guard: guard.clone(),
    };
    let tunnels = ProxyTable::new(&api.proxy, routes)?;
    Ok(match tunnels {
        Some(tunnels) => ConnectRoute::Tunnelled(Arc::new(tunnels)),
        None => ConnectRoute::Direct(direct(&guard)),
    })
}

fn trust(api: &Api, trust_store: &TrustStore) -> Result<Arc<rustls::ClientConfig>, InvalidTransport> {
    if api.trust == TlsTrust::AnyCertificate {
        tracing::warn!(
            api = %api.name,
            "certificates are not checked: anyone on the network path can read the keys"
        );
    }
    let plain = *api.base_url.scheme() == Scheme::HTTP;
    match trust_store.config(&api.trust) {
        Err(InvalidTransport::NoSystemTrust) if plain => without_roots(),
        config => config,
    }
}

/// As many connections as concurrent calls, and some spare for a reload that raises the limit.
fn max_idle(api: &Api) -> usize {
    let together = api.rules.concurrency();
    usize::try_from(together).map_or(usize::MAX, |together| together.max(MIN_IDLE))
}

/// Connections that are always worth keeping.
const MIN_IDLE: usize = 32;

/// Failure that makes a connection suspect.
const READ_TIMEOUT: FailureKind = FailureKind::Fault(Fault::ReadTimeout);

const NO_HOST: AttemptFailure = AttemptFailure::new(Fault::Dns, BytesSent::Nothing, "the request names no host");

const REVOKED: AttemptFailure = AttemptFailure {
    kind: FailureKind::Revoked,
    sent: BytesSent::Nothing,
    message: FailureMessage::Phrase("the permit was revoked before the request was sent"),
};

outflow_core::error_enum! {
    /// Error of an API configuration that allows no connections.
    #[non_exhaustive]
    pub enum InvalidTransport {
        /// The system has no trusted roots.
        NoSystemTrust = "the system has no trusted certificates: install some or set a certificate file",
        /// The file of certificates is not readable.
        UnreadableTrust = "the file of trusted certificates is not readable PEM",
        /// The file of certificates is empty.
        EmptyTrust = "the file of trusted certificates is empty",
        /// The proxy URL uses TLS, which is not supported for proxies.
        HttpsProxy = "TLS to a proxy is not supported: use an `http://` URL",
    }
}
