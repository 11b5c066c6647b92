//! The outcome of a call, before it is made.

use std::fmt::Write as _;

use outflow_core::Nanos;

use super::{ReadableSpan, UnansweredCalls, WaitEstimate, WaitReason};
use crate::event::CacheLabel;
use crate::refusal::{Refusal, RefusalReason};

/// What the program would do with a call made now.
///
/// ```
/// use std::sync::Arc;
/// use outflow::{AcquireOptions, CallDecision, Events, Rules, SystemClock, Upstream};
///
/// let rules = Rules::with_limit("1/h".parse()?);
/// let github = Upstream::new("github", rules, Arc::new(SystemClock::new()), Events::new())?;
/// let target = github.route(&http::Method::GET, "/");
/// assert_eq!(github.decide(target, AcquireOptions::new()), CallDecision::Go);
///
/// github.try_acquire(target)?.sending();
/// // The next start is in an hour, and a call waits for 30 s unless it says otherwise.
/// let decision = github.decide(target, AcquireOptions::new());
/// assert_eq!(decision.name(), "refuse");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum CallDecision {
    /// It starts now.
    Go,
    /// It waits for its permit.
    Wait(WaitEstimate),
    /// It is refused at once.
    Refuse(Refusal),
    /// The cache responds.
    Cached(CacheLabel),
    /// Only the cache may respond, and it has no response. The reason is that of the upstream, unless the caller
    /// asked for the cache alone.
    Miss(Option<RefusalReason>),
}

impl CallDecision {
    /// Returns the decision in one word: `go`, `wait`, `refuse`, `cache` or `never`.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Go => "go",
            Self::Wait(_) => "wait",
            Self::Refuse(Refusal {
                reason: RefusalReason::Never { .. },
                ..
            }) => "never",
            Self::Refuse(_) | Self::Miss(_) => "refuse",
            Self::Cached(_) => "cache",
        }
    }

    /// Returns the cause of a wait or refusal, if it is one that time or other calls end.
    pub fn wait_reason(&self) -> Option<&WaitReason> {
        match self {
            Self::Wait(estimate) => Some(&estimate.reason),
            Self::Refuse(Refusal { reason, .. }) => reason.wait_reason(),
            Self::Go | Self::Cached(_) | Self::Miss(_) => None,
        }
    }

    /// Returns the cause in one word: that of the wait, `state` for a health state, and the refusal's own name
    /// otherwise.
    pub fn cause(&self) -> Option<&'static str> {
        match self {
            Self::Go | Self::Cached(_) => None,
            Self::Wait(estimate) => Some(estimate.reason.name()),
            Self::Refuse(Refusal { reason, .. }) | Self::Miss(Some(reason)) => Some(match reason.wait_reason() {
                Some(why) => why.name(),
                None if reason.state_cause().is_some() => "state",
                None => reason.name(),
            }),
            Self::Miss(None) => Some("cache_miss"),
        }
    }

    /// Returns the number of calls ahead in the queue.
    pub const fn position(&self) -> usize {
        match self {
            Self::Wait(estimate) => estimate.position,
            _ => 0,
        }
    }

    /// Returns the sentence for people, read at `now`.
    pub fn describe(&self, now: Nanos) -> String {
        match self {
            Self::Go => "it would go now".to_owned(),
            Self::Wait(estimate) => describe_wait(estimate, now),
            Self::Refuse(refusal) if self.name() == "never" => format!("it can never go: it {refusal}"),
            Self::Refuse(refusal) => format!("it would be refused at once: {refusal}"),
            Self::Cached(CacheLabel::Stale) => "the cache would respond with a stale response".to_owned(),
            Self::Cached(_) => "the cache would respond: nothing is sent".to_owned(),
            Self::Miss(None) => "it would fail at once: only the cache may respond, and it has no response".to_owned(),
            Self::Miss(Some(reason)) => {
                format!("it would fail at once: the cache has no response, and {reason}")
            }
        }
    }
}

fn describe_wait(estimate: &WaitEstimate, now: Nanos) -> String {
    let WaitEstimate {
        reason, position, eta, ..
    } = estimate;
    let late = estimate.unanswered.filter(UnansweredCalls::are_late);
    // Calls in flight may take their time, and so may the calls ahead.
    let mut when = match eta.map(|at| ReadableSpan(at.since(now))) {
        Some(span) => format!("would go in {span} at the earliest"),
        None => "would wait for an unknown time".to_owned(),
    };
    if let Some(late) = &late {
        let span = ReadableSpan(late.start.since(now));
        let _infallible = write!(when, ", and in {span} if no response comes");
    }
    let why = late.map_or_else(|| reason.to_string(), |late| format!("{reason}; {late}"));
    match position {
        0 => format!("it {when}: {why}"),
        1 => format!("it {when}, behind 1 other call: {why}"),
        _ => format!("it {when}, behind {position} other calls: {why}"),
    }
}
