//! Rules of one API as plain values: limits, groups, routes, waiting, health.
//!
//! They contain no address, key or file. A program writes them by hand, or the configuration provides
//! them. [`Upstream`](crate::Upstream) checks once that they are consistent.

use std::sync::Arc;
use std::time::Duration;

use http::Method;
use outflow_core::{AdaptiveMode, Cost, Dialects, HealthConfig, Limit, LimitContext, Policy, Rate, Share, UsageAlert};
use smol_str::SmolStr;

use crate::path_pattern::PathPattern;

/// The rules of one API.
///
/// ```
/// use outflow::Rules;
///
/// let rules = Rules::with_limit("10/s".parse()?);
/// assert_eq!(rules.limits.len(), 1);
/// assert!(rules.groups.is_empty(), "all calls belong to the group `default`");
/// # Ok::<(), outflow::core::InvalidRate>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rules {
    /// Limits that count all calls of the API.
    pub limits: Vec<Limit>,
    /// Groups of endpoints with their own limits. The group `default` takes calls without a route.
    pub groups: Vec<Group>,
    /// Routes of calls to groups; the first match decides.
    pub routes: Vec<Route>,
    /// The treatment of a call that cannot start at once.
    pub mode: WaitMode,
    /// The longest wait for a permit, unless the caller sets a deadline.
    pub max_wait: Duration,
    /// The maximum number of waiting calls; further calls are refused.
    pub queue: usize,
    /// The longest duration of an attempt: a cancelled one may still arrive until then.
    pub timeout: Duration,
    /// The variables of the health state machine, concurrency included.
    pub health: HealthConfig,
    /// The scope of one health state.
    pub health_scope: HealthScope,
    /// The treatment of a call while the health state allows none.
    pub when_asleep: WhenAsleep,
    /// The classification of attempts.
    pub policy: Policy,
    /// The extent to which evidence adapts the limits.
    pub adaptive: AdaptiveMode,
    /// The header dialects that are read for hints.
    pub dialects: Dialects,
    /// Thresholds of usage and memory alerts.
    pub thresholds: AlertThresholds,
}

impl Rules {
    /// Creates rules without limits, with defaults for the rest.
    pub fn unlimited() -> Self {
        Self {
            limits: Vec::new(),
            groups: Vec::new(),
            routes: Vec::new(),
            mode: WaitMode::default(),
            max_wait: Duration::from_secs(30),
            queue: 10_000,
            timeout: Duration::from_secs(10),
            health: HealthConfig::default(),
            health_scope: HealthScope::default(),
            when_asleep: WhenAsleep::default(),
            policy: Policy::default(),
            adaptive: AdaptiveMode::default(),
            dialects: Dialects::ALL,
            thresholds: AlertThresholds::default(),
        }
    }

    /// Returns the number of calls that may be in flight: the configured one, or enough that the limits
    /// bind. A limit of ten a second with a timeout of ten seconds needs a hundred.
    pub fn concurrency(&self) -> u32 {
        let own = self.health.settings().concurrency;
        own.unwrap_or_else(|| self.limit_context().concurrency)
    }

    /// Returns the facts about the limits that the health machine needs.
    pub(crate) fn limit_context(&self) -> LimitContext {
        let grouped = self.groups.iter().flat_map(|group| group.limits.iter());
        let longest = self.limits.iter().chain(grouped).map(|limit| limit.rate().per()).max();
        let needed = if let Some(needed) = self.needed_by(&self.limits) {
            needed
        } else {
            let groups = self.groups.iter();
            let all = groups.map(|group| self.needed_by(&group.limits).unwrap_or(u64::MAX));
            all.reduce(u64::saturating_add).unwrap_or(u64::MAX)
        };
        LimitContext {
            longest_window: longest.unwrap_or_default(),
            concurrency: u32::try_from(needed)
                .unwrap_or(u32::MAX)
                .clamp(MIN_CONCURRENCY, MAX_CONCURRENCY),
        }
    }

