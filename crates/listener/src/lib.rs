//! Ports: TCP addresses, Unix sockets, and sockets that a supervisor opened before the start.
//!
//! All of them are one [`Listener`] to the servers above. A Unix socket belongs to its owner alone, before
//! the first connection can arrive. This crate accepts connections; it reads no byte of them and knows no
//! protocol.

mod socket_activation;
mod target;

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use outflow::CancelToken;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};

pub use socket_activation::{ActivatedSockets, SocketPurpose};
pub use target::{ListenTarget, read_listener};

/// An open door for connections.
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

/// Where a listener is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ListenAddr {
    /// An address and a port.
    Tcp(SocketAddr),
    /// A file.
    Unix(PathBuf),
}

impl Listener {
    /// Listens there.
    ///
    /// # Errors
    /// If that is not possible; the error says why and what to do.
    pub async fn open(place: &ListenTarget) -> Result<Self, ListenError> {
        let opened = match place {
            ListenTarget::Tcp(address) => TcpListener::bind(address).await.and_then(Self::tcp),
            ListenTarget::Unix(path) => Self::unix(path),
        };
        opened.map_err(|error| ListenError {
            place: place.clone(),
            kind: error.kind(),
        })
    }

    /// One that listens already.
    pub(crate) fn from_tcp(listener: std::net::TcpListener) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        TcpListener::from_std(listener).and_then(Self::tcp)
    }

    /// One that listens already, whose file is its owner's to remove.
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

    /// Where it is: with the port that the system chose, if it was to choose one.
    pub const fn address(&self) -> &ListenAddr {
        &self.address
    }

    /// The next connection, and who it is from; nothing once the program stops.
    pub async fn next(&self, stop: &CancelToken) -> Option<(InboundConnection, PeerAddr)> {
        loop {
            let accepted = tokio::select! {
                accepted = self.accept() => accepted,
                () = stop.cancelled() => return None,
            };
            match accepted {
                Ok(came) => return Some(came),
                // Whoever hung up before it was greeted must not keep the others waiting.
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                // No descriptors are left, most likely: asking again at once would only spin.
                Err(_) => tokio::time::sleep(BREATH).await,
            }
        }
    }

    async fn accept(&self) -> io::Result<(InboundConnection, PeerAddr)> {
        match &self.kind {
            ListenerKind::Tcp(listener) => {
                let (stream, from) = listener.accept().await?;
                // Without it answers are a little later, and that is all.
                let _slower = stream.set_nodelay(true);
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
        // Between `bind` and a later change of its mode anybody could connect.
        let before = rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o177));
        let bound = UnixListener::bind(path);
        rustix::process::umask(before);
        Ok(Self {
            kind: ListenerKind::Unix(bound?),
            address: ListenAddr::Unix(path.to_owned()),
            _file: Some(SocketFile(path.to_owned())),
        })
    }
}

/// A socket that a killed process left behind: nobody answers there. Nobody answers at a file either, and
/// that is somebody's.
fn is_abandoned(path: &Path) -> bool {
    let socket = std::fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket());
    if !socket {
        return false;
    }
    let refused = |error: io::Error| error.kind() == io::ErrorKind::ConnectionRefused;
    std::os::unix::net::UnixStream::connect(path)
        .err()
        .is_some_and(refused)
}

/// Removed with the listener, so that the next one finds the place free.
#[derive(Debug)]
struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        // If it is gone already, that is what was wanted.
        let _gone = std::fs::remove_file(&self.0);
    }
}

impl ListenAddr {
    /// Whether only programs of this machine can connect.
    pub const fn is_this_machines_alone(&self) -> bool {
        match self {
            Self::Tcp(address) => address.ip().is_loopback(),
            Self::Unix(_) => true,
        }
    }
}

impl fmt::Display for ListenAddr {
    /// As a base URL where it is one.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => write!(f, "http://{address}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// Who is at the other end.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum PeerAddr {
    /// A machine, which may be this one.
    Remote(IpAddr),
    /// A process of this machine that may open our socket.
    Local,
}

/// A connection of either kind.
#[derive(Debug)]
pub enum InboundConnection {
    /// Over TCP.
    Tcp(TcpStream),
    /// Over a socket in the file system.
    Unix(UnixStream),
}

impl InboundConnection {
    /// Waits until something has come, or the other side is gone. Over a socket in the file system it
    /// may be too early, which costs its owner some memory and nobody else anything.
    pub async fn has_come(&self) {
        // What is wrong with it, reading tells.
        let _ready = match self {
            // Readiness alone is sometimes told of a connection on which nothing ever came.
            Self::Tcp(stream) => stream.peek(&mut [0]).await.map(drop),
            Self::Unix(stream) => stream.readable().await,
        };
    }

    /// Has closing throw away what was never taken. The system would otherwise keep all of it, and the
    /// connection, for as long as the other side takes a byte now and then.
    pub fn reset_when_closed(&self) {
        if let Self::Tcp(stream) = self {
            // If it cannot be told, it is gone already.
            let _gone = stream.set_zero_linger();
        }
    }
}

impl AsyncRead for InboundConnection {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_read(cx, buf),
            Self::Unix(stream) => Pin::new(stream).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for InboundConnection {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_write(cx, buf),
            Self::Unix(stream) => Pin::new(stream).poll_write(cx, buf),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_write_vectored(cx, bufs),
            Self::Unix(stream) => Pin::new(stream).poll_write_vectored(cx, bufs),
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_flush(cx),
            Self::Unix(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Unix(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}

/// How long the door stays shut when no connection can be taken.
const BREATH: Duration = Duration::from_millis(100);

/// Why nobody can be listened to somewhere.
#[derive(Debug)]
pub struct ListenError {
    place: ListenTarget,
    kind: io::ErrorKind,
}

impl fmt::Display for ListenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = &self.place;
        match self.kind {
            io::ErrorKind::AddrInUse => write!(
                f,
                "another program listens on {place}, perhaps another outflow: stop it or listen \
                 elsewhere"
            ),
            io::ErrorKind::PermissionDenied => write!(
                f,
                "listening on {place} is not allowed: choose a port above 1023 or a directory of your \
                 own"
            ),
            kind => write!(f, "cannot listen on {place}: {kind}"),
        }
    }
}

impl std::error::Error for ListenError {}

#[cfg(test)]
mod tests {
    use super::*;

    // Connecting to either is refused in the same way: only what a listener left may be removed.
    #[tokio::test]
    async fn an_abandoned_socket_is_replaced_and_a_file_is_not() {
        let dir = tempfile::tempdir().expect("a directory");
        let (file, left) = (dir.path().join("file"), dir.path().join("left"));
        std::fs::write(&file, "somebody's").expect("written");
        let refused = Listener::open(&ListenTarget::Unix(file.clone())).await;
        assert!(refused.is_err(), "{refused:?}");
        assert_eq!(
            std::fs::read_to_string(&file).expect("still there"),
            "somebody's"
        );
        drop(std::os::unix::net::UnixListener::bind(&left).expect("a socket"));
        let opened = Listener::open(&ListenTarget::Unix(left)).await;
        assert!(opened.is_ok(), "{opened:?}");
    }
}
