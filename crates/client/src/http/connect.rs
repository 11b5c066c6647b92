//! Another way to a server than a TCP connection of our own.
//!
//! A program may reach an API over a socket file, through a tunnel it already holds, or within one
//! process. Whoever brings the way also answers for where it leads: addresses are not looked at. TLS
//! is still spoken over it where the URL says `https`.

use std::future::Future;
use std::io;
use std::pin::Pin;

use tokio::io::{AsyncRead, AsyncWrite};

/// Makes connections.
///
/// A closure that takes a host and a port is one:
///
/// ```
/// use outflow::{Connect, Connecting, Stream};
///
/// fn in_memory(_host: &str, _port: u16) -> Connecting {
///     let (ours, _theirs) = tokio::io::duplex(64 * 1024);
///     Box::pin(async move { Ok(Box::new(ours) as Box<dyn Stream>) })
/// }
/// let _way: &dyn Connect = &in_memory;
/// ```
pub trait Connect: Send + Sync {
    /// Begins a connection to a host and a port. How long it may take is not its concern.
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