    /// Returns the number of calls in flight with which one of these limits binds, however slow the API is.
    fn needed_by(&self, limits: &[Limit]) -> Option<u64> {
        let needed = limits.iter().map(|limit| {
            let (window, timeout) = (limit.rate().per().as_nanos(), self.timeout.as_nanos());
            let windows = u64::try_from(timeout.div_ceil(window.max(1))).unwrap_or(u64::MAX);
            limit.rate().quantity().saturating_mul(windows.max(1))
        });
        needed.min()
    }

    /// Creates the default rules: five calls a second.
    pub fn with_default_limit() -> Self {
        Rate::per_second(5).map_or_else(|_| Self::unlimited(), Self::with_limit)
    }

    /// Creates rules with one exact limit, counted as calls arrive at the server.
    pub fn with_limit(rate: Rate) -> Self {
        Self {
            limits: vec![Limit::sliding(rate)],
            ..Self::unlimited()
        }
    }
}

/// Endpoints that share limits.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Group {
    /// The name in reports.
    pub name: SmolStr,
    /// Other names for it.
    pub aliases: Vec<SmolStr>,
    /// Its own limits, in addition to those of the API. Clones share them: there may be a hundred
    /// thousand groups.
    pub limits: Arc<[Limit]>,
    /// The cost of a call, unless its route or its caller sets another.
    pub cost: Cost,
}

impl Group {
    /// Creates a group with these limits and calls of cost 1.
    pub fn new(name: &str, limits: Vec<Limit>) -> Self {
        Self {
            name: SmolStr::new(name),
            aliases: Vec::new(),
            limits: limits.into(),
            cost: Cost::ONE,
        }
    }
}

/// Assignment of calls to a group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Route {
    /// The methods; none means all.
    pub methods: Vec<Method>,
    /// The paths.
    pub pattern: PathPattern,
    /// The group, by name or alias.
    pub group: SmolStr,
    /// The cost of such a call, in place of the group's.
    pub cost: Option<Cost>,
}

outflow_core::named_enum! {
    /// Treatment of a call that cannot start at once.
    #[derive(Default)]
    pub enum WaitMode {
        /// It waits in the queue until its deadline.
        #[default]
        Wait = "wait",
        /// It is refused at once, with the wait if it is known.
        Reject = "reject",
    }
}

outflow_core::named_enum! {
    /// Scope of one health state.
    #[derive(Default)]
    pub enum HealthScope {
        /// One state for the whole API.
        #[default]
        Api = "api",
        /// One state per group: a ban on orders does not stop quotes.
        Group = "group",
    }
}

outflow_core::named_enum! {
    /// Treatment of a call while the health state allows none.
    #[derive(Default)]
    pub enum WhenAsleep {
        /// It is refused at once, as callers of a circuit breaker expect.
        Refuse = "refuse",
        /// It waits if its deadline allows it; otherwise it is refused at once.
        #[default]
        Wait = "wait",
    }
}

/// Thresholds of alerts. No decision depends on them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AlertThresholds {
    /// The used share of a limit that raises an alert.
    pub usage: Share,
    /// The memory of an API's meters in bytes that raises an alert.
    pub memory: u64,
    /// The interval of statistics updates.
    pub statistics_every: Duration,
}

impl AlertThresholds {
    /// Creates an alert for usage above the threshold for ten seconds. It ends a tenth of the limit below.
    pub(crate) fn alert(&self) -> UsageAlert {
        let part = self.usage.as_parts_per_million();
        let rest = Share::parts_per_million(part.saturating_sub(TENTH));
        UsageAlert::new(self.usage, rest, Duration::from_secs(10)).unwrap_or_default()
    }
}

impl Default for AlertThresholds {
    /// Returns four fifths of a limit, 50 MB of meters and five seconds.
    fn default() -> Self {
        Self {
            usage: Share::percent(80),
            memory: 50_000_000,
            statistics_every: Duration::from_secs(5),
        }
    }
}

/// Slow limits must not make a slow API wait for its own calls.
const MIN_CONCURRENCY: u32 = 16;

/// More sockets to one API help no caller.
const MAX_CONCURRENCY: u32 = 1_024;

/// A tenth in parts per million: usage fluctuates by less.
const TENTH: u32 = 100_000;

/// The name of the group for calls without a route.
pub const DEFAULT_GROUP: &str = "default";
