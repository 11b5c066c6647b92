//! Labels of events from closed sets: status of a call, failure of an attempt, result of a cache
//! lookup. They are metric labels, so each set is small and complete.

use outflow_core::{AttemptEnd, AttemptReport, Fault, OutcomeClass};

outflow_core::named_enum! {
    /// Status of a finished call for metrics.
    pub enum StatusLabel {
        /// 1xx or 2xx.
        Success = "2xx",
        /// 3xx.
        Redirect = "3xx",
        /// 4xx except 429.
        ClientError = "4xx",
        /// 429.
        TooMany = "429",
        /// 5xx.
        ServerError = "5xx",
        /// No response in time.
        Timeout = "timeout",
        /// No response for another reason.
        Network = "network",
        /// Never sent.
        Blocked = "blocked",
        /// The caller left before the end.
        Cancelled = "cancelled",
    }
}

impl StatusLabel {
    /// Returns the label of a status code.
    pub const fn from_code(code: u16) -> Self {
        match code {
            429 => Self::TooMany,
            300..=399 => Self::Redirect,
            400..=499 => Self::ClientError,
            500..=599 => Self::ServerError,
            _ => Self::Success,
        }
    }
}

outflow_core::named_enum! {
    /// Failure of an attempt for metrics.
    pub enum FailureLabel {
        /// No response in time.
        Timeout = "timeout",
        /// The connection failed.
        Network = "network",
        /// The name could not be resolved.
        Dns = "dns",
        /// TLS failed.
        Tls = "tls",
        /// The server throttled the attempt.
        TooMany = "429",
        /// The server failed.
        ServerError = "5xx",
        /// The body was truncated.
        Body = "body",
        /// The response is not HTTP, or its end is ambiguous.
        Invalid = "invalid_response",
    }
}

impl FailureLabel {
    /// Returns the label of a failed attempt; `None` if it did not fail.
    pub const fn new(attempt: &AttemptReport, effect: OutcomeClass) -> Option<Self> {
        match (effect, attempt.ended()) {
            (OutcomeClass::Throttled | OutcomeClass::Banned, _) => Some(Self::TooMany),
            (OutcomeClass::ServerFailed, _) => Some(Self::ServerError),
            (_, AttemptEnd::Fault(fault)) => Some(Self::from_fault(fault)),
            _ => None,
        }
    }

    pub(crate) const fn from_fault(fault: Fault) -> Self {
        match fault {
            Fault::ConnectTimeout | Fault::ReadTimeout => Self::Timeout,
            Fault::Dns => Self::Dns,
            Fault::Reset => Self::Network,
            Fault::TlsHandshake | Fault::TlsCertificate => Self::Tls,
            Fault::TruncatedBody => Self::Body,
            Fault::InvalidResponse => Self::Invalid,
        }
    }
}

outflow_core::named_enum! {
    /// Result of a cache lookup.
    pub enum CacheLabel {
        /// Fresh response.
        Hit = "hit",
        /// Stale response, served for want of a better one.
        Stale = "stale",
        /// Stale response that the server confirmed.
        Revalidated = "revalidated",
        /// No response.
        Miss = "miss",
        /// Response of an equal call in flight.
        Coalesced = "coalesced",
    }
}

impl CacheLabel {
    /// Returns true if nothing was sent for the call.
    pub const fn is_hit(self) -> bool {
        matches!(self, Self::Hit | Self::Stale | Self::Coalesced)
    }
}
