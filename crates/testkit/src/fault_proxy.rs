//! A TCP proxy on loopback that misbehaves on demand.
//!
//! It stands between a real client and a real server, in real time, and does to their connections
//! what networks do: it delays, narrows, holds up, refuses, breaks. The kernel could do some of it
//! (`tc`, `nft`), but only for root, for a whole interface and not in every container. What it counts
//! is what left the client: a test that says "nothing is sent" asks it. It has the verbs of
//! [`VirtualNet`](crate::VirtualNet), so that a test can move from the one to the other.

mod direction;

use std::fmt;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use self::direction::{Broken, forward};
use crate::Background;
use crate::link_latency::{Direction, LinkLatency};
use crate::net_conditions::{NetConditions, Stall, Traffic};

/// A proxy in front of one server. Dropping it closes all of its connections.
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
    shared: Arc<Shared>,
    address: SocketAddr,
    door: watch::Receiver<Door>,
    _work: Background<()>,
}

/// A break in the middle of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cut {
    /// In which direction bytes are counted.
    pub direction: Direction,
    /// After how many bytes of a connection both of its ends are reset.
    pub after: u64,
}

impl FaultProxy {
    /// Listens on a free port of loopback and forwards to the server.
    ///
    /// # Errors
    /// If no port can be had.
    pub async fn start(server: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared::new(server));
        let (tell, door) = watch::channel(Door::Open);
        let work = listen(Arc::clone(&shared), listener, tell);
        Ok(Self {
            shared,
            address,
            door,
            _work: Background::start(work),
        })
    }

    /// Where clients connect to; it stays the same for as long as this lives.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Leads connections that are made from now on to another server, as an address does that moves to
    /// another machine. Old ones stay where they are.
    pub fn set_server(&self, server: SocketAddr) {
        self.shared.state().server = server;
    }

    /// What is read from now on goes over this link. The time of the link lies on top of what
    /// loopback takes, and making a connection takes none of it.
    pub fn set_link(&self, link: LinkLatency) {
        self.shared.state().link = link;
    }

    /// Changes what happens to all connections, old and new; waits until it does.
    pub async fn set_weather(&self, weather: NetConditions) {
        self.shared.weather.send_replace(weather);
        let wanted = Door::from_weather(weather);
        let mut door = self.door.clone();
        // The listening task is gone only with the runtime, and then nothing matters.
        let _gone = door.wait_for(|door| *door == wanted).await;
    }

    /// Breaks each connection that gets as far, the present ones too, until it is told otherwise.
    pub fn set_cut(&self, cut: Option<Cut>) {
        self.shared.state().cut = cut;
    }

    /// Resets both ends of every connection.
    pub fn reset_all(&self) {
        self.shared.resets.send_modify(|resets| *resets += 1);
    }

    /// What went through it so far: connections and bytes as they came in, whether or not they were
    /// passed on.
    pub fn traffic(&self) -> Traffic {
        self.shared.state().traffic
    }
}

impl fmt::Debug for FaultProxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FaultProxy")
            .field("address", &self.address)
            .field("traffic", &self.traffic())
            .finish_non_exhaustive()
    }
}

struct Shared {
    weather: watch::Sender<NetConditions>,
    /// How often everything was reset.
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

impl Shared {
    fn new(server: SocketAddr) -> Self {
        let state = State {
            server,
            link: LinkLatency::default(),
            cut: None,
            traffic: Traffic::default(),
            chance: fastrand::Rng::new(),
        };
        Self {
            weather: watch::Sender::new(NetConditions::Clear),
            resets: watch::Sender::new(0),
            state: Mutex::new(state),
        }
    }

    async fn flows(&self, direction: Direction) {
        self.until(|weather| weather.stalls(direction) == Stall::Flowing)
            .await;
    }

    async fn until(&self, wanted: impl Fn(NetConditions) -> bool) {
        let mut weather = self.weather.subscribe();
        // The sender is our own, so it is there for as long as we wait.
        let _never_gone = weather.wait_for(|weather| wanted(*weather)).await;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether the kernel answers for us.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Door {
    Open,
    Shut,
}

impl Door {
    fn from_weather(weather: NetConditions) -> Self {
        match weather {
            NetConditions::Refusing => Self::Shut,
            _ => Self::Open,
        }
    }
}

/// Listens, except where connections are refused: only a port that nobody listens on refuses them.
async fn listen(shared: Arc<Shared>, first: TcpListener, tell: watch::Sender<Door>) {
    let Ok(address) = first.local_addr() else {
        return;
    };
    let (mut listener, mut connections) = (first, Vec::new());
    loop {
        tell.send_replace(Door::Open);
        tokio::select! {
            () = accept(&shared, &listener, &mut connections) => {}
            () = shared.until(|weather| weather == NetConditions::Refusing) => {}
        }
        drop(listener);
        tell.send_replace(Door::Shut);
        shared
            .until(|weather| weather != NetConditions::Refusing)
            .await;
        listener = listen_again(address).await;
    }
}

async fn accept(
    shared: &Arc<Shared>,
    listener: &TcpListener,
    connections: &mut Vec<Background<()>>,
) {
    while let Ok((client, _)) = listener.accept().await {
        shared.state().traffic.connects += 1;
        connections.retain(|connection| !connection.is_over());
        connections.push(Background::start(serve(Arc::clone(shared), client)));
    }
}

/// The port was ours a moment ago; whoever took it in between will let go of it.
async fn listen_again(address: SocketAddr) -> TcpListener {
    loop {
        if let Ok(listener) = TcpListener::bind(address).await {
            return listener;
        }
        tokio::time::sleep(BETWEEN_TRIES).await;
    }
}

async fn serve(shared: Arc<Shared>, mut client: TcpStream) {
    let mut resets = shared.resets.subscribe();
    let connecting = async {
        shared.until(|weather| !weather.stalls_any()).await;
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

/// Closes with a reset rather than a farewell. A socket that is gone already needs none.
fn reset(stream: TcpStream) {
    let _gone = stream.set_zero_linger();
}

/// Short beside any test, and long beside what the kernel needs to free a port.
const BETWEEN_TRIES: Duration = Duration::from_millis(5);
