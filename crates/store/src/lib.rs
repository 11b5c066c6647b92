//! Keeps what must outlive a call or be seen by others: jobs in a queue.
//!
//! One contract, [`JobStore`], and two stores that keep it: an embedded one, in a directory of this
//! process, and Redis, a server that many machines share. Files, `SQLite` and Redis are known here and
//! nowhere else. What a limit allows is decided by the core, whose turn it is as well; what a job
//! means is known to the engine alone.

mod action;
mod claim;
mod dead_letter;
mod embedded;
mod error;
mod job;
mod contract;
mod name;
mod shared_limits;
mod redis;
mod settle;
mod tenant;

pub use action::{ActionReport, ActionSpec, RemainingWork, RemainingInLane, FinishedQuery, ActionStage, JobCounts};
pub use claim::{ClaimDecision, HeartbeatResult, ClaimRequest, ClaimedJob, ClaimBatch, ClaimFilter, NextJob, AllowAll, ReapResult, FencingToken};
pub use dead_letter::{DeadLetter, DeadLetterFilter};
pub use embedded::{EmbeddedStore, Writer};
pub use error::StoreError;
pub use job::{SubmitBatch, AttemptError, NewJob, SubmitReceipt, BatchPosition, SubmitResult};
pub use contract::{StoreResult, JobStore};
pub use name::{InvalidName, Name};
pub use shared_limits::{SharedLimit, SharedLimits, StartDebit};
pub use redis::{RedisStore, RedisOptions, ReplicaWait};
pub use settle::{JobEnd, JobStatus, StoredResult, JobOutcome, CooldownScope, Defer, SettleResult, Settlement};
pub use tenant::{PageRequest, ControlScope, CongestionSample, TenantReport, TenantRule};
