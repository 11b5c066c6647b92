//! Permits in the hands of other programs.
//!
//! A program that sends by itself may die with a permit in its hand. So it gets a number for it and a
//! lease: until the lease is over it can say what became of the call, and afterwards the call counts
//! as sent and as arrived at the last moment, which is the worst that can have happened. The permits
//! themselves never leave. Numbers are random, because whoever knows one can settle it.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::str::FromStr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use outflow::{CancelToken, Permit};
use outflow_core::{Clock, Nanos};
use tokio::sync::Notify;

/// All permits that others hold.
#[derive(Debug, Default)]
pub(crate) struct LeasedPermits {
    table: Mutex<LeaseTable>,
    /// Told when a lease begins that ends before all others.
    sooner: Notify,
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
    /// Leaves a permit with somebody until then. It counts as sent from now on: the call leaves at
    /// some time after this, and nobody is told when.
    ///
    /// # Errors
    /// If as many are out as may be, or the program is about to end. The permit is given back then.
    pub(crate) fn hand_out(
        &self,
        mut permit: Permit,
        until: Nanos,
    ) -> Result<PermitNumber, NotHandedOut> {
        let number = PermitNumber::random()?;
        permit.sending();
        let entered = self.table().enter(number, PermitLease { permit, until });
        match entered {
            Ok(LeaseOrder::First) => self.sooner.notify_one(),
            Ok(LeaseOrder::Later) => {}
            Err((lease, why)) => {
                lease.permit.refund();
                return Err(why);
            }
        }
        Ok(number)
    }

    /// Whether another could be handed out: whoever cannot get one should not wait for it.
    ///
    /// # Errors
    /// If it could not.
    pub(crate) fn has_room(&self) -> Result<(), NotHandedOut> {
        self.table().has_room()
    }

    /// Takes a permit back, unless its lease is over or nobody holds it.
    pub(crate) fn take(&self, number: PermitNumber, now: Nanos) -> Option<Permit> {
        let lease = {
            let mut table = self.table();
            let lease = table.held.remove(&number)?;
            table.ends.remove(&(lease.until, number));
            lease
        };
        // Dropped here it counts as one that was sent and lost.
        (lease.until > now).then_some(lease.permit)
    }

    /// How many are out.
    pub(crate) fn count(&self) -> usize {
        self.table().held.len()
    }

    /// Ends leases as they run out, until the program stops; then all of them.
    pub(crate) async fn watch(&self, clock: &impl Clock, stop: CancelToken) {
        loop {
            let next = self.end_due(clock.now());
            let due = async {
                match next {
                    Some(at) => tokio::time::sleep(at.since(clock.now())).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = due => {}
                () = self.sooner.notified() => {}
                () = stop.cancelled() => return self.close(),
            }
        }
    }

    /// Ends every lease that is over and says when the next is.
    pub(crate) fn end_due(&self, now: Nanos) -> Option<Nanos> {
        let mut lost = Vec::new();
        let mut table = self.table();
        while let Some((end, number)) = table.ends.first().copied().filter(|(end, _)| *end <= now) {
            table.ends.remove(&(end, number));
            lost.extend(table.held.remove(&number));
        }
        let next = table.ends.first().map(|(end, _)| *end);
        // The doors have locks of their own, and observers behind them.
        drop(table);
        drop(lost);
        next
    }

    fn close(&self) {
        let lost = {
            let mut table = self.table();
            table.closed = true;
            table.ends.clear();
            std::mem::take(&mut table.held)
        };
        drop(lost);
    }

    fn table(&self) -> MutexGuard<'_, LeaseTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LeaseTable {
    /// What cannot be kept is handed back, to be refunded with no lock held.
    fn enter(
        &mut self,
        number: PermitNumber,
        lease: PermitLease,
    ) -> Result<LeaseOrder, (PermitLease, NotHandedOut)> {
        if let Err(why) = self.has_room() {
            return Err((lease, why));
        }
        let first = self.ends.first().is_none_or(|(end, _)| lease.until < *end);
        self.ends.insert((lease.until, number));
        self.held.insert(number, lease);
        Ok(if first {
            LeaseOrder::First
        } else {
            LeaseOrder::Later
        })
    }

    fn has_room(&self) -> Result<(), NotHandedOut> {
        match self.closed {
            true => Err(NotHandedOut::Stopping),
            false if self.held.len() >= MOST => Err(NotHandedOut::TooMany),
            false => Ok(()),
        }
    }
}

/// Whether a lease ends before all others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum LeaseOrder {
    First,
    Later,
}

/// Why a permit was not handed out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NotHandedOut {
    /// As many are out as may be.
    TooMany,
    /// The program is about to end.
    Stopping,
    /// The system has no randomness to give.
    NoNumber,
}

/// The number of a permit: 128 bits that nobody can guess.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct PermitNumber(u128);

impl PermitNumber {
    fn random() -> Result<Self, NotHandedOut> {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).map_err(|_| NotHandedOut::NoNumber)?;
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

/// Enough for the busiest program, and a few megabytes at most for one that never settles.
const MOST: usize = 65_536;

#[cfg(test)]
mod tests;
