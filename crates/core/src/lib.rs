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
mod arrival_time;
mod backoff;
mod utc_date;
mod congestion;
mod decision;
mod error_window;
mod fair_queue;
mod gcra;
mod receipt_set;
mod health;
mod http_date;
mod adaptive;
mod limit;
mod shared_limiter;
mod count_by;
mod meter;
mod meter_set;
mod outcome;
mod pacing;
mod policy;
mod rate;
mod reconcile;
mod retry_after;
mod retry_budget;
mod byte_cursor;
mod server_hints;
mod time;
mod trend;
mod usage;
mod meter_events;

pub use alert::{
    Alert, AlertChange, CongestionAlert, CongestionWatch, InvalidAlert, AlertSeverity, Observation, UsageAlert,
};
pub use arrival_time::{RequestTiming, MinRtt};
pub use backoff::{Backoff, InvalidBackoff};
pub use congestion::{
    Congestion, CongestionLevel, CongestionRule, CongestionSnapshot, CongestionStats,
    InvalidCongestion, StatsWindow, StillWaiting, ThrottleCounts, estimate_completion, rate_limit_speed,
};
pub use decision::Decision;
pub use error_window::{ErrorWindow, OutcomeCounts};
pub use fair_queue::{Eligibility, FairQueue, InvalidWeight, Priority, FairCharge, Tenant, Weight};
pub use receipt_set::{ReceiptSet, MAX_LIMITS};
pub use health::{
    HealthDecision, HealthChange, CircuitState, Escalation, RateFactor, Health, HealthConfig, HealthConfigError,
    HealthSettings, HealthOverride, InvalidHealth, RampStage, TransitionReason, HealthSnapshot, HealthState, StreakRule, HealthTicket,
    HealthTransition,
};
pub use http_date::{HttpDate, InvalidHttpDate, ResponseTime};
pub use adaptive::{AdaptiveMode, LimitDrift, Evidence, AdaptiveLimit, AdaptiveSnapshot, LimitChange};
pub use limit::{Accounting, Cost, InvalidLimit, LimitKind, Limit, Pacing, Share};
pub use shared_limiter::{LimitTooLarge, SharedLimiter, MAX_SHARED_UNITS};
pub use count_by::{CountBy, UnitCost};
pub use meter::{Meter, Receipt, MeterStatus};
pub use meter_set::{DecisionCounts, CarryOver, MeterSet, TooManyLimits};
pub use outcome::{AttemptReport, OutcomeClass, AttemptEnd, Fault, Outcome, Signs};
pub use pacing::WaitTime;
pub use policy::{Classification, Policy, Retryability, PolicyRule, Handling, RetryAfterUse, RuleMatch};
pub use rate::{InvalidRate, Rate};
pub use reconcile::{UsageCorrection, UsageLedger, UsageMark, LocalUsage};
pub use retry_after::{MalformedRetryAfter, InvalidWaitBounds, RetryAfter, WaitBounds};
pub use retry_budget::{InvalidRetryBudget, RetryBudget, RetryBudgetSettings};
pub use server_hints::{Dialect, Dialects, Hint, Hints, HintLabel, HintUnit};
pub use time::{TimerCallback, Clock, ManualClock, ClockPair, Nanos, Timer, WallTime};
pub use trend::{TrendShape, Trend};
pub use usage::Usage;
pub use meter_events::MeterEvent;
