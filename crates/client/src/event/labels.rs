//! Labels of events from closed sets: status of a call, failure of an attempt, result of a cache
//! lookup. They are metric labels, so each set is small and complete.

use outflow_core::{AttemptEnd, AttemptReport, Fault, OutcomeClass};

/// Status of a finished call for metrics.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum StatusLabel {
    /// 1xx or 2xx.
    Success,
    /// 3xx.
    Redirect,
    /// 4xx except 429.
    ClientError,
    /// 429.
    TooMany,
    /// 5xx.
    ServerError,
    /// No response in time.
    Timeout,
    /// No response for another reason.
    Network,
    /// Never sent.
    Blocked,
    /// The caller left before the end.
    Cancelled,
}

impl StatusLabel {
    /// Labels of calls that ran to their end, for series that exist before they count. The stay of
    /// a caller who left says nothing about the duration of calls.
    pub const ALL: [Self; 8] = [
        Self::Success,
        Self::Redirect,
        Self::ClientError,
        Self::TooMany,
        Self::ServerError,
        Self::Timeout,
        Self::Network,
        Self::Blocked,
    ];

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

    /// Returns the label value.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Success => "2xx",
            Self::Redirect => "3xx",
            Self::ClientError => "4xx",
            Self::TooMany => "429",
            Self::ServerError => "5xx",
            Self::Timeout => "timeout",
            Self::Network => "network",
            Self::Blocked => "blocked",
            Self::Cancelled => "cancelled",
        }
    }
}

/// Failure of an attempt for metrics.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum FailureLabel {
    /// No response in time.
    Timeout,
    /// The connection failed.
    Network,
    /// The name could not be resolved.
    Dns,
    /// TLS failed.
    Tls,
    /// The server throttled the attempt.
    TooMany,
    /// The server failed.
    ServerError,
    /// The body was truncated.
    Body,
}

impl FailureLabel {
    /// All labels.
    pub const ALL: [Self; 7] = [
        Self::Timeout,
        Self::Network,
        Self::Dns,
        Self::Tls,
        Self::TooMany,
        Self::ServerError,
        Self::Body,
    ];

    /// Returns the label of a failed attempt; `None` if it did not fail.
    pub const fn new(attempt: &AttemptReport, effect: OutcomeClass) -> Option<Self> {
        match (effect, attempt.ended()) {
            (OutcomeClass::Throttled | OutcomeClass::Banned, _) => Some(Self::TooMany),
            (OutcomeClass::ServerFailed, _) => Some(Self::ServerError),
            (_, AttemptEnd::Fault(fault)) => Some(Self::from_fault(fault)),
            _ => None,
        }
    }

    const fn from_fault(fault: Fault) -> Self {
        match fault {
            Fault::ConnectTimeout | Fault::ReadTimeout => Self::Timeout,
            Fault::Dns => Self::Dns,
            Fault::Reset => Self::Network,
            Fault::TlsHandshake | Fault::TlsCertificate => Self::Tls,
            Fault::TruncatedBody => Self::Body,
        }
    }

    /// Returns the label value.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Timeout => "timeout",
            Self::Network => "network",
            Self::Dns => "dns",
            Self::Tls => "tls",
            Self::TooMany => "429",
            Self::ServerError => "5xx",
            Self::Body => "body",
        }
    }
}

/// Result of a cache lookup.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum CacheLabel {
    /// Fresh response.
    Hit,
    /// Stale response, served for want of a better one.
    Stale,
    /// Stale response that the server confirmed.
    Revalidated,
    /// No response.
    Miss,
    /// Response of an equal call in flight.
    Coalesced,
}

impl CacheLabel {
    /// All labels.
    pub const ALL: [Self; 5] = [Self::Hit, Self::Stale, Self::Revalidated, Self::Miss, Self::Coalesced];

    /// Returns the label value.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Hit => "hit",
            Self::Stale => "stale",
            Self::Revalidated => "revalidated",
            Self::Miss => "miss",
            Self::Coalesced => "coalesced",
        }
    }

    /// Returns true if nothing was sent for the call.
    pub const fn is_hit(self) -> bool {
        matches!(self, Self::Hit | Self::Stale | Self::Coalesced)
    }
}
