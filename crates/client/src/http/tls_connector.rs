//! Connector: a stream by any route, TLS over it, and one timeout for both.

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

/// Opens connections for the pool.
#[derive(Clone)]
pub(super) struct TlsConnector {
    secured: HttpsConnector<ConnectRoute>,
    timeout: Duration,
}

impl TlsConnector {
    pub(super) fn new(route: ConnectRoute, tls: Arc<rustls::ClientConfig>, timeout: Duration) -> Self {
        let secured = HttpsConnector::from((route, tls));
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
                Ok(Err(error)) => Err(ConnectError::from_tls_error(&*error)),
                Err(_) => Err(ConnectError::TimedOut),
            }
        })
    }
}

/// Route to a server below TLS.
#[derive(Clone)]
pub(super) enum ConnectRoute {
    /// Custom connection of the program.
    Custom(Arc<dyn Connect>),
    /// TCP to a checked address.
    Direct(DirectConnector),
    /// TCP to a proxy and a tunnel through it, where the proxy applies.
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
            Self::Custom(connect) => {
                let connecting = connect.connect(to.host().unwrap_or_default(), port(&to));
                Box::pin(async move {
                    let stream = connecting.await.map_err(|error| ConnectError::from_error(&error))?;
                    Ok(BoxedStream::new(stream))
                })
            }
            Self::Direct(direct) => direct.call(to),
            Self::Tunnelled(tunnels) => tunnels.connect(to),
        }
    }
}

/// TCP to a checked address.
#[derive(Clone)]
pub(super) struct DirectConnector {
    tcp: HttpConnector<CheckedResolver>,
    guard: AddressGuard,
}

impl DirectConnector {
    pub(super) fn new(names: CheckedResolver, guard: AddressGuard, timeout: Duration) -> Self {
        let mut tcp = HttpConnector::new_with_resolver(names);
        // The connector splits the timeout among the addresses, so that a dead one leaves time for
        // others.
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
            let stream = connecting.await.map_err(|error| ConnectError::from_error(&error))?;
            Ok(BoxedStream::new(Box::new(stream.into_inner())))
        })
    }
}

/// Returns the port of a URI or its scheme's default.
fn port(uri: &Uri) -> u16 {
    let default = if uri.scheme() == Some(&Scheme::HTTPS) { 443 } else { 80 };
    uri.port_u16().unwrap_or(default)
}

/// Stream of any kind for the pool.
pub(super) struct BoxedStream {
    stream: TokioIo<Box<dyn IoStream>>,
}

impl BoxedStream {
    fn new(stream: Box<dyn IoStream>) -> Self {
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
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: ReadBufCursor<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl hyper::rt::Write for BoxedStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
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
