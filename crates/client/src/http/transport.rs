//! One attempt over a pool of connections.
//!
//! Each API has a pool of its own, so that a slow one cannot take another's connections, and so that
//! what is trusted and where it may lead is a property of the pool and cannot be mixed up. Idle
//! connections are let go before most servers do, which keeps the race rare in which a request meets
//! a connection that is just being closed; where it happens and nothing had left, the pool itself
//! takes another connection. One on which an answer did not come in time gets no other request.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use http::uri::Scheme;
use http::{Request, Response, StatusCode};
use hyper_util::client::legacy::connect::capture_connection;
use hyper_util::client::legacy::{Client, ResponseFuture};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use outflow_core::Fault;
use tokio::time::Instant;

use super::connect::Connect;
use super::dial::{Dial, Direct, Reach};
use super::end::End;
use super::failure::{Failure, Left, Trouble, Words};
use super::incoming::{Incoming, distrust};
use super::outgoing::{Outgoing, Progress};
use super::proxy::{Routes, Tunnels};
use super::resolve::{Checked, Guard, Resolve};
use super::system::System;
use super::tls::{Untrusted, Vouchers, nobody};
use crate::api::{Addresses, Api, Timeouts, Trust};

/// What transports are made with beside their API's own settings.
#[derive(Clone, Default)]
pub(crate) struct Wiring {
    /// The program's own way to servers.
    pub(crate) connect: Option<Arc<dyn Connect>>,
    /// Who resolves names, if not the system.
    pub(crate) names: Option<Arc<dyn Resolve>>,
    /// What is trusted, shared by all.
    pub(crate) vouchers: Arc<Vouchers>,
}

impl Wiring {
    /// Who resolves the names of one API: the program's own resolver, which all share, or the system
    /// at places of the API's own.
    fn resolver(&self) -> Arc<dyn Resolve> {
        match &self.names {
            Some(names) => Arc::clone(names),
            None => Arc::new(System::new()),
        }
    }
}

/// The connections to one API.
pub(crate) struct Transport {
    client: Client<Dial, Outgoing>,
    timeouts: Timeouts,
}

impl Transport {
    pub(crate) fn new(api: &Api, wiring: &Wiring) -> Result<Self, InvalidTransport> {
        let reach = reach(api, wiring)?;
        let dial = Dial::new(reach, trust(api, &wiring.vouchers)?, api.timeouts.connect);
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE)
            .pool_max_idle_per_host(MOST_IDLE)
            .retry_canceled_requests(true)
            .timer(TokioTimer::new())
            .http1_max_buf_size(LARGEST_HEAD)
            .http2_max_header_list_size(LARGEST_HEAD_H2)
            .build(dial);
        Ok(Self {
            client,
            timeouts: api.timeouts,
        })
    }

    /// Sends a request and waits for the head of its response, until `end` at the latest.
    pub(crate) async fn send(
        &self,
        mut request: Request<Outgoing>,
        end: End,
        leave: &mut impl Leave,
    ) -> Result<Response<Incoming>, Failure> {
        let progress = request.body().progress();
        let connection = capture_connection(&mut request);
        let patience = Patience {
            silence: self.timeouts.read,
            end,
            progress,
        };
        let taken = || connection.connection_metadata().is_some();
        let head = patience.head(self.client.request(request), taken, leave);
        let head = head.await;
        if matches!(&head, Err(failure) if failure.trouble == Trouble::Fault(Fault::ReadTimeout)) {
            distrust(&connection);
        }
        let response = head?;
        if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            return Err(UNASKED);
        }
        let silence = self.timeouts.read;
        Ok(response.map(|body| Incoming::new(body, silence, end, connection)))
    }
}

/// Leave to send one request, as its sender holds it.
pub(crate) trait Leave {
    /// Whether it was taken back. Asked whenever the request could be handed to a connection, so that
    /// it does not leave when its connection comes too late.
    fn is_taken_back(&self) -> bool;

    /// Told once, when a connection has taken the request over and its first byte may leave.
    fn departing(&mut self);
}

/// How long the head of a response is waited for.
struct Patience {
    silence: Duration,
    end: End,
    progress: Option<Progress>,
}

