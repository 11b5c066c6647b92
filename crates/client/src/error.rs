//! Error of a call, as its caller sees it.
//!
//! One opaque type with predicates, so that the set of kinds can grow. It holds no error of lower
//! layers, no URL, header or part of a body. So neither its text nor its debug output can
//! contain a secret.

mod reason;

use std::fmt;
use std::time::Duration;

use outflow_core::Fault;

pub(crate) use self::reason::{DecodeError, ErrorReason, RedirectError};
use crate::event::{FailureLabel, StatusLabel};
use crate::http::{AttemptFailure, FailureKind, FailureMessage, ResolveError};
use crate::refusal::{Refusal, RefusalReason, WaitReason};
use crate::upstream::Verdict;

/// Error of a call.
///
/// ```
/// fn worth_asking_later(error: &outflow::Error) -> bool {
///     error.is_rate_limited() || error.is_circuit_open() || error.is_timeout()
/// }
/// ```
pub struct Error {
    inner: Box<ErrorDetail>,
}

struct ErrorDetail {
    kind: ErrorKind,
    attempts: u32,
    retry_after: Option<Duration>,
    verdict: Option<Verdict>,
}

/// Kind of an error.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum ErrorKind {
    /// The call is invalid as written.
    InvalidCall(ErrorReason),
    /// The upstream refused a permit.
    Refused(Refusal),
    /// The last attempt had no response.
    Failed(AttemptFailure),
    /// The caller's deadline passed.
    Deadline,
    /// The caller treats the status as an error.
    Status(u16),
    /// The body exceeds the maximum size.
    TooLarge(u64),
    /// The body of a failed attempt does not fit into the memory budget.
    MemoryFull,
    /// The body could not be decoded.
    Undecoded(DecodeError),
    /// Only the cache may respond, and it has no response.
    CacheMiss(CacheMissCause),
    /// A redirect could not be followed.
    Redirect(RedirectError),
}

/// Reason that only the cache may respond to a call.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum CacheMissCause {
    /// The caller's option: [`CacheDirective::Only`](crate::CacheDirective::Only), or the sidecar's header for it.
    Option,
    /// The request's own `Cache-Control: only-if-cached`.
    Directive,
    /// The API takes no calls.
    Refused(Refusal),
}

impl Error {
    pub(crate) fn new(kind: ErrorKind) -> Self {
        let retry_after = match &kind {
            ErrorKind::Refused(refusal) => refusal.retry_after,
            _ => None,
        };
        let inner = Box::new(ErrorDetail {
            kind,
            attempts: 0,
            retry_after,
            verdict: None,
        });
        Self { inner }
    }

    /// Converts a failed attempt.
    pub(crate) fn from_failure(failure: AttemptFailure) -> Self {
        Self::new(match failure.kind {
            FailureKind::Deadline => ErrorKind::Deadline,
            FailureKind::Fault(_) | FailureKind::Forbidden | FailureKind::Revoked | FailureKind::Caller => {
                ErrorKind::Failed(failure)
            }
        })
    }

    pub(crate) fn kind(&self) -> &ErrorKind {
        &self.inner.kind
    }

    pub(crate) fn with_attempts(mut self, attempts: u32) -> Self {
        self.inner.attempts = attempts;
        self
    }

    pub(crate) fn with_retry_after(mut self, retry_after: Option<Duration>) -> Self {
        self.inner.retry_after = retry_after;
        self
    }

    pub(crate) fn with_verdict(mut self, verdict: Verdict) -> Self {
        self.inner.verdict = Some(verdict);
        self
    }

    /// Returns the verdict of the API's policy on the last attempt, if any was made.
    pub fn verdict(&self) -> Option<Verdict> {
        self.inner.verdict
    }

    /// Returns true if a deadline or the timeout of the last attempt passed.
    pub fn is_timeout(&self) -> bool {
        match &self.inner.kind {
            ErrorKind::Deadline => true,
            ErrorKind::Refused(refusal) => matches!(refusal.reason, RefusalReason::TooLate(_)),
            ErrorKind::Failed(failure) => failure.is_timeout(),
            _ => false,
        }
    }

