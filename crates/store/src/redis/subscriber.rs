//! Hears that something changed, without asking again and again.
//!
//! Scripts ring a bell that is a channel of the server; a connection of its own listens, because a
//! subscriber on the connection of the calls would wait behind their answers. It is kept alive by whoever
//! waits: there is no task of its own that could be forgotten. Each time it was made anew something may
//! have been missed, so everybody is woken once.

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
            // A connection that ended rings as well: whoever waits then makes it anew.
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

    /// What a wait that begins now has heard already.
    pub(super) fn listen(&self) -> watch::Receiver<u64> {
        self.bell.subscribe()
    }

    /// Waits for the next ring.
    pub(super) async fn wait(&self, mut heard: watch::Receiver<u64>) {
        loop {
            let open = self.connection.ready(self).await;
            let patience = if open.is_ok() { SILENCE } else { PAUSE };
            if timeout(patience, heard.changed()).await.is_ok() {
                return;
            }
            // Nothing for a while: either nothing happens, or nobody is there any more.
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

/// A connection that died without a word is noticed within this and a call's timeout.
const SILENCE: Duration = Duration::from_secs(5);

/// Between two attempts to reach a server that is away.
const PAUSE: Duration = Duration::from_millis(100);
