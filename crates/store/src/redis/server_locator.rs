//! The server that holds the queue, found from the hosts of an address.
//!
//! A host is the server itself, one of several servers, a node of a cluster, or a Sentinel that knows the primary. The
//! server is located for each new connection, so that a failover needs no restart. It follows no redirection of
//! single commands: a queue lies in one slot, so a moved slot is another server.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use outflow_sync::Mutex;
use redis::aio::MultiplexedConnection;
use redis::{
    AsyncConnectionConfig, Cmd, ConnectionAddr, ConnectionInfo, ProtocolVersion, RedisConnectionInfo, Value, cmd,
};
use tokio::time::timeout;

use super::cluster_slots;
use super::error_map;
use super::options::RedisOptions;
use super::server_address::ServerAddress;
use super::server_info;
use super::tls;
use crate::contract::StoreResult;
use crate::error::StoreError;

/// Finds the server of a queue and connects to it.
pub(super) struct ServerLocator {
    address: ServerAddress,
    ca_file: Option<PathBuf>,
    /// Slot of all keys, if the server is a cluster.
    slot: u16,
    timeout: Duration,
    protocol: Option<ProtocolVersion>,
    /// Place of the host to try next.
    next: AtomicUsize,
    /// Nodes of the cluster, which may outlive the hosts of the address.
    nodes: Mutex<Vec<ConnectionAddr>>,
}

/// Connection to the server of the queue.
pub(super) struct LocatedServer {
    pub(super) wire: MultiplexedConnection,
    /// Its `INFO` reply.
    pub(super) info: String,
}

impl ServerLocator {
    /// Reads the address.
    ///
    /// # Errors
    /// If it is invalid, or the certificates cannot be read.
    pub(super) fn new(options: &RedisOptions) -> StoreResult<Self> {
        let address = ServerAddress::parse(&options.url)?;
        for host in &address.hosts {
            tls::client(host.clone(), options.ca_file.as_deref())?;
        }
        Ok(Self {
            address,
            ca_file: options.ca_file.clone(),
            slot: cluster_slots::slot_of(options.queue.as_bytes()),
            timeout: options.timeout,
            protocol: None,
            next: AtomicUsize::default(),
            nodes: Mutex::default(),
        })
    }

    /// Makes the server push messages beside its replies.
    pub(super) fn with_push(mut self) -> Self {
        self.protocol = Some(ProtocolVersion::RESP3);
        self
    }

    /// Returns the hosts of the address, if there are several.
    pub(super) fn several_hosts(&self) -> Option<String> {
        let names: Vec<_> = self.address.hosts.iter().map(|host| host.addr().to_string()).collect();
        (names.len() > 1).then(|| names.join(", "))
    }

    /// Connects to the server, and asks it about itself.
    ///
    /// # Errors
    /// If no host leads to it: each failure with its host.
    pub(super) async fn connect(&self, config: &AsyncConnectionConfig) -> StoreResult<LocatedServer> {
        let hosts = self.hosts();
        let mut failures = Vec::new();
        for _ in 0..hosts.len() {
            // A silent host may take all of the caller's time: the next attempt begins behind it.
            let place = self.next.fetch_add(1, Ordering::Relaxed) % hosts.len();
            let Some(host) = hosts.get(place) else { break };
            match self.locate_from(host, config).await {
                Ok(server) => {
                    self.next.store(place, Ordering::Relaxed);
                    return Ok(server);
                }
                Err(error) => failures.push((host.addr().to_string(), error)),
            }
        }
        Err(joined(failures))
    }

    fn hosts(&self) -> Vec<ConnectionInfo> {
        let mut hosts = self.address.hosts.clone();
        let Some(first) = hosts.first().cloned() else {
            return hosts;
        };
        for node in self.nodes.lock().iter() {
            if !hosts.iter().any(|host| host.addr() == node) {
                hosts.push(first.clone().set_addr(node.clone()));
            }
        }
        hosts
    }

    async fn locate_from(&self, host: &ConnectionInfo, config: &AsyncConnectionConfig) -> StoreResult<LocatedServer> {
        if let Some(name) = &self.address.sentinel {
            let primary = self.ask_sentinel(host, name).await?;
            let server = self.open(&primary, config).await;
            let server = server.map_err(|error| at_host(&primary, &error))?;
            if server_info::is_primary(&server.info) {
                return Ok(server);
            }
            return Err(StoreError::unreachable(format_args!(
                "{} is a replica, but the Sentinel names it as the primary {name}: wait for the end of the failover",
                primary.addr()
            )));
        }
        let server = self.open(host, config).await?;
        if server_info::is_cluster(&server.info) {
            return self.open_owner(host, server, config).await;
        }
        if self.address.hosts.len() > 1 && !server_info::is_primary(&server.info) {
            return Err(StoreError::unreachable("it is a replica"));
        }
        Ok(server)
    }

