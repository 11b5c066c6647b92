//! Client library: waits, sends, classifies, retries, caches and reports within one process.
//!
//! Most programs use [`Outflow`]: built once from a [`Config`], it calls APIs by name, waits for
//! permits, retries safe requests and serves cached responses while an API is down. [`init`] sets one client
//! for the whole process, and [`get`] or [`request`] then call it from anywhere. With your own
//! HTTP client, use [`Upstream`] directly, or [`UpstreamLayer`] for a tower service. [`event`]s
//! report what happens and feed [`metrics`] and the [`log`]. The decisions are in [`core`].

pub use outflow_core as core;

mod api;
mod base_url;
pub mod cache;
mod client;
mod clock;
pub mod config;
mod count_guard;
mod error;
pub mod event;
mod http;
mod layer;
mod limiter_registry;
pub mod log;
mod memory_budget;
pub mod metrics;
pub mod ndjson;
mod path_pattern;
mod preset;
pub mod redact;
pub mod refusal;
mod rules;
mod send;
mod tasks;
mod timer_thread;
pub mod trace;
mod upstream;

pub use self::http::{Connect, Connecting, HOP_BY_HOP, InvalidTransport, IoStream, Resolve, ResolveError, Resolving};
pub use api::{
    AddressPolicy, Api, CacheMode, Credential, CredentialPlacement, Proxy, RetryConfig, StaleOffline, ThrottledRetry,
    Timeouts, TlsTrust,
};
pub use base_url::{BaseUrl, InvalidBaseUrl, InvalidPath};
pub use cache::{Cache, CacheError, CacheSettings, CacheStatus};
pub use client::{
    ApiHandle, Body, CacheDirective, Call, InitError, InvalidClient, InvalidClientReason, Outflow, OutflowBuilder,
    ReloadChanges, Response, delete, get, global, init, post, put, request,
};
pub use clock::SystemClock;
pub use config::Config;
pub use error::{CacheMissCause, Error};
pub use event::{Event, Events, Observer};
pub use layer::{LayerError, UpstreamBody, UpstreamFuture, UpstreamLayer, UpstreamService};
pub use limiter_registry::{DEFAULT_MAX_NAMES, LimiterHandle, LimiterRegistry, RegistryFull};
pub use memory_budget::{MemoryBudget, MemoryShare};
pub use path_pattern::{InvalidPattern, PathPattern};
pub use preset::Preset;
pub use refusal::{Refusal, RefusalReason};
pub use rules::{AlertThresholds, DEFAULT_GROUP, Group, HealthScope, Route, Rules, WaitMode, WhenAsleep};
pub use tasks::{CancelToken, ShutdownReport, SpawnError, TaskGroup, TaskReport, Tasks};
pub use upstream::{
    Acquire, AcquireOptions, AttemptResult, CallDecision, CircuitRate, ConcurrencyBound, ConcurrencyRule,
    EffectiveLimit, GroupReport, HealthReport, InvalidRules, LimitFeedback, LimitReport, LimitScope, LimitSharing,
    LoweredBy, LoweredLimit, OverrideNote, PendingBody, Permit, RemainingQuota, SharedTimer, SharedUsage, StateCause,
    Target, UnansweredCalls, Upstream, UpstreamReport, UsageHistory, Verdict, WaitEstimate, WaitReason,
};

/// README example, compiled and run with the doc tests.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

/// Examples of the guide, compiled with the doc tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/guide.md")]
struct Guide;
