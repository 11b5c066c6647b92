//! Limits of concurrent connections, in total and per address.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use outflow_sync::Mutex;

use outflow_listener::PeerAddr;

/// Counter of open connections.
#[derive(Debug, Default)]
pub(crate) struct ConnectionLimits {
    counts: Mutex<SlotCounts>,
}

#[derive(Debug, Default)]
struct SlotCounts {
    total: u32,
    by_address: HashMap<IpAddr, u32>,
}

/// Largest numbers of open connections.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ConnectionMaximum {
    pub(crate) in_total: u32,
    pub(crate) per_address: u32,
}

/// Place of one open connection; dropping it frees the place.
#[derive(Debug)]
pub(crate) struct ConnectionSlot {
    limits: Arc<ConnectionLimits>,
    peer: PeerAddr,
}

/// Reason why a connection is rejected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum TooManyConnections {
    /// The total limit is reached.
    InTotal,
    /// The limit of this address is reached.
    FromAddress,
}

impl ConnectionLimits {
    /// Reserves a slot, unless a limit is reached. Connections over a Unix socket have no limit of their own:
    /// only the owner of the socket can open them.
    pub(crate) fn reserve(
        self: &Arc<Self>,
        peer: PeerAddr,
        max: ConnectionMaximum,
    ) -> Result<ConnectionSlot, TooManyConnections> {
        let mut counts = self.counts.lock();
        if counts.total >= max.in_total {
            return Err(TooManyConnections::InTotal);
        }
        if let PeerAddr::Remote(address) = peer {
            let count = counts.by_address.entry(address).or_default();
            if *count >= max.per_address {
                return Err(TooManyConnections::FromAddress);
            }
            *count += 1;
        }
        counts.total += 1;
        Ok(ConnectionSlot {
            limits: Arc::clone(self),
            peer,
        })
    }

    /// Returns the number of open connections.
    pub(crate) fn open(&self) -> u32 {
        self.counts.lock().total
    }

    fn release(&self, peer: PeerAddr) {
        let mut counts = self.counts.lock();
        counts.total = counts.total.saturating_sub(1);
        let PeerAddr::Remote(address) = peer else {
            return;
        };
        if let Some(count) = counts.by_address.get_mut(&address) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                counts.by_address.remove(&address);
            }
        }
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.limits.release(self.peer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Three in total and two per address: the third of one address and the fourth in total are too many.
    #[test]
    fn slots_are_counted_and_released() {
        let limits = Arc::new(ConnectionLimits::default());
        let max = ConnectionMaximum {
            in_total: 3,
            per_address: 2,
        };
        let from = |last: u8| PeerAddr::Remote(IpAddr::from([10, 0, 0, last]));
        let reserve = |peer| limits.reserve(peer, max);
        let first = reserve(from(1)).expect("a free slot");
        let second = reserve(from(1)).expect("a free slot");
        assert_eq!(reserve(from(1)).err(), Some(TooManyConnections::FromAddress));
        let third = reserve(PeerAddr::Local).expect("a free slot");
        assert_eq!(reserve(from(2)).err(), Some(TooManyConnections::InTotal));
        drop(first);
        let fourth = reserve(from(1)).expect("a released slot");
        drop((second, third, fourth));
        let counts = limits.counts.lock();
        assert!(counts.total == 0 && counts.by_address.is_empty(), "{counts:?}");
    }
}
