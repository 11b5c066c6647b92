//! Script calls: functions where the server has them, scripts elsewhere. A script that the server
//! forgot is sent again in full.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, Cmd, ToRedisArgs, Value, cmd};

use super::connection::{ConnectionSetup, RedisConnection};
use super::data_loss::{DataLoss, QueueState};
use super::error_map::{self, strange};
use super::failover::{CONFIRMED, Failover, UNCONFIRMED};
use super::job_codec::micros;
use super::options::{RedisOptions, ReplicaWait};
use super::reply::{self, ScriptReply};
use super::scripts::{KEYS, ScriptStep, Scripts};
use super::server_info::ServerInfo;
use super::submit::random_word;
use crate::contract::StoreResult;
use crate::error::StoreError;

/// Runner of the store's scripts on one server.
pub(super) struct ScriptRunner {
    connection: RedisConnection,
    /// Connection of calls that wait for replicas. A waiting server takes nothing else on that
    /// connection, and heartbeats and claims must not queue behind it.
    confirming: RedisConnection,
    pub(super) scripts: Scripts,
    prefix: String,
    wait: Option<ReplicaWait>,
    epoch: Mutex<String>,
    loss: DataLoss,
    takeover: Failover,
    /// Set if the server is known to have functions.
    functions: AtomicBool,
    /// Set if the server denies functions to this user.
    forbidden: AtomicBool,
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

    /// Builds the command that passes the arguments.
    fn command(&self, name: &str, of: &str) -> Cmd {
        let mut command = cmd(name);
        command.arg(of);
        for argument in self.arguments.args_iter() {
            if let redis::Arg::Simple(bytes) = argument {
                command.arg(bytes);
            }
        }
        command
    }
}

impl ScriptRunner {
    pub(super) fn new(client: Client, options: &RedisOptions) -> Self {
        let config = AsyncConnectionConfig::new();
        Self {
            confirming: RedisConnection::new(client.clone(), config.clone(), options.timeout),
            connection: RedisConnection::new(client, config, options.timeout),
            scripts: Scripts::new(),
            prefix: format!("{{{}}}:", options.queue),
            wait: options.wait_replicas,
            epoch: Mutex::default(),
            loss: DataLoss::default(),
            takeover: Failover::default(),
            functions: AtomicBool::new(false),
            forbidden: AtomicBool::new(false),
        }
    }

    pub(super) fn prefix(&self) -> &str {
        &self.prefix
    }

