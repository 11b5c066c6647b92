//! Why a call brought nothing, as its caller sees it.
//!
//! One opaque type with questions that can be asked of it: what callers match on must be free to
//! grow. It keeps no error of the layers below, no URL, no header and no piece of a body, so neither
//! its text nor what it prints for a debugger can hold a secret.

mod reason;

use std::fmt;
use std::time::Duration;

use outflow_core::Fault;

pub(crate) use self::reason::{DecodeError, ErrorReason, RedirectError};
use crate::event::{FailureLabel, StatusLabel};
use crate::http::{AttemptFailure, FailureKind, FailureMessage, ResolveError};
use crate::refusal::{Refusal, RefusalReason, WaitReason};
use crate::upstream::Verdict;

/// Why a call brought nothing.
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

/// What went wrong.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum ErrorKind {
    /// The call could not be made as written.
    Mistake(ErrorReason),
    /// The door did not open.
    Refused(Refusal),
    /// The last attempt brought no answer.
    Failed(AttemptFailure),
    /// The caller's time was over.
    Deadline,
    /// An answer that the caller counts as none.
    Status(u16),
    /// The body is larger than is read whole.
    TooLarge(u64),
    /// The body is not what the caller wants.
    Undecoded(DecodeError),
    /// Only the cache may answer, and it has nothing.
    CacheMiss,
    /// A redirect led nowhere.
    Wandered(RedirectError),
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

    /// What a failed attempt means to its caller.
    pub(crate) fn from_failure(failure: AttemptFailure) -> Self {
        Self::new(match failure.trouble {
            FailureKind::Deadline => ErrorKind::Deadline,
            FailureKind::Fault(_)
            | FailureKind::Forbidden
            | FailureKind::CalledOff
            | FailureKind::Caller => ErrorKind::Failed(failure),
        })
    }

    pub(crate) fn kind(&self) -> &ErrorKind {
        &self.inner.kind
    }

    pub(crate) fn after(mut self, attempts: u32) -> Self {
        self.inner.attempts = attempts;
        self
    }

    pub(crate) fn with_retry_after(mut self, retry_after: Option<Duration>) -> Self {
        self.inner.retry_after = retry_after;
        self
    }

    pub(crate) fn judged(mut self, verdict: Verdict) -> Self {
        self.inner.verdict = Some(verdict);
        self
    }

    /// What the API's table made of the last attempt; nothing if none was made.
    pub fn verdict(&self) -> Option<Verdict> {
        self.inner.verdict
    }

    /// Whether time ran out: the caller's, or that of the last attempt.
    pub fn is_timeout(&self) -> bool {
        match &self.inner.kind {
            ErrorKind::Deadline => true,
            ErrorKind::Refused(refusal) => matches!(refusal.cause, RefusalReason::TooLate(_)),
            ErrorKind::Failed(failure) => failure.is_timeout(),
            _ => false,
        }
    }

    /// Whether there was no connection, so that nothing was sent.
    pub fn is_connect(&self) -> bool {
        matches!(&self.inner.kind, ErrorKind::Failed(failure) if failure.left == crate::http::BytesSent::Nothing)
    }

    /// Why the API's name has no address, if that is why there was no connection.
    pub fn unresolved(&self) -> Option<ResolveError> {
        match &self.inner.kind {
            ErrorKind::Failed(failure) => failure.unresolved(),
            _ => None,
        }
    }

    /// Whether a limit stood in the way, ours or the server's.
    pub fn is_rate_limited(&self) -> bool {
        match &self.inner.kind {
            ErrorKind::Status(code) => *code == 429,
            ErrorKind::Refused(refusal) => match &refusal.cause {
                RefusalReason::TooLate(why) | RefusalReason::Busy(why) => {
                    !matches!(why, WaitReason::State(_))
                }
                RefusalReason::Never { .. } | RefusalReason::QueueFull => true,
                _ => false,
            },
            _ => false,
        }
    }

    /// Whether the API is in a state that lets nothing go.
    pub fn is_circuit_open(&self) -> bool {
        match &self.inner.kind {
            ErrorKind::Refused(refusal) => matches!(
                refusal.cause,
                RefusalReason::Blocked { .. }
                    | RefusalReason::TooLate(WaitReason::State(_))
                    | RefusalReason::Busy(WaitReason::State(_))
            ),
            _ => false,
        }
    }

    /// Whether the door did not open, for whatever reason.
    pub fn is_refused(&self) -> bool {
        self.refusal().is_some()
    }

    /// Whether only the cache could have answered, and had nothing.
    pub fn is_cache_miss(&self) -> bool {
        self.inner.kind == ErrorKind::CacheMiss
    }

    /// Whether an answer came and its body did not, or not whole.
    pub fn is_body(&self) -> bool {
        match &self.inner.kind {
            ErrorKind::TooLarge(_) => true,
            ErrorKind::Failed(failure) => {
                failure.trouble == FailureKind::Fault(Fault::TruncatedBody)
            }
            _ => false,
        }
    }

    /// Whether the body came and is not what was asked for. The server did its work: asking again
    /// would do it twice.
    pub fn is_decode(&self) -> bool {
        matches!(self.inner.kind, ErrorKind::Undecoded(_))
    }

    /// Whether an answer came with a status that the caller counts as an error.
    pub fn is_status(&self) -> bool {
        matches!(self.inner.kind, ErrorKind::Status(_))
    }

    /// Whether a redirect led nowhere.
    pub fn is_redirect(&self) -> bool {
        matches!(self.inner.kind, ErrorKind::Wandered(_))
    }

    /// Whether the call could not be made as written: an unknown API, a path that is none.
    pub fn is_invalid_request(&self) -> bool {
        matches!(self.inner.kind, ErrorKind::Mistake(_))
    }

    /// Whether the API is not to be called with this method.
    pub fn is_method_not_allowed(&self) -> bool {
        matches!(self.inner.kind, ErrorKind::Mistake(ErrorReason::Method(_)))
    }

    /// Whether there is no API of this name.
    pub fn is_unknown_api(&self) -> bool {
        matches!(
            self.inner.kind,
            ErrorKind::Mistake(ErrorReason::UnknownApi(_))
        )
    }

    /// Whether the API's name leads into a network that may not be called.
    pub fn is_forbidden(&self) -> bool {
        matches!(&self.inner.kind, ErrorKind::Failed(failure) if failure.trouble == FailureKind::Forbidden)
    }

    /// Whether the body of the request could not be had, or not in time: the server had no part in it.
    pub fn is_upload(&self) -> bool {
        matches!(&self.inner.kind, ErrorKind::Failed(failure) if failure.trouble == FailureKind::Caller)
    }

    /// What went wrong on the way or at the server, if the last attempt ended with that.
    pub fn fault(&self) -> Option<Fault> {
        match &self.inner.kind {
            ErrorKind::Failed(failure) => match failure.trouble {
                FailureKind::Fault(fault) => Some(fault),
                _ => None,
            },
            _ => None,
        }
    }

    /// The status, if an answer came with one that counts as an error.
    pub fn status(&self) -> Option<http::StatusCode> {
        match self.inner.kind {
            ErrorKind::Status(code) => http::StatusCode::from_u16(code).ok(),
            _ => None,
        }
    }

    /// How long to wait before the same call can pass, if that is known.
    pub fn retry_after(&self) -> Option<Duration> {
        self.inner.retry_after
    }

    /// What the door said, if it did not open.
    pub fn refusal(&self) -> Option<&Refusal> {
        match &self.inner.kind {
            ErrorKind::Refused(refusal) => Some(refusal),
            _ => None,
        }
    }

    /// How many attempts were made.
    pub fn attempts(&self) -> u32 {
        self.inner.attempts
    }

    /// How metrics tell it.
    pub(crate) fn class(&self) -> StatusLabel {
        match &self.inner.kind {
            ErrorKind::Status(code) => StatusLabel::from_code(*code),
            ErrorKind::Failed(failure) if failure.trouble == FailureKind::Forbidden => {
                StatusLabel::Blocked
            }
            ErrorKind::Failed(_) if self.is_timeout() => StatusLabel::Timeout,
            ErrorKind::Failed(_) | ErrorKind::TooLarge(_) | ErrorKind::Undecoded(_) => {
                StatusLabel::Network
            }
            ErrorKind::Deadline if self.inner.attempts > 0 => StatusLabel::Timeout,
            ErrorKind::Wandered(_) => StatusLabel::Redirect,
            ErrorKind::Mistake(_)
            | ErrorKind::Refused(_)
            | ErrorKind::CacheMiss
            | ErrorKind::Deadline => StatusLabel::Blocked,
        }
    }

    /// Why it failed, as metrics tell it; nothing for what never reached the network.
    pub(crate) fn reason(&self) -> Option<FailureLabel> {
        match &self.inner.kind {
            ErrorKind::Failed(failure) => match failure.trouble {
                FailureKind::Fault(fault) => Some(failure_label(fault)),
                FailureKind::Forbidden
                | FailureKind::Deadline
                | FailureKind::CalledOff
                | FailureKind::Caller => None,
            },
            ErrorKind::TooLarge(_) => Some(FailureLabel::Body),
            ErrorKind::Deadline if self.inner.attempts > 0 => Some(FailureLabel::Timeout),
            _ => None,
        }
    }
}

