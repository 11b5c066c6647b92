//! Limits of concurrent connections, in total and per address.
//!
//! An idle connection costs its client nothing, so a few thousand of them would keep every other client out. A
//! connection that finds no place therefore takes that of an idle one, and is rejected only if all are busy. A
//! connection counts as idle a moment after it was accepted or had its last request. Before that, its next request
//! may be on the way.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use outflow_sync::Mutex;

use crate::PeerAddr;
use crate::idle_tracker::{IdleTracker, WeakTracker};

/// Table of open connections.
#[derive(Debug, Default)]
pub struct ConnectionLimits {
    table: Mutex<SlotTable>,
}

#[derive(Debug, Default)]
struct SlotTable {
    total: u32,
    by_address: HashMap<IpAddr, u32>,
    /// Connections in the order in which they are looked at; ended ones are removed later.
    slots: VecDeque<OpenSlot>,
}

#[derive(Debug)]
struct OpenSlot {
    peer: PeerAddr,
    tracker: WeakTracker,
}

/// Largest numbers of open connections.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionMaximum {
    /// In total.
    pub in_total: u32,
    /// From one address.
    pub per_address: u32,
}

/// Place of one open connection; dropping it frees the place.
#[derive(Debug)]
pub struct ConnectionSlot {
    limits: Arc<ConnectionLimits>,
    peer: PeerAddr,
    tracker: IdleTracker,
}

/// Reason why a connection is rejected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TooManyConnections {
    /// The total limit is reached.
    InTotal,
    /// The limit of this address is reached.
    FromAddress,
}

impl ConnectionLimits {
    /// Reserves a slot. If a limit is reached, it evicts an idle connection.
    ///
    /// Connections over a Unix socket have no limit of their own: only the owner of the socket can open them.
    ///
    /// # Errors
    /// If a limit is reached and all connections are busy.
    pub fn reserve(
        self: &Arc<Self>,
        peer: PeerAddr,
        max: ConnectionMaximum,
    ) -> Result<ConnectionSlot, TooManyConnections> {
        let mut table = self.table.lock();
        let is_address_full = table.count(peer) >= max.per_address;
        let is_full = table.total >= max.in_total;
        if (is_address_full || is_full) && !table.evict(is_address_full.then_some(peer)) {
            return Err(if is_full {
                TooManyConnections::InTotal
            } else {
                TooManyConnections::FromAddress
            });
        }
        let tracker = IdleTracker::default();
        table.add(peer, &tracker);
        Ok(ConnectionSlot {
            limits: Arc::clone(self),
            peer,
            tracker,
        })
    }

    /// Closes an idle connection, for the memory that another one needs. Returns false if none was found.
    pub fn evict_idle(&self, user: &IdleTracker) -> bool {
        // The connection that needs memory may be idle itself.
        let _busy = user.begin();
        self.table.lock().evict(None)
    }

    /// Returns the number of open connections.
    pub fn open(&self) -> u32 {
        self.table.lock().total
    }
}

impl SlotTable {
    fn count(&self, peer: PeerAddr) -> u32 {
        match peer {
            PeerAddr::Remote(address) => self.by_address.get(&address).copied().unwrap_or(0),
            PeerAddr::Local => 0,
        }
    }

    fn add(&mut self, peer: PeerAddr, tracker: &IdleTracker) {
        if self.slots.len() == self.slots.capacity() {
            self.slots.retain(|slot| slot.tracker.upgrade().is_some());
        }
        self.slots.push_back(OpenSlot {
            peer,
            tracker: tracker.downgrade(),
        });
        self.total += 1;
        if let PeerAddr::Remote(address) = peer {
            *self.by_address.entry(address).or_default() += 1;
        }
    }

