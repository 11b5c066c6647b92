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

mod civil;
mod decision;
mod http_date;
mod learned;
mod limit;
mod rate;
mod reconcile;
mod retry_after;
mod scan;
mod server_hints;
mod time;

pub use decision::Decision;
pub use http_date::{HttpDate, InvalidHttpDate, ResponseTime};
pub use learned::{Adaptive, Drift, Evidence, Learned, LearnedSnapshot, Reaction};
pub use limit::{Accounting, Cost, InvalidLimit, Kind, Limit, Pacing, Share};
pub use rate::{InvalidRate, Rate};
pub use reconcile::{Correction, Ours};
pub use retry_after::{Garbage, InvalidWaitBounds, RetryAfter, WaitBounds};
pub use server_hints::{Dialect, Dialects, Hint, Hints, Label, Unit};
pub use time::{Clock, ManualClock, Nanos, WallTime};