    /// Goes on from a node of a cluster to the one that owns the slot.
    async fn open_owner(
        &self,
        host: &ConnectionInfo,
        mut server: LocatedServer,
        config: &AsyncConnectionConfig,
    ) -> StoreResult<LocatedServer> {
        let slots = self.ask(&mut server.wire, cmd("CLUSTER").arg("SLOTS")).await?;
        let ranges = cluster_slots::parse_ranges(&slots);
        let mut nodes: Vec<_> = ranges.iter().flat_map(|range| &range.nodes).collect();
        nodes.dedup();
        *self.nodes.lock() = nodes.into_iter().map(|node| address_of(host, node)).collect();
        let range = ranges.iter().find(|range| range.slots.contains(&self.slot));
        let Some(owner) = range.and_then(|range| range.nodes.first()) else {
            return Err(StoreError::unreachable(format_args!(
                "no node of the cluster serves slot {}, which holds the queue: wait until it does",
                self.slot
            )));
        };
        let owner = host.clone().set_addr(address_of(host, owner));
        if owner.addr() == host.addr() {
            return Ok(server);
        }
        self.open(&owner, config).await.map_err(|error| at_host(&owner, &error))
    }

    async fn open(&self, host: &ConnectionInfo, config: &AsyncConnectionConfig) -> StoreResult<LocatedServer> {
        let mut host = host.clone();
        if let Some(protocol) = self.protocol {
            let settings = host.redis_settings().clone().set_protocol(protocol);
            host = host.set_redis_settings(settings);
        }
        let mut wire = self.connect_to(host, config).await?;
        let info = self.ask(&mut wire, &cmd("INFO")).await?;
        let info = redis::from_redis_value(info).map_err(|_| error_map::unexpected_reply())?;
        Ok(LocatedServer { wire, info })
    }

    async fn connect_to(
        &self,
        host: ConnectionInfo,
        config: &AsyncConnectionConfig,
    ) -> StoreResult<MultiplexedConnection> {
        let client = tls::client(host, self.ca_file.as_deref())?;
        let reached = client.get_multiplexed_async_connection_with_config(config).await;
        reached.map_err(|error| error_map::map_connect_error(&error))
    }

    /// Asks a Sentinel for the address of the primary. Sentinels usually have no password, and refuse one then.
    async fn ask_sentinel(&self, host: &ConnectionInfo, name: &str) -> StoreResult<ConnectionInfo> {
        let with_password = host.redis_settings().clone().set_db(0);
        let mut question = cmd("SENTINEL");
        question.arg("GET-MASTER-ADDR-BY-NAME").arg(name);
        let config = AsyncConnectionConfig::new()
            .set_response_timeout(None)
            .set_connection_timeout(Some(self.timeout));
        let mut answer = Err(StoreError::unreachable("the Sentinel did not answer"));
        for settings in [RedisConnectionInfo::default(), with_password] {
            let mut wire = self
                .connect_to(host.clone().set_redis_settings(settings), &config)
                .await?;
            answer = self.ask(&mut wire, &question).await;
            if !answer.as_ref().is_err_and(error_map::is_wrong_password) {
                break;
            }
        }
        if answer.as_ref().is_err_and(error_map::is_forbidden) {
            return Err(StoreError::refused(NO_SENTINEL));
        }
        let (primary, port): (String, u16) = match answer? {
            Value::Nil => {
                return Err(StoreError::refused(format_args!(
                    "this Sentinel knows no primary {name}: check the name after `sentinel=`"
                )));
            }
            address => redis::from_redis_value(address).map_err(|_| error_map::unexpected_reply())?,
        };
        let primary = cluster_slots::NodeAddress { host: primary, port };
        Ok(host.clone().set_addr(address_of(host, &primary)))
    }

    async fn ask(&self, wire: &mut MultiplexedConnection, question: &Cmd) -> StoreResult<Value> {
        match timeout(self.timeout, wire.send_packed_command(question)).await {
            Ok(Ok(Value::ServerError(error))) => Err(error_map::map_connect_error(&error.into())),
            Ok(answer) => answer.map_err(|error| error_map::map_connect_error(&error)),
            Err(_) => Err(StoreError::unreachable(format_args!(
                "it did not answer within {:?}",
                self.timeout
            ))),
        }
    }
}

/// Returns the address of a node, reached as this host is. A node without a name is at the same host.
fn address_of(host: &ConnectionInfo, node: &cluster_slots::NodeAddress) -> ConnectionAddr {
    let (own, is_tls) = match host.addr() {
        ConnectionAddr::TcpTls { host, .. } => (host.clone(), true),
        ConnectionAddr::Tcp(host, _) => (host.clone(), false),
        _ => (String::new(), false),
    };
    let name = if node.host.is_empty() { own } else { node.host.clone() };
    if is_tls {
        ConnectionAddr::TcpTls {
            host: name,
            port: node.port,
            insecure: false,
            tls_params: None,
        }
    } else {
        ConnectionAddr::Tcp(name, node.port)
    }
}

fn at_host(host: &ConnectionInfo, error: &StoreError) -> StoreError {
    let words = format!("{}: {error}", host.addr());
    if error.is_refused() {
        StoreError::refused(words)
    } else {
        StoreError::unreachable(words)
    }
}

/// Joins the failures of all hosts. Only if none can pass, an operator is needed.
fn joined(mut failures: Vec<(String, StoreError)>) -> StoreError {
    if failures.len() == 1
        && let Some((_, error)) = failures.pop()
    {
        return error;
    }
    let needs_operator = failures.iter().all(|(_, error)| error.is_refused());
    let words: Vec<_> = failures
        .iter()
        .map(|(host, error)| format!("{host}: {error}"))
        .collect();
    let words = format!("no host leads to redis: {}", words.join("; "));
    if needs_operator {
        StoreError::refused(words)
    } else {
        StoreError::unreachable(words)
    }
}

const NO_SENTINEL: &str = "this host is no Sentinel: name Sentinels in the address of Redis, or remove `sentinel=`";