impl Patience {
    async fn head(
        self,
        response: ResponseFuture,
        taken: impl Fn() -> bool,
        leave: &mut impl Leave,
    ) -> Result<Response<hyper::body::Incoming>, Failure> {
        let mut response = pin!(response);
        let mut alarm = pin!(tokio::time::sleep_until(self.end.at));
        let mut departed = None;
        poll_fn(|cx| {
            if departed.is_none() && leave.is_taken_back() {
                return Poll::Ready(Err(TAKEN_BACK));
            }
            let polled = response.as_mut().poll(cx);
            if departed.is_none() && taken() {
                leave.departing();
                departed = Some(Instant::now());
                alarm.as_mut().reset(self.until(departed));
            }
            if let Poll::Ready(answer) = polled {
                return Poll::Ready(answer.map_err(|error| Failure::read(&error)));
            }
            while alarm.as_mut().poll(cx).is_ready() {
                let until = self.until(departed);
                if until <= alarm.deadline() {
                    return Poll::Ready(Err(self.late(departed, until)));
                }
                alarm.as_mut().reset(until);
            }
            Poll::Pending
        })
        .await
    }

    /// When patience ends, as far as is known now: a body that moves puts the end of silence off.
    fn until(&self, departed: Option<Instant>) -> Instant {
        let moved = self.progress.as_ref().and_then(Progress::last);
        let quiet = departed.max(moved).filter(|_| departed.is_some());
        quiet
            .and_then(|since| since.checked_add(self.silence))
            .map_or(self.end.at, |silent| silent.min(self.end.at))
    }

    fn late(&self, departed: Option<Instant>, until: Instant) -> Failure {
        let failure = match departed {
            None => Failure::of(
                Fault::ConnectTimeout,
                Left::Nothing,
                "no connection in time",
            ),
            Some(_) => Failure::of(Fault::ReadTimeout, Left::Something, "no answer in time"),
        };
        self.end.judge(until, failure)
    }
}

fn reach(api: &Api, wiring: &Wiring) -> Result<Reach, InvalidTransport> {
    if let Some(connect) = &wiring.connect {
        return Ok(Reach::Own(Arc::clone(connect)));
    }
    let guard = Guard::of(api);
    let (resolver, timeout) = (wiring.resolver(), api.timeouts.connect);
    let direct = |guard: &Guard| {
        let names = Checked::new(Arc::clone(&resolver), guard.clone(), timeout);
        Direct::new(names, guard.clone(), timeout)
    };
    let mut anywhere = api.clone();
    anywhere.addresses = Addresses::Any;
    let routes = Routes {
        to_proxy: direct(&Guard::of(&anywhere)),
        direct: direct(&guard),
        guard: guard.clone(),
    };
    let tunnels = Tunnels::of(&api.proxy, routes).map_err(|_| InvalidTransport::HttpsProxy)?;
    Ok(match tunnels {
        Some(tunnels) => Reach::Tunnelled(Arc::new(tunnels)),
        None => Reach::Direct(direct(&guard)),
    })
}

fn trust(api: &Api, vouchers: &Vouchers) -> Result<Arc<rustls::ClientConfig>, InvalidTransport> {
    if api.trust == Trust::Anybody {
        tracing::warn!(
            api = %api.name,
            "certificates are not checked: whoever sits on the way reads the keys"
        );
    }
    let plain = *api.base_url.scheme() == Scheme::HTTP;
    match vouchers.config(&api.trust) {
        Err(Untrusted::NoSystem) if plain => nobody().map_err(InvalidTransport::from),
        config => config.map_err(InvalidTransport::from),
    }
}

const UNASKED: Failure = Failure::of(
    Fault::Reset,
    Left::Something,
    "the server changed the protocol unasked",
);

const TAKEN_BACK: Failure = Failure {
    trouble: Trouble::CalledOff,
    left: Left::Nothing,
    words: Words::Phrase("leave to send was taken back"),
};

/// Below the shortest that servers keep a silent connection for, so that we hang up first.
const IDLE: Duration = Duration::from_secs(15);

/// More than run at once by default; above it connections are not worth keeping.
const MOST_IDLE: usize = 32;

/// Far above what providers send. A head that trickles in is looked at again with every piece, so
/// twice as much would take four times the work.
const LARGEST_HEAD: usize = 32 * 1024;
const LARGEST_HEAD_H2: u32 = 32 * 1024;

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

impl From<Untrusted> for InvalidTransport {
    fn from(untrusted: Untrusted) -> Self {
        match untrusted {
            Untrusted::NoSystem => Self::NoSystemTrust,
            Untrusted::Unreadable => Self::UnreadableTrust,
            Untrusted::Empty => Self::EmptyTrust,
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
