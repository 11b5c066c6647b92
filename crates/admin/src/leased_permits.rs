//! Permits leased to other programs.
//!
//! A program that sends with its own client may die with a permit. So it gets a number and a lease for it. Until
//! the lease expires, it can settle the permit. Afterwards the call counts as sent and as arrived at the last
//! moment, which is the worst case. The permits themselves stay here. Numbers are random, because a number is
//! enough to settle a permit.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::str::FromStr;

use outflow::{CancelToken, Permit};
use outflow_core::{Clock, Nanos};
use outflow_sync::Mutex;
use tokio::sync::Notify;

/// All leased permits.
#[derive(Debug, Default)]
pub(crate) struct LeasedPermits {
    table: Mutex<LeaseTable>,
    /// Notified of a lease that ends before all others.
    earlier_end: Notify,
}

#[derive(Debug, Default)]
struct LeaseTable {
    held: HashMap<PermitNumber, PermitLease>,
    ends: BTreeSet<(Nanos, PermitNumber)>,
    closed: bool,
}

#[derive(Debug)]
struct PermitLease {
    permit: Permit,
    until: Nanos,
}

impl LeasedPermits {
    /// Leases a permit until this instant. It counts as sent from now on, because its holder does not report
    /// the time of sending.
    ///
    /// # Errors
    /// If too many permits are leased or the program stops. The permit is refunded then.
    pub(crate) fn lease(&self, mut permit: Permit, until: Nanos) -> Result<PermitNumber, LeaseError> {
        let number = PermitNumber::random()?;
        permit.sending();
        let inserted = self.table.lock().insert(number, PermitLease { permit, until });
        match inserted {
            Ok(ends_first) => {
                if ends_first {
                    self.earlier_end.notify_one();
                }
                Ok(number)
            }
            Err((lease, error)) => {
                lease.permit.refund();
                Err(error)
            }
        }
    }

    /// Checks that another permit can be leased, so that a caller does not wait for one in vain.
    ///
    /// # Errors
    /// If no permit can be leased.
    pub(crate) fn check_capacity(&self) -> Result<(), LeaseError> {
        self.table.lock().check_capacity()
    }

    /// Takes a permit back; returns `None` if its lease expired or its number is unknown.
    pub(crate) fn take(&self, number: PermitNumber, now: Nanos) -> Option<Permit> {
        let lease = {
            let mut table = self.table.lock();
            let lease = table.held.remove(&number)?;
            table.ends.remove(&(lease.until, number));
            lease
        };
        // A permit that is dropped counts as sent and lost.
        (lease.until > now).then_some(lease.permit)
    }

    /// Returns the number of leased permits.
    pub(crate) fn count(&self) -> usize {
        self.table.lock().held.len()
    }

    /// Ends leases when they expire; ends all of them when the program stops.
    pub(crate) async fn expire_leases(&self, clock: &impl Clock, stop: CancelToken) {
        loop {
            let next = self.expire_due(clock.now());
            let due = async {
                match next {
                    Some(at) => tokio::time::sleep(at.since(clock.now())).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = due => {}
                () = self.earlier_end.notified() => {}
                () = stop.cancelled() => return self.close(),
            }
        }
    }

    /// Ends every expired lease and returns the end of the next one.
    fn expire_due(&self, now: Nanos) -> Option<Nanos> {
        let mut lost = Vec::new();
        let mut table = self.table.lock();
        while let Some((end, number)) = table.ends.first().copied().filter(|(end, _)| *end <= now) {
            table.ends.remove(&(end, number));
            lost.extend(table.held.remove(&number));
        }
        let next = table.ends.first().map(|(end, _)| *end);
        // Dropping a permit locks its upstream and calls observers.
        drop(table);
        drop(lost);
        next
    }

    fn close(&self) {
        let lost = {
            let mut table = self.table.lock();
            table.closed = true;
            table.ends.clear();
            std::mem::take(&mut table.held)
        };
        drop(lost);
    }
}

impl LeaseTable {
    /// Inserts a lease; returns true if it ends before all others. A rejected lease is returned, so that the
    /// caller refunds its permit without the lock.
    fn insert(&mut self, number: PermitNumber, lease: PermitLease) -> Result<bool, (PermitLease, LeaseError)> {
        if let Err(error) = self.check_capacity() {
            return Err((lease, error));
        }
        let ends_first = self.ends.first().is_none_or(|(end, _)| lease.until < *end);
        self.ends.insert((lease.until, number));
        self.held.insert(number, lease);
        Ok(ends_first)
    }

    fn check_capacity(&self) -> Result<(), LeaseError> {
        match self.closed {
            true => Err(LeaseError::Stopping),
            false if self.held.len() >= MAX_LEASES => Err(LeaseError::TooMany),
            false => Ok(()),
        }
    }
}

/// Reason why a permit was not leased.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LeaseError {
    /// Too many permits are leased.
    TooMany,
    /// The program stops.
    Stopping,
    /// The system has no randomness.
    NoRandomness,
}

/// Number of a leased permit: 128 random bits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct PermitNumber(u128);

impl PermitNumber {
    fn random() -> Result<Self, LeaseError> {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).map_err(|_| LeaseError::NoRandomness)?;
        Ok(Self(u128::from_ne_bytes(bytes)))
    }
}

impl fmt::Display for PermitNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl FromStr for PermitNumber {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let digits = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let value = u128::from_str_radix(text, 16).ok().filter(|_| digits);
        value.map(Self).ok_or(())
    }
}

/// Enough for the busiest program, and a few megabytes for one that never settles.
const MAX_LEASES: usize = 65_536;

#[cfg(test)]
mod tests;
