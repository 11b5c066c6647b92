//! Where a strict API is served: on a free port of this machine, or on streams in memory.
//!
//! The handle owns all that runs; dropping it ends everything, and if anything inside panicked, the
//! drop panics too, so that the test that owns it fails and says why.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::time::sleep;

use crate::api::{MockApi, Shared};
use crate::exchange::Exchange;
use crate::hijacked_io::{Afterwards, HijackedIo};
use crate::tasks::{Spawner, Tasks};
use crate::tls::{Greeter, Tls};

impl MockApi {
    /// Serves on a free port of the loopback address.
    ///
    /// # Errors
    /// If there is no such port.
    pub async fn listen(&self) -> io::Result<Server> {
        self.serve(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?)
    }

    /// Serves behind TLS on a free port of the loopback address.
    ///
    /// # Errors
    /// If there is no such port, or no certificate could be made.
    pub async fn listen_tls(&self, tls: Tls) -> io::Result<Server> {
        self.serve_tls(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?, tls)
    }

    /// Serves behind TLS on a socket that is listening already.
    ///
    /// # Errors
    /// If the socket cannot tell its address, or no certificate could be made.
    pub fn serve_tls(&self, listener: TcpListener, tls: Tls) -> io::Result<Server> {
        let protocols = self.shared.manners.protocols;
        Server::accepting(self, listener, Some(Greeter::new(tls, protocols)?))
    }

    /// Serves on a socket that is listening already.
    ///
    /// # Errors
    /// If the socket cannot tell its address.
    pub fn serve(&self, listener: TcpListener) -> io::Result<Server> {
        Server::accepting(self, listener, None)
    }

    /// Serves only what is handed to [`Server::serve_stream`] or asked of [`Server::connect`].
    pub fn in_memory(&self) -> Server {
        Server {
            api: self.clone(),
            tasks: Arc::default(),
            address: None,
            ca_pem: None,
        }
    }
}

/// A running server; it stops when this is dropped.
///
/// # Panics
/// Its drop panics if something inside has panicked.
#[derive(Debug)]
pub struct Server {
    api: MockApi,
    tasks: Arc<Tasks>,
    address: Option<SocketAddr>,
    ca_pem: Option<String>,
}

impl Server {
    /// The API that is served.
    pub fn api(&self) -> &MockApi {
        &self.api
    }

    /// Where it listens; port 0 in memory, where nothing can be connected to by address.
    pub fn address(&self) -> SocketAddr {
        let nowhere = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        self.address.unwrap_or(nowhere)
    }

    /// The base of its addresses, without a slash at the end.
    pub fn url(&self) -> String {
        match (self.address, &self.ca_pem) {
            (Some(address), Some(_)) => format!("https://localhost:{}", address.port()),
            (Some(address), None) => format!("http://{address}"),
            (None, _) => "http://strict.test".to_owned(),
        }
    }

    /// The authority that signed its certificates, as PEM, for clients that should trust it.
    pub fn ca_pem(&self) -> Option<&str> {
        self.ca_pem.as_deref()
    }

    /// A new connection in memory: the client's end of it.
    pub fn connect(&self) -> DuplexStream {
        let (ours, theirs) = tokio::io::duplex(PIPE);
        self.serve_stream(ours);
        theirs
    }

    /// Serves one more connection, whatever it is made of.
    pub fn serve_stream<I>(&self, io: I)
    where
        I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let doorman = self.acceptor();
        let line = HijackedIo::new(io, |_| {});
        doorman
            .spawner
            .clone()
            .spawn(async move { doorman.converse(line).await });
    }

    fn accepting(api: &MockApi, listener: TcpListener, tls: Option<Greeter>) -> io::Result<Self> {
        let mut server = api.in_memory();
        server.address = Some(listener.local_addr()?);
        server.ca_pem = tls.as_ref().map(|greeter| greeter.ca_pem().to_owned());
        let doorman = server.acceptor();
        let spawner = doorman.spawner.clone();
        spawner.spawn(async move { doorman.welcome(listener, tls).await });
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

/// Takes connections in.
#[derive(Clone)]
struct ConnectionAcceptor {
    shared: Arc<Shared>,
    spawner: Spawner,
}

impl ConnectionAcceptor {
    async fn welcome(self, listener: TcpListener, tls: Option<Greeter>) {
        loop {
            match listener.accept().await {
                Ok((stream, _)) => {
                    let (doorman, tls) = (self.clone(), tls.clone());
                    self.spawner
                        .spawn(async move { doorman.greet(stream, tls).await });
                }
                // Out of descriptors, most likely: others have to end first.
                Err(_) => sleep(BREATH).await,
            }
        }
    }

    async fn greet(self, stream: TcpStream, tls: Option<Greeter>) {
        // Small answers must not wait for acknowledgements; without it the server is only slower.
        drop(stream.set_nodelay(true));
        match tls {
            None => self.converse(HijackedIo::new(stream, reset_at_drop)).await,
            Some(greeter) => {
                if let Some(stream) = greeter.greet(stream).await {
                    let line = HijackedIo::new(stream, |stream| reset_at_drop(stream.get_ref().0));
                    self.converse(line).await;
                }
            }
        }
    }

    /// Speaks HTTP on a connection until it ends, or until a fault takes it over.
    async fn converse<I>(self, line: HijackedIo<I>)
    where
        I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (takeover, mut taken) = mpsc::channel(1);
        let exchange = Arc::new(Exchange {
            connection: self.shared.next_connection(),
            shared: Arc::clone(&self.shared),
            spawner: self.spawner.clone(),
            takeover,
        });
        let service = service_fn(move |request| {
            let exchange = Arc::clone(&exchange);
            async move { exchange.answer(request).await }
        });
        let protocols = self.shared.manners.protocols;
        let http = protocols.http(self.spawner.clone());
        let plan = tokio::select! {
            plan = taken.recv() => plan,
            // A client that goes away is no concern of the server's.
            _ = http.serve_connection(TokioIo::new(line.clone()), service) => None,
        };
        if let Some(plan) = plan
            && line.play(plan).await == Afterwards::SentMore
        {
            self.shared.lock().recorder.reused_after_fault();
        }
    }
}

/// Without lingering, closing a socket resets it.
fn reset_at_drop(stream: &TcpStream) {
    drop(stream.set_zero_linger());
}

/// What a pipe in memory holds: as much as a socket's buffer at its smallest.
const PIPE: usize = 64 * 1024;

const BREATH: Duration = Duration::from_millis(10);
