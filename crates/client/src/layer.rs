//! A tower layer that applies an upstream's limits to any HTTP client.
//!
//! Each request waits for a permit and goes to the inner service, and its response settles the permit; a
//! call stays in flight until its body ends. The layer does not retry, cache or redirect: a retry layer
//! above it acquires a permit for each attempt. The inner service is polled for readiness after the
//! permit is granted, so that a waiting call holds nothing of it.

mod body;
mod future;

use std::fmt;
use std::task::{Context, Poll};

use http::{Request, Response};
use tower_layer::Layer;
use tower_service::Service;

pub use self::body::UpstreamBody;
use self::future::LayerCall;
pub use self::future::UpstreamFuture;
use crate::refusal::Refusal;
use crate::upstream::{AcquireOptions, Target, Upstream};

/// Layer that applies the limits of an upstream to a service.
///
/// The method and the path of a request decide its group, unless it has a [`Target`] among its
/// extensions: use that to set a cost. An [`AcquireOptions`] extension sets a priority or a deadline.
///
/// ```
/// use std::sync::Arc;
/// use outflow::{Events, Rules, SystemClock, Upstream, UpstreamLayer};
/// use tower_layer::Layer;
///
/// # #[derive(Clone)] struct AnyClient;
/// let rules = Rules::with_limit("10/s".parse()?);
/// let github = Upstream::new("github", rules, Arc::new(SystemClock::new()), Events::new())?;
/// let service = UpstreamLayer::new(github).layer(AnyClient);
/// # let _ = service;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct UpstreamLayer {
    upstream: Upstream,
}

impl UpstreamLayer {
    /// Creates a layer for this upstream.
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

/// Service with the limits of an upstream.
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
        let extensions = request.extensions();
        let options = extensions.get::<AcquireOptions>().copied();
        let target = extensions.get::<Target>().copied().unwrap_or_else(|| {
            let upstream = &self.upstream;
            upstream.route(request.method(), request.uri().path())
        });
        let call = LayerCall {
            target,
            options: options.unwrap_or_default(),
        };
        UpstreamFuture::new(self.upstream.clone(), call, self.inner.clone(), request)
    }
}

/// Failure of a request behind the layer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LayerError<E> {
    /// The upstream refused a permit.
    Refused(Refusal),
    /// The inner service failed.
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
