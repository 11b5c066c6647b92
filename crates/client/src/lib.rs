//! Turns decisions into behaviour in one process: waits, sends, classifies, retries, caches,
//! reports. The library that programs embed.
//!
//! Most programs want [`Outflow`]: made once from a [`Config`], it calls APIs by their names, waits for
//! each call's turn, repeats what may be repeated and keeps answers for when an API is gone. Whoever
//! sends by other means takes the door alone, [`Upstream`], or puts it before a tower service with
//! [`UpstreamLayer`]. What happens is told as [`event`]s, from which [`metrics`] and the [`log`] are made. The
//! decisions themselves are in [`core`].

pub use outflow_core as core;

mod api;
mod base_url;
pub mod cache;
mod client;
mod clock;
pub mod config;
mod error;
pub mod event;
mod http;
mod layer;
mod limiter_registry;
pub mod log;
pub mod metrics;
pub mod ndjson;
mod path_pattern;
mod preset;
pub mod redact;
mod refusal;
mod rules;
mod send;
mod tasks;
mod timer_thread;
pub mod trace;
mod upstream;

pub use self::http::{
    Connect, Connecting, InvalidTransport, IoStream, Resolve, ResolveError, Resolving,
};
pub use api::{
    AddressPolicy, Api, CacheMode, Credential, CredentialPlacement, Proxy, RetryConfig, Timeouts,
    TlsTrust,
};
pub use base_url::{BaseUrl, InvalidBaseUrl, InvalidPath};
pub use cache::{Cache, CacheError, CacheSettings, CacheStatus};
pub use client::{
    Body, CacheDirective, Call, InitError, InvalidClient, InvalidClientReason, Outflow,
    OutflowBuilder, ReloadChanges, Response,
};
pub use clock::SystemClock;
pub use config::Config;
pub use error::Error;
pub use event::{Event, Events, Observer};
pub use layer::{LayerError, UpstreamBody, UpstreamFuture, UpstreamLayer, UpstreamService};
pub use limiter_registry::{DEFAULT_MAX_NAMES, LimiterHandle, LimiterRegistry, RegistryFull};
pub use path_pattern::{InvalidPattern, PathPattern};
pub use preset::Preset;
pub use refusal::{Refusal, RefusalReason};
pub use rules::{
    AlertThresholds, DEFAULT_GROUP, Group, HealthScope, Route, Rules, WaitMode, WhenAsleep,
};
pub use tasks::{CancelToken, ShutdownReport, SpawnError, TaskGroup, TaskReport, Tasks};
pub use upstream::{
    Acquire, AcquireOptions, AttemptResult, EffectiveLimit, FleetShare, GroupReport, HealthReport,
    InvalidRules, LimitFeedback, LimitReport, LimitScope, PendingBody, Permit, RemainingQuota,
    SharedTimer, Target, Upstream, UpstreamReport, UsageHistory, Verdict, WaitEstimate, WaitReason,
};

/// The README's example, compiled and run with the documentation's own.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
