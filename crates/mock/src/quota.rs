//! A limit as the server enforces it, as a plain value.
//!
//! It shares the words of the core (a rate, a kind, a cost) so that tests can say one thing to both
//! ends, and nothing else: how it is kept is written here a second time, in the most obvious way.

use std::sync::Arc;
use std::time::Duration;

use outflow_core::{LimitKind, Rate};

/// A quantity per window, how it returns, whose requests it counts and on which route.
///
/// ```
/// use outflow_mock::Quota;
///
/// let per_caller = Quota::sliding("10/s".parse()?);
/// let for_all = Quota::bucket("100/min".parse()?, 20).named("burst").shared();
/// let orders = Quota::fixed("12/s".parse()?).on("orders");
/// # let _ = (per_caller, for_all, orders);
/// # Ok::<(), outflow_core::InvalidRate>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Quota {
    pub(crate) rate: Rate,
    pub(crate) kind: LimitKind,
    pub(crate) name: Option<Arc<str>>,
    pub(crate) whose: Whose,
    pub(crate) route: Option<Arc<str>>,
    pub(crate) counts: Counts,
}

impl Quota {
    /// Any kind of limit, counted for each caller on all routes, by cost.
    pub fn new(rate: Rate, kind: LimitKind) -> Self {
        Self {
            rate,
            kind,
            name: None,
            whose: Whose::EachCaller,
            route: None,
            counts: Counts::Cost,
        }
    }

    /// An exact log: never more than the quantity in any window.
    pub fn sliding(rate: Rate) -> Self {
        Self::new(rate, LimitKind::Sliding)
    }

    /// Windows that begin with the first use.
    pub fn fixed(rate: Rate) -> Self {
        Self::new(rate, LimitKind::Fixed)
    }

    /// Windows at whole multiples of their length in UTC.
    pub fn aligned(rate: Rate) -> Self {
        Self::new(rate, LimitKind::Aligned)
    }

    /// A bucket that starts full, holds `burst` and is refilled evenly.
    pub fn bucket(rate: Rate, burst: u64) -> Self {
        Self::new(rate, LimitKind::Bucket { burst })
    }

    /// Gives it a name, for headers and the audit; `requests` unless told.
    #[must_use]
    pub fn named(mut self, name: &str) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Counts all callers together.
    #[must_use]
    pub fn shared(mut self) -> Self {
        self.whose = Whose::Everyone;
        self
    }

    /// Counts only requests of the route of this name.
    #[must_use]
    pub fn on(mut self, route: &str) -> Self {
        self.route = Some(route.into());
        self
    }

    /// Counts every request as one, whatever it costs.
    #[must_use]
    pub fn counting_calls(mut self) -> Self {
        self.counts = Counts::Calls;
        self
    }

    /// The most that is there at once.
    pub fn capacity(&self) -> u64 {
        match self.kind {
            LimitKind::Bucket { burst } => burst,
            LimitKind::Sliding | LimitKind::Fixed | LimitKind::Aligned => self.rate.quantity(),
        }
    }

    /// The span of its rate.
    pub fn window(&self) -> Duration {
        self.rate.per()
    }
}

/// Whose requests count together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Whose {
    EachCaller,
    Everyone,
}

/// What is counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Counts {
    Cost,
    Calls,
}
