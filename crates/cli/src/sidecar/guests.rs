//! Who may be connected at once: so many in all, and so many from one address.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use outflow::config::ServerSettings;

use crate::listener::Peer;

/// Everybody who is connected.
#[derive(Debug, Default)]
pub(super) struct Guests {
    present: Mutex<Present>,
}

#[derive(Debug, Default)]
struct Present {
    all: u32,
    from: HashMap<IpAddr, u32>,
}

/// One who is connected, until this is dropped.
#[derive(Debug)]
pub(super) struct Guest {
    guests: Arc<Guests>,
    from: Peer,
}

/// Why somebody was not let in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Crowded {
    /// As many are connected as may be.
    InAll,
    /// As many from there.
    FromThere,
}

impl Guests {
    /// Lets somebody in, unless there are too many already. A socket in the file system is its owner's
    /// alone, so those who come through it are counted together with all others and not by themselves.
    pub(super) fn admit(
        self: &Arc<Self>,
        from: Peer,
        settings: &ServerSettings,
    ) -> Result<Guest, Crowded> {
        let mut present = self.present.lock().unwrap_or_else(PoisonError::into_inner);
        if present.all >= settings.max_connections {
            return Err(Crowded::InAll);
        }
        if let Peer::Remote(address) = from {
            let here = present.from.entry(address).or_default();
            if *here >= settings.max_connections_per_client {
                return Err(Crowded::FromThere);
            }
            *here += 1;
        }
        present.all += 1;
        Ok(Guest {
            guests: Arc::clone(self),
            from,
        })
    }

    fn leave(&self, from: Peer) {
        let mut present = self.present.lock().unwrap_or_else(PoisonError::into_inner);
        present.all = present.all.saturating_sub(1);
        let Peer::Remote(address) = from else {
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

impl Drop for Guest {
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
        let guests = Arc::new(Guests::default());
        let settings = ServerSettings {
            max_connections: 3,
            max_connections_per_client: 2,
            ..ServerSettings::default()
        };
        let from = |last: u8| Peer::Remote(IpAddr::from([10, 0, 0, last]));
        let admit = |from| guests.admit(from, &settings);
        let first = admit(from(1)).expect("room");
        let second = admit(from(1)).expect("room");
        assert_eq!(admit(from(1)).err(), Some(Crowded::FromThere));
        let third = admit(Peer::Local).expect("room");
        assert_eq!(admit(from(2)).err(), Some(Crowded::InAll));
        drop(first);
        let fourth = admit(from(1)).expect("a place was given back");
        drop((second, third, fourth));
        let present = guests.present.lock().expect("no panic");
        assert!(present.all == 0 && present.from.is_empty(), "{present:?}");
    }
}
