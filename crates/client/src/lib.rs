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
mod bell;
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
mod pattern;
mod preset;
pub mod redact;
mod refusal;
mod registry;
mod rules;
mod send;
mod tasks;
pub mod trace;
mod upstream;

pub use self::http::{
    Connect, Connecting, InvalidTransport, Resolve, Resolving, Stream, Unresolved,
};
pub use api::{Addresses, Api, CacheMode, Credential, Place, Proxy, RetryRules, Timeouts, Trust};
pub use base_url::{BaseUrl, InvalidBaseUrl, InvalidPath};
pub use cache::{Cache, CacheError, CacheSettings, CacheStatus};
pub use client::{
    Body, Builder, CacheUse, Call, Changes, InitError, InvalidClient, Outflow, Response, Unfit,
};
pub use clock::SystemClock;
pub use config::Config;
pub use error::Error;
pub use event::{Event, Events, Observer};
pub use layer::{Govern, Governed, GovernedBody, Governing, Stopped};
pub use pattern::{InvalidPattern, Pattern};
pub use preset::Preset;
pub use refusal::{Cause, Explanation, Refusal, Why};
pub use registry::{DEFAULT_MOST_NAMES, Full, Handle, Registry};
pub use rules::{DEFAULT_GROUP, Group, HealthScope, Mode, Route, Rules, Thresholds, WhenAsleep};
pub use tasks::{CannotStart, Crowd, Drained, Stop, TaskReport, Tasks};
pub use upstream::{
    Admit, Alerted, Answer, Ask, Ceiling, Extent, GroupReport, HealthReport, History, InvalidRules,
    Lesson, LimitReport, Part, Permit, Room, SharedTimer, Tail, Target, Upstream, UpstreamReport,
    Verdict,
};

/// The README's example, compiled and run with the documentation's own.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
