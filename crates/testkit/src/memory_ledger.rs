//! A ledger in memory, with the transfer times and failures of a real one.
//!
//! It holds the accounts that files and servers hold in production, and reads the virtual time. Each
//! simulated process connects by a link of its own, which a test can cut: requests and answers on their
//! way are lost then, as when a process is killed or a server is gone.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use outflow_core::{Account, Clock, FactsObserver, LeaseAnswer, LeaseRequest, LedgerError, QuotaLedger, RenewalReply};
use outflow_sync::Mutex;

use crate::{Background, VirtualTime};

/// Accounts of several simulated processes.
pub struct MemoryLedger {
    time: VirtualTime,
    accounts: Mutex<HashMap<String, Account>>,
    observers: Mutex<Vec<(String, Weak<dyn FactsObserver>)>>,
    renewals: AtomicU64,
}

impl MemoryLedger {
    /// Builds a ledger without accounts.
    pub fn new(time: VirtualTime) -> Arc<Self> {
        Arc::new(Self {
            time,
            accounts: Mutex::default(),
            observers: Mutex::default(),
            renewals: AtomicU64::new(0),
        })
    }

    /// Connects a process; each transfer takes this time.
    pub fn connect(self: &Arc<Self>, transfer: Duration) -> Arc<LedgerLink> {
        Arc::new(LedgerLink {
            ledger: Arc::clone(self),
            transfer,
            is_cut: Arc::default(),
            transfers: Mutex::default(),
        })
    }

    /// Forgets all accounts, as a server without its data.
    pub fn lose_accounts(&self) {
        self.accounts.lock().clear();
    }

    /// Returns the number of renewals that it answered.
    pub fn renewals(&self) -> u64 {
        self.renewals.load(Ordering::Relaxed)
    }

    fn renew(&self, name: &str, request: &LeaseRequest) -> Result<LeaseAnswer, LedgerError> {
        self.renewals.fetch_add(1, Ordering::Relaxed);
        let mut accounts = self.accounts.lock();
        let moment = self.time.moment();
        let account = accounts.entry(name.to_owned()).or_insert_with(|| Account::new(moment));
        let answer = account
            .renew(moment.now, &request.as_renewal())
            .map_err(LedgerError::Refused);
        drop(accounts);
        if request.facts.is_some() {
            self.notify(name);
        }
        answer
    }

    fn notify(&self, account: &str) {
        let mut observers = self.observers.lock();
        observers.retain(|(_, observer)| observer.strong_count() > 0);
        let concerned = observers.iter().filter(|(name, _)| name == account);
        let concerned: Vec<_> = concerned.filter_map(|(_, observer)| observer.upgrade()).collect();
        drop(observers);
        for observer in concerned {
            observer.facts_changed(account);
        }
    }
}

impl std::fmt::Debug for MemoryLedger {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.accounts.lock().keys()).finish()
    }
}

/// Connection of one simulated process to a [`MemoryLedger`].
#[derive(Debug)]
pub struct LedgerLink {
    ledger: Arc<MemoryLedger>,
    transfer: Duration,
    is_cut: Arc<AtomicBool>,
    transfers: Mutex<Vec<Background<()>>>,
}

impl LedgerLink {
    /// Loses everything on its way, and fails every later renewal.
    pub fn cut(&self) {
        self.is_cut.store(true, Ordering::Relaxed);
    }

    /// Transfers again.
    pub fn mend(&self) {
        self.is_cut.store(false, Ordering::Relaxed);
    }
}

impl QuotaLedger for LedgerLink {
    fn renew(&self, account: &str, request: Arc<LeaseRequest>, reply: RenewalReply) {
        let (ledger, is_cut) = (Arc::clone(&self.ledger), Arc::clone(&self.is_cut));
        let (account, transfer) = (account.to_owned(), self.transfer);
        let sent = Background::start(async move {
            let lost = || is_cut.load(Ordering::Relaxed);
            let gone = || {
                Err(LedgerError::Unreachable(
                    "the test cut the link to the ledger".to_owned(),
                ))
            };
            tokio::time::sleep(transfer).await;
            if lost() {
                return reply(gone());
            }
            let answer = ledger.renew(&account, &request);
            tokio::time::sleep(transfer).await;
            reply(if lost() { gone() } else { answer });
        });
        let mut transfers = self.transfers.lock();
        transfers.retain(|transfer| !transfer.is_over());
        transfers.push(sent);
    }

    fn watch(&self, account: &str, observer: Weak<dyn FactsObserver>) {
        self.ledger.observers.lock().push((account.to_owned(), observer));
    }

    fn fingerprint(&self, credential: &[u8]) -> u64 {
        let digits = credential.iter().map(|byte| u64::from(*byte));
        digits.fold(0, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte))
    }

    /// Renewals are answered as virtual time passes, so there is nothing to wait for.
    fn flush(&self, _patience: Duration) -> bool {
        true
    }
}
