//! Fair order of holders with unmet wants: start-time fair queueing in time of the limit.
//!
//! A grant moves the tag of its holder by the time in which the slowest limit returns the granted
//! units. So a tag counts calls, cost and several limits in one unit, and heavy calls pay for their
//! weight. A holder takes what is free less a reserve for each waiting holder with an earlier tag.
//! The reserve includes the whole next call, so that a heavy call keeps its place. Without waiting
//! holders there is no order: one busy holder gets everything.

use core::time::Duration;

use crate::account::holder::Holder;
use crate::account::{LeaseUnits, QuotaWant};
use crate::time::span_nanos;

/// Bounds of a grant that other holders set.
#[derive(Debug, Clone, Copy)]
pub(super) struct FairBounds {
    /// Units reserved for holders with an earlier place.
    pub(super) ahead: LeaseUnits,
    /// Most time of the limit that the grant may take; `None` without competition. The next call may
    /// exceed it unless it is zero.
    pub(super) allowance: Option<u64>,
    /// Smallest tag of all that wait, this holder included.
    pub(super) smallest: u64,
}

impl FairBounds {
    /// Computes the bounds for `holder` among the others. `fair_units` are those of one quantum.
    pub(super) fn new(holder: &Holder, others: &[Holder], now: u64, quantum: u64, fair_units: LeaseUnits) -> Self {
        let mut bounds = Self {
            ahead: LeaseUnits::ZERO,
            allowance: None,
            smallest: holder.tag,
        };
        let mut has_competition = false;
        for other in others.iter().filter(|other| waits(other, now)) {
            has_competition = true;
            bounds.smallest = bounds.smallest.min(other.tag);
            if (other.tag, other.id) < (holder.tag, holder.id) {
                bounds.ahead = bounds.ahead.plus(reserve(other.wanted, fair_units));
            }
        }
        if has_competition {
            let furthest = bounds.smallest.saturating_add(quantum.saturating_mul(QUANTA_AHEAD));
            bounds.allowance = Some(furthest.saturating_sub(holder.tag));
        }
        bounds
    }
}

/// Returns true if the holder has an unmet want and is not late for it.
fn waits(holder: &Holder, now: u64) -> bool {
    !holder.wanted.is_none() && now < holder.deadline && now <= holder.due.saturating_add(span_nanos(LATE))
}

fn reserve(wanted: QuotaWant, fair_units: LeaseUnits) -> LeaseUnits {
    wanted.units.at_most(fair_units).at_least(wanted.least())
}

/// Tag of a holder that begins to want: an idle holder keeps little credit.
pub(super) fn resumed_tag(tag: u64, clock: u64, quantum: u64) -> u64 {
    tag.max(clock.saturating_sub(quantum.saturating_mul(QUANTA_AHEAD)))
}

/// Time of the limit that a holder may be ahead of the last one: one renewal's worth and one spare.
const QUANTA_AHEAD: u64 = 2;

/// Least quantum. Smaller ones would need more renewals than a busy host can make.
pub(super) const LEAST_QUANTUM: Duration = Duration::from_millis(5);

/// Delay after which a holder that was asked to come is passed over: a timer and a transfer fit.
const LATE: Duration = Duration::from_millis(10);
