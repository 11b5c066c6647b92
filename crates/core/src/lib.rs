//! Decides, given the time and what happened, whether a call may go, how long to wait and what
//! state an API is in.
//!
//! Nothing here reads a clock, opens a socket, spawns a task or draws a random number: time and
//! entropy come in as arguments, so every decision can be replayed and every law tested. Decisions
//! cannot fail, they can only refuse.

#![no_std]

extern crate alloc;
#[cfg(any(test, loom))]
extern crate std;

mod alert;
mod congestion;
mod decision;
mod fair;
mod limit;
mod rate;
mod time;
mod trend;
mod usage;

pub use alert::{
    Alert, AlertChange, CongestionAlert, CongestionWatch, InvalidAlert, Severity, Sight, UsageAlert,
};
pub use congestion::{
    Congestion, CongestionLevel, CongestionRule, CongestionStats, InvalidCongestion, Snapshot,
    StatsWindow, StillWaiting, Throttles, estimate_completion, rate_limit_speed,
};
pub use decision::Decision;
pub use fair::{FairOrder, InvalidWeight, Priority, Standing, Tag, Tenant, Weight};
pub use limit::{Accounting, Cost, InvalidLimit, Kind, Limit, Pacing, Share};
pub use rate::{InvalidRate, Rate};
pub use time::{Clock, ManualClock, Nanos, WallTime};
pub use trend::{Pattern, Trend};
pub use usage::Usage;
