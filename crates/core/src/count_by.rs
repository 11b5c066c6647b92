//! What a limit counts of a call.
//!
//! Providers of language models limit calls and tokens at once, and exchanges weights and calls. A
//! call carries one cost all the same: of what providers count, calls need no number and the rest
//! is the cost, or not known before the answer. A cost for each measure would be one more thing
//! for every caller to say and for every limit to look up.

use crate::{Cost, HintUnit};

/// What a limit counts of a call, and which of a server's headers speak of it.
///
/// A call is a call: where calls are counted, one that costs nothing counts too. Only where costs
/// are counted does a cost of zero take nothing and always pass.
///
/// ```
/// use outflow_core::{Accounting, Cost, Decision, Limit, Measure, MeterSet, Moment, Nanos};
///
/// let limits = [
///     Limit::sliding("2/min".parse()?).measured_in(Measure::Calls),
///     Limit::sliding("1000/min".parse()?).measured_in(Measure::Tokens),
/// ];
/// let limits = limits.map(|limit| limit.counted(Accounting::Send));
/// let mut set = MeterSet::new(&limits, Moment::default())?;
/// assert_eq!(set.take(Nanos::ZERO, Cost::new(1001)), Decision::Never, "too many tokens");
/// assert!(set.take(Nanos::ZERO, Cost::new(900)).is_allow());
/// assert!(set.take(Nanos::ZERO, Cost::new(100)).is_allow());
/// let third = set.take(Nanos::from_secs(1), Cost::ZERO);
/// assert_eq!(third, Decision::WaitUntil(Nanos::from_secs(60)), "two calls a minute");
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum CountBy {
    /// What the call costs, whatever that stands for. Where every call costs one these are calls,
    /// so headers about requests speak of it, and those about weights.
    #[default]
    Cost,
    /// Calls, whatever they cost.
    Calls,
    /// Tokens of a language model, both ways. The call's cost is how many.
    Tokens,
    /// Tokens of the question. The call's cost is how many.
    InputTokens,
    /// Tokens of the answer, which nobody knows before it: each call counts one, the fewest that an
    /// answer can have, and the server's headers tell of the rest.
    OutputTokens,
}

impl CountBy {
    /// True if a server that counts this unit speaks of limits measured so.
    pub fn is_reported_in(self, unit: HintUnit) -> bool {
        match self {
            Self::Cost => matches!(unit, HintUnit::Requests | HintUnit::Weight),
            Self::Calls => unit == HintUnit::Requests,
            Self::Tokens => unit == HintUnit::Tokens,
            Self::InputTokens => unit == HintUnit::InputTokens,
            Self::OutputTokens => unit == HintUnit::OutputTokens,
        }
    }

    /// What calls pay where this is counted.
    pub const fn toll(self) -> UnitCost {
        match self {
            Self::Cost | Self::Tokens | Self::InputTokens => UnitCost {
                of_cost: u64::MAX,
                of_calls: 0,
            },
            Self::Calls | Self::OutputTokens => UnitCost {
                of_cost: 0,
                of_calls: u64::MAX,
            },
        }
    }
}

/// What calls pay at one limit: their cost, or one for each of them. Worked out once for a limit, so
/// that asking takes no branch.
///
/// ```
/// use outflow_core::{Cost, Measure};
///
/// let (cost, calls) = (Measure::Cost.toll(), Measure::Calls.toll());
/// assert_eq!((cost.of(Cost::new(7)), calls.of(Cost::new(7))), (Cost::new(7), Cost::ONE));
/// assert_eq!(calls.of(Cost::ZERO), Cost::ONE, "a call is a call");
/// assert_eq!((cost.of_many(3, 20), calls.of_many(3, 20)), (20, 3));
/// ```
// Masks of which one is empty: whatever is counted, both are applied and the results joined.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct UnitCost {
    of_cost: u64,
    of_calls: u64,
}

impl UnitCost {
    /// What one call of this cost pays.
    #[inline]
    pub const fn units(self, cost: Cost) -> Cost {
        Cost::new(self.of_many(1, cost.units()))
    }

    /// What so many calls pay that cost so much together.
    #[inline]
    pub const fn of_many(self, calls: u64, cost: u64) -> u64 {
        (cost & self.of_cost) | (calls & self.of_calls)
    }

    /// True if what a call costs makes a difference here.
    pub const fn counts_cost(self) -> bool {
        self.of_cost != 0
    }
}
