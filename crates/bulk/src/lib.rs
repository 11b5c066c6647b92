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

mod congestion;
mod engine;
mod error;
mod events;
mod maintenance;
mod metrics;
mod progress;
mod results;
mod scheduler;
mod session;
mod settings;
mod shared;
mod submit;
mod worker;

pub use congestion::{CongestionSummary, TenantCongestion};
pub use engine::{Engine, EngineBuilder};
pub use error::BulkError;
pub use events::{ActionProgress, BulkEvent};
pub use progress::lower_bound::LowerBound;
pub use progress::workload::{TenantWorkload, WorkAmount, Workload};
pub use results::summary::ActionSummary;
pub use results::webhook::Webhook;
pub use settings::{
    EngineSettings, RetentionSettings, SchedulerKind, SharedLimitSettings, WorkerSettings,
};
pub use submit::job_payload::{HttpCall, InvalidPayload};
pub use submit::lane::Lane;
pub use submit::{JobDestination, JobPlacement, JobSpec, JobSubmission, JobWork, SubmittedJob};
pub use worker::handler::{Handler, HandlerError, HandlerOutput, HandlerTask};
