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
mod arrival;
mod backoff;
mod civil;
mod congestion;
mod decision;
mod error_window;
mod fair;
mod gcra;
mod grant;
mod health;
mod http_date;
mod learned;
mod limit;
mod limiter;
mod measure;
mod meter;
mod meter_set;
mod outcome;
mod pace;
mod policy;
mod rate;
mod reconcile;
mod retry_after;
mod retry_budget;
mod scan;
mod server_hints;
mod time;
mod trend;
mod usage;
mod watch;

pub use alert::{
    Alert, AlertChange, CongestionAlert, CongestionWatch, InvalidAlert, Severity, Sight, UsageAlert,
};
pub use arrival::{Journey, RoundTrips};
pub use backoff::{Backoff, InvalidBackoff};
pub use congestion::{
    Congestion, CongestionLevel, CongestionRule, CongestionSnapshot, CongestionStats,
    InvalidCongestion, StatsWindow, StillWaiting, Throttles, estimate_completion, rate_limit_speed,
};
pub use decision::Decision;
pub use error_window::{ErrorWindow, OutcomeCounts};
pub use fair::{Awaits, FairOrder, InvalidWeight, Priority, Tag, Tenant, Weight};
pub use grant::{Grant, MAX_LIMITS};
pub use health::{
    Admission, Change, Circuit, Escalation, Factor, Health, HealthConfig, HealthMistake,
    HealthSettings, Hold, InvalidHealth, RampStage, Reason, Snapshot, State, Streak, Ticket,
    Transition,
};
pub use http_date::{HttpDate, InvalidHttpDate, ResponseTime};
pub use learned::{Adaptive, Drift, Evidence, Learned, LearnedSnapshot, Reaction};
pub use limit::{Accounting, Cost, InvalidLimit, Kind, Limit, Pacing, Share};
pub use limiter::{LimitTooLarge, Limiter, MAX_SHARED_UNITS};
pub use measure::{Measure, Toll};
pub use meter::{Meter, Receipt, Standing};
pub use meter_set::{Counts, Heritage, MeterSet, TooManyLimits};
pub use outcome::{Attempt, Effect, Ended, Fault, Outcome, Signs};
pub use pace::WaitTime;
pub use policy::{Classified, Policy, Retry, Rule, Treatment, Waiting, When};
pub use rate::{InvalidRate, Rate};
pub use reconcile::{Correction, Ledger, Mark, Ours};
pub use retry_after::{Garbage, InvalidWaitBounds, RetryAfter, WaitBounds};
pub use retry_budget::{InvalidRetryBudget, RetryBudget, RetryBudgetSettings};
pub use server_hints::{Dialect, Dialects, Hint, Hints, Label, Unit};
pub use time::{Alarm, Clock, ManualClock, Moment, Nanos, Timer, WallTime};
pub use trend::{Pattern, Trend};
pub use usage::Usage;
pub use watch::MeterEvent;
