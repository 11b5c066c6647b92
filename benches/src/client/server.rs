//! A server that answers everything with two bytes, on a thread of its own.

use std::convert::Infallible;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;

use crate::tasks::{self, Flavour};

/// Starts it on a free port of the loopback address.
///
/// # Errors
/// If there is no port, or no thread.
pub(crate) fn start() -> io::Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?;
    let runtime = Flavour::Current.runtime()?;
    tasks::beside("server", move || {
        // A server that stops leaves its clients with errors, which make the figures void.
        let _stopped = runtime.block_on(serve(listener));
    })?;
    Ok(address)
}

async fn serve(listener: TcpListener) -> io::Result<()> {
    let listener = tokio::net::TcpListener::from_std(listener)?;
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        tasks::start(async move {
            let service = service_fn(answer);
            let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
            // A client that goes away is no concern of the server's.
            let _ended = connection.await;
        });
    }
}

async fn answer(_request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    Ok(Response::new(Full::new(Bytes::from_static(b"ok"))))
}
