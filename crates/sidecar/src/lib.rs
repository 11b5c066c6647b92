//! The sidecar: a local proxy that forwards `/{api}/{path}` to that API through the client.
//!
//! It translates between HTTP and calls and decides nothing about limits. Callers set options of one call in
//! `Outflow-*` headers; the sidecar adds its own facts to responses the same way. Callers are not trusted.
//! Each check has one place:
//!
//! | place | check |
//! |---|---|
//! | `outflow_listener` | number of connections, in total and per address |
//! | `memory_cost` | memory of all connections and requests |
//! | `proxy::api_share` | connections that the callers of one API use |
//! | `h1` | HTTP/1 before parsing: line ends, names and values, one host, one length or coding, size and time of a head |
//! | `h2_frames` | floods of HTTP/2 frames that carry nothing |
//! | hyper | the rest of HTTP/1 and of HTTP/2: streams, resets, windows, sizes |
//! | `proxy::request_guard` | the parsed request: host, method, protocol, token |
//! | `proxy::route` | the API exists |
//! | `proxy::control_headers` | the options of the call are valid |
//! | `proxy::loop_detection` | this process has not forwarded the request before |
//! | `proxy::request_body` | size of the body, and pauses in it |
//! | the client | the path is unambiguous and stays below its API |
//!
//! The sidecar never forwards a message as it was framed: both connections are framed independently. It
//! touches neither a meter nor a store.

mod accept;
mod config;
#[doc(hidden)]
pub mod fuzzing;
mod h1;
mod h2_frames;
mod memory_cost;
mod proxy;

use std::sync::Arc;

use arc_swap::ArcSwap;
use outflow::{MemoryBudget, Outflow, SpawnError, Tasks};
use outflow_listener::{DescriptorLimit, Listener};

pub use self::accept::rejections::RejectionCounts;
pub use self::config::{ServerConfig, UnderscoreHeaders};

use self::accept::Acceptor;
use self::memory_cost::MemoryMetrics;

/// The proxy: a client, the settings in effect and the counts of rejections.
pub struct Sidecar {
    client: Outflow,
    tasks: Tasks,
    config: ArcSwap<ServerConfig>,
    rejections: RejectionCounts,
    memory: MemoryBudget,
    descriptors: DescriptorLimit,
}

impl Sidecar {
    /// Creates a proxy that serves no port yet.
    pub fn new(client: Outflow, tasks: Tasks, config: ServerConfig) -> Self {
        let memory = MemoryBudget::beside_cache(config.max_memory, client.cache().cloned());
        if let Some(metrics) = client.metrics() {
            metrics.append(Arc::new(MemoryMetrics(memory.clone())));
        }
        Self {
            client,
            tasks,
            memory,
            descriptors: DescriptorLimit::from_files(u64::MAX),
            config: ArcSwap::from_pointee(config),
            rejections: RejectionCounts::default(),
        }
    }

    /// Returns the proxy with no more connections than this number of open files allows.
    #[must_use]
    pub fn with_descriptors(self, descriptors: DescriptorLimit) -> Self {
        Self { descriptors, ..self }
    }

    /// Serves connections of this listener until the program stops.
    ///
    /// # Errors
    /// If the tasks of the program are shut down already.
    pub fn open(self: &Arc<Self>, listener: Listener) -> Result<(), SpawnError> {
        let acceptor = Arc::new(Acceptor::new(Arc::clone(self), listener)?);
        self.tasks.spawn("sidecar", move |stop| {
            let acceptor = Arc::clone(&acceptor);
            async move { acceptor.accept(stop).await }
        })
    }

    /// Applies other settings to later connections and requests.
    pub fn reconfigure(&self, config: ServerConfig) {
        self.memory.set_limit(config.max_memory);
        self.config.store(Arc::new(config));
    }

    /// Returns the memory for connections, requests and bodies.
    pub const fn memory(&self) -> &MemoryBudget {
        &self.memory
    }

    /// Returns the limit of open files.
    pub const fn descriptors(&self) -> DescriptorLimit {
        self.descriptors
    }

    /// Returns the number of connections that are served at once.
    pub fn max_connections(&self) -> u32 {
        let configured = self.config.load().max_connections;
        configured.min(self.descriptors.max_connections())
    }

    /// Returns the counts of connections and requests that never became calls.
    pub const fn rejections(&self) -> &RejectionCounts {
        &self.rejections
    }

    fn config(&self) -> Arc<ServerConfig> {
        self.config.load_full()
    }
}
