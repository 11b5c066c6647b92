//! Connection pool of one API: idle connections and pending connects.
//!
//! It replaces hyper-util's pool, which hides the moment a connection takes a request: limits count
//! from that moment. Reporting it over a channel cost each call more than all limits together. Here
//! the permit holder first gets a connection and then hands over the request.
//!
//! The pool closes idle connections before most servers do, so that few requests meet a closing
//! one.

mod connection;
mod first_bytes;
mod idle;
mod marks;
mod origin;

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use http::Uri;
use tokio::time::Instant;

pub(super) use self::connection::{PooledConnection, UnansweredRequest};
pub(super) use self::marks::{ConnectionMarks, Occupancy};
pub(super) use self::origin::PoolOrigin;

use self::connection::run;
use self::idle::IdlePool;
use super::failure::AttemptFailure;
use super::tls_connector::TlsConnector;
use crate::base_url::BaseUrl;
use crate::count_guard::CountGuard;

/// Connections of one API.
pub(super) struct Pool {
    connector: TlsConnector,
    api: Option<Arc<PoolOrigin>>,
    idle: Arc<IdlePool>,
}

impl Pool {
    pub(super) fn new(connector: TlsConnector, base: &BaseUrl, max_idle: usize) -> Self {
        Self {
            connector,
            api: PoolOrigin::from_base(base).map(Arc::new),
            idle: Arc::new(IdlePool::new(max_idle)),
        }
    }

    /// Returns the origin of a request: the API's or a redirect's. `None` if the URI names no host.
    pub(super) fn origin(&self, uri: &Uri) -> Option<Arc<PoolOrigin>> {
        let api = self.api.as_ref().filter(|api| api.contains(uri));
        api.map_or_else(|| PoolOrigin::from_uri(uri).map(Arc::new), |api| Some(Arc::clone(api)))
    }

    /// Takes an idle connection.
    pub(super) fn take_idle(&self, origin: &PoolOrigin, now: Instant) -> Option<PooledConnection> {
        self.idle.take(origin, now)
    }

    /// Opens a connection, or takes one that becomes idle first. A connection that comes second is
    /// stored for the next request.
    pub(super) async fn connect(
        &self,
        origin: &Arc<PoolOrigin>,
    ) -> Result<(PooledConnection, ConnectionAge), AttemptFailure> {
        let _counted = CountGuard::new(&self.idle.connecting);
        let mut connecting = Box::pin(connect_owned(self.connector.clone(), Arc::clone(origin)));
        loop {
            let mut freed = pin!(self.idle.freed.notified());
            let opened = poll_fn(|cx| match connecting.as_mut().poll(cx) {
                Poll::Ready(opened) => Poll::Ready(Some(opened)),
                Poll::Pending => freed.as_mut().poll(cx).map(|()| None),
            });
            if let Some(opened) = opened.await {
                return Ok((self.idle.register(origin, opened?), ConnectionAge::New));
            }
            if let Some(connection) = self.idle.take(origin, Instant::now()) {
                let (idle, origin) = (Arc::clone(&self.idle), Arc::clone(origin));
                run(async move {
                    if let Ok(opened) = connecting.await {
                        idle.put_back(&origin, idle.register(&origin, opened));
                    }
                });
                return Ok((connection, ConnectionAge::Used));
            }
        }
    }

    /// Bars a connection from new requests. It closes with the last request that it carries: a server that floods it
    /// would keep a processor busy for as long as the pool held it.
    pub(super) fn distrust(&self, origin: &PoolOrigin, connection: &PooledConnection) {
        connection.distrust();
        self.idle.drop_suspect(origin);
    }

    /// Stores a connection that never got its request.
    pub(super) fn put_back(&self, origin: &Arc<PoolOrigin>, connection: PooledConnection) {
        self.idle.put_back(origin, connection);
    }

    /// Returns the hold of a response on its connection. A shared connection goes back now, any
    /// other at the end of the body.
    pub(super) fn connection_for_body(&self, origin: Arc<PoolOrigin>, connection: PooledConnection) -> BodyConnection {
        if let PooledConnection::Shared(_, marks) = &connection {
            let marks = marks.clone();
            self.put_back(&origin, connection);
            return BodyConnection::Shared(marks);
        }
        BodyConnection::Leased(ConnectionLease {
            idle: Arc::clone(&self.idle),
            origin,
            connection: Some(connection),
        })
    }
}

/// Connection that carries a response body.
pub(super) enum BodyConnection {
    /// Shared with other requests, which its marks can warn.
    Shared(ConnectionMarks),
    /// Held by this body alone.
    Leased(#[expect(dead_code, reason = "held for its drop alone")] ConnectionLease),
}

/// Connection that returns to the pool on drop. The reader of the body holds it, so no task has to
/// wait until the connection is free.
pub(super) struct ConnectionLease {
    idle: Arc<IdlePool>,
    origin: Arc<PoolOrigin>,
    connection: Option<PooledConnection>,
}

impl Drop for ConnectionLease {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.take() {
            self.idle.put_back(&self.origin, connection);
        }
    }
}

/// Use of a connection so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ConnectionAge {
    /// It carried requests: the server may be about to close it.
    Used,
    /// It was opened for this request.
    New,
}

async fn connect_owned(connector: TlsConnector, origin: Arc<PoolOrigin>) -> Result<PooledConnection, AttemptFailure> {
    PooledConnection::connect(connector, &origin).await
}
