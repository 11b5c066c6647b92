//! The sidecar: a local proxy that forwards `/{api}/{path}` to that API through the client.
//!
//! It translates between HTTP and calls and decides nothing about limits. Callers set options of one call in
//! `Outflow-*` headers; the sidecar adds its own facts to responses the same way. Callers are not trusted.
//! Each check has one place:
//!
//! | place | check |
//! |---|---|
//! | `accept::connection_limits` | number of connections, in total and per address |
//! | `h1` | HTTP/1 before parsing: line ends, names and values, one host, one length or coding, size and time of a head |
//! | hyper | the rest of HTTP/1, and all of HTTP/2: streams, resets, windows, sizes |
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
mod proxy;

use std::sync::Arc;

use arc_swap::ArcSwap;
use outflow::{Outflow, SpawnError, Tasks};
use outflow_listener::Listener;

pub use self::accept::rejections::RejectionCounts;
pub use self::config::ServerConfig;

use self::accept::Acceptor;

/// The proxy: a client, the settings in effect and the counts of rejections.
pub struct Sidecar {
    client: Outflow,
    tasks: Tasks,
    config: ArcSwap<ServerConfig>,
    rejections: RejectionCounts,
}

impl Sidecar {
    /// Creates a proxy that serves no port yet.
    pub fn new(client: Outflow, tasks: Tasks, config: ServerConfig) -> Self {
        Self {
            client,
            tasks,
            config: ArcSwap::from_pointee(config),
            rejections: RejectionCounts::default(),
        }
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
        self.config.store(Arc::new(config));
    }

    /// Returns the counts of connections and requests that never became calls.
    pub const fn rejections(&self) -> &RejectionCounts {
        &self.rejections
    }

    fn config(&self) -> Arc<ServerConfig> {
        self.config.load_full()
    }
}
