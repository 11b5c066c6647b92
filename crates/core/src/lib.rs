//! Decides if a call may go, how long it waits and which health state an API is in.
//!
//! This crate reads no clock, opens no socket, spawns no task and draws no random number. Time and
//! entropy are arguments, so every decision can be replayed and every law tested. Decisions cannot
//! fail; they can only refuse.

#![no_std]

extern crate alloc;
#[cfg(any(test, loom))]
extern crate std;

#[macro_use]
mod named_enum;

mod account;
mod adaptive;
mod alert;
mod arrival_time;
mod backoff;
mod byte_cursor;
mod congestion;
mod count_by;
mod decision;
mod error_window;
mod fair_queue;
mod gcra;
mod health;
mod http_date;
mod limit;
mod meter;
mod meter_events;
mod meter_set;
mod outcome;
mod pacing;
mod policy;
mod rate;
mod receipt_set;
mod reconcile;
mod retry_after;
mod retry_budget;
mod server_hints;
mod shared_limiter;
mod time;
mod timestamp;
mod trend;
mod usage;
mod utc_date;

pub use account::{
    Account, CallArrivals, FactUpdate, FactsObserver, InvalidAccount, LeaseAnswer, LeaseMark, LeaseRenewal,
    LeaseRequest, LeaseTerms, LeaseUnits, LedgerError, LedgerTerms, LimitUsage, MAX_FACT_WORDS, QuotaLease,
    QuotaLedger, QuotaWant, RenewalRefusal, RenewalReply, SharedFacts,
};
pub use adaptive::{AdaptiveLimit, AdaptiveMode, AdaptiveSnapshot, Evidence, LimitChange, LimitDrift, PassedUnits};
pub use alert::{
    Alert, AlertChange, AlertSeverity, CongestionAlert, CongestionWatch, InvalidAlert, Observation, UsageAlert,
};
pub use arrival_time::{MinRtt, RequestTiming};
pub use backoff::{Backoff, InvalidBackoff};
pub use congestion::{
    Congestion, CongestionLevel, CongestionRule, CongestionSnapshot, CongestionStats, InvalidCongestion, StatsWindow,
    StillWaiting, ThrottleCounts, estimate_completion, rate_limit_speed,
};
pub use count_by::{CountBy, UnitCost};
pub use decision::Decision;
pub use error_window::{ErrorWindow, OutcomeCounts};
pub use fair_queue::{Eligibility, FairCharge, FairQueue, InvalidWeight, Priority, Tenant, Weight};
pub use health::{
    CircuitState, CooldownRule, Escalation, Health, HealthChange, HealthConfig, HealthConfigError, HealthDecision,
    HealthOverride, HealthSettings, HealthSnapshot, HealthState, HealthTicket, HealthTransition, InvalidHealth,
    LimitContext, ProbeInstant, ProbePatience, RampRule, RampStage, RateFactor, SharedWait, ThrottleExit,
    TransitionFigures, TransitionReason,
};
pub use http_date::{HttpDate, InvalidHttpDate, ResponseTime};
pub use limit::{Accounting, Cost, InvalidLimit, Limit, LimitKind, Pacing, Share};
pub use meter::{Meter, MeterStatus, Receipt};
pub use meter_events::MeterEvent;
pub use meter_set::{CarryOver, DecisionCounts, MeterSet, TooManyLimits};
pub use outcome::{AttemptEnd, AttemptReport, Fault, Outcome, OutcomeClass};
pub use pacing::WaitTime;
pub use policy::{Classification, Handling, Policy, PolicyRule, RetryAfterUse, Retryability, RuleMatch};
pub use rate::{InvalidRate, Rate};
pub use receipt_set::{MAX_LIMITS, ReceiptSet};
pub use reconcile::{LocalUsage, UsageCorrection, UsageLedger, UsageMark};
pub use retry_after::{InvalidWaitBounds, MalformedRetryAfter, RetryAfter, WaitBounds};
pub use retry_budget::{InvalidRetryBudget, RetryBudget, RetryBudgetSettings};
pub use server_hints::{Dialect, Dialects, Hint, HintLabel, HintUnit, Hints};
pub use shared_limiter::{LimitTooLarge, MAX_SHARED_UNITS, SharedLimiter};
pub use time::{Clock, ClockPair, ManualClock, Nanos, Timer, TimerCallback, WallTime};
pub use timestamp::Timestamp;
pub use trend::{Trend, TrendShape};
pub use usage::Usage;
pub use utc_date::UtcDate;
