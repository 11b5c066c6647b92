//! Turns decisions into behaviour in one process: waits, sends, classifies, retries, caches,
//! reports. The library that programs embed.
//!
//! Most programs want [`Outflow`]: made once from a [`Config`], it calls APIs by their names, waits for
//! each call's turn, repeats what may be repeated and keeps answers for when an API is gone. Whoever
//! sends by other means takes the door alone, [`Upstream`], or puts it before a tower service with
//! [`Govern`]. What happens is told as [`event`]s, from which [`metrics`] and the [`log`] are made. The
//! decisions themselves are in [`core`].

pub use outflow_core as core;

mod api;
mod base_url;
mod timer_thread;
pub mod cache;
mod client;
mod clock;
pub mod config;
mod error;
pub mod event;
mod http;
mod layer;
pub mod log;
pub mod metrics;
pub mod ndjson;
mod path_pattern;
mod preset;
pub mod redact;
mod refusal;
mod limiter_registry;
mod rules;
mod send;
mod tasks;
pub mod trace;
mod upstream;

pub use self::http::{
    Connect, Connecting, InvalidTransport, Resolve, Resolving, IoStream, ResolveError,
};
pub use api::{AddressPolicy, Api, CacheMode, Credential, CredentialPlacement, Proxy, RetryConfig, Timeouts, TlsTrust};
pub use base_url::{BaseUrl, InvalidBaseUrl, InvalidPath};
pub use cache::{Cache, CacheError, CacheSettings, CacheStatus};
pub use client::{
    Body, OutflowBuilder, CacheDirective, Call, ReloadChanges, InitError, InvalidClient, Outflow, Response, InvalidClientReason,
};
pub use clock::SystemClock;
pub use config::Config;
pub use error::Error;
pub use event::{Event, Events, Observer};
pub use layer::{UpstreamLayer, UpstreamService, UpstreamBody, UpstreamFuture, LayerError};
pub use path_pattern::{InvalidPattern, PathPattern};
pub use preset::Preset;
pub use refusal::{RefusalReason, WaitEstimate, Refusal, WaitReason};
pub use limiter_registry::{DEFAULT_MOST_NAMES, RegistryFull, LimiterHandle, LimiterRegistry};
pub use rules::{DEFAULT_GROUP, Group, HealthScope, WaitMode, Route, Rules, AlertThresholds, WhenAsleep};
pub use tasks::{SpawnError, TaskGroup, ShutdownReport, CancelToken, TaskReport, Tasks};
pub use upstream::{
    Acquire, Alerted, AttemptResult, AcquireOptions, EffectiveLimit, LimitScope, GroupReport, HealthReport, UsageHistory, InvalidRules,
    LimitFeedback, LimitReport, FleetShare, Permit, RemainingQuota, SharedTimer, PendingBody, Target, Upstream, UpstreamReport,
    Verdict,
};

/// The README's example, compiled and run with the documentation's own.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
