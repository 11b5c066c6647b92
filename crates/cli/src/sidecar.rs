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
//! | `upload` | the size of the body, and its silences |
//! | the client | that the path can be taken for no other one, and never leaves its API |
//!
//! Nothing is ever handed on as it was framed: both legs are written anew.

mod annotate;
mod connection;
mod doorman;
mod download;
mod framing;
mod gateway;
mod guests;
mod hop;
mod problem;
mod pulse;
mod readers;
mod refused;
mod route;
mod steering;
mod turned_away;
mod upload;
mod wire;

use std::sync::Arc;

use outflow::{CannotStart, Crowd, Stop};

pub use self::turned_away::TurnedAway;

use self::doorman::Door;
use self::gateway::Gateway;
use self::guests::{Crowded, Guests};
use crate::listener::{Address, Connection, Listener, Peer};
use crate::station::Station;

/// Takes calls there until the program stops.
pub(crate) fn open(station: &Arc<Station>, listener: Listener) -> Result<(), CannotStart> {
    let crowd = station.tasks().crowd("sidecar connections")?;
    let turned_away = Arc::clone(station.turned_away());
    let gateway = Gateway::new(
        Arc::clone(station),
        Arc::clone(&turned_away),
        door(listener.address()),
    );
    let entrance = Arc::new(Entrance {
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

fn door(address: &Address) -> Door {
    match address {
        Address::Tcp(address) if address.ip().is_loopback() => Door::Loopback,
        Address::Tcp(_) | Address::Unix(_) => Door::Elsewhere,
    }
}

/// Where connections come in.
struct Entrance {
    station: Arc<Station>,
    gateway: Arc<Gateway>,
    guests: Arc<Guests>,
    turned_away: Arc<TurnedAway>,
    listener: Listener,
    crowd: Crowd,
}

impl Entrance {
    async fn keep(&self, stop: Stop) {
        while let Some((connection, from)) = self.listener.next(&stop).await {
            self.greet(connection, from, &stop);
        }
    }

    fn greet(&self, connection: Connection, from: Peer, stop: &Stop) {
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
    fn send_away(&self, connection: Connection, why: Crowded) -> Result<(), CannotStart> {
        let config = self.station.config();
        let places = usize::try_from(config.server.max_connections).unwrap_or(usize::MAX);
        if self.crowd.len() >= places.saturating_add(MOST_SENT_AWAY) {
            return Ok(());
        }
        let words = match why {
            Crowded::InAll => {
                "as many connections are open as may be: close some, or raise `max_connections`"
            }
            Crowded::FromThere => {
                "this address has as many connections as it may: reuse them, or raise `max_connections_per_client`"
            }
        };
        self.crowd.spawn(connection::send_away(connection, words))
    }
}

/// So many are told at once that there is no place; the others see the door close.
const MOST_SENT_AWAY: usize = 64;
