//! One direction of a connection through the proxy.
//!
//! Reading and writing run concurrently, with bytes in flight between them: a delay must not keep
//! the next bytes from being read, or it would be a bandwidth.

use std::io;
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use super::{Cut, ProxyShared};
use crate::link_latency::Direction;

/// The connection broke, and neither end may see a clean end.
#[derive(Debug)]
pub(super) struct Broken;

impl From<io::Error> for Broken {
    fn from(_: io::Error) -> Self {
        Self
    }
}

/// Forwards both directions until both have ended.
pub(super) async fn forward(
    shared: &Arc<ProxyShared>,
    client: &mut TcpStream,
    server: &mut TcpStream,
) -> Result<(), Broken> {
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (from_client, to_client) = client.split();
    let (from_server, to_server) = server.split();
    let there = Lane::new(shared, Direction::There);
    let back = Lane::new(shared, Direction::Back);
    tokio::try_join!(there.run(from_client, to_server), back.run(from_server, to_client))?;
    Ok(())
}

struct Lane {
    shared: Arc<ProxyShared>,
    direction: Direction,
}

struct Parcel {
    due: Instant,
    bytes: Vec<u8>,
}

impl Lane {
    fn new(shared: &Arc<ProxyShared>, direction: Direction) -> Self {
        Self {
            shared: Arc::clone(shared),
            direction,
        }
    }

    async fn run(&self, from: impl AsyncRead + Unpin, to: impl AsyncWrite + Unpin) -> Result<(), Broken> {
        let (send, parcels) = mpsc::channel(MAX_IN_FLIGHT);
        tokio::try_join!(self.take_in(from, send), self.give_out(to, parcels))?;
        Ok(())
    }

    async fn take_in(&self, mut from: impl AsyncRead + Unpin, send: mpsc::Sender<Parcel>) -> Result<(), Broken> {
        let (mut idle, mut last) = (Instant::now(), Instant::now());
        let mut buffer = [0; PIECE];
        loop {
            let piece = self.shared.state().link.path(self.direction).piece(PIECE);
            let room = buffer.get_mut(..piece).unwrap_or_default();
            let count = from.read(room).await?;
            if count == 0 {
                return Ok(());
            }
            let bytes = buffer.get(..count).unwrap_or_default().to_vec();
            last = self.due(&mut idle, count).max(last);
            let parcel = Parcel { due: last, bytes };
            send.send(parcel).await.map_err(|_| Broken)?;
        }
    }

    /// Returns the time at which these bytes have passed.
    fn due(&self, idle: &mut Instant, count: usize) -> Instant {
        let state = &mut *self.shared.state();
        state.traffic.count(self.direction, count);
        let path = *state.link.path(self.direction);
        *idle = (*idle).max(Instant::now()) + path.occupied(count);
        *idle + path.delay(&mut state.chance)
    }

    async fn give_out(
        &self,
        mut to: impl AsyncWrite + Unpin,
        mut parcels: mpsc::Receiver<Parcel>,
    ) -> Result<(), Broken> {
        let mut given = 0;
        while let Some(parcel) = parcels.recv().await {
            sleep_until(parcel.due).await;
            self.shared.flows(self.direction).await;
            let whole = parcel.bytes.len();
            let left = self.left(given);
            let allowed = parcel.bytes.get(..left.min(whole)).unwrap_or_default();
            to.write_all(allowed).await?;
            if left <= whole {
                return Err(Broken);
            }
            given += u64::try_from(whole).unwrap_or(u64::MAX);
        }
        self.shared.flows(self.direction).await;
        to.shutdown().await?;
        Ok(())
    }

    /// Returns the number of bytes until the connection is cut.
    fn left(&self, given: u64) -> usize {
        match self.shared.state().cut {
            Some(Cut { direction, after }) if direction == self.direction => {
                usize::try_from(after.saturating_sub(given)).unwrap_or(usize::MAX)
            }
            _ => usize::MAX,
        }
    }
}

/// Size of one read: small enough for an even flow on a narrow link.
const PIECE: usize = 4_096;

/// Maximum number of pieces in flight: two seconds of delay at two megabytes a second.
const MAX_IN_FLIGHT: usize = 1_024;
