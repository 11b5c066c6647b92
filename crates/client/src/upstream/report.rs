//! Everything that can be told about a door at one instant, as plain data.

use std::time::Duration;

use outflow_core::{CountBy, HealthSnapshot, Limit, LimitDrift, Nanos, Rate, TrendShape, Usage};
use smol_str::SmolStr;

/// One API at one instant.
#[derive(Clone, Debug)]
pub struct UpstreamReport {
    /// When.
    pub at: Nanos,
    /// How many wait.
    pub waiting: usize,
    /// The state of the whole API, or of each group.
    pub health: Vec<HealthReport>,
    /// The limits that every call counts against.
    pub limits: Vec<LimitReport>,
    /// The groups.
    pub groups: Vec<GroupReport>,
}

/// One state of health.
#[derive(Clone, Debug)]
pub struct HealthReport {
    /// The group it is of, if not of the whole API.
    pub group: Option<SmolStr>,
    /// The machine.
    pub snapshot: HealthSnapshot,
    /// How many calls are in flight.
    pub in_flight: u32,
    /// How many may be.
    pub concurrency: u32,
}

/// One limit.
#[derive(Clone, Debug)]
pub struct LimitReport {
    /// As it is in effect.
    pub limit: Limit,
    /// How much of it is used.
    pub usage: Usage,
    /// How far that is from what was configured.
    pub drift: Option<LimitDrift>,
    /// How it was used of late.
    pub history: UsageHistory,
}

/// How a limit was used of late.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UsageHistory {
    /// The most that was ever used at once.
    pub peak: u64,
    /// What the next window will probably use, if that can be said.
    pub prediction: Option<u64>,
    /// Which way it goes.
    pub pattern: TrendShape,
    /// Whether use has been near the limit for long.
    pub alert: Alerted,
}

/// Whether use has been near the limit for long.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Alerted {
    /// It is not, or not for long.
    No,
    /// It is.
    Yes,
}

/// One group.
#[derive(Clone, Debug)]
pub struct GroupReport {
    /// Its name.
    pub name: SmolStr,
    /// How many wait.
    pub waiting: u64,
    /// How many were let through so far.
    pub admitted: u64,
    /// How many were refused so far.
    pub refused: u64,
    /// Its own limits.
    pub limits: Vec<LimitReport>,
}

/// A limit in effect, for whoever shares it with other machines or keeps calls apart by it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EffectiveLimit {
    /// Which calls count against it.
    pub extent: LimitScope,
    /// The rate in effect.
    pub rate: Rate,
    /// What of a call counts.
    pub measure: CountBy,
}

/// Which calls count against a limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LimitScope {
    /// All of the API.
    Api,
    /// Those of one group.
    Group,
}

/// How a limit stands, for those who are told with every answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RemainingQuota {
    /// The rate in effect.
    pub rate: Rate,
    /// The most that it lets through at once.
    pub capacity: u64,
    /// How much of that is left.
    pub left: u64,
    /// How long until there is more, if that is known and any of it is used.
    pub more_in: Option<Duration>,
}

impl RemainingQuota {
    /// The one of which less is left, in parts of the whole.
    pub(super) fn fuller(self, other: Self) -> Self {
        let part = |room: Self, whole: Self| u128::from(room.left) * u128::from(whole.capacity);
        if part(other, self) < part(self, other) {
            other
        } else {
            self
        }
    }
}