    fn remove(&mut self, peer: PeerAddr) {
        self.total = self.total.saturating_sub(1);
        let PeerAddr::Remote(address) = peer else {
            return;
        };
        if let Some(count) = self.by_address.get_mut(&address) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.by_address.remove(&address);
            }
        }
    }

    /// Evicts an idle connection of this peer, or of any: the one that is idle for the longest time among a few.
    fn evict(&mut self, of: Option<PeerAddr>) -> bool {
        let mut found = 0;
        let mut longest: Option<(Duration, PeerAddr, IdleTracker)> = None;
        for _ in 0..self.slots.len().min(MAX_LOOKS) {
            let Some(slot) = self.slots.pop_front() else {
                break;
            };
            // An ended or evicted connection leaves the table here.
            let Some(tracker) = slot.tracker.upgrade().filter(|tracker| !tracker.is_evicted()) else {
                continue;
            };
            let idle = tracker.idle_time().filter(|time| *time >= MIN_IDLE);
            if let Some(time) = idle.filter(|_| of.is_none_or(|peer| peer == slot.peer)) {
                found += 1;
                if longest.as_ref().is_none_or(|(longest, ..)| time > *longest) {
                    longest = Some((time, slot.peer, tracker));
                }
            }
            self.slots.push_back(slot);
            if found == CANDIDATES {
                break;
            }
        }
        longest.is_some_and(|(_, peer, tracker)| {
            self.close(peer, &tracker);
            true
        })
    }

    fn close(&mut self, peer: PeerAddr, tracker: &IdleTracker) {
        tracker.evict();
        self.remove(peer);
    }
}

impl ConnectionSlot {
    /// Returns the tracker of the connection's requests.
    pub const fn tracker(&self) -> &IdleTracker {
        &self.tracker
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        let mut table = self.limits.table.lock();
        // The place of an evicted connection has another user already.
        if !self.tracker.is_evicted() {
            table.remove(self.peer);
        }
    }
}

/// Enough for a request that follows its connection, or the last response, at once.
const MIN_IDLE: Duration = Duration::from_millis(250);

/// Enough to spare connections that were used lately.
const CANDIDATES: usize = 16;

/// Enough to find an idle connection among mostly busy ones; the next search continues behind them.
const MAX_LOOKS: usize = 1_024;

#[cfg(test)]
mod tests {
    use super::*;

    const MAX: ConnectionMaximum = ConnectionMaximum {
        in_total: 3,
        per_address: 2,
    };

    fn from(last: u8) -> PeerAddr {
        PeerAddr::Remote(IpAddr::from([10, 0, 0, last]))
    }

    // Three in total and two per address: of busy connections, the third of one address and the fourth in total
    // are too many.
    #[tokio::test]
    async fn slots_are_counted_and_released() {
        let limits = Arc::new(ConnectionLimits::default());
        let busy = |peer| {
            limits.reserve(peer, MAX).map(|slot| {
                let active = slot.tracker().begin();
                (slot, active)
            })
        };
        let first = busy(from(1)).expect("a free slot");
        let second = busy(from(1)).expect("a free slot");
        assert_eq!(busy(from(1)).err(), Some(TooManyConnections::FromAddress));
        let third = busy(PeerAddr::Local).expect("a free slot");
        assert_eq!(busy(from(2)).err(), Some(TooManyConnections::InTotal));
        drop(first);
        let fourth = busy(from(1)).expect("a released slot");
        drop((second, third, fourth));
        let table = limits.table.lock();
        assert!(table.total == 0 && table.by_address.is_empty(), "{table:?}");
    }

    // Of three connections the second is busy, and the first has just had a request: the third leaves, and the first
    // a second later. A limit of one address takes places of that address alone.
    #[tokio::test(start_paused = true)]
    async fn a_new_connection_takes_the_place_of_an_idle_one() {
        let limits = Arc::new(ConnectionLimits::default());
        let reserve = |peer| limits.reserve(peer, MAX);
        let [first, second, third] = [1, 2, 3].map(|last| reserve(from(last)).expect("a place"));
        assert_eq!(reserve(from(4)).err(), Some(TooManyConnections::InTotal), "all are new");
        tokio::time::advance(Duration::from_secs(1)).await;
        let _busy = second.tracker().begin();
        drop(first.tracker().begin());
        let fourth = reserve(from(4)).expect("the place of the third");
        assert!(third.tracker().is_evicted() && !first.tracker().is_evicted());
        tokio::time::advance(Duration::from_secs(1)).await;
        let fifth = reserve(from(4)).expect("the place of the first");
        assert!(first.tracker().is_evicted() && !fourth.tracker().is_evicted());
        assert_eq!(limits.open(), 3);
        let sixth = reserve(from(4)).expect("the place of the fourth");
        assert!(fourth.tracker().is_evicted() && !fifth.tracker().is_evicted());
        assert!(!second.tracker().is_evicted(), "it is busy");
        drop((first, second, third, fourth, fifth, sixth));
        assert_eq!(limits.open(), 0);
    }
}
