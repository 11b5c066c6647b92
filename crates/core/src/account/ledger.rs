//! The store of accounts, as a holder sees it.
//!
//! A ledger may be a file, a server or memory. It answers from any thread, so that neither a caller nor
//! the lock of a limiter ever waits for it.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

use crate::Limit;
use crate::account::{CallArrivals, FactUpdate, LeaseAnswer, LeaseRenewal, LeaseUnits, QuotaWant, RenewalRefusal};

/// Store of accounts that several processes share.
///
/// An account exists from its first renewal on, and disappears once nothing of it counts.
pub trait QuotaLedger: fmt::Debug + Send + Sync {
    /// Sends a renewal to an account. `reply` gets the answer once, from any thread, also before this
    /// function returns.
    fn renew(&self, account: &str, request: Arc<LeaseRequest>, reply: RenewalReply);

    /// Notifies an observer when another holder changes the shared facts of an account, until the observer
    /// is dropped.
    fn watch(&self, account: &str, observer: Weak<dyn FactsObserver>);

    /// Returns a fingerprint of a credential, equal for all holders that use this ledger.
    fn fingerprint(&self, credential: &[u8]) -> u64;

    /// Returns the terms that fit its distance.
    fn terms(&self) -> LedgerTerms {
        LedgerTerms::HOST
    }

    /// Returns false if it cannot be used now, as far as is known.
    fn is_usable(&self) -> bool {
        true
    }

    /// Waits until every renewal so far is answered. Returns false if that takes longer than `patience`.
    fn flush(&self, patience: Duration) -> bool;
}

/// Terms of the leases on a ledger.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LedgerTerms {
    /// Term of a lease: a process without its ledger spends what it holds for this long.
    pub ttl: Duration,
    /// Time for which a call that does not want to wait waits for an answer.
    pub patience: Duration,
}

impl LedgerTerms {
    /// For a ledger on the same host, which answers within a millisecond.
    pub const HOST: Self = Self {
        ttl: Duration::from_secs(2),
        patience: Duration::from_millis(5),
    };
    /// For a ledger on a server, which may restart.
    pub const SERVER: Self = Self {
        ttl: Duration::from_secs(5),
        patience: Duration::from_millis(500),
    };
}

/// Receiver of the answer to one renewal.
pub type RenewalReply = Box<dyn FnOnce(Result<LeaseAnswer, LedgerError>) + Send>;

/// Holder that wants to know when shared facts change.
pub trait FactsObserver: Send + Sync {
    /// Other holders changed the facts of this account. A renewal reads them.
    fn facts_changed(&self, account: &str);
}

/// Reason that a ledger has no answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LedgerError {
    /// The account refuses the renewal.
    Refused(RenewalRefusal),
    /// The ledger did not answer. The renewal may have been counted: repeat it unchanged.
    Unreachable(String),
}

impl fmt::Display for LedgerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(refusal) => refusal.fmt(f),
            Self::Unreachable(reason) => f.write_str(reason),
        }
    }
}

impl core::error::Error for LedgerError {}

/// A renewal on its way to a ledger; its fields are those of [`LeaseRenewal`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LeaseRequest {
    /// Name of the holder, unique for each life of a process.
    pub holder: u64,
    /// Number of the renewal.
    pub number: u64,
    /// Join number from the first answer.
    pub joined: u64,
    /// Limits of the holder.
    pub limits: Vec<Limit>,
    /// Calls that arrived since the last renewal.
    pub arrived: Vec<CallArrivals>,
    /// Units that were never sent.
    pub returned: LeaseUnits,
    /// Units wanted now.
    pub wanted: QuotaWant,
    /// Term of the lease.
    pub ttl: Duration,
    /// Longest time from sending a call to its last possible arrival.
    pub timeout: Duration,
    /// Generation of the facts that the holder knows.
    pub facts_seen: u64,
    /// Facts to share: the generation they replace, their words and their lifetime.
    pub facts: Option<(u64, Vec<u64>, Duration)>,
}

impl LeaseRequest {
    /// Borrows the request for an account.
    pub fn as_renewal(&self) -> LeaseRenewal<'_> {
        LeaseRenewal {
            holder: self.holder,
            number: self.number,
            joined: self.joined,
            limits: &self.limits,
            arrived: &self.arrived,
            returned: self.returned,
            wanted: self.wanted,
            ttl: self.ttl,
            timeout: self.timeout,
            facts_seen: self.facts_seen,
            facts: self.facts.as_ref().map(|(based_on, words, lifetime)| FactUpdate {
                based_on: *based_on,
                words,
                lifetime: *lifetime,
            }),
        }
    }
}
