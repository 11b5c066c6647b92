//! What happens to connections, and what went over them.

use crate::link_latency::Direction;

/// What happens to connections.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NetConditions {
    /// All goes well.
    Clear,
    /// New connections are refused; old ones go on.
    Refusing,
    /// Nothing arrives at either end until the weather changes; then what was held up does. New
    /// connections are held up too, though where there is a kernel it says that they are made.
    Blackhole,
    /// Nothing arrives at one end.
    OneWay {
        /// The direction in which nothing arrives.
        lost: Direction,
    },
}

impl NetConditions {
    pub(crate) fn stalls(self, direction: Direction) -> Stall {
        match self {
            Self::Blackhole => Stall::Held,
            Self::OneWay { lost } if lost == direction => Stall::Held,
            _ => Stall::Flowing,
        }
    }

    pub(crate) fn stalls_any(self) -> bool {
        matches!(self, Self::Blackhole | Self::OneWay { .. })
    }
}

/// Whether bytes arrive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stall {
    Flowing,
    Held,
}

/// What went over a network.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Traffic {
    /// How often a client tried to connect.
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
