//! The connections of one API: those that wait for a request, and those that are being made.
//!
//! A pool of our own rather than the ready one around hyper: that one takes a request and hides the
//! moment in which a connection takes it over, which is the moment from which a limit counts, and
//! telling it by a channel cost each call more than all limits together. Here a connection is got
//! first and the request handed to it afterwards, by whoever holds the permit.
//!
//! Idle connections are let go before most servers do, which keeps the race rare in which a request
//! meets a connection that is just being closed.

mod connection;
mod idle;
mod origin;

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;

use http::Uri;
use tokio::time::Instant;

pub(super) use self::connection::{PooledConnection, SuspectFlag, UnansweredRequest};
pub(super) use self::origin::PoolOrigin;

use self::connection::run;
use self::idle::IdlePool;
use super::failure::AttemptFailure;
use super::tls_connector::TlsConnector;
use crate::base_url::BaseUrl;

/// The connections of one API.
pub(super) struct Pool {
    dial: TlsConnector,
    home: Option<Arc<PoolOrigin>>,
    shelves: Arc<IdlePool>,
}

impl Pool {
    pub(super) fn new(dial: TlsConnector, base: &BaseUrl, most_idle: usize) -> Self {
        Self {
            dial,
            home: PoolOrigin::of_base(base).map(Arc::new),
            shelves: Arc::new(IdlePool::new(most_idle)),
        }
    }

    /// Where a request is for: the API, or wherever a redirect led; nothing if it does not say.
    pub(super) fn origin(&self, uri: &Uri) -> Option<Arc<PoolOrigin>> {
        let home = self.home.as_ref().filter(|home| home.leads(uri));
        home.map_or_else(
            || PoolOrigin::from_uri(uri).map(Arc::new),
            |home| Some(Arc::clone(home)),
        )
    }

    /// A connection that is there already.
    pub(super) fn idle(&self, origin: &PoolOrigin, now: Instant) -> Option<PooledConnection> {
        self.shelves.take(origin, now)
    }

    /// A connection that is made now, or one that others do not need any more, whichever is first.
    /// One that comes second is kept: somebody will want it.
    pub(super) async fn made(
        &self,
        origin: &Arc<PoolOrigin>,
    ) -> Result<(PooledConnection, ConnectionAge), AttemptFailure> {
        let _counted = PendingConnect::new(&self.shelves.making);
        let mut making = Box::pin(making(self.dial.clone(), Arc::clone(origin)));
        loop {
            let mut freed = pin!(self.shelves.freed.notified());
            let made = poll_fn(|cx| match making.as_mut().poll(cx) {
                Poll::Ready(made) => Poll::Ready(Some(made)),
                Poll::Pending => freed.as_mut().poll(cx).map(|()| None),
            });
            if let Some(made) = made.await {
                return Ok((self.shelves.welcome(origin, made?), ConnectionAge::New));
            }
            if let Some(link) = self.shelves.take(origin, Instant::now()) {
                let (shelves, origin) = (Arc::clone(&self.shelves), Arc::clone(origin));
                run(async move {
                    if let Ok(made) = making.await {
                        shelves.give_back(&origin, shelves.welcome(&origin, made));
                    }
                });
                return Ok((link, ConnectionAge::Used));
            }
        }
    }

    /// A connection whose request was never handed to it.
    pub(super) fn give_back(&self, origin: &Arc<PoolOrigin>, link: PooledConnection) {
        self.shelves.give_back(origin, link);
    }

    /// The way of an answer that has begun on this connection: one that many use is put back now, and
    /// any other with the end of the answer's body.
    pub(super) fn body_framing(
        &self,
        origin: Arc<PoolOrigin>,
        link: PooledConnection,
    ) -> BodyFraming {
        if let PooledConnection::Shared(_, doubt) = &link {
            let doubt = doubt.clone();
            self.give_back(&origin, link);
            return BodyFraming::Shared(doubt);
        }
        BodyFraming::Lent(ConnectionLease {
            shelves: Arc::clone(&self.shelves),
            origin,
            link: Some(link),
        })
    }
}

/// How a body comes.
pub(super) enum BodyFraming {
    /// Over a connection that others use too, and can be warned of.
    Shared(SuspectFlag),
    /// Over one of its own.
    Lent(#[expect(dead_code, reason = "held for its end alone")] ConnectionLease),
}

/// A connection that is put back when this is dropped. Whoever reads the body holds it, so that nobody
/// has to wait beside for the connection to be free.
pub(super) struct ConnectionLease {
    shelves: Arc<IdlePool>,
    origin: Arc<PoolOrigin>,
    link: Option<PooledConnection>,
}

impl Drop for ConnectionLease {
    fn drop(&mut self) {
        if let Some(link) = self.link.take() {
            self.shelves.give_back(&self.origin, link);
        }
    }
}

/// Whether a connection has taken requests before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ConnectionAge {
    /// It may be about to be closed by the other side.
    Used,
    /// It was made for this request.
    New,
}

async fn making(
    dial: TlsConnector,
    origin: Arc<PoolOrigin>,
) -> Result<PooledConnection, AttemptFailure> {
    PooledConnection::made(dial, &origin).await
}

/// One who makes a connection and would take another.
struct PendingConnect<'a>(&'a AtomicUsize);

impl<'a> PendingConnect<'a> {
    fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::AcqRel);
        Self(count)
    }
}

impl Drop for PendingConnect<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}
