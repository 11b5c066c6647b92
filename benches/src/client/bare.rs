//! hyper with nothing around it, and with the door around it by hand.

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

/// One for all that stand on it, with small packets sent at once.
pub(crate) fn pooled() -> Pooled {
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    Client::builder(TokioExecutor::new()).build(connector)
}

/// A request for the root of this address; `None` if it is none.
pub(crate) fn request(uri: &Uri) -> Request<Empty<Bytes>> {
    let mut request = Request::new(Empty::new());
    *request.uri_mut() = uri.clone();
    request
}

/// Where the server's root is.
pub(crate) fn root(address: SocketAddr) -> Option<Uri> {
    format!("http://{address}/").parse().ok()
}

/// Nothing but hyper.
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

/// hyper behind the door.
#[derive(Clone)]
pub(crate) struct Governed {
    bare: Bare,
    door: Upstream,
    target: Target,
}

impl Governed {
    pub(crate) fn new(address: SocketAddr, door: Upstream) -> Option<Self> {
        let target = door.route(&http::Method::GET, "/");
        Some(Self {
            bare: Bare::new(address)?,
            door,
            target,
        })
    }
}

impl Caller for Governed {
    async fn call(&self) -> bool {
        let Ok(mut permit) = self.door.acquire(self.target).await else {
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
