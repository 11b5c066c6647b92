//! Job stores: keep jobs until they are over, across crashes and machines.
//!
//! One contract, [`JobStore`], and two stores that implement it: an embedded one in a directory of this
//! process, and Redis, which many machines share. Only this crate knows files, `SQLite` and Redis. The
//! core decides about limits and fair order; the engine gives jobs their meaning.

mod action;
mod any_store;
mod claim;
mod contract;
mod dead_letter;
mod embedded;
mod error;
mod job;
mod name;
mod redis;
mod settle;
mod tenant;

pub use action::{ActionReport, ActionSpec, ActionStage, FinishedQuery, JobCounts, RemainingInLane, RemainingWork};
pub use any_store::AnyStore;
pub use claim::{
    AllowAll, ClaimBatch, ClaimDecision, ClaimFilter, ClaimRequest, ClaimedJob, FencingToken, HeartbeatResult,
    LaneLoad, NextJob, ReapResult, StoreLimits,
};
pub use contract::{
    ActionStore, DeadLetterStore, JobQueue, JobStore, StoreControl, StoreFuture, StoreResult, TenantStore,
};
pub use dead_letter::{DeadLetter, DeadLetterFilter};
pub use embedded::{EmbeddedStore, Writer};
pub use error::StoreError;
pub use job::{AttemptError, BatchPosition, NewJob, SubmitBatch, SubmitReceipt, SubmitResult};
pub use name::{InvalidName, Name};
pub use redis::{RedisAccount, RedisLedger, RedisOptions, RedisStore, ReplicaWait};
pub use settle::{CooldownScope, Defer, JobEnd, JobOutcome, JobStatus, SettleResult, Settlement, StoredResult};
pub use tenant::{
    CongestionRecord, CongestionSample, ControlScope, LaneBacklog, PageRequest, TenantReport, TenantRule,
};
