//! Calls of the queue's scripts, which know the queue's identity.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use outflow_sync::Mutex;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Cmd, ToRedisArgs, Value, cmd};

use super::connection::{ConnectionSetup, RedisConnection};
use super::data_loss::{DataLoss, QueueState};
use super::error_map::{self, unexpected_reply};
use super::failover::{CONFIRMED, Failover, UNCONFIRMED};
use super::job_codec::micros;
use super::options::{RedisOptions, ReplicaWait};
use super::reply::{self, ScriptReply};
use super::script_transport::ScriptTransport;
use super::scripts::{KEYS, ScriptStep, Scripts};
use super::server_info::ServerInfo;
use super::server_locator::ServerLocator;
use super::submit::random_word;
use crate::contract::StoreResult;
use crate::error::StoreError;

/// Runner of the store's scripts on one server.
pub(super) struct ScriptRunner {
    connection: RedisConnection,
    /// Connection of calls that wait for replicas. A waiting server takes nothing else on that
    /// connection, and heartbeats and claims must not queue behind it.
    replicated: RedisConnection,
    pub(super) scripts: Scripts,
    prefix: String,
    replica_wait: Option<ReplicaWait>,
    epoch: Mutex<String>,
    data_loss: DataLoss,
    failover: Failover,
    transport: ScriptTransport,
}

/// Call of one script with its arguments.
pub(super) struct ScriptCall<'a> {
    step: &'a ScriptStep,
    /// Queue for which the call is meant.
    epoch: String,
    arguments: Cmd,
}

impl ScriptCall<'_> {
    pub(super) fn arg(mut self, argument: impl ToRedisArgs) -> Self {
        self.arguments.arg(argument);
        self
    }

    pub(super) fn push(&mut self, argument: impl ToRedisArgs) {
        self.arguments.arg(argument);
    }
}

impl ScriptRunner {
    pub(super) fn new(locator: &Arc<ServerLocator>, options: &RedisOptions) -> Self {
        let config = AsyncConnectionConfig::new();
        Self {
            replicated: RedisConnection::new(Arc::clone(locator), config.clone(), options.timeout),
            connection: RedisConnection::new(Arc::clone(locator), config, options.timeout),
            scripts: Scripts::new(),
            prefix: options.prefix(),
            replica_wait: options.wait_replicas,
            epoch: Mutex::default(),
            data_loss: DataLoss::default(),
            failover: Failover::default(),
            transport: ScriptTransport::default(),
        }
    }

    pub(super) fn prefix(&self) -> &str {
        &self.prefix
    }

