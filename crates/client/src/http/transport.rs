//! One attempt over a pool of connections.
//!
//! Each API has a pool of its own, so that a slow one cannot take another's connections, and so that
//! what is trusted and where it may lead is a property of the pool and cannot be mixed up. A request
//! may meet a connection that is just being closed; where that happens and nothing had left, another
//! one is taken. One on which an answer did not come in time gets no other request.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use http::uri::Scheme;
use http::{Request, Response, StatusCode};
use outflow_core::Fault;
use tokio::time::Instant;

use super::connect::Connect;
use super::deadline::AttemptDeadline;
use super::failure::{AttemptFailure, BytesSent, FailureKind, FailureMessage};
use super::pool::{
    BodyFraming, ConnectionAge, Pool, PoolOrigin, PooledConnection, SuspectFlag, UnansweredRequest,
};
use super::proxy::{ProxyRoutes, ProxyTable};
use super::request_body::{BodyProgress, OutgoingBody};
use super::resolve::{AddressGuard, CheckedResolver, Resolve};
use super::response_body::IncomingBody;
use super::system_resolver::SystemResolver;
use super::tls::{TrustError, TrustStore, nobody};
use super::tls_connector::{ConnectRoute, DirectConnector, TlsConnector};
use crate::api::{AddressPolicy, Api, Timeouts, TlsTrust};

/// What transports are made with beside their API's own settings.
#[derive(Clone, Default)]
pub(crate) struct TransportDeps {
    /// The program's own way to servers.
    pub(crate) connect: Option<Arc<dyn Connect>>,
    /// Who resolves names, if not the system.
    pub(crate) names: Option<Arc<dyn Resolve>>,
    /// What is trusted, shared by all.
    pub(crate) vouchers: Arc<TrustStore>,
}

impl TransportDeps {
    /// Who resolves the names of one API: the program's own resolver, which all share, or the system
    /// at places of the API's own.
    fn resolver(&self) -> Arc<dyn Resolve> {
        match &self.names {
            Some(names) => Arc::clone(names),
            None => Arc::new(SystemResolver::new()),
        }
    }
}

/// The connections to one API.
pub(crate) struct Transport {
    pool: Pool,
    timeouts: Timeouts,
}

impl Transport {
    pub(crate) fn new(api: &Api, wiring: &TransportDeps) -> Result<Self, InvalidTransport> {
        let reach = reach(api, wiring)?;
        let dial = TlsConnector::new(reach, trust(api, &wiring.vouchers)?, api.timeouts.connect);
        Ok(Self {
            pool: Pool::new(dial, &api.base_url, most_idle(api)),
            timeouts: api.timeouts,
        })
    }

    /// Sends a request and waits for the head of its response, until `end` at the latest.
    pub(crate) async fn send(
        &self,
        mut request: Request<OutgoingBody>,
        end: AttemptDeadline,
        leave: &mut impl SendHook,
    ) -> Result<Response<IncomingBody>, AttemptFailure> {
        let origin = self.pool.origin(request.uri()).ok_or(NOWHERE)?;
        let mut patience = HeadTimeout {
            silence: end.silence(self.timeouts.read),
            end,
            progress: request.body().progress(),
            departed: None,
        };
        loop {
            let (mut link, age) = self.link(&origin, &mut patience, leave).await?;
            let answered = patience.last(link.answer(&origin, request)).await;
            if matches!(&answered, Err(failure) if failure.trouble == LATE) {
                link.doubt().iter().for_each(SuspectFlag::cast);
            }
            match answered? {
                Ok(response) => {
                    let way = self.pool.body_framing(origin, link);
                    return self.incoming(response, end, way);
                }
                Err(UnansweredRequest {
                    unsent: Some(unsent),
                    ..
                }) if age == ConnectionAge::Used => {
                    // It may take long until there is another connection: it has not left yet.
                    leave.stayed();
                    (request, patience.departed) = (unsent, None);
                }
                Err(unanswered) => return Err(unanswered.failure),
            }
        }
    }

    /// A connection for a request that may leave now.
    async fn link(
        &self,
        origin: &Arc<PoolOrigin>,
        patience: &mut HeadTimeout,
        leave: &mut impl SendHook,
    ) -> Result<(PooledConnection, ConnectionAge), AttemptFailure> {
        // Reading the clock again would show a few microseconds more.
        let mut now = patience.end.begun;
        let (link, age) = if let Some(link) = self.pool.idle(origin, now) {
            (link, ConnectionAge::Used)
        } else {
            // On the heap: nearly all requests find a connection.
            let made = Box::pin(patience.last(self.pool.made(origin))).await??;
            now = Instant::now();
            made
        };
        if leave.is_taken_back() {
            self.pool.give_back(origin, link);
            return Err(TAKEN_BACK);
        }
        leave.departing();
        patience.departed = Some(now);
        Ok((link, age))
    }

    fn incoming(
        &self,
        response: Response<hyper::body::Incoming>,
        end: AttemptDeadline,
        way: BodyFraming,
    ) -> Result<Response<IncomingBody>, AttemptFailure> {
        if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            return Err(UNASKED);
        }
        let silence = end.silence(self.timeouts.read);
        Ok(response.map(|body| IncomingBody::new(body, silence, end, way)))
    }
}

/// Leave to send one request, as its sender holds it.
pub(crate) trait SendHook {
    /// Whether it was taken back. Asked when there is a connection for the request, so that it does
    /// not leave when its connection comes too late.
    fn is_taken_back(&self) -> bool;

