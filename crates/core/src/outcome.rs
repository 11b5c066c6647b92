//! The end of one attempt, and its meaning.
//!
//! An [`AttemptReport`] is fact: a status or a fault, and the server's wait. An
//! [`Outcome`] is judgement: the effect of the fact on an API's health. The
//! [`Policy`](crate::Policy) stands between the two, so that health, retries and the circuit agree
//! on failures. Nothing here reads a header: the sender does.

use core::time::Duration;

/// Facts of one finished attempt.
///
/// ```
/// use core::time::Duration;
/// use outflow_core::{AttemptReport, Fault};
///
/// let throttled = AttemptReport::status(429).with_retry_after(Duration::from_secs(2));
/// let cut_off = AttemptReport::fault(Fault::TruncatedBody);
/// assert_ne!(throttled, cut_off);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AttemptReport {
    ended: AttemptEnd,
    retry_after: Option<Duration>,
    rate_limited: bool,
}

impl AttemptReport {
    /// Reports a complete response with this status.
    pub const fn status(code: u16) -> Self {
        Self::ending(AttemptEnd::Status(code))
    }

    /// Reports an attempt without a complete response.
    pub const fn fault(fault: Fault) -> Self {
        Self::ending(AttemptEnd::Fault(fault))
    }

    /// Reports an attempt that the caller cancelled.
    pub const fn cancelled() -> Self {
        Self::ending(AttemptEnd::Cancelled)
    }

    /// Adds the wait that the response named.
    #[must_use]
    pub const fn with_retry_after(mut self, retry_after: Duration) -> Self {
        self.retry_after = Some(retry_after);
        self
    }

    /// Marks the response as rate limited independent of its status: a remaining quota of zero, a
    /// `Retry-After` on a 403, a body that says so.
    #[must_use]
    pub const fn with_rate_limit_signs(mut self) -> Self {
        self.rate_limited = true;
        self
    }

    /// Returns the end of the attempt.
    pub const fn ended(&self) -> AttemptEnd {
        self.ended
    }

    /// Returns the wait that the server asked for, if any.
    pub const fn retry_after(&self) -> Option<Duration> {
        self.retry_after
    }

    /// Returns true if the response looks rate limited apart from its status.
    pub const fn is_rate_limited(&self) -> bool {
        self.rate_limited
    }

    const fn ending(ended: AttemptEnd) -> Self {
        Self {
            ended,
            retry_after: None,
            rate_limited: false,
        }
    }
}

/// End of an attempt.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AttemptEnd {
    /// A complete response with this status.
    Status(u16),
    /// No complete response.
    Fault(Fault),
    /// The caller cancelled it.
    Cancelled,
}

named_enum! {
    /// Reason that there was no complete response.
    pub enum Fault {
        /// No connection in time.
        ConnectTimeout = "connect_timeout",
        /// A connection, and no answer in time.
        ReadTimeout = "read_timeout",
        /// The name could not be resolved.
        Dns = "dns",
        /// The connection was refused or torn down.
        Reset = "reset",
        /// The TLS handshake did not finish.
        TlsHandshake = "tls_handshake",
        /// The handshake finished with a certificate that cannot be trusted. Another attempt meets the
        /// same certificate, so unlike a broken handshake it is not worth one.
        TlsCertificate = "tls_certificate",
        /// The body ended before its end.
        TruncatedBody = "truncated_body",
        /// The response is not HTTP, or two readers could see different ends of it. Another attempt meets
        /// the same server, so it is not worth one.
        InvalidResponse = "invalid_response",
    }
}

/// Effect of an attempt on the health of its API.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Outcome {
    effect: OutcomeClass,
    retry_after: Option<Duration>,
    is_explained: bool,
}

impl Outcome {
    /// A success.
    pub const SUCCESS: Self = Self::from_class(OutcomeClass::Success);
    /// A response that says neither good nor bad of the API.
    pub const NEUTRAL: Self = Self::from_class(OutcomeClass::Neutral);
    /// The caller cancelled the attempt.
    pub const CANCELLED: Self = Self::from_class(OutcomeClass::Cancelled);
    /// The server throttled and gave no time.
    pub const THROTTLED: Self = Self::from_class(OutcomeClass::Throttled);
    /// The server banned the client and gave no time.
    pub const BANNED: Self = Self::from_class(OutcomeClass::Banned);
    /// The server failed.
    pub const SERVER_FAILED: Self = Self::from_class(OutcomeClass::ServerFailed);
    /// The network failed.
    pub const NETWORK_FAILED: Self = Self::from_class(OutcomeClass::NetworkFailed);

    /// Builds an outcome of this class, without a wait.
    pub const fn from_class(effect: OutcomeClass) -> Self {
        Self {
            effect,
            retry_after: None,
            is_explained: false,
        }
    }

    /// Adds the wait that the server asked for.
    #[must_use]
    pub const fn with_retry_after(mut self, retry_after: Duration) -> Self {
        self.retry_after = Some(retry_after);
        self
    }

    /// Marks a throttle whose cause is known: it lowered a limit, or followed one that did. It says
    /// nothing more about the health of the API; its wait is obeyed.
    #[must_use]
    pub const fn explained(mut self) -> Self {
        self.is_explained = true;
        self
    }

    /// Returns true if a lowered limit explains the outcome.
    pub const fn is_explained(&self) -> bool {
        self.is_explained
    }

    /// Returns the class.
    pub const fn effect(&self) -> OutcomeClass {
        self.effect
    }

    /// Returns the wait that the server asked for, if it is to be obeyed.
    pub const fn retry_after(&self) -> Option<Duration> {
        self.retry_after
    }
}

named_enum! {
    /// Class of an outcome.
    pub enum OutcomeClass {
        /// A success.
        Success = "success",
        /// The server throttled the call.
        Throttled = "throttled",
        /// A failure of the server.
        ServerFailed = "server_failed",
        /// A network failure.
        NetworkFailed = "network_failed",
        /// A failure of another kind that was configured to count, such as 401.
        OtherFailed = "failed",
        /// The server banned the client: nothing may be sent until the server's time, or for a cooldown
        /// if it gave none.
        Banned = "banned",
        /// A response that counts as neither success nor failure and ends no streak. It shows that the
        /// API responds: probes that get nothing else still end in recovery.
        Neutral = "neutral",
        /// Cancelled before a response: counts as nothing at all.
        Cancelled = "cancelled",
    }
}
