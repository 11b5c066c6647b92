//! Report of an upstream at one instant, as plain data.

mod collect;

use std::fmt;
use std::time::Duration;

use outflow_core::{CountBy, HealthSnapshot, Limit, LimitDrift, Nanos, Rate, TrendShape, Usage};
use smol_str::SmolStr;

use super::explain::{LoweredLimit, OverrideNote};

pub(super) use collect::ReportCollector;

/// One API at one instant.
#[derive(Clone, Debug)]
pub struct UpstreamReport {
    /// The instant.
    pub at: Nanos,
    /// The number of waiting calls.
    pub waiting: usize,
    /// The health of the API, or of each group.
    pub health: Vec<HealthReport>,
    /// The limits that count all calls.
    pub limits: Vec<LimitReport>,
    /// The groups.
    pub groups: Vec<GroupReport>,
}

/// One circuit.
#[derive(Clone, Debug)]
pub struct HealthReport {
    /// The group, if each group has its own health.
    pub group: Option<SmolStr>,
    /// The health.
    pub snapshot: HealthSnapshot,
    /// The number of calls in flight.
    pub in_flight: u32,
    /// The allowed number of calls in flight.
    pub concurrency: u32,
    /// Concurrency, if it delays waiting calls that the limits allow.
    pub bound: Option<ConcurrencyBound>,
    /// The limit of [`reason`](Self::reason) if it names one, else the slowest for all calls; without such a limit, the
    /// slowest of a group.
    pub rate: Option<CircuitRate>,
    /// The author of the override, if an operator forces the state.
    pub forced_by: Option<OverrideNote>,
    /// The sentence that names what binds calls now, if anything does.
    pub reason: Option<String>,
}

/// The rate of a limit that holds under a circuit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CircuitRate {
    /// The group whose limit it is; without one, it is the API's.
    pub group: Option<SmolStr>,
    /// The rate in effect.
    pub effective: Rate,
    /// The configured rate.
    pub configured: Rate,
}

/// Concurrency that delays calls which the limits allow.
///
/// ```
/// let bound = outflow::ConcurrencyBound { concurrency: 4, rate: Some("500/min".parse()?) };
/// assert_eq!(
///     bound.to_string(),
///     "4 of 4 calls in flight: concurrency binds, not the limit 500/min; raise `concurrency`"
/// );
/// # Ok::<(), outflow::core::InvalidRate>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ConcurrencyBound {
    /// The allowed number of calls in flight, all of which are.
    pub concurrency: u32,
    /// The slowest limit, if there is one.
    pub rate: Option<Rate>,
}

impl fmt::Display for ConcurrencyBound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { concurrency, rate } = self;
        write!(f, "{concurrency} of {concurrency} calls in flight: concurrency binds")?;
        if let Some(rate) = rate {
            write!(f, ", not the limit {rate}")?;
        }
        f.write_str("; raise `concurrency`")
    }
}

/// One limit.
#[derive(Clone, Debug)]
pub struct LimitReport {
    /// The limit in effect.
    pub limit: Limit,
    /// Its usage by this process.
    pub usage: Usage,
    /// Its usage by all processes, if they share it.
    pub shared: Option<SharedUsage>,
    /// Its distance from the configured limit, as far as evidence lowered it.
    pub drift: Option<LimitDrift>,
    /// Its distance from the configured limit, with the cause that binds now.
    pub lowered: Option<LoweredLimit>,
    /// Its usage in recent windows.
    pub history: UsageHistory,
}

/// Usage of a limit by all processes that share it, as of the last answer of the ledger.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SharedUsage {
    /// The units that arrived and still count.
    pub arrived: u64,
    /// The units that processes hold, sent or not.
    pub held: u64,
    /// The part of these that this process holds.
    pub held_here: u64,
    /// The number of processes that hold or want units, this one included.
    pub processes: usize,
}

/// Usage of a limit in recent windows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UsageHistory {
    /// The highest usage in each of the last windows, oldest first, at most
    /// [`Trend::DEFAULT_WINDOWS`](outflow_core::Trend::DEFAULT_WINDOWS) of them.
    pub windows: Vec<u64>,
    /// The highest usage so far.
    pub peak: u64,
    /// The probable usage of the next window, if it can be predicted.
    pub prediction: Option<u64>,
    /// The direction of the usage.
    pub pattern: TrendShape,
    /// True if the usage has been near the limit for long.
    pub alert: bool,
}

/// One group.
#[derive(Clone, Debug)]
pub struct GroupReport {
    /// The name.
    pub name: SmolStr,
    /// The number of waiting calls.
    pub waiting: u64,
    /// The number of permits granted so far.
    pub admitted: u64,
    /// The number of refusals so far.
    pub refused: u64,
    /// The group's own limits.
    pub limits: Vec<LimitReport>,
}

/// A limit in effect, for a store that shares it or a scheduler that paces by it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EffectiveLimit {
    /// The calls that it counts.
    pub scope: LimitScope,
    /// The rate in effect.
    pub rate: Rate,
    /// The part of a call that it counts.
    pub measure: CountBy,
}

/// Calls that a limit counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LimitScope {
    /// All calls of the API.
    Api,
    /// The calls of one group.
    Group,
}

/// Quota of a limit, for response headers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RemainingQuota {
    /// The rate in effect.
    pub rate: Rate,
    /// The units that it allows at once.
    pub capacity: u64,
    /// The units left.
    pub left: u64,
    /// The time until quota returns, if it is known and any is used.
    pub more_in: Option<Duration>,
}

impl RemainingQuota {
    /// Returns the quota of which the smaller fraction is left.
    pub(super) fn fuller(self, other: Self) -> Self {
        let scaled = |one: Self, by: Self| u128::from(one.left) * u128::from(by.capacity);
        if scaled(other, self) < scaled(self, other) {
            other
        } else {
            self
        }
    }
}
