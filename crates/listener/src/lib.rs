//! Ports: TCP addresses, Unix sockets, and sockets that a supervisor opened before the start.
//!
//! All of them are one [`Listener`] to the servers above. A Unix socket belongs to its owner alone, before
//! the first connection can arrive. This crate accepts connections and limits their number; it reads no byte of
//! them and knows no protocol.

mod connection_limits;
mod descriptors;
mod idle_tracker;
mod socket_activation;
mod target;

use std::fmt;
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use outflow::CancelToken;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};

pub use connection_limits::{ConnectionLimits, ConnectionMaximum, ConnectionSlot, TooManyConnections};
pub use descriptors::DescriptorLimit;
pub use idle_tracker::{ActiveRequest, IdleTracker};
pub use socket_activation::{ActivatedSockets, SocketPurpose};
pub use target::{ListenTarget, read_listener};

/// Open TCP or Unix socket that accepts connections.
#[derive(Debug)]
pub struct Listener {
    kind: ListenerKind,
    address: ListenAddr,
    _file: Option<SocketFile>,
}

#[derive(Debug)]
enum ListenerKind {
    Tcp(TcpListener),
    Unix(UnixListener),
}

/// Address of an open listener.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ListenAddr {
    /// IP address and port.
    Tcp(SocketAddr),
    /// Path of a Unix socket.
    Unix(PathBuf),
}

impl Listener {
    /// Opens a listener at this address.
    ///
    /// # Errors
    /// If the address cannot be bound. The error gives the reason and a remedy.
    pub async fn open(target: &ListenTarget) -> Result<Self, ListenError> {
        let opened = match target {
            ListenTarget::Tcp(address) => TcpListener::bind(address).await.and_then(Self::tcp),
            ListenTarget::Unix(path) => Self::unix(path),
        };
        opened.map_err(|error| ListenError {
            target: target.clone(),
            kind: error.kind(),
        })
    }

    /// Wraps a TCP socket that listens already.
    pub(crate) fn from_tcp(listener: std::net::TcpListener) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        TcpListener::from_std(listener).and_then(Self::tcp)
    }

    /// Wraps a Unix socket that listens already. Its opener removes the file.
    pub(crate) fn from_unix(listener: std::os::unix::net::UnixListener) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let path = address.as_pathname().map(Path::to_owned);
        Ok(Self {
            kind: ListenerKind::Unix(UnixListener::from_std(listener)?),
            address: ListenAddr::Unix(path.unwrap_or_default()),
            _file: None,
        })
    }

    /// Returns the address, with the actual port if the system chose one.
    pub const fn address(&self) -> &ListenAddr {
        &self.address
    }

    /// Waits for the next connection; returns `None` once the program stops.
    pub async fn next(&self, stop: &CancelToken) -> Option<(InboundConnection, PeerAddr)> {
        loop {
            let accepted = tokio::select! {
                accepted = self.accept() => accepted,
                () = stop.cancelled() => return None,
            };
            match accepted {
                Ok(connection) => return Some(connection),
                // A client that hung up early must not delay the others.
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                // Most likely no descriptors are left: an immediate retry would only spin.
                Err(_) => tokio::time::sleep(ACCEPT_RETRY_DELAY).await,
            }
        }
    }

    async fn accept(&self) -> io::Result<(InboundConnection, PeerAddr)> {
        match &self.kind {
            ListenerKind::Tcp(listener) => {
                let (stream, from) = listener.accept().await?;
                // If this fails, responses are only slightly later.
                let _ignored = stream.set_nodelay(true);
                Ok((InboundConnection::Tcp(stream), PeerAddr::Remote(from.ip())))
            }
            ListenerKind::Unix(listener) => {
                let (stream, _) = listener.accept().await?;
                Ok((InboundConnection::Unix(stream), PeerAddr::Local))
            }
        }
    }

    fn tcp(listener: TcpListener) -> io::Result<Self> {
        let address = ListenAddr::Tcp(listener.local_addr()?);
        Ok(Self {
            kind: ListenerKind::Tcp(listener),
            address,
            _file: None,
        })
    }

    fn unix(path: &Path) -> io::Result<Self> {
        if is_abandoned(path) {
            std::fs::remove_file(path)?;
        }
        // Between `bind` and a later `chmod`, every user of the machine could connect.
        let previous = rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o177));
        let bound = UnixListener::bind(path);
        rustix::process::umask(previous);
        Ok(Self {
            kind: ListenerKind::Unix(bound?),
            address: ListenAddr::Unix(path.to_owned()),
            _file: Some(SocketFile(path.to_owned())),
        })
    }
}

