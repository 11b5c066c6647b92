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

mod lower_bound;
mod congestion;
mod pool;
mod job_payload;
mod workload;
mod tenant_limits;
mod engine;
mod error;
mod claim_filter;
mod handler;
mod global_rate;
mod permit_wait;
mod lane;
mod tenant_sampler;
mod metrics;
mod events;
mod outcome_pages;
mod progress;
mod pacing;
mod throughput;
mod tenant_rules;
mod scheduler;
mod server_clock;
mod session;
mod settings;
mod result_writer;
mod scheduled_start;
mod lane_executor;
mod submit;
mod summary;
mod fleet_share;
mod maintenance;
mod event_log;
mod completion_notifier;
mod webhook;
mod worker;

pub use lower_bound::LowerBound;
pub use congestion::{TenantCongestion, CongestionSummary};
pub use job_payload::{HttpCall, InvalidPayload};
pub use workload::{WorkAmount, Workload, TenantWorkload};
pub use engine::{EngineBuilder, Engine};
pub use error::BulkError;
pub use handler::{HandlerError, Handler, HandlerOutput, HandlerTask};
pub use lane::Lane;
pub use events::{BulkEvent, ActionProgress};
pub use settings::{WorkerSettings, RetentionSettings, SchedulerKind, EngineSettings, SharedLimitSettings};
pub use submit::{JobDestination, JobSpec, SubmittedJob, JobPlacement, JobSubmission, JobWork};
pub use summary::ActionSummary;
pub use webhook::Webhook;
