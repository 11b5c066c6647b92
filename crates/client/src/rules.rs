//! What an API allows and how its callers are treated, as plain values.
//!
//! These are the rules behind the door and nothing else: no address, key or file. A program that
//! sends by other means writes them by hand; a configuration file is read into them. Whether they fit
//! together is checked once, where a door is made from them.

use std::sync::Arc;
use std::time::Duration;

use http::Method;
use outflow_core::{
    Accounting, AdaptiveMode, Cost, Dialects, HealthConfig, Limit, Policy, Rate, Share, UsageAlert,
};
use smol_str::SmolStr;

use crate::path_pattern::PathPattern;

/// The rules of one API.
///
/// ```
/// use outflow::Rules;
///
/// let rules = Rules::with_limit("10/s".parse()?);
/// assert_eq!(rules.limits.len(), 1);
/// assert!(rules.groups.is_empty(), "every call is of the group `default`");
/// # Ok::<(), outflow::core::InvalidRate>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rules {
    /// Limits that every call of the API counts against, whatever its group.
    pub limits: Vec<Limit>,
    /// Groups of endpoints with limits of their own. One called `default` takes what no route names.
    pub groups: Vec<Group>,
    /// Which call is of which group; the first that matches decides.
    pub routes: Vec<Route>,
    /// What becomes of a call that cannot go at once.
    pub mode: WaitMode,
    /// The longest that a call waits for its permit, unless its caller says less.
    pub max_wait: Duration,
    /// The most calls that wait at once; the next one is refused.
    pub queue: usize,
    /// How long one attempt can take: one that was given up may still arrive until then.
    pub timeout: Duration,
    /// The variables of the state machine, and with them how many calls may be in flight.
    pub health: HealthConfig,
    /// Whether groups fall ill together.
    pub health_scope: HealthScope,
    /// What becomes of a call while the state lets none go.
    pub when_asleep: WhenAsleep,
    /// What the end of an attempt means.
    pub policy: Policy,
    /// How far evidence may move the limits.
    pub adaptive: AdaptiveMode,
    /// Whose headers are believed.
    pub dialects: Dialects,
    /// When somebody is told that little is left.
    pub thresholds: AlertThresholds,
}

impl Rules {
    /// No limit at all, and the usual treatment.
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

    /// What holds where nothing is configured: five calls a second.
    pub fn with_default_limit() -> Self {
        Rate::per_second(5).map_or_else(|_| Self::unlimited(), Self::with_limit)
    }

    /// One exact limit, counted as calls arrive at the server.
    pub fn with_limit(rate: Rate) -> Self {
        Self {
            limits: vec![Limit::sliding(rate).counted(Accounting::Tight)],
            ..Self::unlimited()
        }
    }
}

/// Endpoints that share limits.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Group {
    /// What it is called in reports.
    pub name: SmolStr,
    /// Other names by which it may be asked for.
    pub aliases: Vec<SmolStr>,
    /// Its own limits, beside those of the API. Shared by all who keep the rules: there may be a
    /// hundred thousand groups.
    pub limits: Arc<[Limit]>,
    /// What one call costs unless its route or its caller says otherwise.
    pub cost: Cost,
}

impl Group {
    /// A group of this name, with these limits and calls of cost 1.
    pub fn new(name: &str, limits: Vec<Limit>) -> Self {
        Self {
            name: SmolStr::new(name),
            aliases: Vec::new(),
            limits: limits.into(),
            cost: Cost::ONE,
        }
    }
}

/// Which calls are of a group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Route {
    /// The methods it is about; none means all.
    pub methods: Vec<Method>,
    /// The paths it is about.
    pub pattern: PathPattern,
    /// The group, by name or alias.
    pub group: SmolStr,
    /// What such a call costs, if not what its group says.
    pub cost: Option<Cost>,
}

/// What becomes of a call that cannot go at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum WaitMode {
    /// It waits for its turn, as long as its deadline allows.
    #[default]
    Wait,
    /// It is refused at once and told when to come back.
    Reject,
}

/// Whether groups fall ill together.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum HealthScope {
    /// One state for the whole API.
    #[default]
    Api,
    /// One state for each group: a ban on orders does not stop quotes.
    Group,
}

/// What becomes of a call while the state lets none go.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum WhenAsleep {
    /// It is refused at once and told when that ends, as callers of a circuit breaker expect.
    #[default]
    Refuse,
    /// It waits if its deadline allows it, for callers who would only ask again.
    Wait,
}

/// When somebody is told that little is left. Nothing is decided by these: a limit that is nearly used
/// up is still a limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AlertThresholds {
    /// The share of a limit whose use is worth an alert.
    pub usage: Share,
    /// The memory of an API's meters, in bytes, that is worth one.
    pub memory: u64,
    /// How often statistics are brought up to date.
    pub statistics_every: Duration,
}

impl AlertThresholds {
    /// An alert at this use, held for ten seconds, that is over a tenth of the limit below.
    pub(crate) fn alert(&self) -> UsageAlert {
        let part = self.usage.as_parts_per_million();
        let rest = Share::parts_per_million(part.saturating_sub(TENTH));
        UsageAlert::new(self.usage, rest, Duration::from_secs(10)).unwrap_or_default()
    }
}

impl Default for AlertThresholds {
    /// Four fifths of a limit, 50 MB of meters, every five seconds.
    fn default() -> Self {
        Self {
            usage: Share::percent(80),
            memory: 50_000_000,
            statistics_every: Duration::from_secs(5),
        }
    }
}

/// A tenth, of a million: use trembles by less than that.
const TENTH: u32 = 100_000;

/// The name of the group that takes what no route names.
pub const DEFAULT_GROUP: &str = "default";
