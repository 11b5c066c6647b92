//! Calls of the accounts' scripts on one server, which know the identity of the ledger.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use outflow_core::{LeaseAnswer, LeaseRequest, LedgerError, Nanos, RenewalRefusal};
use outflow_sync::Mutex;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Cmd, Value, cmd};

use super::ledger_scripts::LedgerScripts;
use super::renewal_codec::{self, RenewalArguments, RenewalReply};
use super::{RedisAccount, SharedClock};
use crate::contract::StoreResult;
use crate::error::StoreError;
use crate::redis::connection::{ConnectionSetup, RedisConnection};
use crate::redis::error_map;
use crate::redis::job_codec::micros;
use crate::redis::options::RedisOptions;
use crate::redis::reply::ScriptReply;
use crate::redis::script_transport::ScriptTransport;
use crate::redis::scripts::ScriptStep;
use crate::redis::server_info::ServerInfo;
use crate::redis::server_locator::ServerLocator;
use crate::redis::submit::random_word;

/// Runner of the accounts' scripts.
pub(super) struct LedgerRunner {
    connection: RedisConnection,
    scripts: LedgerScripts,
    transport: ScriptTransport,
    prefix: String,
    clock: SharedClock,
    /// Identity of the ledger, from the last handshake.
    identity: Mutex<String>,
    /// Local and server time of the last reply.
    last_reply: Mutex<Option<(Nanos, Duration)>>,
}

impl LedgerRunner {
    pub(super) fn new(locator: Arc<ServerLocator>, options: &RedisOptions, clock: SharedClock) -> Self {
        Self {
            connection: RedisConnection::new(locator, AsyncConnectionConfig::new(), options.timeout),
            scripts: LedgerScripts::new(),
            transport: ScriptTransport::default(),
            prefix: options.prefix(),
            clock,
            identity: Mutex::default(),
            last_reply: Mutex::default(),
        }
    }

    /// Connects, if no connection is open.
    pub(super) async fn ensure_connected(&self) -> StoreResult<()> {
        self.connection.ensure_open_number(self).await.map(drop)
    }

    /// Renews a lease.
    pub(super) async fn renew(&self, account: &str, request: &LeaseRequest) -> Result<LeaseAnswer, LedgerError> {
        let sent = self.clock.now();
        let reply = self.send_renewal(account, request).await;
        let reply = reply.map_err(|error| LedgerError::Unreachable(error.to_string()))?;
        if let Some(jumped_after) = self.note_time(sent, reply.server_time) {
            // What it granted may not have been free. The repetition finds the account closed.
            let closed = self.close_accounts(jumped_after).await;
            closed.map_err(|error| LedgerError::Unreachable(error.to_string()))?;
            return Err(LedgerError::Refused(RenewalRefusal::UnknownHolder));
        }
        reply.answer
    }

    pub(super) async fn send_renewal(&self, account: &str, request: &LeaseRequest) -> StoreResult<RenewalReply> {
        let arguments = RenewalArguments::new(request);
        let call = |mut call: Cmd| {
            call.arg(account).arg(&arguments.holder[..]).arg(&arguments.numbers);
            call.arg(&arguments.rules)
                .arg(&arguments.arrivals)
                .arg(&arguments.facts);
            call
        };
        let mut reply = ScriptReply::new(self.run(&self.scripts.renew, call).await?)?;
        RenewalReply::decode(&reply.bytes()?, &reply.bytes()?)
    }

    /// Lists all accounts in use.
    pub(super) async fn list_accounts(&self) -> StoreResult<Vec<RedisAccount>> {
        let (mut accounts, mut cursor) = (Vec::new(), Bytes::from_static(b"0"));
        while !cursor.is_empty() {
            let page = |mut call: Cmd| {
                call.arg(&cursor[..]);
                call
            };
            let mut reply = ScriptReply::new(self.run(&self.scripts.list_accounts, page).await?)?;
            cursor = reply.bytes()?;
            while !reply.is_empty() {
                accounts.push(read_account(&mut reply)?);
            }
        }
        Ok(accounts)
    }

    /// Forgets what an account counted. Returns false if there was none.
    pub(super) async fn forget_account(&self, account: &str) -> StoreResult<bool> {
        let name = |mut call: Cmd| {
            call.arg(account);
            call
        };
        let forgotten = self.run(&self.scripts.forget_account, name).await?;
        Ok(matches!(forgotten, Value::Int(1)))
    }

