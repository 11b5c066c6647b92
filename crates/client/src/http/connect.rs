//! Custom connections in place of our own TCP.
//!
//! A program may reach an API over a socket file, an existing tunnel, or within one process. The
//! program then vouches for the destination: addresses are not checked. TLS still runs over the
//! stream if the URL says `https`.

use std::future::Future;
use std::io;
use std::pin::Pin;

use tokio::io::{AsyncRead, AsyncWrite};

/// Opens connections.
///
/// A closure that takes a host and a port implements it:
///
/// ```
/// use outflow::{Connect, Connecting, IoStream};
///
/// fn in_memory(_host: &str, _port: u16) -> Connecting {
///     let (ours, _theirs) = tokio::io::duplex(64 * 1024);
///     Box::pin(async move { Ok(Box::new(ours) as Box<dyn IoStream>) })
/// }
/// let _connect: &dyn Connect = &in_memory;
/// ```
pub trait Connect: Send + Sync {
    /// Starts a connection to a host and a port. The transport applies the timeout.
    fn connect(&self, host: &str, port: u16) -> Connecting;
}

/// A connection that is being made.
pub type Connecting = Pin<Box<dyn Future<Output = io::Result<Box<dyn IoStream>>> + Send>>;

/// Both directions of a connection.
pub trait IoStream: AsyncRead + AsyncWrite + Send + Unpin + 'static {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin + 'static> IoStream for S {}

impl<F> Connect for F
where
    F: Fn(&str, u16) -> Connecting + Send + Sync,
{
    fn connect(&self, host: &str, port: u16) -> Connecting {
        self(host, port)
    }
}
