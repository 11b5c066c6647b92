//! What one attempt ended in, and what that means.
//!
//! An [`AttemptReport`] is fact: a status or a fault, and what the response said about waiting. An
//! [`Outcome`] is judgement: what the fact does to an API's health. The [`Policy`](crate::Policy)
//! stands between the two, so that "is this a failure?" has one answer for health, for retries and
//! for the circuit. Nothing here reads a header: whoever sent the request did.

use core::time::Duration;

/// The facts of one finished attempt.
///
/// ```
/// use core::time::Duration;
/// use outflow_core::{Attempt, Fault};
///
/// let refused = Attempt::status(429).asking_to_wait(Duration::from_secs(2));
/// let cut_off = Attempt::fault(Fault::TruncatedBody);
/// assert_ne!(refused, cut_off);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AttemptReport {
    ended: AttemptEnd,
    retry_after: Option<Duration>,
    signs: Signs,
}

impl AttemptReport {
    /// A complete response with this status.
    pub const fn status(code: u16) -> Self {
        Self::ending(AttemptEnd::Status(code))
    }

    /// No complete response.
    pub const fn fault(fault: Fault) -> Self {
        Self::ending(AttemptEnd::Fault(fault))
    }

    /// Given up by the caller before it ended.
    pub const fn cancelled() -> Self {
        Self::ending(AttemptEnd::Cancelled)
    }

    /// The same attempt, whose response named a time to wait.
    #[must_use]
    pub const fn with_retry_after(mut self, retry_after: Duration) -> Self {
        self.retry_after = Some(retry_after);
        self
    }

    /// The same attempt, whose response bears the signs of a rate limit whatever its status: a
    /// remaining quota of zero, a `Retry-After` on a 403, a body that says so.
    #[must_use]
    pub const fn with_rate_limit_signs(mut self) -> Self {
        self.signs = Signs::RateLimit;
        self
    }

    /// How it ended.
    pub const fn ended(&self) -> AttemptEnd {
        self.ended
    }

    /// How long the server asked to wait, if it did.
    pub const fn retry_after(&self) -> Option<Duration> {
        self.retry_after
    }

    /// Whether the response looks like a rate limit apart from its status.
    pub const fn signs(&self) -> Signs {
        self.signs
    }

    const fn ending(ended: AttemptEnd) -> Self {
        Self {
            ended,
            retry_after: None,
            signs: Signs::None,
        }
    }
}

/// How an attempt ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AttemptEnd {
    /// With a complete response of this status.
    Status(u16),
    /// Without one.
    Fault(Fault),
    /// The caller gave it up.
    Cancelled,
}

/// Why there was no complete response.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// No connection in time.
    ConnectTimeout,
    /// A connection, and no answer in time.
    ReadTimeout,
    /// The name could not be resolved.
    Dns,
    /// The connection was refused or torn down.
    Reset,
    /// The TLS handshake did not finish.
    TlsHandshake,
    /// The handshake finished with a certificate that cannot be trusted. Another attempt meets the
    /// same certificate, so unlike a broken handshake it is not worth one.
    TlsCertificate,
    /// The body ended before its end.
    TruncatedBody,
}

impl Fault {
    /// In one word, as logs and reports write it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ConnectTimeout => "connect_timeout",
            Self::ReadTimeout => "read_timeout",
            Self::Dns => "dns",
            Self::Reset => "reset",
            Self::TlsHandshake => "tls_handshake",
            Self::TlsCertificate => "tls_certificate",
            Self::TruncatedBody => "truncated_body",
        }
    }
}

/// Whether a response looks like a rate limit apart from its status.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Signs {
    /// It does not.
    None,
    /// It does.
    RateLimit,
}

/// What an attempt does to the health of its API.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Outcome {
    effect: OutcomeClass,
    retry_after: Option<Duration>,
}

impl Outcome {
    /// All is well.
    pub const SUCCESS: Self = Self::from_class(OutcomeClass::Success);
    /// An answer that says neither good nor bad of the API.
    pub const NEUTRAL: Self = Self::from_class(OutcomeClass::Neutral);
    /// No answer that anybody waited for.
    pub const CANCELLED: Self = Self::from_class(OutcomeClass::Cancelled);
    /// The server refused for its limits and gave no time.
    pub const THROTTLED: Self = Self::from_class(OutcomeClass::Throttled);
    /// The server shut us out and gave no time.
    pub const BANNED: Self = Self::from_class(OutcomeClass::Banned);
    /// The server failed.
    pub const SERVER_FAILED: Self = Self::from_class(OutcomeClass::ServerFailed);
    /// The way to the server failed.
    pub const NETWORK_FAILED: Self = Self::from_class(OutcomeClass::NetworkFailed);

    /// An outcome of this effect, with no time to wait.
    pub const fn from_class(effect: OutcomeClass) -> Self {
        Self {
            effect,
            retry_after: None,
        }
    }

    /// The same outcome, with the server's word to stay away so long.
    #[must_use]
    pub const fn with_retry_after(mut self, retry_after: Duration) -> Self {
        self.retry_after = Some(retry_after);
        self
    }

    /// What it does to health.
    pub const fn effect(&self) -> OutcomeClass {
        self.effect
    }

    /// How long the server wants us away, if it said so and is to be obeyed.
    pub const fn retry_after(&self) -> Option<Duration> {
        self.retry_after
    }
}

/// What an outcome counts as.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OutcomeClass {
    /// A success.
    Success,
    /// A refusal for the server's limits.
    Throttled,
    /// A failure of the server.
    ServerFailed,
    /// A failure on the way to the server.
    NetworkFailed,
    /// A failure of another kind that was configured to count, such as 401.
    OtherFailed,
    /// Shut out: nothing may be sent until the server's time, or for a cooldown if it gave none.
    Banned,
    /// An answer that counts as neither a success nor a failure and ends no streak. It does show
    /// that the API is there: probes that get nothing else end in recovery all the same.
    Neutral,
    /// Given up before it was answered: counts as nothing at all.
    Cancelled,
}
