//! Subscription to change notices, instead of polling.
//!
//! Scripts publish to a channel of the server. A separate connection subscribes, because on the
//! connection of the calls it would wait behind their replies. The waiting callers keep it alive:
//! no background task can be forgotten. A notice may be missed before each reconnect, so every
//! waiter is woken once after it.

use std::sync::Arc;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, PushInfo, PushKind, cmd};
use tokio::sync::watch;
use tokio::time::timeout;

use super::connection::{ConnectionSetup, OpenConnection, RedisConnection};
use super::error_map;
use super::server_locator::ServerLocator;
use crate::contract::StoreResult;

pub(super) struct Subscriber {
    connection: RedisConnection,
    channel: String,
    notices: watch::Sender<u64>,
    timeout: Duration,
}

impl Subscriber {
    pub(super) fn new(locator: ServerLocator, channel: String, timeout: Duration) -> Self {
        let (notices, _) = watch::channel(0);
        let sender = notices.clone();
        let config = AsyncConnectionConfig::new().set_push_sender(move |push: PushInfo| {
            // A closed connection also notifies: the woken waiter reconnects.
            if matches!(push.kind, PushKind::Message | PushKind::Disconnection) {
                notify(&sender);
            }
            Ok::<(), ()>(())
        });
        Self {
            connection: RedisConnection::new(Arc::new(locator.with_push()), config, timeout),
            channel,
            notices,
            timeout,
        }
    }

    /// Marks the notices that a wait starting now has already seen.
    pub(super) fn listen(&self) -> watch::Receiver<u64> {
        self.notices.subscribe()
    }

    /// Waits for the next notice.
    pub(super) async fn wait(&self, mut seen: watch::Receiver<u64>) {
        loop {
            let open = self.connection.ensure_open(self).await;
            let span = if open.is_ok() { SILENCE } else { PAUSE };
            if timeout(span, seen.changed()).await.is_ok() {
                return;
            }
            // After silence, a ping distinguishes an idle server from a dead connection.
            if let Ok(open) = open {
                self.ping(open).await;
            }
        }
    }

    async fn ping(&self, mut open: OpenConnection) {
        let ping = cmd("PING");
        let alive = timeout(self.timeout, open.wire.send_packed_command(&ping)).await;
        if !matches!(alive, Ok(Ok(_))) {
            self.connection.drop_connection(&open).await;
        }
    }
}

impl ConnectionSetup for Subscriber {
    async fn set_up(&self, wire: &mut MultiplexedConnection, _info: &str) -> StoreResult<()> {
        wire.subscribe(self.channel.as_str())
            .await
            .map_err(|error| error_map::map_connect_error(&error))?;
        notify(&self.notices);
        Ok(())
    }
}

fn notify(notices: &watch::Sender<u64>) {
    notices.send_modify(|count| *count = count.wrapping_add(1));
}

/// A connection that died silently is noticed within this and a call's timeout.
const SILENCE: Duration = Duration::from_secs(5);

/// Pause between two connection attempts.
const PAUSE: Duration = Duration::from_millis(100);