    async fn run(&self, step: &ScriptStep, with_arguments: impl Fn(Cmd) -> Cmd) -> StoreResult<Value> {
        // The handshake learns the identity that every call passes.
        self.ensure_connected().await?;
        let identity = self.identity.lock().clone();
        let mut call = Cmd::new();
        call.arg(1).arg(self.identity_key()).arg(&self.prefix).arg(&identity);
        let call = with_arguments(call);
        let sent = (step, &call);
        let answer = self
            .transport
            .run(&self.connection, self, &self.scripts.library, sent)
            .await;
        if answer.as_ref().is_err_and(StoreError::is_lost) {
            // The next handshake creates the ledger again, with an unknown past.
            let open = self.connection.ensure_open(self).await?;
            self.connection.drop_connection(&open).await;
        }
        answer
    }

    /// Compares the server's clock with this process's since the last reply. If it ran ahead, limits may have been
    /// granted too early: returns the earliest time that it can have jumped to.
    fn note_time(&self, sent: Nanos, server_time: Duration) -> Option<Duration> {
        let received = self.clock.now();
        let (last_sent, last_server) = self.last_reply.lock().replace((sent, server_time))?;
        // Calls overlap, so that a reply may be older than the last one.
        let elapsed = received.since(last_sent);
        let expected = last_server + elapsed + elapsed / DRIFT + JUMP;
        (server_time > expected).then(|| expected.max(server_time.saturating_sub(elapsed)))
    }

    /// Closes all accounts for a window, as after the replacement of the server, unless another process did so
    /// since the clock jumped to this time or a later one.
    async fn close_accounts(&self, jumped_after: Duration) -> StoreResult<()> {
        let mut call = cmd("EVAL");
        call.arg(CLOSE)
            .arg(1)
            .arg(self.identity_key())
            .arg(micros(jumped_after));
        self.connection.send(self, &call).await.map(drop)
    }

    fn identity_key(&self) -> String {
        format!("{}ledger", self.prefix)
    }
}

impl ConnectionSetup for LedgerRunner {
    async fn set_up(&self, wire: &mut MultiplexedConnection, info: &str) -> StoreResult<()> {
        let server = ServerInfo::parse(info)?;
        self.transport.set_server(&server);
        let mut exists = cmd("SCRIPT");
        exists.arg("EXISTS").arg(&self.scripts.renew.hash);
        // A user without this command learns of a loss from the processes that used the ledger before.
        let known: Vec<bool> = exists.query_async(wire).await.unwrap_or_default();
        let was_used = server.has_libraries || known == [true];
        let mut init = cmd("EVAL");
        init.arg(self.scripts.init).arg(1).arg(self.identity_key());
        init.arg(random_word(20)).arg(&*self.identity.lock());
        init.arg(&server.run_id).arg(u8::from(was_used)).arg(server.uptime);
        let identity: String = init
            .query_async(wire)
            .await
            .map_err(|error| error_map::map_reply_error(&error))?;
        *self.identity.lock() = identity;
        Ok(())
    }
}

fn read_account(reply: &mut ScriptReply) -> StoreResult<RedisAccount> {
    let name = renewal_codec::text(&reply.bytes()?)?;
    let numbers = renewal_codec::unpacked(&reply.bytes()?)?;
    let holds = renewal_codec::unpacked(&reply.bytes()?)?;
    let (age, limits) = numbers
        .split_first()
        .map_or((0, &[][..]), |(age, limits)| (*age, limits));
    Ok(RedisAccount {
        name,
        age: Duration::from_nanos(age),
        usage: renewal_codec::decode_usage(limits)?,
        held: holds
            .as_chunks()
            .0
            .iter()
            .map(|[calls, cost]| (*calls, *cost))
            .collect(),
    })
}

/// Difference of two clocks that run alike. A stall of either side explains none, because the span is measured
/// around both replies.
const JUMP: Duration = Duration::from_millis(200);

/// Two clocks differ by at most a thousandth.
const DRIFT: u32 = 1_000;

const CLOSE: &str = "local time = redis.call('TIME') \
     local now, moved = time[1] * 1000000 + time[2], tonumber(redis.call('HGET', KEYS[1], 'moved')) \
     if moved > tonumber(ARGV[1]) and moved <= now then return 0 end \
     return redis.call('HSET', KEYS[1], 'moved', string.format('%.0f', now))";
