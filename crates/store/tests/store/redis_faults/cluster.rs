//! A cluster of three primaries, of which the owner of the queue has a replica; and a primary with a replica and
//! three Sentinels.

use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use outflow_testkit::{RedisOptions as ServerOptions, RedisSentinel, RedisServer};
use tokio::time::{Instant, sleep};

use super::support::setting;

/// Nodes of a cluster. The owner of the queue's slot is the first one, its replica the last.
pub(crate) struct TestCluster {
    pub(crate) nodes: Vec<RedisServer>,
}

impl TestCluster {
    pub(crate) async fn start() -> Self {
        let buses: Vec<u16> = (0..4).map(|_| free_port()).collect();
        let nodes: Vec<_> = buses.iter().map(|bus| start_node(*bus)).collect();
        let cluster = Self { nodes };
        let [owner, others @ ..] = cluster.nodes.as_slice() else {
            unreachable!("four nodes");
        };
        let slot: u16 = run(owner, &["CLUSTER", "KEYSLOT", "{outflow}"])
            .parse()
            .expect("a slot");
        // The owner has the slot of the queue alone.
        let (below, above) = ((0, slot - 1), (slot + 1, 16_383));
        for (node, (first, last)) in cluster.nodes.iter().zip([(slot, slot), below, above]) {
            run(
                node,
                &["CLUSTER", "ADDSLOTSRANGE", &first.to_string(), &last.to_string()],
            );
        }
        for (node, bus) in others.iter().zip(&buses[1..]) {
            let address = address(node);
            let (ip, port) = (address.ip().to_string(), address.port().to_string());
            run(owner, &["CLUSTER", "MEET", &ip, &port, &bus.to_string()]);
        }
        let info = |node: &RedisServer| run(node, &["CLUSTER", "INFO"]);
        let knows_all = |node| info(node).contains("cluster_known_nodes:4") && info(node).contains("cluster_state:ok");
        eventually("the nodes know each other", || cluster.nodes.iter().all(knows_all)).await;
        let replica = cluster.replica();
        run(replica, &["CLUSTER", "REPLICATE", &run(owner, &["CLUSTER", "MYID"])]);
        let is_copy = || run(replica, &["INFO", "replication"]).contains("master_link_status:up");
        eventually("the owner has a replica", is_copy).await;
        // The others must know it too, or they do not vote for it.
        let names_replica = |node| run(node, &["CLUSTER", "NODES"]).contains("slave ");
        eventually("all know the replica", || cluster.nodes.iter().all(names_replica)).await;
        cluster
    }

    pub(crate) fn owner(&mut self) -> &mut RedisServer {
        &mut self.nodes[0]
    }

    pub(crate) fn replica(&self) -> &RedisServer {
        &self.nodes[3]
    }

    /// Returns an address with some of the nodes.
    pub(crate) fn url(&self, places: &[usize]) -> String {
        let hosts: Vec<_> = places
            .iter()
            .map(|place| address(&self.nodes[*place]).to_string())
            .collect();
        format!("redis://{}/", hosts.join(","))
    }
}

fn start_node(bus: u16) -> RedisServer {
    let settings = vec![
        setting("cluster-enabled", "yes"),
        // Ports of tests are high, and the usual distance of ten thousand leads beyond the last one.
        setting("cluster-port", bus),
        // By default fifteen seconds, for which a test does not wait.
        setting("cluster-node-timeout", 1_000),
        setting("repl-diskless-sync-delay", 0),
    ];
    let node = RedisServer::start(ServerOptions {
        settings,
        ..ServerOptions::default()
    });
    node.expect("a node")
}

/// A primary, its replica and three Sentinels.
pub(crate) struct SentinelTrio {
    pub(crate) primary: RedisServer,
    pub(crate) replica: RedisServer,
    pub(crate) sentinels: Vec<RedisSentinel>,
}

impl SentinelTrio {
    pub(crate) async fn start() -> Self {
        let settings = vec![setting("repl-diskless-sync-delay", 0)];
        let options = ServerOptions {
            settings,
            ..ServerOptions::default()
        };
        let primary = RedisServer::start(options.clone()).expect("a primary");
        let of = address(&primary);
        let mut copying = options;
        copying
            .settings
            .push(setting("replicaof", format!("{} {}", of.ip(), of.port())));
        let replica = RedisServer::start(copying).expect("a replica");
        let is_copy = || run(&replica, &["INFO", "replication"]).contains("master_link_status:up");
        eventually("the primary has a replica", is_copy).await;
        let sentinels = (0..3).map(|_| RedisSentinel::start(PRIMARY, of).expect("a Sentinel"));
        let trio = Self {
            sentinels: sentinels.collect(),
            primary,
            replica,
        };
        let knows_all = |sentinel: &RedisSentinel| {
            let info = sentinel.command(&["INFO", "sentinel"]).unwrap_or_default();
            info.contains("slaves=1,sentinels=3")
        };
        eventually("the Sentinels know all", || trio.sentinels.iter().all(knows_all)).await;
        trio
    }

    /// Returns the address that names all Sentinels.
    pub(crate) fn url(&self) -> String {
        let hosts: Vec<_> = self
            .sentinels
            .iter()
            .map(|sentinel| sentinel.address().to_string())
            .collect();
        format!("redis://{}/?sentinel={PRIMARY}", hosts.join(","))
    }
}

pub(crate) const PRIMARY: &str = "mymaster";

fn address(server: &RedisServer) -> SocketAddr {
    server.address().expect("a port")
}

fn run(server: &RedisServer, command: &[&str]) -> String {
    server.command(command).expect("done")
}

fn free_port() -> u16 {
    let port = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr();
    port.expect("bound").port()
}

async fn eventually(what: &str, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < SET_UP, "never: {what}");
        sleep(Duration::from_millis(20)).await;
    }
}

/// Nodes find each other within seconds; Sentinels look for replicas every ten.
const SET_UP: Duration = Duration::from_secs(30);
