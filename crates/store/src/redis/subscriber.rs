//! Subscription to change notices, instead of polling.
//!
//! Scripts publish to a channel of the server. A separate connection subscribes, because on the
//! connection of the calls it would wait behind their replies. The waiting callers keep it alive:
//! no background task can be forgotten. A notice may be missed before each reconnect, so every
//! waiter is woken once after it.

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, ProtocolVersion, PushInfo, PushKind, cmd};
use tokio::sync::watch;
use tokio::time::timeout;

use super::connection::{ConnectionSetup, OpenConnection, RedisConnection};
use super::error_map;
use crate::contract::StoreResult;

pub(super) struct Subscriber {
    connection: RedisConnection,
    channel: String,
    bell: watch::Sender<u64>,
    timeout: Duration,
}

impl Subscriber {
    pub(super) fn new(client: &Client, channel: String, timeout: Duration) -> StoreResult<Self> {
        let (bell, _) = watch::channel(0);
        let ringer = bell.clone();
        let config = AsyncConnectionConfig::new().set_push_sender(move |push: PushInfo| {
            // A closed connection also notifies: the woken waiter reconnects.
            if matches!(push.kind, PushKind::Message | PushKind::Disconnection) {
                ring(&ringer);
            }
            Ok::<(), ()>(())
        });
        let info = client.get_connection_info().clone();
        let settings = info
            .redis_settings()
            .clone()
            .set_protocol(ProtocolVersion::RESP3);
        let client = Client::open(info.set_redis_settings(settings))
            .map_err(|error| error_map::before(&error))?;
        Ok(Self {
            connection: RedisConnection::new(client, config, timeout),
            channel,
            bell,
            timeout,
        })
    }

    /// Marks the notices that a wait starting now has already seen.
    pub(super) fn listen(&self) -> watch::Receiver<u64> {
        self.bell.subscribe()
    }

    /// Waits for the next notice.
    pub(super) async fn wait(&self, mut heard: watch::Receiver<u64>) {
        loop {
            let open = self.connection.ready(self).await;
            let patience = if open.is_ok() { SILENCE } else { PAUSE };
            if timeout(patience, heard.changed()).await.is_ok() {
                return;
            }
            // After silence, a ping tells an idle server from a dead connection.
            if let Ok(open) = open {
                self.ping(open).await;
            }
        }
    }

    async fn ping(&self, mut open: OpenConnection) {
        let ping = cmd("PING");
        let alive = timeout(self.timeout, open.wire.send_packed_command(&ping)).await;
        if !matches!(alive, Ok(Ok(_))) {
            self.connection.drop_if(&open).await;
        }
    }
}

impl ConnectionSetup for Subscriber {
    async fn greet(&self, wire: &mut MultiplexedConnection) -> StoreResult<()> {
        wire.subscribe(self.channel.as_str())
            .await
            .map_err(|error| error_map::before(&error))?;
        ring(&self.bell);
        Ok(())
    }
}

fn ring(bell: &watch::Sender<u64>) {
    bell.send_modify(|rings| *rings = rings.wrapping_add(1));
}

/// A connection that died silently is noticed within this and a call's timeout.
const SILENCE: Duration = Duration::from_secs(5);

/// Pause between two connection attempts.
const PAUSE: Duration = Duration::from_millis(100);
