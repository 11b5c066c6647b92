//! A TCP proxy on loopback that fails on demand.
//!
//! It stands between a real client and a real server, in real time, and imitates a network: it
//! delays, narrows, stalls, refuses, breaks. The kernel could do some of it (`tc`, `nft`), but only
//! for root, for a whole interface and not in every container. It counts everything that left the
//! client, for tests that assert that nothing is sent. It has the methods of
//! [`VirtualNet`](crate::VirtualNet), so that a test can switch between the two.

mod direction;

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use outflow_sync::{Mutex, MutexGuard};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use self::direction::{Broken, forward};
use crate::Background;
use crate::link_latency::{Direction, LinkLatency};
use crate::net_conditions::{NetConditions, Traffic, until};

/// Proxy in front of one server. Dropping it closes all of its connections.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// use outflow_testkit::FaultProxy;
/// use tokio::net::{TcpListener, TcpStream};
///
/// let server = TcpListener::bind("127.0.0.1:0").await?;
/// let proxy = FaultProxy::start(server.local_addr()?).await?;
/// let _client = TcpStream::connect(proxy.address()).await?;
/// let (_through, _) = server.accept().await?;
/// assert_eq!(proxy.traffic().connects, 1);
/// # Ok(())
/// # }
/// ```
pub struct FaultProxy {
    shared: Arc<ProxyShared>,
    address: SocketAddr,
    is_open: watch::Receiver<bool>,
    _work: Background<()>,
}

/// Break in the middle of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cut {
    /// Direction in which bytes are counted.
    pub direction: Direction,
    /// Number of bytes of a connection after which both of its ends are reset.
    pub after: u64,
}

impl FaultProxy {
    /// Listens on a free port of loopback and forwards to the server.
    ///
    /// # Errors
    /// If no port is available.
    pub async fn start(server: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let shared = Arc::new(ProxyShared::new(server));
        let (reported, is_open) = watch::channel(true);
        let work = listen(Arc::clone(&shared), listener, reported);
        Ok(Self {
            shared,
            address,
            is_open,
            _work: Background::start(work),
        })
    }

    /// Returns the address for clients, which never changes.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Forwards new connections to another server, like an address that moves to another machine.
    /// Old ones stay.
    pub fn set_server(&self, server: SocketAddr) {
        self.shared.state().server = server;
    }

    /// Sets the link for bytes read from now on. Its delay is added to that of loopback; connecting
    /// is not delayed.
    pub fn set_link(&self, link: LinkLatency) {
        self.shared.state().link = link;
    }

    /// Changes the conditions of all connections, old and new; returns when they are in effect.
    pub async fn set_conditions(&self, conditions: NetConditions) {
        self.shared.conditions.send_replace(conditions);
        let wanted = conditions != NetConditions::Refusing;
        let mut is_open = self.is_open.clone();
        // The listening task ends only with the runtime, and then nothing matters.
        let _gone = is_open.wait_for(|is_open| *is_open == wanted).await;
    }

    /// Breaks each connection that reaches the cut, present ones too, until it is changed.
    pub fn set_cut(&self, cut: Option<Cut>) {
        self.shared.state().cut = cut;
    }

    /// Resets both ends of every connection.
    pub fn reset_all(&self) {
        self.shared.resets.send_modify(|resets| *resets += 1);
    }

    /// Returns the traffic so far: connections and bytes as received, forwarded or not.
    pub fn traffic(&self) -> Traffic {
        self.shared.state().traffic
    }
}

struct ProxyShared {
    conditions: watch::Sender<NetConditions>,
    /// Number of resets of all connections.
    resets: watch::Sender<u64>,
    state: Mutex<State>,
}

struct State {
    server: SocketAddr,
    link: LinkLatency,
    cut: Option<Cut>,
    traffic: Traffic,
    chance: fastrand::Rng,
}

impl ProxyShared {
    fn new(server: SocketAddr) -> Self {
        let state = State {
            server,
            link: LinkLatency::default(),
            cut: None,
            traffic: Traffic::default(),
            chance: fastrand::Rng::new(),
        };
        Self {
            conditions: watch::Sender::new(NetConditions::Clear),
            resets: watch::Sender::new(0),
            state: Mutex::new(state),
        }
    }

    async fn flows(&self, direction: Direction) {
        until(&self.conditions, |conditions| !conditions.stalls(direction)).await;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

/// Listens, except while connections are refused: only a closed port refuses them.
async fn listen(shared: Arc<ProxyShared>, first: TcpListener, reported: watch::Sender<bool>) {
    let Ok(address) = first.local_addr() else {
        return;
    };
    let (mut listener, mut connections) = (first, Vec::new());
    loop {
        reported.send_replace(true);
        tokio::select! {
            () = accept(&shared, &listener, &mut connections) => {}
            () = until(&shared.conditions, |conditions| conditions == NetConditions::Refusing) => {}
        }
        drop(listener);
        reported.send_replace(false);
        until(&shared.conditions, |conditions| conditions != NetConditions::Refusing).await;
        listener = listen_again(address).await;
    }
}

async fn accept(shared: &Arc<ProxyShared>, listener: &TcpListener, connections: &mut Vec<Background<()>>) {
    while let Ok((client, _)) = listener.accept().await {
        shared.state().traffic.connects += 1;
        connections.retain(|connection| !connection.is_over());
        connections.push(Background::start(serve(Arc::clone(shared), client)));
    }
}

/// The port was ours a moment ago; another process that took it in between will release it.
async fn listen_again(address: SocketAddr) -> TcpListener {
    loop {
        if let Ok(listener) = TcpListener::bind(address).await {
            return listener;
        }
        tokio::time::sleep(RETRY_INTERVAL).await;
    }
}

async fn serve(shared: Arc<ProxyShared>, mut client: TcpStream) {
    let mut resets = shared.resets.subscribe();
    let connecting = async {
        until(&shared.conditions, |conditions| !conditions.stalls_any()).await;
        let server = shared.state().server;
        TcpStream::connect(server).await
    };
    let connected = tokio::select! {
        connected = connecting => connected.ok(),
        _ = resets.changed() => None,
    };
    let Some(mut server) = connected else {
        return reset(client);
    };
    let through = tokio::select! {
        through = forward(&shared, &mut client, &mut server) => through,
        _ = resets.changed() => Err(Broken),
    };
    if through.is_err() {
        reset(client);
        reset(server);
    }
}

/// Closes with a reset instead of a clean end. A socket that is gone already needs none.
fn reset(stream: TcpStream) {
    let _gone = stream.set_zero_linger();
}

/// Short compared with any test, and long compared with the time in which the kernel frees a port.
const RETRY_INTERVAL: Duration = Duration::from_millis(5);