/// Returns true for a socket that a killed process left behind. Connecting to a regular file is refused too,
/// but such a file belongs to its user and stays.
fn is_abandoned(path: &Path) -> bool {
    let socket = std::fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket());
    if !socket {
        return false;
    }
    let refused = |error: io::Error| error.kind() == io::ErrorKind::ConnectionRefused;
    std::os::unix::net::UnixStream::connect(path).err().is_some_and(refused)
}

/// Socket file that is removed with its listener, so that the next one can bind the path.
#[derive(Debug)]
struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        // A file that is already gone needs no removal.
        let _ignored = std::fs::remove_file(&self.0);
    }
}

impl ListenAddr {
    /// Returns true if only programs of this machine can connect.
    pub const fn is_local(&self) -> bool {
        match self {
            Self::Tcp(address) => address.ip().is_loopback(),
            Self::Unix(_) => true,
        }
    }
}

impl fmt::Display for ListenAddr {
    /// Writes a TCP address as a base URL and a Unix socket as `unix:PATH`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => write!(f, "http://{address}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// Origin of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum PeerAddr {
    /// Machine with this address, possibly this one.
    Remote(IpAddr),
    /// Process of this machine that may open the Unix socket.
    Local,
}

/// Accepted connection over TCP or a Unix socket.
#[derive(Debug)]
pub enum InboundConnection {
    /// TCP connection.
    Tcp(TcpStream),
    /// Connection over a Unix socket.
    Unix(UnixStream),
}

impl InboundConnection {
    /// Waits until bytes have arrived or the peer has closed. On a Unix socket it may return too early,
    /// which costs only some memory.
    pub async fn wait_readable(&self) {
        // The next read reports an error.
        let _ready = match self {
            // The system sometimes reports readiness of a connection without any bytes.
            Self::Tcp(stream) => stream.peek(&mut [0]).await.map(drop),
            Self::Unix(stream) => stream.readable().await,
        };
    }

    /// Returns true if the peer has closed, even if bytes that it sent before are unread.
    pub fn is_closed_by_peer(&self) -> bool {
        let mut now = Context::from_waker(Waker::noop());
        let ready = match self {
            Self::Tcp(stream) => pin!(stream.ready(Interest::READABLE)).poll(&mut now),
            Self::Unix(stream) => pin!(stream.ready(Interest::READABLE)).poll(&mut now),
        };
        matches!(ready, Poll::Ready(Ok(ready)) if ready.is_read_closed())
    }

    /// Makes closing discard unsent bytes. Otherwise the system keeps them and the connection as long as
    /// the peer reads a byte now and then.
    pub fn reset_when_closed(&self) {
        if let Self::Tcp(stream) = self {
            // This fails only if the connection is already closed.
            let _closed = stream.set_zero_linger();
        }
    }
}

/// Passes a call to the stream of either kind.
macro_rules! on_stream {
    ($connection:ident.$($call:tt)*) => {
        match $connection.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).$($call)*,
            Self::Unix(stream) => Pin::new(stream).$($call)*,
        }
    };
}

impl AsyncRead for InboundConnection {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        on_stream!(self.poll_read(cx, buf))
    }
}

impl AsyncWrite for InboundConnection {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        on_stream!(self.poll_write(cx, buf))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        on_stream!(self.poll_write_vectored(cx, bufs))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        on_stream!(self.poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        on_stream!(self.poll_shutdown(cx))
    }
}

/// Pause after a failed accept: short for clients, long enough not to spin.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);

/// Failure to listen at an address.
#[derive(Debug)]
pub struct ListenError {
    target: ListenTarget,
    kind: io::ErrorKind,
}

impl fmt::Display for ListenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let target = &self.target;
        match self.kind {
            io::ErrorKind::AddrInUse => write!(
                f,
                "another program listens on {target}, perhaps another outflow: stop it or listen \
                 elsewhere"
            ),
            io::ErrorKind::PermissionDenied => write!(
                f,
                "listening on {target} is not allowed: choose a port above 1023 or a directory of your \
                 own"
            ),
            kind => write!(f, "cannot listen on {target}: {kind}"),
        }
    }
}

impl std::error::Error for ListenError {}

#[cfg(test)]
mod tests {
    use super::*;

    // The system refuses a connection to either: only the socket may be removed.
    #[tokio::test]
    async fn opening_replaces_an_abandoned_socket_but_never_a_file() {
        let dir = tempfile::tempdir().expect("a directory");
        let (file, left) = (dir.path().join("file"), dir.path().join("left"));
        std::fs::write(&file, "user data").expect("written");
        let refused = Listener::open(&ListenTarget::Unix(file.clone())).await;
        assert!(refused.is_err(), "{refused:?}");
        assert_eq!(std::fs::read_to_string(&file).expect("still there"), "user data");
        drop(std::os::unix::net::UnixListener::bind(&left).expect("a socket"));
        let opened = Listener::open(&ListenTarget::Unix(left)).await;
        assert!(opened.is_ok(), "{opened:?}");
    }
}
