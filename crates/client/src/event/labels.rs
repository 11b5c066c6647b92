//! The closed sets of words in which an event is told: how a call ended, why an attempt failed, what
//! the cache had. They are labels of metrics, so each set is small and says all of itself.

use outflow_core::{AttemptEnd, AttemptReport, Fault, OutcomeClass};

/// How a call ended, as metrics tell it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum StatusLabel {
    /// 1xx or 2xx.
    Success,
    /// 3xx.
    Redirect,
    /// 4xx but 429.
    ClientError,
    /// 429.
    TooMany,
    /// 5xx.
    ServerError,
    /// No answer in time.
    Timeout,
    /// No answer for another reason.
    Network,
    /// Never sent.
    Blocked,
    /// Its caller left before it ended.
    Cancelled,
}

impl StatusLabel {
    /// Those of a call that ran to its end, for series that exist before they are counted. How long a
    /// caller stayed who left says nothing of how long calls take.
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

    /// The class of a code.
    pub const fn from_code(code: u16) -> Self {
        match code {
            429 => Self::TooMany,
            300..=399 => Self::Redirect,
            400..=499 => Self::ClientError,
            500..=599 => Self::ServerError,
            _ => Self::Success,
        }
    }

    /// The label's value.
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

/// Why an attempt failed, as metrics tell it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum FailureLabel {
    /// No answer in time.
    Timeout,
    /// The connection failed.
    Network,
    /// The name could not be resolved.
    Dns,
    /// TLS failed.
    Tls,
    /// The server refused for its limits.
    TooMany,
    /// The server failed.
    ServerError,
    /// The body did not end as it should.
    Body,
}

impl FailureLabel {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Timeout,
        Self::Network,
        Self::Dns,
        Self::Tls,
        Self::TooMany,
        Self::ServerError,
        Self::Body,
    ];

    /// Why an attempt failed, if what it counts as is a failure that has a name here.
    pub const fn new(attempt: &AttemptReport, effect: OutcomeClass) -> Option<Self> {
        match (effect, attempt.ended()) {
            (OutcomeClass::Throttled | OutcomeClass::Banned, _) => Some(Self::TooMany),
            (OutcomeClass::ServerFailed, _) => Some(Self::ServerError),
            (_, AttemptEnd::Fault(fault)) => Some(Self::of_fault(fault)),
            _ => None,
        }
    }

    const fn of_fault(fault: Fault) -> Self {
        match fault {
            Fault::ConnectTimeout | Fault::ReadTimeout => Self::Timeout,
            Fault::Dns => Self::Dns,
            Fault::Reset => Self::Network,
            Fault::TlsHandshake | Fault::TlsCertificate => Self::Tls,
            Fault::TruncatedBody => Self::Body,
        }
    }

    /// The label's value.
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

/// What the cache had.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum CacheLabel {
    /// A fresh answer.
    Hit,
    /// A stale answer, given because nothing better was to be had.
    Stale,
    /// A stale answer that the server confirmed.
    Revalidated,
    /// Nothing.
    Miss,
    /// The answer of an equal call that was already under way.
    Coalesced,
}

impl CacheLabel {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::Hit,
        Self::Stale,
        Self::Revalidated,
        Self::Miss,
        Self::Coalesced,
    ];

    /// The label's value.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Hit => "hit",
            Self::Stale => "stale",
            Self::Revalidated => "revalidated",
            Self::Miss => "miss",
            Self::Coalesced => "coalesced",
        }
    }

    /// Whether the call was spared: nothing was sent on its behalf.
    pub const fn is_hit(self) -> bool {
        matches!(self, Self::Hit | Self::Stale | Self::Coalesced)
    }
}
