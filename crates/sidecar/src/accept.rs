//! Connections: accepted or rejected, served, and closed when idle.

pub(crate) mod connection;
pub(crate) mod rejections;

use std::sync::Arc;

use outflow::{CancelToken, SpawnError, TaskGroup};
use outflow_listener::{
    ConnectionLimits, ConnectionMaximum, InboundConnection, ListenAddr, Listener, PeerAddr, TooManyConnections,
};

use crate::Sidecar;
use crate::proxy::ProxyHandler;
use crate::proxy::problem;
use crate::proxy::request_guard::ListenerExposure;

/// The accept loop of the sidecar.
pub(crate) struct Acceptor {
    sidecar: Arc<Sidecar>,
    proxy: Arc<ProxyHandler>,
    limits: Arc<ConnectionLimits>,
    listener: Listener,
    connections: TaskGroup,
}

impl Acceptor {
    pub(crate) fn new(sidecar: Arc<Sidecar>, listener: Listener) -> Result<Self, SpawnError> {
        let limits = Arc::default();
        let proxy = ProxyHandler::new(Arc::clone(&sidecar), Arc::clone(&limits), exposure(listener.address()));
        Ok(Self {
            proxy: Arc::new(proxy),
            limits,
            listener,
            connections: sidecar.tasks.task_group("sidecar connections")?,
            sidecar,
        })
    }

    pub(crate) async fn accept(&self, stop: CancelToken) {
        while let Some((connection, from)) = self.listener.next(&stop).await {
            self.serve(connection, from, &stop);
        }
    }

    fn serve(&self, connection: InboundConnection, from: PeerAddr, stop: &CancelToken) {
        let config = self.sidecar.config();
        // Spawning fails only while the program stops.
        let max = ConnectionMaximum {
            in_total: self.sidecar.max_connections(),
            per_address: config.max_connections_per_client,
        };
        let _stopping = match self.limits.reserve(from, max) {
            Ok(slot) => {
                let proxy = Arc::clone(&self.proxy);
                let stop = stop.clone();
                self.connections.spawn(async move {
                    connection::serve(connection, proxy, &config, slot.tracker(), stop).await;
                    drop(slot);
                })
            }
            Err(reason) => {
                self.sidecar.rejections.count_connection(reason);
                self.reject(connection, reason, max.in_total)
            }
        };
    }

    /// Responds with the reason, unless too many rejections are in progress already.
    fn reject(
        &self,
        connection: InboundConnection,
        reason: TooManyConnections,
        max_connections: u32,
    ) -> Result<(), SpawnError> {
        let served = usize::try_from(max_connections).unwrap_or(usize::MAX);
        if self.connections.len() >= served.saturating_add(MAX_REJECTIONS) {
            return Ok(());
        }
        let advice = match reason {
            TooManyConnections::InTotal => {
                "too many connections are open: close some, or raise `max_connections` and the limit of open files"
            }
            TooManyConnections::FromAddress => {
                "too many connections of this address are open: reuse them, or raise `max_connections_per_client`"
            }
        };
        self.connections
            .spawn(connection::reject(connection, problem::too_many_connections(advice)))
    }
}

fn exposure(address: &ListenAddr) -> ListenerExposure {
    match address {
        ListenAddr::Tcp(address) if address.ip().is_loopback() => ListenerExposure::Loopback,
        ListenAddr::Tcp(_) | ListenAddr::Unix(_) => ListenerExposure::Elsewhere,
    }
}

/// Rejections with a response at once; further connections are closed without one.
const MAX_REJECTIONS: usize = 64;
