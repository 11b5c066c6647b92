//! What the machine says to a sender, and what it takes back.

use super::probe::ProbeSlot;
use super::state::{HealthState, HealthTransition};
use crate::Nanos;

/// Whether a request may be sent.
#[derive(PartialEq, Eq, Debug)]
#[must_use = "an admission that is not looked at is a request sent without leave"]
pub enum HealthDecision {
    /// It may go, and how it ended must be told with the ticket.
    Go(HealthTicket),
    /// The server asked for a short wait; the state has not changed. Nobody goes before this
    /// instant, which is in the future.
    Cooling {
        /// When to ask again.
        until: Nanos,
    },
    /// The state lets nothing go, or all probes are out. If an instant is known at which that can
    /// change by itself it is told, and is in the future; an operator may change it sooner, and a
    /// probe that comes back will.
    Blocked {
        /// The state that blocks.
        state: HealthState,
        /// When to ask again.
        until: Option<Nanos>,
    },
    /// A timer is due that was not served yet: [`wake`](super::Health::wake), then ask again.
    Overdue,
}

/// Leave to send one request. It is handed back with the outcome, or abandoned.
///
/// It cannot be copied, so an outcome cannot be told twice.
#[derive(PartialEq, Eq, Debug)]
#[must_use = "a probe that is neither recorded nor abandoned blocks the next one until it times out"]
pub struct HealthTicket {
    generation: u64,
    slot: Option<ProbeSlot>,
}

impl HealthTicket {
    pub(super) const fn plain(generation: u64) -> Self {
        Self {
            generation,
            slot: None,
        }
    }

    pub(super) const fn probe(generation: u64, slot: ProbeSlot) -> Self {
        Self {
            generation,
            slot: Some(slot),
        }
    }

    /// Uses the ticket up.
    pub(super) fn redeem(self, generation: u64) -> TicketStatus {
        match self.slot {
            _ if self.generation != generation => TicketStatus::Stale,
            Some(slot) => TicketStatus::Probe(slot),
            None => TicketStatus::Plain,
        }
    }

    /// True if the request is one of the few that find out whether the API is well.
    pub const fn is_probe(&self) -> bool {
        self.slot.is_some()
    }
}

/// What a ticket is worth when it comes back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum TicketStatus {
    /// Sent before the last move: its outcome says nothing about this state.
    Stale,
    /// An ordinary request of this state.
    Plain,
    /// A probe of this state.
    Probe(ProbeSlot),
}

/// What an outcome changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HealthChange {
    /// Nothing that others need to know.
    None,
    /// The server asked to wait: the state is as it was, and nobody goes before this instant.
    Cooling {
        /// When the wait is over.
        until: Nanos,
    },
    /// The state.
    Moved(HealthTransition),
}

impl HealthChange {
    /// The move, if it was one.
    pub const fn transition(self) -> Option<HealthTransition> {
        match self {
            Self::Moved(transition) => Some(transition),
            Self::None | Self::Cooling { .. } => None,
        }
    }
}