    /// Returns true if there was no connection, so that nothing was sent.
    pub fn is_connect(&self) -> bool {
        self.failure()
            .is_some_and(|failure| failure.sent == crate::http::BytesSent::Nothing)
    }

    /// Returns the resolver's error, if the API's name had no address.
    pub fn resolve_error(&self) -> Option<ResolveError> {
        self.failure()?.resolve_error()
    }

    /// Returns true if a limit was exceeded, ours or the server's.
    pub fn is_rate_limited(&self) -> bool {
        match &self.inner.kind {
            ErrorKind::Status(code) => *code == 429,
            ErrorKind::Refused(refusal) => match &refusal.reason {
                RefusalReason::TooLate(reason) | RefusalReason::Busy(reason) => !matches!(reason, WaitReason::State(_)),
                RefusalReason::Never { .. } | RefusalReason::QueueFull => true,
                _ => false,
            },
            _ => false,
        }
    }

    /// Returns true if the API's health state blocks calls.
    pub fn is_circuit_open(&self) -> bool {
        match &self.inner.kind {
            ErrorKind::Refused(refusal) => refusal.reason.state_cause().is_some(),
            _ => false,
        }
    }

    /// Returns true if the upstream refused a permit.
    pub fn is_refused(&self) -> bool {
        self.refusal().is_some()
    }

    /// Returns true if only the cache could respond and had no response.
    pub fn is_cache_miss(&self) -> bool {
        self.cache_miss_cause().is_some()
    }

    /// Returns the reason that only the cache could respond, if it had no response.
    pub fn cache_miss_cause(&self) -> Option<&CacheMissCause> {
        match &self.inner.kind {
            ErrorKind::CacheMiss(cause) => Some(cause),
            _ => None,
        }
    }

    /// Returns true if a response came without its complete body.
    pub fn is_body(&self) -> bool {
        matches!(self.inner.kind, ErrorKind::TooLarge(_) | ErrorKind::MemoryFull)
            || self.fault() == Some(Fault::TruncatedBody)
    }

    /// Returns true if the memory budget had no room for the body of a response.
    pub fn is_memory_full(&self) -> bool {
        matches!(self.inner.kind, ErrorKind::MemoryFull)
    }

    /// Returns true if the body could not be decoded. The server did its work: another call would
    /// repeat it.
    pub fn is_decode(&self) -> bool {
        matches!(self.inner.kind, ErrorKind::Undecoded(_))
    }

    /// Returns true if the caller treated the status as an error.
    pub fn is_status(&self) -> bool {
        matches!(self.inner.kind, ErrorKind::Status(_))
    }

    /// Returns true if a redirect could not be followed.
    pub fn is_redirect(&self) -> bool {
        matches!(self.inner.kind, ErrorKind::Redirect(_))
    }

    /// Returns true if the call was invalid as written: an unknown API, an invalid path.
    pub fn is_invalid_request(&self) -> bool {
        matches!(self.inner.kind, ErrorKind::InvalidCall(_))
    }

    /// Returns true if the API does not allow the method.
    pub fn is_method_not_allowed(&self) -> bool {
        matches!(self.inner.kind, ErrorKind::InvalidCall(ErrorReason::Method(_)))
    }

    /// Returns true if no API has this name.
    pub fn is_unknown_api(&self) -> bool {
        matches!(self.inner.kind, ErrorKind::InvalidCall(ErrorReason::UnknownApi(_)))
    }

    /// Returns true if the API's name leads to a forbidden address.
    pub fn is_forbidden(&self) -> bool {
        self.failure()
            .is_some_and(|failure| failure.kind == FailureKind::Forbidden)
    }

    /// Returns true if the request body failed or was too slow: the server had no part in it.
    pub fn is_upload(&self) -> bool {
        self.failure()
            .is_some_and(|failure| failure.kind == FailureKind::Caller)
    }

    /// Returns the fault of the network or the server that ended the last attempt.
    pub fn fault(&self) -> Option<Fault> {
        match self.failure()?.kind {
            FailureKind::Fault(fault) => Some(fault),
            _ => None,
        }
    }

    /// Returns the status that the caller treated as an error.
    pub fn status(&self) -> Option<http::StatusCode> {
        match self.inner.kind {
            ErrorKind::Status(code) => http::StatusCode::from_u16(code).ok(),
            _ => None,
        }
    }

