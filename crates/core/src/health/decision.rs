//! Decisions of the health machine, and the tickets it takes back.

use super::probe::ProbeSlot;
use super::state::{HealthState, HealthTransition};
use crate::Nanos;

/// Decision of the health machine about a request.
#[derive(PartialEq, Eq, Debug)]
#[must_use = "an admission that is not looked at is a request sent without leave"]
pub enum HealthDecision {
    /// The request may go; its outcome must be reported with the ticket.
    Go(HealthTicket),
    /// The server asked for a short wait; the state has not changed. No request may go before this
    /// instant, which is in the future.
    Cooling {
        /// Time to ask again.
        until: Nanos,
    },
    /// The state permits no request, or all probes are in flight. The instant, if known, is in the
    /// future. An operator may change the state sooner, and a returning probe will.
    Blocked {
        /// The state that blocks.
        state: HealthState,
        /// Time to ask again.
        until: Option<Nanos>,
    },
    /// A timer is due and was not served: call [`wake`](super::Health::wake), then ask again.
    Overdue,
}

/// Binds one request to the state it was sent in. It is returned with the outcome, or abandoned.
///
/// A ticket cannot be copied, so an outcome cannot be reported twice.
#[derive(PartialEq, Eq, Debug)]
#[must_use = "a probe that is neither recorded nor abandoned blocks the next one until it times out"]
pub struct HealthTicket {
    generation: u64,
    slot: Option<ProbeSlot>,
}

impl HealthTicket {
    pub(super) const fn plain(generation: u64) -> Self {
        Self { generation, slot: None }
    }

    pub(super) const fn probe(generation: u64, slot: ProbeSlot) -> Self {
        Self {
            generation,
            slot: Some(slot),
        }
    }

    /// Consumes the ticket.
    pub(super) fn redeem(self, generation: u64) -> TicketStatus {
        match self.slot {
            Some(_) if self.generation != generation => TicketStatus::LateProbe,
            None if self.generation != generation => TicketStatus::Stale,
            Some(slot) => TicketStatus::Probe(slot),
            None => TicketStatus::Plain,
        }
    }

    /// Returns true if the request is a probe.
    pub const fn is_probe(&self) -> bool {
        self.slot.is_some()
    }
}

/// Value of a returned ticket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum TicketStatus {
    /// Sent before the last transition: its outcome does not describe this state.
    Stale,
    /// A probe of an earlier `HalfOpen`.
    LateProbe,
    /// An ordinary request of this state.
    Plain,
    /// A probe of this state.
    Probe(ProbeSlot),
}

/// Effect of an outcome.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HealthChange {
    /// No visible effect.
    None,
    /// The server asked for a wait: the state stays, and no request may go before this instant.
    Cooling {
        /// End of the wait.
        until: Nanos,
    },
    /// The state changed.
    Moved(HealthTransition),
}

impl HealthChange {
    /// Returns the transition, if there was one.
    pub const fn transition(self) -> Option<HealthTransition> {
        match self {
            Self::Moved(transition) => Some(transition),
            Self::None | Self::Cooling { .. } => None,
        }
    }
}
