//! Runs durable jobs of many tenants through the client, fairly.
//!
//! A job leaves its queue only when its permit is in hand: the scheduler asks the API's own door for
//! leave, then claims the job whose turn it is, so that no job is ever tried, refused and put back.
//! Workers send by the client and nothing else; what they report is settled in batches; a watcher tells
//! when an action is complete. This crate sends nothing itself and touches no meter: both belong to the
//! client. Where jobs are kept belongs to the store.
//!
//! The formula that guesses how long a refused job should wait is here too, as a scheduler to choose
//! and as what levels, estimates and alerts are reckoned with.

mod claim_filter;
mod completion_notifier;
pub mod config;
mod congestion;
mod engine;
mod error;
mod event_log;
mod events;
mod fleet_share;
mod format;
mod global_rate;
mod handler;
mod job_payload;
mod lane;
mod lane_executor;
mod lower_bound;
mod maintenance;
mod metrics;
mod open;
mod outcome_pages;
mod pacing;
mod permit_wait;
mod pool;
mod previous_run;
mod progress;
mod result_writer;
mod scheduled_start;
mod scheduler;
mod server_clock;
mod session;
mod settings;
mod submit;
mod summary;
mod tenant_bounds;
mod tenant_limits;
mod tenant_rules;
mod tenant_sampler;
mod throughput;
mod webhook;
mod worker;
mod workload;

pub use config::location::{StoreLocation, data_dir};
pub use congestion::{CongestionSummary, TenantCongestion};
pub use engine::{Engine, EngineBuilder};
pub use error::BulkError;
pub use events::{ActionProgress, BulkEvent};
pub use format::{JobLine, views};
pub use handler::{Handler, HandlerError, HandlerOutput, HandlerTask};
pub use job_payload::{HttpCall, InvalidPayload};
pub use lane::Lane;
pub use lower_bound::LowerBound;
pub use open::{OpenError, OpenStore, RunningEngine, StoreEngine};
pub use previous_run::PreviousRun;
pub use settings::{
    EngineSettings, RetentionSettings, SchedulerKind, SharedLimitSettings, WorkerSettings,
};
pub use submit::{JobDestination, JobPlacement, JobSpec, JobSubmission, JobWork, SubmittedJob};
pub use summary::ActionSummary;
pub use tenant_bounds::{JobRate, TenantBound, TenantBounds};
pub use webhook::Webhook;
pub use workload::{TenantWorkload, WorkAmount, Workload};
