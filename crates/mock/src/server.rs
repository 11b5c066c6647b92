//! Serves a mock API on a free port of this machine, or on streams in memory.
//!
//! The handle owns all tasks. Dropping it ends them, and if one panicked, the drop panics too, so
//! that the test that owns it fails with the reason.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::time::sleep;

use crate::api::{MockApi, MockShared};
use crate::exchange::Exchange;
use crate::hijacked_io::HijackedIo;
use crate::tasks::{Spawner, Tasks};
use crate::tls::{HandshakeServer, Tls};

impl MockApi {
    /// Serves on a free port of the loopback address.
    ///
    /// # Errors
    /// If no port is available.
    pub async fn listen(&self) -> io::Result<Server> {
        self.serve(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?)
    }

    /// Serves behind TLS on a free port of the loopback address.
    ///
    /// # Errors
    /// If no port is available, or no certificate could be made.
    pub async fn listen_tls(&self, tls: Tls) -> io::Result<Server> {
        self.serve_tls(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?, tls)
    }

    /// Serves behind TLS on a socket that is listening already.
    ///
    /// # Errors
    /// If the socket has no address, or no certificate could be made.
    pub fn serve_tls(&self, listener: TcpListener, tls: Tls) -> io::Result<Server> {
        let protocols = self.shared.config.protocols;
        Server::accepting(self, listener, Some(HandshakeServer::new(tls, protocols)?))
    }

    /// Serves on a socket that is listening already.
    ///
    /// # Errors
    /// If the socket has no address.
    pub fn serve(&self, listener: TcpListener) -> io::Result<Server> {
        Server::accepting(self, listener, None)
    }

    /// Serves only streams passed to [`Server::serve_stream`] or created by [`Server::connect`].
    pub fn in_memory(&self) -> Server {
        Server {
            api: self.clone(),
            tasks: Arc::default(),
            address: None,
            ca_pem: None,
        }
    }
}

/// Running server; it stops when this is dropped.
///
/// # Panics
/// The drop panics if a task has panicked.
#[derive(Debug)]
pub struct Server {
    api: MockApi,
    tasks: Arc<Tasks>,
    address: Option<SocketAddr>,
    ca_pem: Option<String>,
}

impl Server {
    /// Returns the served API.
    pub fn api(&self) -> &MockApi {
        &self.api
    }

    /// Returns its address; port 0 in memory, where no address can be connected to.
    pub fn address(&self) -> SocketAddr {
        let nowhere = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        self.address.unwrap_or(nowhere)
    }

    /// Returns its base URL, without a trailing slash.
    pub fn url(&self) -> String {
        match (self.address, &self.ca_pem) {
            (Some(address), Some(_)) => format!("https://localhost:{}", address.port()),
            (Some(address), None) => format!("http://{address}"),
            (None, _) => "http://strict.test".to_owned(),
        }
    }

    /// Returns the authority of its certificates as PEM, for clients that should trust it.
    pub fn ca_pem(&self) -> Option<&str> {
        self.ca_pem.as_deref()
    }

    /// Opens a connection in memory and returns the client's end.
    pub fn connect(&self) -> DuplexStream {
        let (ours, theirs) = tokio::io::duplex(PIPE);
        self.serve_stream(ours);
        theirs
    }

    /// Serves one more connection of any kind.
    pub fn serve_stream<I>(&self, io: I)
    where
        I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let acceptor = self.acceptor();
        let io = HijackedIo::new(io, |_| {});
        acceptor
            .spawner
            .clone()
            .spawn(async move { acceptor.serve_io(io).await });
    }

    fn accepting(api: &MockApi, listener: TcpListener, tls: Option<HandshakeServer>) -> io::Result<Self> {
        let mut server = api.in_memory();
        server.address = Some(listener.local_addr()?);
        server.ca_pem = tls.as_ref().map(|greeter| greeter.ca_pem.to_string());
        let acceptor = server.acceptor();
        let spawner = acceptor.spawner.clone();
        spawner.spawn(async move { acceptor.accept(listener, tls).await });
        Ok(server)
    }

    fn acceptor(&self) -> ConnectionAcceptor {
        ConnectionAcceptor {
            shared: Arc::clone(&self.api.shared),
            spawner: self.tasks.spawner(),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(panic) = self.tasks.stop()
            && !std::thread::panicking()
        {
            std::panic::resume_unwind(panic);
        }
    }
}

/// Accepts connections.
#[derive(Clone)]
struct ConnectionAcceptor {
    shared: Arc<MockShared>,
    spawner: Spawner,
}

impl ConnectionAcceptor {
    async fn accept(self, listener: TcpListener, tls: Option<HandshakeServer>) {
        loop {
            match listener.accept().await {
                Ok((stream, _)) => {
                    let (acceptor, tls) = (self.clone(), tls.clone());
                    self.spawner
                        .spawn(async move { acceptor.shake_hands(stream, tls).await });
                }
                // Most likely out of descriptors: other connections have to end first.
                Err(_) => sleep(BREATH).await,
            }
        }
    }

    async fn shake_hands(self, stream: TcpStream, tls: Option<HandshakeServer>) {
        // Small responses must not wait for acknowledgements; without it the server is only slower.
        drop(stream.set_nodelay(true));
        match tls {
            None => self.serve_io(HijackedIo::new(stream, reset_at_drop)).await,
            Some(greeter) => {
                if let Some(stream) = greeter.shake_hands(stream).await {
                    let io = HijackedIo::new(stream, |stream| reset_at_drop(stream.get_ref().0));
                    self.serve_io(io).await;
                }
            }
        }
    }

    /// Serves HTTP on a connection until it ends, or until a fault takes it over.
    async fn serve_io<I>(self, io: HijackedIo<I>)
    where
        I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (takeover, mut taken) = mpsc::channel(1);
        let exchange = Arc::new(Exchange {
            connection: self.shared.connections.fetch_add(1, Ordering::Relaxed),
            shared: Arc::clone(&self.shared),
            spawner: self.spawner.clone(),
            takeover,
        });
        let service = service_fn(move |request| {
            let exchange = Arc::clone(&exchange);
            async move { exchange.answer(request).await }
        });
        let protocols = self.shared.config.protocols;
        let http = protocols.http(self.spawner.clone());
        let plan = tokio::select! {
            plan = taken.recv() => plan,
            // The server ignores a client that disconnects.
            _ = http.serve_connection(TokioIo::new(io.clone()), service) => None,
        };
        if let Some(plan) = plan
            && io.play(plan).await
        {
            self.shared.lock().recorder.totals.reused_after_fault += 1;
        }
    }
}

/// Without lingering, closing a socket resets it.
fn reset_at_drop(stream: &TcpStream) {
    drop(stream.set_zero_linger());
}

/// Size of a pipe in memory: the smallest buffer of a socket.
const PIPE: usize = 64 * 1024;

const BREATH: Duration = Duration::from_millis(10);
