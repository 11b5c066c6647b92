//! Conditions of connections, and their traffic.

use tokio::sync::watch;

use crate::link_latency::Direction;

/// Conditions of connections.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NetConditions {
    /// No faults.
    Clear,
    /// New connections are refused; old ones continue.
    Refusing,
    /// Nothing arrives at either end until the conditions change; then the stalled bytes do. New
    /// connections are stalled too, though a kernel reports them as made.
    Blackhole,
    /// Nothing arrives at one end.
    OneWay {
        /// Direction in which nothing arrives.
        lost: Direction,
    },
}

impl NetConditions {
    /// Returns true if bytes in this direction are held.
    pub(crate) fn stalls(self, direction: Direction) -> bool {
        match self {
            Self::Blackhole => true,
            Self::OneWay { lost } => lost == direction,
            Self::Clear | Self::Refusing => false,
        }
    }

    pub(crate) fn stalls_any(self) -> bool {
        matches!(self, Self::Blackhole | Self::OneWay { .. })
    }
}

/// Waits until the conditions are as wanted.
pub(crate) async fn until(conditions: &watch::Sender<NetConditions>, wanted: impl Fn(NetConditions) -> bool) {
    let mut conditions = conditions.subscribe();
    // The caller holds the sender, so it lives as long as the wait.
    let _never_gone = conditions.wait_for(|conditions| wanted(*conditions)).await;
}

/// Traffic of a network.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Traffic {
    /// Number of connection attempts by clients.
    pub connects: u64,
    /// Bytes that clients wrote.
    pub there: u64,
    /// Bytes that the server wrote.
    pub back: u64,
}

impl Traffic {
    pub(crate) fn count(&mut self, direction: Direction, bytes: usize) {
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        match direction {
            Direction::There => self.there += bytes,
            Direction::Back => self.back += bytes,
        }
    }
}
