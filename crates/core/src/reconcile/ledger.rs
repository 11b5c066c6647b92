//! Running total of all units added to one meter, for the comparison with a late hint.
//!
//! A meter knows the usage now; a hint needs the usage added between two instants, part of which
//! the meter has dropped by then. A running total takes one number, a list of requests in flight
//! would take more. It decides nothing and moves no meter.

use super::{LocalUsage, UsageCorrection};
use crate::{Cost, Hint, Limit, MeterStatus, Nanos};

/// Running total of one limit, and the corrections from hints about it.
///
/// ```
/// use outflow_core::{
///     Cost, Dialects, Hints, UsageLedger, Limit, Meter, ClockPair, Nanos, ResponseTime, WallTime,
/// };
///
/// let limit = Limit::sliding("60/min".parse()?);
/// let (mut meter, mut ledger) = (Meter::new(&limit, ClockPair::default()), UsageLedger::default());
/// let now = Nanos::ZERO;
/// let marks = [(); 4].map(|()| {
///     let _receipt = meter.take(now, Cost::ONE).allowed().expect("quota");
///     ledger.taken(Cost::ONE);
///     ledger.mark(&meter.status(now))
/// });
///
/// // Four responses report ten units of foreign usage.
/// let headers: [(&str, &[u8]); 2] = [("X-RateLimit-Limit", b"60"), ("X-RateLimit-Remaining", b"46")];
/// let response_time = ResponseTime { date: None, wall: WallTime::EPOCH };
/// let hints = Hints::read(headers, Dialects::ALL, response_time);
/// let hint = hints.iter().next().expect("one hint");
/// for mark in marks {
///     let foreign = ledger.correct(hint, &limit, mark, now).foreign;
///     meter.charge(now, foreign);
/// }
/// assert_eq!(meter.status(now).used, 4 + 10);
/// # Ok::<(), outflow_core::InvalidRate>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct UsageLedger {
    added: u64,
}

/// Position of a ledger and its meter when a request was sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UsageMark {
    counted: u64,
    added: u64,
}

impl UsageLedger {
    /// Records units taken from the meter. A later refund stays recorded: an excess only makes the
    /// next comparison more careful.
    pub const fn taken(&mut self, cost: Cost) {
        self.add(cost.units());
    }

    /// Returns the mark of a request, right after its cost was taken and recorded. The caller keeps
    /// it until the response.
    pub fn mark(&self, status: &MeterStatus) -> UsageMark {
        UsageMark {
            counted: u64::try_from(status.used).unwrap_or(u64::MAX),
            added: self.added,
        }
    }

    /// Compares a hint, read at `now`, from the response of the marked request. Its
    /// [`foreign`](UsageCorrection::foreign) units are recorded as charged, so charge the meter
    /// with them at once, before the next request is marked.
    #[must_use = "the foreign units are to be charged to the meter"]
    pub fn correct(&mut self, hint: &Hint, limit: &Limit, mark: UsageMark, now: Nanos) -> UsageCorrection {
        let ours = LocalUsage {
            limit: *limit,
            counted_at_send: mark.counted,
            added_since: self.added.wrapping_sub(mark.added),
        };
        let correction = UsageCorrection::new(hint, &ours, now);
        self.add(correction.foreign);
        correction
    }

    /// Only differences matter, and they are right across the wrap.
    const fn add(&mut self, units: u64) {
        self.added = self.added.wrapping_add(units);
    }
}
