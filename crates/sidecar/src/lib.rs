//! The sidecar: `/{api}/{path}` goes to that API, governed as every call is.
//!
//! It translates between HTTP and calls and decides nothing about limits. What a caller may say about
//! one call is said in headers of ours; what we have to say about an answer is added to it the same
//! way. Whoever calls is not trusted. What is checked where:
//!
//! | where | what |
//! |---|---|
//! | `guests` | how many are connected, in all and from one address |
//! | `wire`, `framing` | on HTTP/1, before anything is parsed: line ends, names and values, one host, one length or one coding, the size and the time of a head; that what is written is also read |
//! | hyper | what is left of HTTP/1, and all of HTTP/2: streams, resets, windows, sizes |
//! | `doorman` | on the parsed request: one host in target and header, a host of this machine, methods, protocols, the token |
//! | `route` | that the API is one of ours |
//! | `steering` | that what is said about the call can be done |
//! | `mark` | that it was not handed on by us before |
//! | `upload` | the size of the body, and its silences |
//! | the client | that the path can be taken for no other one, and never leaves its API |
//!
//! Nothing is ever handed on as it was framed: both legs are written anew.

mod connection;
mod connection_limits;
mod control_headers;
mod error_response;
mod framing;
pub(crate) mod fuzzing;
mod hop_by_hop;
mod idle_tracker;
mod loop_detection;
mod problem;
mod proxy;
mod rejections;
mod request_body;
mod request_guard;
mod response_body;
mod response_headers;
mod route;
mod stalled_readers;
mod strict_io;

use std::sync::Arc;

use outflow::{CancelToken, SpawnError, TaskGroup};

pub use self::rejections::RejectionCounts;

use self::connection_limits::{ConnectionLimits, TooManyConnections};
use self::proxy::ProxyHandler;
use self::request_guard::ListenerExposure;
use crate::app_state::AppState;
use crate::listener::{InboundConnection, ListenAddr, Listener, PeerAddr};

/// Takes calls there until the program stops.
pub(crate) fn open(station: &Arc<AppState>, listener: Listener) -> Result<(), SpawnError> {
    let crowd = station.tasks().task_group("sidecar connections")?;
    let turned_away = Arc::clone(station.turned_away());
    let gateway = ProxyHandler::new(
        Arc::clone(station),
        Arc::clone(&turned_away),
        exposure(listener.address()),
    );
    let entrance = Arc::new(Acceptor {
        station: Arc::clone(station),
        gateway: Arc::new(gateway),
        guests: Arc::default(),
        turned_away,
        listener,
        crowd,
    });
    station.tasks().spawn("sidecar", move |stop| {
        let entrance = Arc::clone(&entrance);
        async move { entrance.keep(stop).await }
    })
}

fn exposure(address: &ListenAddr) -> ListenerExposure {
    match address {
        ListenAddr::Tcp(address) if address.ip().is_loopback() => ListenerExposure::Loopback,
        ListenAddr::Tcp(_) | ListenAddr::Unix(_) => ListenerExposure::Elsewhere,
    }
}

/// Where connections come in.
struct Acceptor {
    station: Arc<AppState>,
    gateway: Arc<ProxyHandler>,
    guests: Arc<ConnectionLimits>,
    turned_away: Arc<RejectionCounts>,
    listener: Listener,
    crowd: TaskGroup,
}

impl Acceptor {
    async fn keep(&self, stop: CancelToken) {
        while let Some((connection, from)) = self.listener.next(&stop).await {
            self.greet(connection, from, &stop);
        }
    }

    fn greet(&self, connection: InboundConnection, from: PeerAddr, stop: &CancelToken) {
        let config = self.station.config();
        // What is spawned is refused only while the program stops.
        let _stopping = match self.guests.admit(from, &config.server) {
            Ok(guest) => {
                let gateway = Arc::clone(&self.gateway);
                let stop = stop.clone();
                self.crowd.spawn(async move {
                    connection::serve(connection, gateway, &config.server, stop).await;
                    drop(guest);
                })
            }
            Err(why) => {
                self.turned_away.no_place(why);
                self.send_away(connection, why)
            }
        };
    }

    /// Says why, unless even that would be too much.
    fn send_away(
        &self,
        connection: InboundConnection,
        why: TooManyConnections,
    ) -> Result<(), SpawnError> {
        let config = self.station.config();
        let places = usize::try_from(config.server.max_connections).unwrap_or(usize::MAX);
        if self.crowd.len() >= places.saturating_add(MOST_SENT_AWAY) {
            return Ok(());
        }
        let words = match why {
            TooManyConnections::InAll => {
                "as many connections are open as may be: close some, or raise `max_connections`"
            }
            TooManyConnections::FromThere => {
                "this address has as many connections as it may: reuse them, or raise `max_connections_per_client`"
            }
        };
        self.crowd.spawn(connection::send_away(connection, words))
    }
}

/// So many are told at once that there is no place; the others see the door close.
const MOST_SENT_AWAY: usize = 64;
