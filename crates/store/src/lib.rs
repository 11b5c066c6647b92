//! Keeps what must outlive a call or be seen by others: jobs in a queue.
//!
//! One contract, [`JobStore`], and two stores that keep it: an embedded one, in a directory of this
//! process, and Redis, a server that many machines share. Files, `SQLite` and Redis are known here and
//! nowhere else. What a limit allows is decided by the core, whose turn it is as well; what a job
//! means is known to the engine alone.

mod action;
mod claim;
mod dead;
mod embedded;
mod error;
mod job;
mod jobs;
mod name;
mod plan;
mod redis;
mod settle;
mod tenant;

pub use action::{ActionReport, ActionSpec, Left, LeftAt, RipeAsk, Stage, Tally};
pub use claim::{Admission, Beat, ClaimAsk, Claimed, Claims, Gate, Head, OpenGate, Reaped, Token};
pub use dead::{DeadLetter, DeadPick};
pub use embedded::{Embedded, Writer};
pub use error::StoreError;
pub use job::{Batch, Mishap, NewJob, Receipt, Rest, Submitted};
pub use jobs::{Answer, JobStore};
pub use name::{InvalidName, Name};
pub use plan::{SharedLimit, SharedPlan, Start};
pub use redis::{Redis, RedisOptions, Replicas};
pub use settle::{End, Ended, Kept, Outcome, Park, PutOff, Settled, Settlement};
pub use tenant::{Page, Scope, Snapshot, TenantReport, TenantRule};