    /// Told when a connection is about to take the request over and its first byte may leave.
    fn departing(&mut self);

    /// Told when that connection gave it back untouched, and another is to be found.
    fn stayed(&mut self);
}

/// How long the head of a response is waited for.
struct HeadTimeout {
    silence: Duration,
    end: AttemptDeadline,
    progress: Option<BodyProgress>,
    departed: Option<Instant>,
}

impl HeadTimeout {
    /// What comes of work, if it comes before patience ends.
    async fn last<W: Future>(&self, work: W) -> Result<W::Output, AttemptFailure> {
        let mut work = pin!(work);
        let mut alarm = pin!(tokio::time::sleep_until(self.until()));
        poll_fn(|cx| {
            if let Poll::Ready(done) = work.as_mut().poll(cx) {
                return Poll::Ready(Ok(done));
            }
            while alarm.as_mut().poll(cx).is_ready() {
                let until = self.until();
                if until <= alarm.deadline() {
                    return Poll::Ready(Err(self.late(until)));
                }
                alarm.as_mut().reset(until);
            }
            Poll::Pending
        })
        .await
    }

    /// When patience ends, as far as is known now: a body that moves puts the end of silence off.
    fn until(&self) -> Instant {
        let moved = self.progress.as_ref().and_then(BodyProgress::last);
        let quiet = self.departed.max(moved).filter(|_| self.departed.is_some());
        quiet
            .and_then(|since| since.checked_add(self.silence))
            .map_or(self.end.at, |silent| silent.min(self.end.at))
    }

    fn late(&self, until: Instant) -> AttemptFailure {
        let failure = match self.departed {
            None => AttemptFailure::new(
                Fault::ConnectTimeout,
                BytesSent::Nothing,
                "no connection in time",
            ),
            Some(_) if self.progress.as_ref().is_some_and(BodyProgress::is_starved) => {
                AttemptFailure::of_late_caller()
            }
            Some(_) => AttemptFailure::new(
                Fault::ReadTimeout,
                BytesSent::Something,
                "no answer in time",
            ),
        };
        self.end.judge(until, failure)
    }
}

fn reach(api: &Api, wiring: &TransportDeps) -> Result<ConnectRoute, InvalidTransport> {
    if let Some(connect) = &wiring.connect {
        return Ok(ConnectRoute::Own(Arc::clone(connect)));
    }
    let guard = AddressGuard::from_api(api);
    let (resolver, timeout) = (wiring.resolver(), api.timeouts.connect);
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
    let tunnels = ProxyTable::new(&api.proxy, routes).map_err(|_| InvalidTransport::HttpsProxy)?;
    Ok(match tunnels {
        Some(tunnels) => ConnectRoute::Tunnelled(Arc::new(tunnels)),
        None => ConnectRoute::Direct(direct(&guard)),
    })
}

fn trust(api: &Api, vouchers: &TrustStore) -> Result<Arc<rustls::ClientConfig>, InvalidTransport> {
    if api.trust == TlsTrust::AnyCertificate {
        tracing::warn!(
            api = %api.name,
            "certificates are not checked: whoever sits on the way reads the keys"
        );
    }
    let plain = *api.base_url.scheme() == Scheme::HTTP;
    match vouchers.config(&api.trust) {
        Err(TrustError::NoSystem) if plain => nobody().map_err(InvalidTransport::from),
        config => config.map_err(InvalidTransport::from),
    }
}

/// As many connections as calls may run at once, and a few more for those that a reload may allow.
fn most_idle(api: &Api) -> usize {
    let together = api.rules.health.settings().concurrency;
    usize::try_from(together).map_or(usize::MAX, |together| together.max(FEW))
}

/// Connections that are worth keeping in any case.
const FEW: usize = 32;

/// What makes a connection doubtful.
const LATE: FailureKind = FailureKind::Fault(Fault::ReadTimeout);

const NOWHERE: AttemptFailure =
    AttemptFailure::new(Fault::Dns, BytesSent::Nothing, "the request names no host");

const UNASKED: AttemptFailure = AttemptFailure::new(
    Fault::Reset,
    BytesSent::Something,
    "the server changed the protocol unasked",
);

const TAKEN_BACK: AttemptFailure = AttemptFailure {
    trouble: FailureKind::CalledOff,
    left: BytesSent::Nothing,
    words: FailureMessage::Phrase("leave to send was taken back"),
};

/// Why there can be no connections to an API as it is configured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum InvalidTransport {
    /// The machine trusts no certificates.
    NoSystemTrust,
    /// The file of certificates cannot be read.
    UnreadableTrust,
    /// The file of certificates holds none.
    EmptyTrust,
    /// The proxy is to be reached over TLS, which is not spoken to proxies.
    HttpsProxy,
}

impl From<TrustError> for InvalidTransport {
    fn from(untrusted: TrustError) -> Self {
        match untrusted {
            TrustError::NoSystem => Self::NoSystemTrust,
            TrustError::Unreadable => Self::UnreadableTrust,
            TrustError::Empty => Self::EmptyTrust,
        }
    }
}

impl fmt::Display for InvalidTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoSystemTrust => {
                "this machine trusts no certificates: install some or name a file of them"
            }
            Self::UnreadableTrust => "the file of trusted certificates is not readable PEM",
            Self::EmptyTrust => "the file of trusted certificates holds none",
            Self::HttpsProxy => "a proxy is reached by `http://`: TLS to proxies is not spoken",
        })
    }
}

impl std::error::Error for InvalidTransport {}
