//! The door in front of any HTTP client that is a tower service.
//!
//! A layer for stacks that exist already: each request waits for a permit, goes to the service below,
//! and its answer is told to the door; the body keeps its place at the API until it ends. Nothing is
//! retried, cached or redirected: that is the stack's own business, and a retry layer above this one
//! takes a permit for each attempt. The service below is asked whether it is ready after the permit
//! came and not before, so that nothing of it is held while a call waits.

mod body;
mod future;

use std::fmt;
use std::task::{Context, Poll};

use http::{Request, Response};
use tower_layer::Layer;
use tower_service::Service;

pub use self::body::UpstreamBody;
pub use self::future::UpstreamFuture;
use crate::refusal::Refusal;
use crate::upstream::{AcquireOptions, Upstream};

/// Puts the door of an API in front of a service.
///
/// Which group a request is of follows from its method and path. One that carries an [`AcquireOptions`] among its
/// extensions is governed by that instead, which is how a caller sets a cost, a priority or a deadline.
///
/// ```
/// use std::sync::Arc;
/// use outflow::{Events, Govern, Rules, SystemClock, Upstream};
/// use tower_layer::Layer;
///
/// # #[derive(Clone)] struct AnyClient;
/// let rules = Rules::limited_to("10/s".parse()?);
/// let door = Upstream::new("github", rules, Arc::new(SystemClock::new()), Events::new())?;
/// let governed = Govern::new(door).layer(AnyClient);
/// # let _ = governed;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct UpstreamLayer {
    upstream: Upstream,
}

impl UpstreamLayer {
    /// Governs by the rules of this door.
    pub const fn new(upstream: Upstream) -> Self {
        Self { upstream }
    }
}

impl<S> Layer<S> for UpstreamLayer {
    type Service = UpstreamService<S>;

    fn layer(&self, inner: S) -> UpstreamService<S> {
        UpstreamService {
            upstream: self.upstream.clone(),
            inner,
        }
    }
}

/// A service behind the door of an API.
#[derive(Clone, Debug)]
pub struct UpstreamService<S> {
    upstream: Upstream,
    inner: S,
}

impl<S, B, R> Service<Request<B>> for UpstreamService<S>
where
    S: Service<Request<B>, Response = Response<R>> + Clone,
{
    type Response = Response<UpstreamBody<R>>;
    type Error = LayerError<S::Error>;
    type Future = UpstreamFuture<S, B>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let asked = request.extensions().get::<AcquireOptions>().copied();
        let ask = asked.unwrap_or_else(|| {
            let route = self.upstream.route(request.method(), request.uri().path());
            AcquireOptions::new(route)
        });
        UpstreamFuture::new(self.upstream.clone(), ask, self.inner.clone(), request)
    }
}

/// Why a governed request brought no answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LayerError<E> {
    /// The door did not open.
    Refused(Refusal),
    /// The service below failed.
    Failed(E),
}

impl<E: fmt::Display> fmt::Display for LayerError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(refusal) => refusal.fmt(f),
            Self::Failed(error) => error.fmt(f),
        }
    }
}

impl<E: std::error::Error + 'static> std::error::Error for LayerError<E> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Refused(refusal) => Some(refusal),
            Self::Failed(error) => Some(error),
        }
    }
}
