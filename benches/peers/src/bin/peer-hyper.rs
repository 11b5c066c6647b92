//! Bare hyper with governor: the floor of any proxy that uses hyper and counts its calls.
//!
//! `peer-hyper LISTEN UPSTREAM` forwards every call over pooled connections: no routes, health, metrics, log or
//! retries. The difference to our sidecar is the cost of these. It has one thread, as every proxy has one
//! worker.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::sync::Arc;

use bytes::Bytes;
use governor::{DefaultDirectRateLimiter, Quota, RateLimiter};
use http::uri::{Authority, Scheme};
use http::{Request, Response, StatusCode, Uri};
use http_body_util::{Either, Empty};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpListener;

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> io::Result<()> {
    let mut words = std::env::args().skip(1);
    let (Some(listen), Some(upstream)) = (words.next(), words.next()) else {
        return Err(io::Error::other("usage: peer-hyper LISTEN UPSTREAM"));
    };
    let listen: SocketAddr = listen.parse().map_err(io::Error::other)?;
    let floor = BareProxy::connect(upstream.parse().map_err(io::Error::other)?);
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_all().build()?.block_on(serve(listen, floor))
}

/// A limit, and the connections to the upstream.
struct BareProxy {
    limit: DefaultDirectRateLimiter,
    client: Client<HttpConnector, Incoming>,
    upstream: Authority,
}

type ProxyResponse = Response<Either<Incoming, Empty<Bytes>>>;

impl BareProxy {
    fn connect(upstream: Authority) -> Arc<Self> {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        Arc::new(Self {
            limit: RateLimiter::direct(Quota::per_second(OUT_OF_REACH)),
            client: Client::builder(TokioExecutor::new()).build(connector),
            upstream,
        })
    }

    async fn answer(&self, mut call: Request<Incoming>) -> Result<ProxyResponse, Infallible> {
        if self.limit.check().is_err() {
            return Ok(status_response(StatusCode::TOO_MANY_REQUESTS));
        }
        let mut parts = std::mem::take(call.uri_mut()).into_parts();
        parts.scheme = Some(Scheme::HTTP);
        parts.authority = Some(self.upstream.clone());
        let Ok(uri) = Uri::from_parts(parts) else {
            return Ok(status_response(StatusCode::BAD_REQUEST));
        };
        *call.uri_mut() = uri;
        Ok(match self.client.request(call).await {
            Ok(answer) => answer.map(Either::Left),
            Err(_) => status_response(StatusCode::BAD_GATEWAY),
        })
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "a connection is a task, and it ends with the program"
)]
async fn serve(listen: SocketAddr, floor: Arc<BareProxy>) -> io::Result<()> {
    let listener = TcpListener::bind(listen).await?;
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let floor = Arc::clone(&floor);
        drop(tokio::spawn(async move {
            let service = service_fn(|call| floor.answer(call));
            let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
            // A caller that disconnects is not an error of the proxy.
            let _ended = connection.await;
        }));
    }
}

fn status_response(status: StatusCode) -> ProxyResponse {
    let mut answer = Response::new(Either::Right(Empty::new()));
    *answer.status_mut() = status;
    answer
}

/// Counted and never reached, as the limits of all proxies here.
const OUT_OF_REACH: NonZeroU32 = NonZeroU32::new(1_000_000).expect("it is not zero");
