//! Who may be connected at once: so many in all, and so many from one address.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use crate::config::ServerConfig;

use outflow_listener::PeerAddr;

/// Everybody who is connected.
#[derive(Debug, Default)]
pub(crate) struct ConnectionLimits {
    present: Mutex<SlotCounts>,
}

#[derive(Debug, Default)]
struct SlotCounts {
    all: u32,
    from: HashMap<IpAddr, u32>,
}

/// One who is connected, until this is dropped.
#[derive(Debug)]
pub(crate) struct ConnectionSlot {
    guests: Arc<ConnectionLimits>,
    from: PeerAddr,
}

/// Why somebody was not let in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum TooManyConnections {
    /// As many are connected as may be.
    InAll,
    /// As many from there.
    FromThere,
}

impl ConnectionLimits {
    /// Lets somebody in, unless there are too many already. A socket in the file system is its owner's
    /// alone, so those who come through it are counted together with all others and not by themselves.
    pub(crate) fn admit(
        self: &Arc<Self>,
        from: PeerAddr,
        settings: &ServerConfig,
    ) -> Result<ConnectionSlot, TooManyConnections> {
        let mut present = self.present.lock().unwrap_or_else(PoisonError::into_inner);
        if present.all >= settings.max_connections {
            return Err(TooManyConnections::InAll);
        }
        if let PeerAddr::Remote(address) = from {
            let here = present.from.entry(address).or_default();
            if *here >= settings.max_connections_per_client {
                return Err(TooManyConnections::FromThere);
            }
            *here += 1;
        }
        present.all += 1;
        Ok(ConnectionSlot {
            guests: Arc::clone(self),
            from,
        })
    }

    fn leave(&self, from: PeerAddr) {
        let mut present = self.present.lock().unwrap_or_else(PoisonError::into_inner);
        present.all = present.all.saturating_sub(1);
        let PeerAddr::Remote(address) = from else {
            return;
        };
        if let Some(here) = present.from.get_mut(&address) {
            *here = here.saturating_sub(1);
            if *here == 0 {
                present.from.remove(&address);
            }
        }
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.guests.leave(self.from);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Three in all and two from one address: the third from there and the fourth of all are too many.
    #[test]
    fn places_are_counted_and_given_back() {
        let guests = Arc::new(ConnectionLimits::default());
        let settings = ServerConfig {
            max_connections: 3,
            max_connections_per_client: 2,
            ..ServerConfig::default()
        };
        let from = |last: u8| PeerAddr::Remote(IpAddr::from([10, 0, 0, last]));
        let admit = |from| guests.admit(from, &settings);
        let first = admit(from(1)).expect("room");
        let second = admit(from(1)).expect("room");
        assert_eq!(admit(from(1)).err(), Some(TooManyConnections::FromThere));
        let third = admit(PeerAddr::Local).expect("room");
        assert_eq!(admit(from(2)).err(), Some(TooManyConnections::InAll));
        drop(first);
        let fourth = admit(from(1)).expect("a place was given back");
        drop((second, third, fourth));
        let present = guests.present.lock().expect("no panic");
        assert!(present.all == 0 && present.from.is_empty(), "{present:?}");
    }
}
