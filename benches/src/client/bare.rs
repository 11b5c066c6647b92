//! hyper alone, and hyper with `Upstream` called by hand.

use std::net::SocketAddr;

use bytes::Bytes;
use http::{Request, Uri};
use http_body_util::{BodyExt as _, Empty};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use outflow::{AttemptResult, Target, Upstream};
use outflow_core::Fault;

use super::callers::Caller;

/// The pooled client.
pub(crate) type Pooled = Client<HttpConnector, Empty<Bytes>>;

/// Creates the client of all contenders on hyper, with `TCP_NODELAY`.
pub(crate) fn pooled() -> Pooled {
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    Client::builder(TokioExecutor::new()).build(connector)
}

/// Returns a request for the root of this address; `None` if it is invalid.
pub(crate) fn request(uri: &Uri) -> Request<Empty<Bytes>> {
    let mut request = Request::new(Empty::new());
    *request.uri_mut() = uri.clone();
    request
}

/// Returns the root of the server.
pub(crate) fn root(address: SocketAddr) -> Option<Uri> {
    format!("http://{address}/").parse().ok()
}

/// Bare hyper.
#[derive(Clone)]
pub(crate) struct Bare {
    client: Pooled,
    uri: Uri,
}

impl Bare {
    pub(crate) fn new(address: SocketAddr) -> Option<Self> {
        Some(Self {
            client: pooled(),
            uri: root(address)?,
        })
    }
}

impl Caller for Bare {
    async fn call(&self) -> bool {
        let Ok(response) = self.client.request(request(&self.uri)).await else {
            return false;
        };
        response.into_body().collect().await.is_ok()
    }
}

/// hyper behind `Upstream`.
#[derive(Clone)]
pub(crate) struct Governed {
    bare: Bare,
    upstream: Upstream,
    target: Target,
}

impl Governed {
    pub(crate) fn new(address: SocketAddr, upstream: Upstream) -> Option<Self> {
        let target = upstream.route(&http::Method::GET, "/");
        Some(Self {
            bare: Bare::new(address)?,
            upstream,
            target,
        })
    }
}

impl Caller for Governed {
    async fn call(&self) -> bool {
        let Ok(mut permit) = self.upstream.acquire(self.target).await else {
            return false;
        };
        permit.sending();
        let Ok(response) = self.bare.client.request(request(&self.bare.uri)).await else {
            permit.settle(AttemptResult::fault(Fault::Reset));
            return false;
        };
        let status = response.status().as_u16();
        let (_, tail) = permit.settle_head(AttemptResult::response(status, response.headers()));
        let whole = response.into_body().collect().await.is_ok();
        tail.finished();
        whole
    }
}