    pub(super) fn key(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    pub(super) fn lost(&self) -> bool {
        self.loss.standing() != QueueState::Whole
    }

    /// Takes the warning about a failover that made no call fail.
    pub(super) fn warning(&self) -> Option<String> {
        let words = self.wait.map_or(UNCONFIRMED, |_| CONFIRMED);
        self.takeover.take_notice().then(|| words.to_owned())
    }

    /// Connects, if no connection is open.
    pub(super) async fn reach(&self) -> StoreResult<()> {
        self.send(&cmd("PING")).await.map(drop)
    }

    pub(super) async fn reinitialize(&self) -> StoreResult<()> {
        self.loss.allow();
        let open = self.connection.ready(self).await?;
        self.connection.drop_if(&open).await;
        self.reach().await
    }

    pub(super) fn call<'a>(&self, step: &'a ScriptStep) -> ScriptCall<'a> {
        let (mut arguments, epoch) = (Cmd::new(), self.epoch());
        arguments.arg(1).arg(self.key("epoch"));
        arguments.arg(&self.prefix).arg(&epoch);
        ScriptCall {
            step,
            epoch,
            arguments,
        }
    }

    /// Runs a script.
    pub(super) async fn run(&self, call: ScriptCall<'_>) -> StoreResult<Value> {
        self.run_over(&self.connection, &call).await
    }

    async fn run_over(&self, way: &RedisConnection, call: &ScriptCall<'_>) -> StoreResult<Value> {
        match self.loss.standing() {
            QueueState::Whole => {}
            QueueState::Mourned => return Err(error_map::lost()),
            QueueState::Over => {
                self.begin_by_itself().await?;
                // This call was meant for the lost queue.
                return Err(error_map::lost());
            }
        }
        let answer = match self.try_function(way, call).await {
            Some(answer) => answer,
            None => self.run_script(way, call).await,
        };
        answer.inspect_err(|error| {
            // A call that began before the reinitialization says nothing about the new queue.
            if error.is_lost() && call.epoch == self.epoch() {
                self.loss.notice();
            }
        })
    }

    async fn begin_by_itself(&self) -> StoreResult<()> {
        let _alone = self.loss.beginning.lock().await;
        match self.loss.standing() {
            QueueState::Over => self.reinitialize().await,
            QueueState::Whole | QueueState::Mourned => Ok(()),
        }
    }

    /// Runs the function of a step, or returns `None` if functions are unavailable.
    async fn try_function(
        &self,
        way: &RedisConnection,
        call: &ScriptCall<'_>,
    ) -> Option<StoreResult<Value>> {
        if !self.functions.load(Ordering::Relaxed) || self.forbidden.load(Ordering::Relaxed) {
            return None;
        }
        let command = call.command("FCALL", &call.step.function);
        let mut answer = way.send(self, &command).await;
        if answer.as_ref().is_err_and(error_map::is_unknown_script) {
            let mut load = cmd("FUNCTION");
            load.arg("LOAD").arg(&self.scripts.library);
            // Another process may have loaded it first; the call itself shows if it exists.
            answer = match way.send(self, &load).await {
                Err(error) if error_map::is_forbidden(&error) => Err(error),
                // A full server takes no library, but scripts.
                Err(error) if error.is_full() => return None,
                _ => way.send(self, &command).await,
            };
        }
        if answer.as_ref().is_err_and(error_map::is_forbidden) {
            self.forbidden.store(true, Ordering::Relaxed);
            return None;
        }
        Some(answer)
    }

    async fn run_script(&self, way: &RedisConnection, call: &ScriptCall<'_>) -> StoreResult<Value> {
        let command = call.command("EVALSHA", &call.step.hash);
        match way.send(self, &command).await {
            Err(error) if error_map::is_unknown_script(&error) => {
                let mut load = cmd("SCRIPT");
                load.arg("LOAD").arg(&call.step.text);
                way.send(self, &load).await?;
                way.send(self, &command).await
            }
            answer => answer,
        }
    }

    /// Runs a script, and waits for replicas of its writes if the options ask for it.
    pub(super) async fn run_safely(&self, call: ScriptCall<'_>) -> StoreResult<Value> {
        let Some(wait) = self.wait else {
            return self.run(call).await;
        };
        let way = &self.confirming;
        let number = way.opened(self).await?;
        let answer = self.run_over(way, &call).await?;
        let mut command = cmd("WAIT");
        let patience = micros(wait.timeout).div_ceil(1_000).max(1);
        command.arg(wait.count).arg(patience);
        let copies = way
            .send(self, &command)
            .await
            .map_err(|_| unconfirmed(wait.timeout))?;
        // The server only waits for writes of this connection; on another one the confirmation is
        // void.
        let same = way.number().await == Some(number);
        if !same || reply::number(&copies)? < u64::from(wait.count) {
            return Err(unconfirmed(wait.timeout));
        }
        Ok(answer)
    }

    pub(super) async fn send(&self, command: &Cmd) -> StoreResult<Value> {
        self.connection.send(self, command).await
    }

    fn epoch(&self) -> String {
        let epoch = self.epoch.lock();
        epoch.map_or_else(|broken| broken.into_inner().clone(), |epoch| epoch.clone())
    }

    fn set_epoch(&self, id: String) {
        let mut epoch = self
            .epoch
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        *epoch = id;
    }

    fn greeting(&self, server: &ServerInfo) -> Cmd {
        let mut command = cmd("EVAL");
        command.arg(self.scripts.greet).arg(KEYS.len());
        for key in KEYS {
            command.arg(self.key(key));
        }
        let anew = u8::from(self.loss.is_allowed());
        command
            .arg(&self.prefix)
            .arg(random_word(20))
            .arg(self.epoch())
            .arg(&server.run)
            .arg(anew)
            .arg(u8::from(server.was_used));
        command
    }
}

impl ConnectionSetup for ScriptRunner {
    async fn greet(&self, wire: &mut MultiplexedConnection) -> StoreResult<()> {
        let info: String = cmd("INFO")
            .query_async(wire)
            .await
            .map_err(|error| error_map::before(&error))?;
        let server = ServerInfo::read(&info)?;
        self.functions.store(server.functions, Ordering::Relaxed);
        let answer: Value = self
            .greeting(&server)
            .query_async(wire)
            .await
            .map_err(|error| error_map::after(&error))?;
        let mut reply = ScriptReply::new(answer)?;
        let (id, last) = (words(reply.bytes()?)?, words(reply.bytes()?)?);
        self.takeover.meet(server.run, &last);
        // The server was reached but lost the queue: the connection stays, and every call reports
        // the loss.
        if id == "LOST" {
            self.loss.notice();
            // The loss makes the notice of a failover redundant.
            self.takeover.take_notice();
            return Ok(());
        }
        self.set_epoch(id);
        self.loss.end();
        Ok(())
    }
}

fn words(bytes: Bytes) -> StoreResult<String> {
    String::from_utf8(bytes.into()).map_err(|_| strange())
}

fn unconfirmed(patience: Duration) -> StoreError {
    StoreError::doubtful(format_args!(
        "too few replicas confirmed within {patience:?}: it happened, and may be lost with the primary"
    ))
}
