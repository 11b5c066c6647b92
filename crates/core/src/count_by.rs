//! The quantity of a call that a limit counts.
//!
//! Providers of language models limit calls and tokens at once, and exchanges weights and calls.
//! One cost per call is still enough. Calls need no number, and other units are the cost or not
//! known before the response. A cost per unit would burden every caller and every lookup.

use crate::{Cost, HintUnit};

named_enum! {
    /// Quantity that a limit counts, and the server headers that report it.
    ///
    /// Where calls are counted, a call with a cost of zero counts too. Only where costs are counted
    /// does a cost of zero take nothing and always pass.
    ///
    /// ```
    /// use outflow_core::{Accounting, Cost, Decision, Limit, CountBy, MeterSet, ClockPair, Nanos};
    ///
    /// let limits = [
    ///     Limit::sliding("2/min".parse()?).measured_in(CountBy::Calls),
    ///     Limit::sliding("1000/min".parse()?).measured_in(CountBy::Tokens),
    /// ];
    /// let limits = limits.map(|limit| limit.counted(Accounting::Send));
    /// let mut set = MeterSet::new(&limits, ClockPair::default())?;
    /// assert_eq!(set.take(Nanos::ZERO, Cost::new(1001)), Decision::Never, "too many tokens");
    /// assert!(set.take(Nanos::ZERO, Cost::new(900)).is_allow());
    /// assert!(set.take(Nanos::ZERO, Cost::new(100)).is_allow());
    /// let third = set.take(Nanos::from_secs(1), Cost::ZERO);
    /// assert_eq!(third, Decision::WaitUntil(Nanos::from_secs(60)), "two calls a minute");
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    #[derive(Default)]
    pub enum CountBy {
        /// The cost of the call. Where every call costs one these are calls, so headers about requests
        /// apply, and those about weights.
        #[default]
        Cost = "cost",
        /// Calls, independent of their cost.
        Calls = "calls",
        /// Tokens of a language model, both ways. The call's cost is their number.
        Tokens = "tokens",
        /// Tokens of the prompt. The call's cost is their number.
        InputTokens = "input_tokens",
        /// Tokens of the response, whose number is not known in advance. Each call counts one, the
        /// fewest possible, and the server's headers report the rest.
        OutputTokens = "output_tokens",
    }
}

impl CountBy {
    /// Returns true if a server that counts this unit reports limits of this kind.
    pub fn is_reported_in(self, unit: HintUnit) -> bool {
        match self {
            Self::Cost => matches!(unit, HintUnit::Requests | HintUnit::Weight),
            Self::Calls => unit == HintUnit::Requests,
            Self::Tokens => unit == HintUnit::Tokens,
            Self::InputTokens => unit == HintUnit::InputTokens,
            Self::OutputTokens => unit == HintUnit::OutputTokens,
        }
    }

    /// Returns the units that calls pay where this is counted.
    pub const fn unit_cost(self) -> UnitCost {
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

/// Units that calls pay at one limit: their cost, or one each. Computed once per limit, so that a
/// check takes no branch.
///
/// ```
/// use outflow_core::{Cost, CountBy};
///
/// let (cost, calls) = (CountBy::Cost.unit_cost(), CountBy::Calls.unit_cost());
/// assert_eq!((cost.units(Cost::new(7)), calls.units(Cost::new(7))), (Cost::new(7), Cost::ONE));
/// assert_eq!(calls.units(Cost::ZERO), Cost::ONE, "a free call counts too");
/// assert_eq!((cost.total_units(3, 20), calls.total_units(3, 20)), (20, 3));
/// ```
// Two masks, one of them empty: both apply to every call, and the results are joined.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct UnitCost {
    of_cost: u64,
    of_calls: u64,
}

impl UnitCost {
    /// Returns the units that one call of this cost pays.
    #[inline]
    pub const fn units(self, cost: Cost) -> Cost {
        Cost::new(self.total_units(1, cost.units()))
    }

    /// Returns the units that several calls with this total cost pay.
    #[inline]
    pub const fn total_units(self, calls: u64, cost: u64) -> u64 {
        (cost & self.of_cost) | (calls & self.of_calls)
    }

    /// Returns true if the cost of a call matters here.
    pub const fn counts_cost(self) -> bool {
        self.of_cost != 0
    }
}
