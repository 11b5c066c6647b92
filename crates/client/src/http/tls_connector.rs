//! A connection to an API: a stream by whatever way, TLS over it, and one timeout for both.

use std::future::Future;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::Uri;
use http::uri::Scheme;
use hyper::rt::ReadBufCursor;
use hyper_rustls::{HttpsConnector, MaybeHttpsStream};
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector};
use hyper_util::rt::TokioIo;
use tower_service::Service;

use super::connect::{Connect, IoStream};
use super::failure::ConnectError;
use super::proxy::ProxyTable;
use super::resolve::{AddressGuard, CheckedResolver};

/// Makes connections for the pool.
#[derive(Clone)]
pub(super) struct TlsConnector {
    secured: HttpsConnector<ConnectRoute>,
    timeout: Duration,
}

impl TlsConnector {
    pub(super) fn new(
        reach: ConnectRoute,
        tls: Arc<rustls::ClientConfig>,
        timeout: Duration,
    ) -> Self {
        let secured = HttpsConnector::from((reach, tls));
        Self { secured, timeout }
    }
}

impl Service<Uri> for TlsConnector {
    type Response = MaybeHttpsStream<BoxedStream>;
    type Error = ConnectError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, ConnectError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), ConnectError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, to: Uri) -> Self::Future {
        let (connecting, timeout) = (self.secured.call(to), self.timeout);
        Box::pin(async move {
            match tokio::time::timeout(timeout, connecting).await {
                Ok(Ok(stream)) => Ok(stream),
                Ok(Err(error)) => Err(ConnectError::read_tls(&*error)),
                Err(_) => Err(ConnectError::Slow),
            }
        })
    }
}

/// The way to a server, before any TLS.
#[derive(Clone)]
pub(super) enum ConnectRoute {
    /// The program's own.
    Own(Arc<dyn Connect>),
    /// TCP to an address that was looked at.
    Direct(DirectConnector),
    /// TCP to a proxy, and a tunnel through it where the proxy is for.
    Tunnelled(Arc<ProxyTable>),
}

impl Service<Uri> for ConnectRoute {
    type Response = BoxedStream;
    type Error = ConnectError;
    type Future = Pin<Box<dyn Future<Output = Result<BoxedStream, ConnectError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), ConnectError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, to: Uri) -> Self::Future {
        match self {
            Self::Own(way) => {
                let connecting = way.connect(to.host().unwrap_or_default(), port(&to));
                Box::pin(async move {
                    let stream = connecting
                        .await
                        .map_err(|error| ConnectError::read(&error))?;
                    Ok(BoxedStream::over(stream))
                })
            }
            Self::Direct(direct) => direct.call(to),
            Self::Tunnelled(tunnels) => tunnels.reach(to),
        }
    }
}

/// TCP to an address that was looked at.
#[derive(Clone)]
pub(super) struct DirectConnector {
    tcp: HttpConnector<CheckedResolver>,
    guard: AddressGuard,
}

impl DirectConnector {
    pub(super) fn new(names: CheckedResolver, guard: AddressGuard, timeout: Duration) -> Self {
        let mut tcp = HttpConnector::new_with_resolver(names);
        // Shared out among the addresses: one that never answers must not take the others' time.
        tcp.set_connect_timeout(Some(timeout));
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        Self { tcp, guard }
    }
}

impl Service<Uri> for DirectConnector {
    type Response = BoxedStream;
    type Error = ConnectError;
    type Future = Pin<Box<dyn Future<Output = Result<BoxedStream, ConnectError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), ConnectError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, to: Uri) -> Self::Future {
        let checked = self.guard.check_literal(to.host().unwrap_or_default());
        let connecting = self.tcp.call(to);
        Box::pin(async move {
            checked?;
            let stream = connecting
                .await
                .map_err(|error| ConnectError::read(&error))?;
            Ok(BoxedStream::over(Box::new(stream.into_inner())))
        })
    }
}

/// The port that a URI means.
fn port(uri: &Uri) -> u16 {
    let usual = if uri.scheme() == Some(&Scheme::HTTPS) {
        443
    } else {
        80
    };
    uri.port_u16().unwrap_or(usual)
}

/// A stream of any kind, as the pool wants to hold it.
pub(super) struct BoxedStream {
    stream: TokioIo<Box<dyn IoStream>>,
}

impl BoxedStream {
    fn over(stream: Box<dyn IoStream>) -> Self {
        let stream = TokioIo::new(stream);
        Self { stream }
    }
}

impl Connection for BoxedStream {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

impl hyper::rt::Read for BoxedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl hyper::rt::Write for BoxedStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }
}