    /// Returns the wait until this call can pass, if it is known.
    pub fn retry_after(&self) -> Option<Duration> {
        self.inner.retry_after
    }

    /// Returns the upstream's refusal.
    pub fn refusal(&self) -> Option<&Refusal> {
        match &self.inner.kind {
            ErrorKind::Refused(refusal) => Some(refusal),
            _ => None,
        }
    }

    /// Returns the number of attempts.
    pub fn attempts(&self) -> u32 {
        self.inner.attempts
    }

    fn failure(&self) -> Option<&AttemptFailure> {
        match &self.inner.kind {
            ErrorKind::Failed(failure) => Some(failure),
            _ => None,
        }
    }

    /// Returns the status label for metrics.
    pub(crate) fn class(&self) -> StatusLabel {
        match &self.inner.kind {
            ErrorKind::Status(code) => StatusLabel::from_code(*code),
            ErrorKind::Failed(failure) if failure.kind == FailureKind::Forbidden => StatusLabel::Blocked,
            ErrorKind::Failed(_) if self.is_timeout() => StatusLabel::Timeout,
            ErrorKind::Failed(_) | ErrorKind::TooLarge(_) | ErrorKind::MemoryFull | ErrorKind::Undecoded(_) => {
                StatusLabel::Network
            }
            ErrorKind::Deadline if self.inner.attempts > 0 => StatusLabel::Timeout,
            ErrorKind::Redirect(_) => StatusLabel::Redirect,
            ErrorKind::InvalidCall(_) | ErrorKind::Refused(_) | ErrorKind::CacheMiss(_) | ErrorKind::Deadline => {
                StatusLabel::Blocked
            }
        }
    }

    /// Returns the failure label for metrics; `None` if nothing reached the network.
    pub(crate) fn reason(&self) -> Option<FailureLabel> {
        match &self.inner.kind {
            ErrorKind::Failed(_) => self.fault().map(FailureLabel::from_fault),
            ErrorKind::TooLarge(_) | ErrorKind::MemoryFull => Some(FailureLabel::Body),
            ErrorKind::Deadline if self.inner.attempts > 0 => Some(FailureLabel::Timeout),
            _ => None,
        }
    }
}

impl From<ErrorReason> for Error {
    fn from(reason: ErrorReason) -> Self {
        Self::new(ErrorKind::InvalidCall(reason))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.inner.kind {
            ErrorKind::InvalidCall(reason) => reason.fmt(f),
            ErrorKind::Refused(refusal) => refusal.fmt(f),
            ErrorKind::Failed(failure) => match failure.message {
                FailureMessage::Phrase(phrase) => f.write_str(phrase),
                FailureMessage::Unresolved(reason) => reason.fmt(f),
                FailureMessage::Kind(kind) => write!(f, "the connection failed: {kind}"),
            },
            ErrorKind::Deadline => f.write_str("the deadline passed before there was a response"),
            ErrorKind::Status(code) => write!(f, "the server responded with status {code}"),
            ErrorKind::TooLarge(max) => write!(
                f,
                "the response body is larger than {max} bytes: stream it or raise the `max_body` of the API"
            ),
            ErrorKind::MemoryFull => f.write_str("the memory for bodies is used up: retry later, or raise the budget"),
            ErrorKind::Undecoded(error) => error.fmt(f),
            ErrorKind::CacheMiss(CacheMissCause::Option | CacheMissCause::Directive) => {
                f.write_str("only the cache may respond now, and it has no response")
            }
            ErrorKind::CacheMiss(CacheMissCause::Refused(refusal)) => {
                write!(f, "only the cache may respond now, and it has no response: {refusal}")
            }
            ErrorKind::Redirect(error) => error.fmt(f),
        }?;
        match self.inner.attempts {
            0 | 1 => Ok(()),
            attempts => write!(f, " (after {attempts} attempts)"),
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Error")
            .field("kind", &self.inner.kind)
            .field("attempts", &self.inner.attempts)
            .field("retry_after", &self.inner.retry_after)
            .finish()
    }
}

impl std::error::Error for Error {}