    pub(super) fn key(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    pub(super) fn lost(&self) -> bool {
        self.data_loss.queue_state() != QueueState::Intact
    }

    /// Takes the warning about a failover that made no call fail.
    pub(super) fn warning(&self) -> Option<String> {
        let words = self.replica_wait.map_or(UNCONFIRMED, |_| CONFIRMED);
        self.failover.take_notice().then(|| words.to_owned())
    }

    /// Connects, if no connection is open.
    pub(super) async fn ensure_connected(&self) -> StoreResult<()> {
        self.send(&cmd("PING")).await.map(drop)
    }

    pub(super) async fn reinitialize(&self) -> StoreResult<()> {
        self.data_loss.allow_reinitialize();
        let open = self.connection.ensure_open(self).await?;
        self.connection.drop_connection(&open).await;
        self.ensure_connected().await
    }

    pub(super) fn call<'a>(&self, step: &'a ScriptStep) -> ScriptCall<'a> {
        let (mut arguments, epoch) = (Cmd::new(), self.epoch());
        arguments.arg(1).arg(self.key("epoch"));
        arguments.arg(&self.prefix).arg(&epoch);
        ScriptCall { step, epoch, arguments }
    }

    /// Runs a script.
    pub(super) async fn run(&self, call: ScriptCall<'_>) -> StoreResult<Value> {
        self.run_on(&self.connection, &call).await
    }

    /// Runs a script whose reply is a list.
    pub(super) async fn read(&self, call: ScriptCall<'_>) -> StoreResult<ScriptReply> {
        ScriptReply::new(self.run(call).await?)
    }

    /// Runs a script whose reply is one number.
    pub(super) async fn read_number(&self, call: ScriptCall<'_>) -> StoreResult<u64> {
        reply::number(&self.run(call).await?)
    }

    /// Runs a script page by page: each reply names the last entry of a page, and the last reply none.
    pub(super) async fn run_pages<'a>(&self, page: impl Fn(&[u8]) -> ScriptCall<'a>) -> StoreResult<()> {
        let mut after = Vec::new();
        loop {
            match self.run(page(&after)).await? {
                Value::BulkString(last) if !last.is_empty() => after = last,
                _ => return Ok(()),
            }
        }
    }

    async fn run_on(&self, connection: &RedisConnection, call: &ScriptCall<'_>) -> StoreResult<Value> {
        match self.data_loss.queue_state() {
            QueueState::Intact => {}
            QueueState::LossReported => return Err(error_map::queue_lost()),
            QueueState::Recoverable => {
                self.reinitialize_once().await?;
                // This call was meant for the lost queue.
                return Err(error_map::queue_lost());
            }
        }
        let library = &self.scripts.library;
        let sent = (call.step, &call.arguments);
        let answer = self.transport.run(connection, self, library, sent).await;
        answer.inspect_err(|error| {
            // A call that began before the reinitialization says nothing about the new queue.
            if error.is_lost() && call.epoch == self.epoch() {
                self.data_loss.record();
            }
        })
    }

    async fn reinitialize_once(&self) -> StoreResult<()> {
        let _alone = self.data_loss.reinitializing.lock().await;
        match self.data_loss.queue_state() {
            QueueState::Recoverable => self.reinitialize().await,
            QueueState::Intact | QueueState::LossReported => Ok(()),
        }
    }

    /// Runs a script, and waits for replicas of its writes if the options ask for it.
    pub(super) async fn run_replicated(&self, call: ScriptCall<'_>) -> StoreResult<Value> {
        let Some(wait) = self.replica_wait else {
            return self.run(call).await;
        };
        let connection = &self.replicated;
        let number = connection.ensure_open_number(self).await?;
        let answer = self.run_on(connection, &call).await?;
        let mut command = cmd("WAIT");
        let timeout = micros(wait.timeout).div_ceil(1_000).max(1);
        command.arg(wait.count).arg(timeout);
        let copies = connection
            .send(self, &command)
            .await
            .map_err(|_| unconfirmed(wait.timeout))?;
        // The server only waits for writes of this connection; on another one the confirmation is
        // void.
        let same = connection.open_number().await == Some(number);
        if !same || reply::number(&copies)? < u64::from(wait.count) {
            return Err(unconfirmed(wait.timeout));
        }
        Ok(answer)
    }

    pub(super) async fn send(&self, command: &Cmd) -> StoreResult<Value> {
        self.connection.send(self, command).await
    }

    fn epoch(&self) -> String {
        self.epoch.lock().clone()
    }

    fn set_epoch(&self, id: String) {
        *self.epoch.lock() = id;
    }

    fn init_command(&self, server: &ServerInfo) -> Cmd {
        let mut command = cmd("EVAL");
        command.arg(self.scripts.init).arg(KEYS.len());
        for key in KEYS {
            command.arg(self.key(key));
        }
        let may_create = u8::from(self.data_loss.may_reinitialize());
        command
            .arg(&self.prefix)
            .arg(random_word(20))
            .arg(self.epoch())
            .arg(&server.run_id)
            .arg(may_create)
            .arg(u8::from(server.has_libraries));
        command
    }
}

impl ConnectionSetup for ScriptRunner {
    async fn set_up(&self, wire: &mut MultiplexedConnection, info: &str) -> StoreResult<()> {
        let server = ServerInfo::parse(info)?;
        self.transport.set_server(&server);
        let answer: Value = self
            .init_command(&server)
            .query_async(wire)
            .await
            .map_err(|error| error_map::map_reply_error(&error))?;
        let mut reply = ScriptReply::new(answer)?;
        let (id, last) = (text(reply.bytes()?)?, text(reply.bytes()?)?);
        self.failover.observe_server(server.run_id, &last);
        // The server was reached but lost the queue: the connection stays, and every call reports
        // the loss.
        if id == "LOST" {
            self.data_loss.record();
            // The loss makes the notice of a failover redundant.
            self.failover.take_notice();
            return Ok(());
        }
        self.set_epoch(id);
        self.data_loss.clear();
        Ok(())
    }
}

fn text(bytes: Bytes) -> StoreResult<String> {
    String::from_utf8(bytes.into()).map_err(|_| unexpected_reply())
}

fn unconfirmed(timeout: Duration) -> StoreError {
    StoreError::doubtful(format_args!(
        "too few replicas confirmed within {timeout:?}: the call was applied, and may be lost with the primary"
    ))
}
