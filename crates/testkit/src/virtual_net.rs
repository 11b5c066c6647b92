//! A network in memory, in virtual time.
//!
//! A client and a server in one process talk over connections whose bytes arrive a delay later, in
//! order. Under a paused runtime the delay costs nothing, and one seed gives one history. Real
//! loopback sockets do not work here: the kernel does not know virtual time, which would run away
//! while a packet is in flight. It is a byte stream and not a model of TCP: nothing is lost,
//! reordered or sent again, and flow control is one fixed window.

mod pipe;
mod stream;

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Weak};
use std::time::Duration;

use outflow_sync::{Mutex, MutexGuard};
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep_until};

use self::pipe::Pipe;
pub use self::stream::VirtualStream;
use crate::link_latency::{Direction, LinkLatency};
use crate::net_conditions::{NetConditions, Traffic, until};

/// Network between clients that connect and one server that accepts; clones share it.
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> std::io::Result<()> {
/// use std::time::Duration;
/// use outflow_testkit::{LinkLatency, VirtualNet};
/// use tokio::io::{AsyncReadExt, AsyncWriteExt};
/// use tokio::time::Instant;
///
/// let net = VirtualNet::new(1, LinkLatency::from_delay(Duration::from_millis(20)));
/// let (client, mut server) = tokio::join!(net.connect(), net.accept());
/// let (mut client, sent) = (client?, Instant::now());
/// client.write_all(b"ping").await?;
/// let mut word = [0; 4];
/// server.read_exact(&mut word).await?;
/// assert_eq!(sent.elapsed(), Duration::from_millis(20));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct VirtualNet {
    shared: Arc<NetShared>,
}

impl VirtualNet {
    /// Builds a network over this link; all randomness comes from the seed.
    pub fn new(seed: u64, link: LinkLatency) -> Self {
        let world = World {
            link,
            chance: fastrand::Rng::with_seed(seed),
            traffic: Traffic::default(),
            arrivals: BTreeMap::new(),
            pipes: Vec::new(),
        };
        Self {
            shared: Arc::new(NetShared {
                world: Mutex::new(world),
                conditions: watch::Sender::new(NetConditions::Clear),
                arrived: Notify::new(),
            }),
        }
    }

    /// Connects to the server, which takes one delay there and one back.
    ///
    /// # Errors
    /// If connections are refused, after an equal time.
    pub async fn connect(&self) -> io::Result<VirtualStream> {
        let shared = &self.shared;
        shared.world().traffic.connects += 1;
        until(&shared.conditions, |conditions| !conditions.stalls_any()).await;
        let there = Instant::now() + shared.delay(Direction::There);
        let answer = there + shared.delay(Direction::Back);
        if *shared.conditions.borrow() == NetConditions::Refusing {
            sleep_until(answer).await;
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        let (ours, theirs) = self.pair();
        shared.announce(there, theirs);
        sleep_until(answer).await;
        Ok(ours)
    }

    /// Waits for the next connection on the server's side. Dropping the future loses none.
    pub async fn accept(&self) -> VirtualStream {
        loop {
            let next = match self.shared.arrival() {
                Arrival::Here(stream) => return stream,
                Arrival::InFlight(at) => Some(at),
                Arrival::None => None,
            };
            let due = async {
                match next {
                    Some(at) => sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = due => {}
                () = self.shared.arrived.notified() => {}
            }
        }
    }

    /// Sets the link for bytes written from now on.
    pub fn set_link(&self, link: LinkLatency) {
        self.shared.world().link = link;
    }

    /// Changes the conditions of all connections, old and new.
    pub fn set_conditions(&self, conditions: NetConditions) {
        self.shared.conditions.send_replace(conditions);
        for pipe in self.shared.pipes() {
            let delay = self.shared.delay(pipe.direction);
            pipe.stall(conditions.stalls(pipe.direction), Instant::now() + delay);
        }
    }

    /// Breaks every connection at once, at both ends; bytes in flight are lost.
    pub fn reset_all(&self) {
        let now = Instant::now();
        self.shared.pipes().iter().for_each(|pipe| pipe.break_at(now));
    }

    /// Returns the traffic so far.
    pub fn traffic(&self) -> Traffic {
        self.shared.world().traffic
    }

    fn pair(&self) -> (VirtualStream, VirtualStream) {
        let pipe = |direction| Arc::new(Pipe::new(&self.shared, direction));
        let (there, back) = (pipe(Direction::There), pipe(Direction::Back));
        let mut world = self.shared.world();
        world.pipes.retain(|pipe| pipe.strong_count() > 0);
        world.pipes.extend([&there, &back].map(Arc::downgrade));
        let ours = VirtualStream::new(Arc::clone(&back), Arc::clone(&there));
        (ours, VirtualStream::new(there, back))
    }
}

struct NetShared {
    world: Mutex<World>,
    conditions: watch::Sender<NetConditions>,
    arrived: Notify,
}

struct World {
    link: LinkLatency,
    chance: fastrand::Rng,
    traffic: Traffic,
    /// Connections in flight to the server, by the instant of their arrival.
    arrivals: BTreeMap<(Instant, u64), VirtualStream>,
    pipes: Vec<Weak<Pipe>>,
}

enum Arrival {
    Here(VirtualStream),
    InFlight(Instant),
    None,
}

impl NetShared {
    fn delay(&self, direction: Direction) -> Duration {
        let world = &mut *self.world();
        world.link.path(direction).delay(&mut world.chance)
    }

    fn announce(&self, at: Instant, stream: VirtualStream) {
        {
            let mut world = self.world();
            let number = world.traffic.connects;
            let mut key = (at, number);
            while world.arrivals.contains_key(&key) {
                key.1 += 1;
            }
            world.arrivals.insert(key, stream);
        }
        self.arrived.notify_one();
    }

    fn arrival(&self) -> Arrival {
        let mut world = self.world();
        let Some(first) = world.arrivals.first_entry() else {
            return Arrival::None;
        };
        let (at, _) = *first.key();
        if at > Instant::now() {
            return Arrival::InFlight(at);
        }
        Arrival::Here(first.remove())
    }

    fn pipes(&self) -> Vec<Arc<Pipe>> {
        let world = self.world();
        world.pipes.iter().filter_map(Weak::upgrade).collect()
    }

    fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock()
    }
}
