//! A limit of the server as a plain value.
//!
//! It uses the core's values (a rate, a kind, a cost) so that tests can configure both ends alike.
//! Its enforcement is a second, most obvious implementation.

use std::sync::Arc;
use std::time::Duration;

use outflow_core::{LimitKind, Rate};

/// Quantity per window, its kind, and the callers and route it counts.
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
    pub(crate) caller_scope: CallerScope,
    pub(crate) route: Option<Arc<str>>,
    pub(crate) counts: CountMode,
}

impl Quota {
    /// Builds any kind of limit, counted for each caller on all routes, by cost.
    pub fn new(rate: Rate, kind: LimitKind) -> Self {
        Self {
            rate,
            kind,
            name: None,
            caller_scope: CallerScope::EachCaller,
            route: None,
            counts: CountMode::Cost,
        }
    }

    /// Builds an exact log: never more than the quantity in any window.
    pub fn sliding(rate: Rate) -> Self {
        Self::new(rate, LimitKind::Sliding)
    }

    /// Builds windows that begin with the first use.
    pub fn fixed(rate: Rate) -> Self {
        Self::new(rate, LimitKind::Fixed)
    }

    /// Builds windows at whole multiples of their length in UTC.
    pub fn aligned(rate: Rate) -> Self {
        Self::new(rate, LimitKind::Aligned)
    }

    /// Builds a bucket that starts full, holds `burst` and refills evenly.
    pub fn bucket(rate: Rate, burst: u64) -> Self {
        Self::new(rate, LimitKind::Bucket { burst })
    }

    /// Sets the name for headers and the audit; `requests` by default.
    #[must_use]
    pub fn named(mut self, name: &str) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Counts all callers together.
    #[must_use]
    pub fn shared(mut self) -> Self {
        self.caller_scope = CallerScope::Everyone;
        self
    }

    /// Counts only requests of this route.
    #[must_use]
    pub fn on(mut self, route: &str) -> Self {
        self.route = Some(route.into());
        self
    }

    /// Counts every request as one, independent of its cost.
    #[must_use]
    pub fn counting_calls(mut self) -> Self {
        self.counts = CountMode::Calls;
        self
    }

    /// Returns the maximum available at once.
    pub fn capacity(&self) -> u64 {
        match self.kind {
            LimitKind::Bucket { burst } => burst,
            LimitKind::Sliding | LimitKind::Fixed | LimitKind::Aligned => self.rate.quantity(),
        }
    }

    /// Returns the span of its rate.
    pub fn window(&self) -> Duration {
        self.rate.per()
    }
}

/// Callers that are counted together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CallerScope {
    EachCaller,
    Everyone,
}

/// Quantity that is counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CountMode {
    Cost,
    Calls,
}
