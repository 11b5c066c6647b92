//! Runs durable jobs of many tenants through the client, fairly.
//!
//! A job leaves its queue only with its permits: the scheduler acquires a permit of the API, then claims the next job.
//! So no job is attempted, refused and put back. Workers send through the client; their results are stored in batches,
//! and a notifier reports the end of each action. This crate opens no connection and changes no meter: both belong to
//! the client. The store keeps the jobs.
//!
//! The congestion formula estimates the wait of a job that lacks quota. It gives levels, estimates and alerts, and
//! drives two alternative schedulers.

pub mod config;
mod congestion;
mod engine;
mod error;
mod events;
mod format;
mod maintenance;
mod metrics;
mod open;
mod previous_run;
mod progress;
mod results;
mod scheduler;
mod session;
mod settings;
mod submit;
mod worker;

pub use config::location::{StoreLocation, data_dir};
pub use congestion::{CongestionSummary, TenantCongestion};
pub use engine::{Engine, EngineBuilder};
pub use error::BulkError;
pub use events::BulkEvent;
pub use format::{JobLine, views};
pub use open::{OpenError, OpenStore, RunningEngine, StoreEngine};
pub use previous_run::PreviousRun;
pub use progress::ActionProgress;
pub use progress::in_flight_bound::InFlightBound;
pub use progress::lower_bound::LowerBound;
pub use progress::tenant_bounds::{JobRate, TenantBound, TenantBounds};
pub use progress::throughput::Throughput;
pub use progress::workload::{TenantWorkload, WorkAmount, Workload};
pub use results::failure_reasons::FailureReasons;
pub use results::summary::ActionSummary;
pub use results::webhook::Webhook;
pub use settings::{EngineSettings, RetentionSettings, SchedulerKind, WorkerSettings};
pub use submit::job_payload::{HttpCall, InvalidPayload};
pub use submit::lane::Lane;
pub use submit::{JobDestination, JobPlacement, JobSpec, JobSubmission, JobWork, SubmittedJob};
pub use worker::handler::{Handler, HandlerError, HandlerOutput, HandlerTask};
