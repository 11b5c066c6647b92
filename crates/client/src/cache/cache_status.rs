//! `Cache-Status`: what the cache did, as RFC 9211 writes it.
//!
//! It never names the key, which would say who else asked.

use std::fmt;
use std::time::Duration;

use http::HeaderValue;

use super::freshness::Freshness;

/// What the cache did for one answer.
///
/// ```
/// use outflow::cache::{CacheStatus, Forward};
///
/// let status = CacheStatus::forwarded(Forward::Stale).answered(304).stored();
/// assert_eq!(status.to_string(), "outflow; fwd=stale; fwd-status=304; stored");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CacheStatus {
    origin: StatusOrigin,
    code: Option<u16>,
    stored: bool,
    collapsed: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum StatusOrigin {
    Hit(Freshness),
    Forwarded(ForwardReason),
}

/// Why a request went to the server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ForwardReason {
    /// The cache is off for this API.
    Bypass,
    /// The method is not one for the cache.
    Method,
    /// Nothing was kept for it.
    Miss,
    /// The request forbade it.
    Request,
    /// What was kept was stale.
    Stale,
}

impl CacheStatus {
    /// Answered from the cache.
    pub const fn hit(freshness: Freshness) -> Self {
        Self::from_origin(StatusOrigin::Hit(freshness))
    }

    /// Answered by the server.
    pub const fn forwarded(why: ForwardReason) -> Self {
        Self::from_origin(StatusOrigin::Forwarded(why))
    }

    /// The same, and the server answered with this status.
    #[must_use]
    pub const fn answered(mut self, code: u16) -> Self {
        self.code = Some(code);
        self
    }

    /// The same, and the answer was kept.
    #[must_use]
    pub const fn stored(mut self) -> Self {
        self.stored = true;
        self
    }

    /// The same, and the answer is that to an equal request which was already under way.
    #[must_use]
    pub const fn collapsed(mut self) -> Self {
        self.collapsed = true;
        self
    }

    /// The header's value. An answer that has the header already gets one more, never another.
    pub fn header_value(&self) -> HeaderValue {
        HeaderValue::from_str(&self.to_string()).unwrap_or(HeaderValue::from_static(NAME))
    }

    const fn from_origin(origin: StatusOrigin) -> Self {
        Self {
            origin,
            code: None,
            stored: false,
            collapsed: false,
        }
    }
}

impl fmt::Display for CacheStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(NAME)?;
        match self.origin {
            StatusOrigin::Hit(Freshness::For(left)) => write!(f, "; hit; ttl={}", seconds(left))?,
            StatusOrigin::Hit(Freshness::GoneFor(gone)) => {
                write!(f, "; hit; ttl=-{}", seconds(gone))?
            }
            StatusOrigin::Forwarded(why) => write!(f, "; fwd={}", why.name())?,
        }
        if let Some(code) = self.code {
            write!(f, "; fwd-status={code}")?;
        }
        f.write_str(if self.stored { "; stored" } else { "" })?;
        f.write_str(if self.collapsed { "; collapsed" } else { "" })
    }
}

impl ForwardReason {
    /// The parameter's value.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bypass => "bypass",
            Self::Method => "method",
            Self::Miss => "uri-miss",
            Self::Request => "request",
            Self::Stale => "stale",
        }
    }
}

/// Whole seconds, at most what a structured header's integer holds.
fn seconds(span: Duration) -> u64 {
    span.as_secs().min(999_999_999_999_999)
}

/// Whose word it is.
const NAME: &str = "outflow";

#[cfg(test)]
mod tests {
    use super::*;

    // RFC 9211's own examples, with our name: a hit with 30 s left, one that is 412 s too old.
    #[test]
    fn a_stale_hit_has_less_than_no_time_left() {
        let hit = |freshness| CacheStatus::hit(freshness).header_value();
        let (left, gone) = (Duration::from_secs(30), Duration::from_secs(412));
        assert_eq!(hit(Freshness::For(left)), "outflow; hit; ttl=30");
        assert_eq!(hit(Freshness::GoneFor(gone)), "outflow; hit; ttl=-412");
        let huge = hit(Freshness::GoneFor(Duration::MAX));
        assert_eq!(huge, "outflow; hit; ttl=-999999999999999");
    }

    #[test]
    fn a_collapsed_miss_says_both() {
        let status = CacheStatus::forwarded(ForwardReason::Miss)
            .stored()
            .collapsed();
        assert_eq!(
            status.header_value(),
            "outflow; fwd=uri-miss; stored; collapsed"
        );
    }
}
