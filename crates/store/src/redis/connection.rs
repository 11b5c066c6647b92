//! One connection to the server that reconnects by itself, with a deadline for every call.
//!
//! The client library has a reconnecting manager, but its calls wait beyond their own deadline
//! while it retries. So this module owns the connection: each call has one deadline for everything,
//! opens a connection if there is none, and drops it on failure. It sends nothing twice: the caller
//! must find out if an interrupted call was applied, and every operation of the store can be
//! repeated.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Cmd, RedisError, Value};
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::error_map;
use super::server_locator::{LocatedServer, ServerLocator};
use crate::contract::StoreResult;
use crate::error::StoreError;

pub(super) struct RedisConnection {
    locator: Arc<ServerLocator>,
    config: AsyncConnectionConfig,
    timeout: Duration,
    state: Mutex<ConnectionState>,
}

#[derive(Default)]
struct ConnectionState {
    open: Option<OpenConnection>,
    opened: u64,
    failures: u32,
    not_before: Option<Instant>,
}

/// Connection with its number: a caller that finds it broken drops this one and no later one.
#[derive(Clone)]
pub(super) struct OpenConnection {
    pub(super) wire: MultiplexedConnection,
    number: u64,
}

/// Handshake on a new connection to a server with this `INFO` reply, before any other command.
pub(super) trait ConnectionSetup: Sync {
    fn set_up(&self, wire: &mut MultiplexedConnection, info: &str) -> impl Future<Output = StoreResult<()>> + Send;
}

impl RedisConnection {
    pub(super) fn new(locator: Arc<ServerLocator>, config: AsyncConnectionConfig, timeout: Duration) -> Self {
        // One deadline covers the whole call; the library's own timeout would cut in before.
        let config = config.set_response_timeout(None).set_connection_timeout(Some(timeout));
        Self {
            locator,
            config,
            timeout,
            state: Mutex::default(),
        }
    }

    /// Sends one command and waits for its reply.
    pub(super) async fn send(&self, setup: &impl ConnectionSetup, command: &Cmd) -> StoreResult<Value> {
        let deadline = Instant::now() + self.timeout;
        let mut open = match timeout_at(deadline, self.ensure_open(setup)).await {
            Ok(open) => open?,
            Err(_) => return Err(self.connect_timeout()),
        };
        match timeout_at(deadline, open.wire.send_packed_command(command)).await {
            Ok(Ok(Value::ServerError(error))) => self.map_failure(&open, error.into()).await,
            Ok(Ok(value)) => Ok(value),
            Ok(Err(error)) => self.map_failure(&open, error).await,
            Err(_) => {
                self.drop_connection(&open).await;
                Err(StoreError::doubtful(format_args!(
                    "redis did not answer within {:?}: it may or may not have happened",
                    self.timeout
                )))
            }
        }
    }

    /// Returns the number of the open connection, opening one if necessary: within a time of its own, because a
    /// handshake takes several trips.
    pub(super) async fn ensure_open_number(&self, setup: &impl ConnectionSetup) -> StoreResult<u64> {
        let ready = tokio::time::timeout(self.timeout * HANDSHAKE_TRIPS, self.ensure_open(setup));
        ready
            .await
            .unwrap_or_else(|_| Err(self.connect_timeout()))
            .map(|open| open.number)
    }

    /// Returns the number of the open connection, if one is open. Numbers only grow: two equal
    /// numbers prove that every command in between used the same connection.
    pub(super) async fn open_number(&self) -> Option<u64> {
        let state = self.state.lock().await;
        state.open.as_ref().map(|open| open.number)
    }

    /// Returns a connection after its handshake. Concurrent callers wait for one connection
    /// attempt.
    pub(super) async fn ensure_open(&self, setup: &impl ConnectionSetup) -> StoreResult<OpenConnection> {
        let mut state = self.state.lock().await;
        if let Some(open) = &state.open {
            return Ok(open.clone());
        }
        if let Some(at) = state.not_before {
            sleep_until(at).await;
        }
        match self.open(setup).await {
            Ok(wire) => {
                state.opened += 1;
                state.failures = 0;
                state.not_before = None;
                let number = state.opened;
                Ok(state.open.insert(OpenConnection { wire, number }).clone())
            }
            Err(error) => {
                let pause = FIRST_PAUSE * 2_u32.pow(state.failures.min(MAX_DOUBLINGS));
                state.failures += 1;
                state.not_before = Some(Instant::now() + pause);
                Err(error)
            }
        }
    }

    async fn open(&self, setup: &impl ConnectionSetup) -> StoreResult<MultiplexedConnection> {
        // Boxed: the search is large and rare, and is a part of each call.
        let LocatedServer { mut wire, info } = Box::pin(self.locator.connect(&self.config)).await?;
        match tokio::time::timeout(self.timeout * (HANDSHAKE_TRIPS - 1), setup.set_up(&mut wire, &info)).await {
            Ok(greeted) => greeted.map(|()| wire),
            Err(_) => Err(self.connect_timeout()),
        }
    }

    async fn map_failure<T>(&self, open: &OpenConnection, error: RedisError) -> StoreResult<T> {
        if error_map::breaks_connection(&error) {
            self.drop_connection(open).await;
        }
        Err(error_map::map_reply_error(&error))
    }

    pub(super) async fn drop_connection(&self, open: &OpenConnection) {
        let mut state = self.state.lock().await;
        if state.open.as_ref().is_some_and(|now| now.number == open.number) {
            state.open = None;
        }
    }

    fn connect_timeout(&self) -> StoreError {
        let timeout = self.timeout;
        match self.locator.several_hosts() {
            Some(hosts) => StoreError::unreachable(format_args!(
                "none of {hosts} leads to redis within {timeout:?}: check that they run and speak TLS if the address \
                 says so"
            )),
            None => StoreError::unreachable(format_args!(
                "redis cannot be reached within {timeout:?}: check that it runs, and that the port speaks TLS if its \
                 address says so"
            )),
        }
    }
}

/// Time to open a connection, in timeouts of a call.
const HANDSHAKE_TRIPS: u32 = 3;

/// A restarting server is back after some hundred milliseconds.
const FIRST_PAUSE: Duration = Duration::from_millis(25);

/// At most 25 ms × 2⁵, so a waiting caller notices the returning server within a second.
const MAX_DOUBLINGS: u32 = 5;
