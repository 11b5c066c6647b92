//! Accounts of limits in Redis or Valkey, which processes of many machines share.
//!
//! A renewal is one script call: the server's thread applies the law of the core's account, so no lock and no
//! second trip is needed. Accounts have a time to live, and disappear once nothing of them counts.
//!
//! Callers have no async runtime in general, so one thread serves all renewals of a process. They share one
//! connection, and none waits for another's reply.

mod facts_subscriber;
mod ledger_runner;
mod ledger_scripts;
mod ledger_worker;
mod renewal_codec;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, Weak};
use std::time::Duration;

use outflow_core::{
    Clock, FactsObserver, LeaseRequest, LedgerError, LedgerTerms, LimitUsage, QuotaLedger, RenewalReply,
};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use self::facts_subscriber::FactsSubscriber;
use self::ledger_runner::LedgerRunner;
use self::ledger_worker::{LedgerCommand, LedgerWorker};
use super::options::RedisOptions;
use super::server_locator::ServerLocator;
use crate::contract::StoreResult;
use crate::error::StoreError;

/// Clock that the thread of a ledger shares with the process.
pub(crate) type SharedClock = Arc<dyn Clock + Send + Sync>;

/// Accounts of limits on a server.
///
/// Clones share one thread, which ends once all are dropped.
#[derive(Clone)]
pub struct RedisLedger {
    commands: UnboundedSender<LedgerCommand>,
    name: Arc<str>,
    /// False from a renewal that failed until one that succeeds.
    answers: Arc<AtomicBool>,
}

/// One account on a server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RedisAccount {
    /// Its name: the API, its origin and its credential, and the group if it is one's.
    pub name: String,
    /// Time since its last renewal.
    pub age: Duration,
    /// Limits in force with their usage by all processes.
    pub usage: Vec<LimitUsage>,
    /// Calls and cost that each process holds.
    pub held: Vec<(u64, u64)>,
}

impl RedisLedger {
    /// Starts a ledger on the server of these options. Processes with the same `queue` share their accounts. It
    /// connects with the first renewal, and again after each failure.
    ///
    /// # Errors
    /// If the address cannot be read, or the system gives no thread.
    pub fn open(options: &RedisOptions, clock: SharedClock) -> StoreResult<Self> {
        options.check()?;
        let (notices, facts) = unbounded_channel();
        let subscriber = FactsSubscriber::new(ServerLocator::new(options)?, options, notices);
        let runner = LedgerRunner::new(Arc::new(ServerLocator::new(options)?), options, clock);
        let (commands, queue) = unbounded_channel();
        let answers = Arc::new(AtomicBool::new(true));
        let worker = LedgerWorker::new(runner, subscriber, facts, Arc::clone(&answers));
        ledger_worker::start(worker, queue).map_err(|error| {
            StoreError::unreachable(format_args!(
                "the system gives no thread for the shared limits: {error}"
            ))
        })?;
        Ok(Self {
            commands,
            name: options.queue.as_str().into(),
            answers,
        })
    }

    /// Returns the name under which processes share accounts.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns all accounts in use.
    ///
    /// # Errors
    /// If the server does not answer.
    pub fn accounts(&self, patience: Duration) -> StoreResult<Vec<RedisAccount>> {
        self.ask(LedgerCommand::List, patience)
            .unwrap_or_else(|| Err(no_reply(patience)))
    }

    /// Forgets what an account counted, so that its limits are open at once. Returns false if there was none.
    ///
    /// # Errors
    /// If the server does not answer.
    pub fn forget(&self, account: &str, patience: Duration) -> StoreResult<bool> {
        let command = |reply| LedgerCommand::Forget(account.to_owned(), reply);
        self.ask(command, patience).unwrap_or_else(|| Err(no_reply(patience)))
    }

    fn ask<T>(&self, command: impl FnOnce(mpsc::Sender<T>) -> LedgerCommand, patience: Duration) -> Option<T> {
        let (reply, answer) = mpsc::channel();
        self.commands.send(command(reply)).ok()?;
        answer.recv_timeout(patience).ok()
    }
}

impl QuotaLedger for RedisLedger {
    fn renew(&self, account: &str, request: Arc<LeaseRequest>, reply: RenewalReply) {
        let sent = self.commands.send(LedgerCommand::Renew {
            account: account.to_owned(),
            request,
            reply,
        });
        if let Err(unsent) = sent
            && let LedgerCommand::Renew { reply, .. } = unsent.0
        {
            reply(Err(LedgerError::Unreachable("its thread has ended".to_owned())));
        }
    }

    fn watch(&self, account: &str, observer: Weak<dyn FactsObserver>) {
        let account = account.to_owned();
        let _a_ledger_without_thread_has_no_news = self.commands.send(LedgerCommand::Watch { account, observer });
    }

    fn fingerprint(&self, credential: &[u8]) -> u64 {
        let key = blake3::derive_key(FINGERPRINTS, self.name.as_bytes());
        let hash = blake3::keyed_hash(&key, credential);
        let (first, _) = hash.as_bytes().split_first_chunk().unwrap_or((&[0; 8], &[]));
        u64::from_le_bytes(*first)
    }

    fn terms(&self) -> LedgerTerms {
        LedgerTerms::SERVER
    }

    fn is_usable(&self) -> bool {
        self.answers.load(Ordering::Relaxed)
    }

    fn flush(&self, patience: Duration) -> bool {
        self.ask(LedgerCommand::Flush, patience).is_some()
    }
}

impl fmt::Debug for RedisLedger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisLedger")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// Context of the key for fingerprints of credentials.
const FINGERPRINTS: &str = "outflow shared limits: fingerprint of a credential";

fn no_reply(patience: Duration) -> StoreError {
    StoreError::unreachable(format_args!("redis did not answer within {patience:?}"))
}
