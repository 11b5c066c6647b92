//! Calls of scripts: sent by their hash, and in full once the server has forgotten them.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, Cmd, ToRedisArgs, Value, cmd};

use super::connection::{Connection, Greeting};
use super::fault::{self, strange};
use super::options::{RedisOptions, Replicas};
use super::record::micros;
use super::reply::number;
use super::scripts::{Code, Scripts};
use super::server::Server;
use super::submit::random_word;
use crate::error::StoreError;
use crate::jobs::Answer;

/// Whoever calls scripts.
pub(super) struct Caller {
    connection: Connection,
    pub(super) scripts: Scripts,
    prefix: String,
    wait: Option<Replicas>,
    epoch: Mutex<String>,
    lost: AtomicBool,
    anew: AtomicBool,
}

/// What is passed to a script.
pub(super) struct Call<'a> {
    code: &'a Code,
    command: Cmd,
}

impl Call<'_> {
    pub(super) fn arg(mut self, argument: impl ToRedisArgs) -> Self {
        self.command.arg(argument);
        self
    }

    pub(super) fn push(&mut self, argument: impl ToRedisArgs) {
        self.command.arg(argument);
    }
}

impl Caller {
    pub(super) fn new(client: Client, options: &RedisOptions) -> Self {
        let config = AsyncConnectionConfig::new();
        Self {
            connection: Connection::new(client, config, options.timeout),
            scripts: Scripts::new(),
            prefix: format!("{{{}}}:", options.queue),
            wait: options.wait_replicas,
            epoch: Mutex::default(),
            lost: AtomicBool::new(false),
            anew: AtomicBool::new(false),
        }
    }

    pub(super) fn prefix(&self) -> &str {
        &self.prefix
    }

    pub(super) fn key(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    pub(super) fn lost(&self) -> bool {
        self.lost.load(Ordering::Relaxed)
    }

    /// Connects, if there is no connection.
    pub(super) async fn reach(&self) -> Answer<()> {
        self.send(&cmd("PING")).await.map(drop)
    }

    pub(super) async fn begin_anew(&self) -> Answer<()> {
        self.anew.store(true, Ordering::Relaxed);
        let open = self.connection.ready(self).await?;
        self.connection.drop_if(&open).await;
        self.reach().await
    }

    pub(super) fn call<'a>(&self, code: &'a Code) -> Call<'a> {
        let mut command = cmd("EVALSHA");
        command.arg(&code.hash).arg(code.keys.len());
        for key in code.keys {
            command.arg(self.key(key));
        }
        command.arg(&self.prefix).arg(self.epoch());
        Call { code, command }
    }

    /// Runs a script.
    pub(super) async fn run(&self, call: Call<'_>) -> Answer<Value> {
        if self.lost() {
            return Err(fault::lost());
        }
        let answer = match self.send(&call.command).await {
            Err(error) if fault::is_unknown_script(&error) => {
                let mut load = cmd("SCRIPT");
                load.arg("LOAD").arg(&call.code.text);
                self.send(&load).await?;
                self.send(&call.command).await
            }
            answer => answer,
        };
        answer.inspect_err(|error| {
            if error.is_damaged() && error.to_string() == fault::lost().to_string() {
                self.lost.store(true, Ordering::Relaxed);
            }
        })
    }

    /// Runs a script, and waits for the copies of what it wrote if that was asked for.
    pub(super) async fn run_safely(&self, call: Call<'_>) -> Answer<Value> {
        let answer = self.run(call).await?;
        let Some(wait) = self.wait else {
            return Ok(answer);
        };
        let mut command = cmd("WAIT");
        let patience = micros(wait.timeout).div_ceil(1_000).max(1);
        command.arg(wait.count).arg(patience);
        let copies = self
            .send(&command)
            .await
            .map_err(|_| unconfirmed(wait.timeout))?;
        if number(&copies)? < u64::from(wait.count) {
            return Err(unconfirmed(wait.timeout));
        }
        Ok(answer)
    }

    pub(super) async fn send(&self, command: &Cmd) -> Answer<Value> {
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

    fn greeting(&self, server: &Server) -> Cmd {
        let greet = &self.scripts.greet;
        let mut command = cmd("EVAL");
        command.arg(&greet.text).arg(greet.keys.len());
        for key in greet.keys {
            command.arg(self.key(key));
        }
        let anew = u8::from(self.anew.load(Ordering::Relaxed));
        command
            .arg(&self.prefix)
            .arg(random_word(20))
            .arg(self.epoch())
            .arg(&server.run)
            .arg(anew);
        command
    }
}

impl Greeting for Caller {
    async fn greet(&self, wire: &mut MultiplexedConnection) -> Answer<()> {
        let info: String = cmd("INFO")
            .query_async(wire)
            .await
            .map_err(|error| fault::before(&error))?;
        let server = Server::read(&info)?;
        let answer: Value = self
            .greeting(&server)
            .query_async(wire)
            .await
            .map_err(|error| fault::after(&error))?;
        let Value::BulkString(id) = answer else {
            return Err(strange());
        };
        let id = String::from_utf8(id).map_err(|_| strange())?;
        // Reached, but not what it was: the connection stays, and every call says so.
        if id == "LOST" {
            self.lost.store(true, Ordering::Relaxed);
            return Ok(());
        }
        self.set_epoch(id);
        self.lost.store(false, Ordering::Relaxed);
        self.anew.store(false, Ordering::Relaxed);
        Ok(())
    }
}

fn unconfirmed(patience: Duration) -> StoreError {
    StoreError::doubtful(format_args!(
        "too few replicas confirmed within {patience:?}: it happened, and may be lost with the primary"
    ))
}
