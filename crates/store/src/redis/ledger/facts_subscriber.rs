//! Subscription to changes of the facts that processes share.
//!
//! A notice may be missed while the connection is away, so that each new connection counts as a change of all.

use std::sync::Arc;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, FromRedisValue, PushInfo, PushKind, cmd};
use tokio::sync::mpsc::UnboundedSender;
use tokio::time::{sleep, timeout};

use crate::contract::StoreResult;
use crate::redis::connection::{ConnectionSetup, RedisConnection};
use crate::redis::error_map;
use crate::redis::options::RedisOptions;
use crate::redis::server_locator::ServerLocator;

/// Notice that facts changed.
#[derive(Clone, Debug)]
pub(super) enum FactsNotice {
    /// Those of one account, with their generation.
    Changed { account: String, generation: u64 },
    /// Those of any account: notices were missed.
    Missed,
}

impl FactsNotice {
    /// Returns the generation that it announces for an account; the largest one if it is not known.
    pub(super) fn generation_for(&self, name: &str) -> Option<u64> {
        match self {
            Self::Changed { account, generation } => (account == name).then_some(*generation),
            Self::Missed => Some(u64::MAX),
        }
    }

    fn parse(message: &str) -> Option<Self> {
        let (generation, account) = message.split_once(' ')?;
        Some(Self::Changed {
            account: account.to_owned(),
            generation: generation.parse().ok()?,
        })
    }
}

pub(super) struct FactsSubscriber {
    connection: RedisConnection,
    channel: String,
    notices: UnboundedSender<FactsNotice>,
    timeout: Duration,
}

impl FactsSubscriber {
    pub(super) fn new(locator: ServerLocator, options: &RedisOptions, notices: UnboundedSender<FactsNotice>) -> Self {
        let sender = notices.clone();
        let config = AsyncConnectionConfig::new().set_push_sender(move |push: PushInfo| {
            if let Some(notice) = read_push(&push) {
                let _the_ledger_may_have_ended = sender.send(notice);
            }
            Ok::<(), ()>(())
        });
        Self {
            connection: RedisConnection::new(Arc::new(locator.with_push()), config, options.timeout),
            channel: format!("{}facts", options.prefix()),
            notices,
            timeout: options.timeout,
        }
    }

    /// Keeps the subscription for ever.
    pub(super) async fn keep_subscribed(&self) {
        loop {
            let Ok(mut open) = self.connection.ensure_open(self).await else {
                sleep(PAUSE).await;
                continue;
            };
            sleep(SILENCE).await;
            // A ping distinguishes an idle server from a dead connection.
            let ping = cmd("PING");
            let alive = timeout(self.timeout, open.wire.send_packed_command(&ping)).await;
            if !matches!(alive, Ok(Ok(_))) {
                self.connection.drop_connection(&open).await;
            }
        }
    }
}

impl ConnectionSetup for FactsSubscriber {
    async fn set_up(&self, wire: &mut MultiplexedConnection, _info: &str) -> StoreResult<()> {
        wire.subscribe(self.channel.as_str())
            .await
            .map_err(|error| error_map::map_connect_error(&error))?;
        let _the_ledger_may_have_ended = self.notices.send(FactsNotice::Missed);
        Ok(())
    }
}

fn read_push(push: &PushInfo) -> Option<FactsNotice> {
    if push.kind != PushKind::Message {
        return None;
    }
    let message = String::from_redis_value_ref(push.data.get(1)?).ok()?;
    FactsNotice::parse(&message)
}

/// A connection that died silently is noticed within this and a call's timeout. A renewal reads facts too.
const SILENCE: Duration = Duration::from_secs(2);

/// Pause between two connection attempts.
const PAUSE: Duration = Duration::from_millis(100);
