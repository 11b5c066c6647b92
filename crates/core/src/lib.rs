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

mod backoff;
mod decision;
mod error_window;
mod health;
mod limit;
mod outcome;
mod policy;
mod rate;
mod retry_budget;
mod time;

pub use backoff::{Backoff, InvalidBackoff};
pub use decision::Decision;
pub use error_window::{ErrorWindow, OutcomeCounts};
pub use health::{
    Admission, Change, Circuit, Escalation, Factor, Health, HealthConfig, HealthMistake,
    HealthSettings, Hold, InvalidHealth, RampStage, Reason, Snapshot, State, Streak, Ticket,
    Transition,
};
pub use limit::{Accounting, Cost, InvalidLimit, Kind, Limit, Pacing, Share};
pub use outcome::{Attempt, Effect, Ended, Fault, Outcome, Signs};
pub use policy::{Classified, Policy, Retry, Rule, Treatment, Waiting, When};
pub use rate::{InvalidRate, Rate};
pub use retry_budget::{InvalidRetryBudget, RetryBudget, RetryBudgetSettings};
pub use time::{Clock, ManualClock, Nanos, WallTime};
