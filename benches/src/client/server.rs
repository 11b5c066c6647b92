//! A server with one constant response, on its own thread.

use std::convert::Infallible;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;

use crate::tasks::{self, Flavour};

/// Starts a server that answers with two bytes, on a free port of the loopback address.
///
/// # Errors
/// If there is no port, or no thread.
pub(crate) fn start() -> io::Result<SocketAddr> {
    start_saying(|| Response::new(Full::new(Bytes::from_static(b"ok"))))
}

/// Starts a server that answers with this JSON.
///
/// # Errors
/// If there is no port, or no thread.
pub(crate) fn start_json(text: &'static str) -> io::Result<SocketAddr> {
    start_saying(move || {
        let mut answer = Response::new(Full::new(Bytes::from_static(text.as_bytes())));
        let json = HeaderValue::from_static("application/json");
        answer.headers_mut().insert(CONTENT_TYPE, json);
        answer
    })
}

fn start_saying<S>(say: S) -> io::Result<SocketAddr>
where
    S: Fn() -> Response<Full<Bytes>> + Copy + Send + Sync + 'static,
{
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?;
    let runtime = Flavour::Current.runtime()?;
    tasks::spawn_thread("server", move || {
        // A stopped server makes its clients fail, which voids the figures.
        let _stopped = runtime.block_on(serve(listener, say));
    })?;
    Ok(address)
}

async fn serve<S>(listener: TcpListener, say: S) -> io::Result<()>
where
    S: Fn() -> Response<Full<Bytes>> + Copy + Send + Sync + 'static,
{
    let listener = tokio::net::TcpListener::from_std(listener)?;
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        tasks::start(async move {
            let service = service_fn(|call| answer(call, say));
            let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
            // A client that disconnects is not an error of the server.
            let _ended = connection.await;
        });
    }
}

async fn answer(
    call: Request<Incoming>,
    say: impl Fn() -> Response<Full<Bytes>>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    // An unread body would cost the caller its connection.
    let _read = call.into_body().collect().await;
    Ok(say())
}
