//! The one decision whether a call may start now.
//!
//! Entry, dispatch, estimates and reports all use it. A call is blocked by waiters ahead of it, by its
//! circuit (health, cooldown, concurrency), by a limit of its group or by a limit of the API, in this
//! order. It takes from all of them or from none.

use outflow_core::{Cost, Decision, HealthTicket, Nanos};

use super::circuit::BlockReason;
use super::endpoint::CallLabel;
use super::in_flight::ReceiptPair;
use super::permit_pool::PermitPool;

/// A call that wants to start.
#[derive(Clone, Copy, Debug)]
pub(super) struct StartRequest {
    pub(super) group: u32,
    pub(super) label: CallLabel,
    pub(super) cost: Cost,
    /// True if waiters are ahead of it.
    pub(super) is_behind: bool,
}

/// Shares of health and limits that a started call holds.
#[derive(Debug)]
pub(super) struct StartGrant {
    pub(super) ticket: HealthTicket,
    pub(super) receipts: ReceiptPair,
}

/// Reason why a call cannot start now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum BlockedBy {
    /// Waiters ahead of it.
    Queue,
    Circuit(BlockReason),
    /// A limit of its group.
    OwnLimit(Nanos),
    /// A limit of the whole API.
    SharedLimit(Nanos),
}

impl BlockedBy {
    /// Returns the instant at which another check is worthwhile, if nothing else happens before.
    pub(super) fn until(self) -> Nanos {
        match self {
            Self::OwnLimit(at) | Self::SharedLimit(at) => at,
            Self::Circuit(BlockReason::Cooling { until } | BlockReason::Full { until, .. }) => until,
            Self::Circuit(BlockReason::Asleep { until, .. } | BlockReason::Probing { until }) => {
                until.unwrap_or(Nanos::MAX)
            }
            Self::Circuit(BlockReason::Overdue) | Self::Queue => Nanos::MAX,
        }
    }
}

impl PermitPool {
    /// Decides whether a call may start now, and takes its shares if so.
    #[inline]
    pub(super) fn check_start(&mut self, request: StartRequest, now: Nanos) -> Result<StartGrant, BlockedBy> {
        if request.is_behind {
            return Err(BlockedBy::Queue);
        }
        let circuit = self.circuits.index_for(request.group);
        let checked = self.circuits.get_mut(circuit).check(now);
        let ticket = checked.map_err(BlockedBy::Circuit)?;
        match self.check_limits(request.group, request.cost, now) {
            Ok(receipts) => Ok(StartGrant { ticket, receipts }),
            Err(blocked_by) => {
                self.circuits.get_mut(circuit).health.abandon(now, ticket);
                Err(blocked_by)
            }
        }
    }

    /// Decides whether the limits allow a call, and debits them if so.
    #[inline]
    pub(super) fn check_limits(&mut self, group: u32, cost: Cost, now: Nanos) -> Result<ReceiptPair, BlockedBy> {
        let checked = self.take_receipts(group, cost, now);
        self.check_leases(group, now);
        checked
    }

    #[inline]
    fn take_receipts(&mut self, group: u32, cost: Cost, now: Nanos) -> Result<ReceiptPair, BlockedBy> {
        if self.limits.shared.awaits_facts() {
            self.own(group, now).want_lease(now, cost);
            self.limits.shared.want_lease(now, cost);
            return Err(BlockedBy::SharedLimit(Nanos::MAX));
        }
        let own = match self.own(group, now).take(now, cost) {
            Decision::Allow(receipts) => receipts,
            Decision::WaitUntil(at) => return Err(BlockedBy::OwnLimit(at)),
            Decision::Never => return Err(BlockedBy::OwnLimit(Nanos::MAX)),
        };
        let at = match self.limits.shared.take(now, cost) {
            Decision::Allow(shared) => return Ok(ReceiptPair { own, shared }),
            Decision::WaitUntil(at) => at,
            Decision::Never => Nanos::MAX,
        };
        self.own(group, now).refund(now, own);
        Err(BlockedBy::SharedLimit(at))
    }

    /// Returns why a circuit allows no start, without starting one. Its due timers were served.
    pub(super) fn check_circuit(&mut self, circuit: usize, now: Nanos) -> Option<BlockReason> {
        let circuit = self.circuits.get_mut(circuit);
        match circuit.check(now) {
            Ok(ticket) => {
                circuit.health.abandon(now, ticket);
                None
            }
            Err(reason) => Some(reason),
        }
    }
}