/// A fault, as metrics tell it.
pub(crate) const fn failure_label(fault: Fault) -> FailureLabel {
    match fault {
        Fault::ConnectTimeout | Fault::ReadTimeout => FailureLabel::Timeout,
        Fault::Dns => FailureLabel::Dns,
        Fault::Reset => FailureLabel::Network,
        Fault::TlsHandshake | Fault::TlsCertificate => FailureLabel::Tls,
        Fault::TruncatedBody => FailureLabel::Body,
    }
}

impl From<ErrorReason> for Error {
    fn from(mistake: ErrorReason) -> Self {
        Self::new(ErrorKind::Mistake(mistake))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.inner.kind {
            ErrorKind::Mistake(mistake) => mistake.fmt(f),
            ErrorKind::Refused(refusal) => refusal.fmt(f),
            ErrorKind::Failed(failure) => match failure.words {
                FailureMessage::Phrase(phrase) => f.write_str(phrase),
                FailureMessage::Unresolved(why) => why.fmt(f),
                FailureMessage::Kind(kind) => write!(f, "the connection failed: {kind}"),
            },
            ErrorKind::Deadline => f.write_str("the deadline passed before there was an answer"),
            ErrorKind::Status(code) => write!(f, "the server answered {code}"),
            ErrorKind::TooLarge(largest) => write!(
                f,
                "the body is larger than {largest} bytes: stream it or raise `max_body`"
            ),
            ErrorKind::Undecoded(undecoded) => undecoded.fmt(f),
            ErrorKind::CacheMiss => {
                f.write_str("only the cache may answer now, and it has nothing")
            }
            ErrorKind::Wandered(wandered) => wandered.fmt(f),
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
