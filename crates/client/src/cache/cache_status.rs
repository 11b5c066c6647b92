//! `Cache-Status` header of RFC 9211.
//!
//! It never names the key, which would reveal other callers.

use std::fmt;
use std::time::Duration;

use http::HeaderValue;

use super::freshness::Freshness;

/// Cache handling of one response.
///
/// ```
/// use outflow::cache::{CacheStatus, ForwardReason};
///
/// let status = CacheStatus::forwarded(ForwardReason::Stale).with_status(304).stored();
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

outflow_core::named_enum! {
    /// Reason to forward a request to the server.
    pub enum ForwardReason {
        /// The cache is off for this API.
        Bypass = "bypass",
        /// The method is not cacheable.
        Method = "method",
        /// No response was stored.
        Miss = "uri-miss",
        /// The request forbids the cache.
        Request = "request",
        /// The stored response is stale.
        Stale = "stale",
    }
}

impl CacheStatus {
    /// Returns the status of a cache hit.
    pub const fn hit(freshness: Freshness) -> Self {
        Self::from_origin(StatusOrigin::Hit(freshness))
    }

    /// Returns the status of a forwarded request.
    pub const fn forwarded(reason: ForwardReason) -> Self {
        Self::from_origin(StatusOrigin::Forwarded(reason))
    }

    /// Adds the status code of the server's response.
    #[must_use]
    pub const fn with_status(mut self, code: u16) -> Self {
        self.code = Some(code);
        self
    }

    /// Adds that the response was stored.
    #[must_use]
    pub const fn stored(mut self) -> Self {
        self.stored = true;
        self
    }

    /// Adds that an equal request in flight got the response.
    #[must_use]
    pub const fn collapsed(mut self) -> Self {
        self.collapsed = true;
        self
    }

    /// Formats the header value. A response with this header gets a second one; the first stays.
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
            StatusOrigin::Hit(Freshness::StaleFor(stale)) => write!(f, "; hit; ttl=-{}", seconds(stale))?,
            StatusOrigin::Forwarded(reason) => write!(f, "; fwd={}", reason.name())?,
        }
        if let Some(code) = self.code {
            write!(f, "; fwd-status={code}")?;
        }
        f.write_str(if self.stored { "; stored" } else { "" })?;
        f.write_str(if self.collapsed { "; collapsed" } else { "" })
    }
}

/// Returns whole seconds, at most the maximum of a structured header's integer.
fn seconds(span: Duration) -> u64 {
    span.as_secs().min(999_999_999_999_999)
}

/// Name of this cache in the header.
const NAME: &str = "outflow";

#[cfg(test)]
mod tests {
    use super::*;

    // RFC 9211's own examples with our name: a hit with 30 s left, and one that is 412 s too old.
    #[test]
    fn a_stale_hit_has_a_negative_ttl() {
        let hit = |freshness| CacheStatus::hit(freshness).header_value();
        let (left, stale) = (Duration::from_secs(30), Duration::from_secs(412));
        assert_eq!(hit(Freshness::For(left)), "outflow; hit; ttl=30");
        assert_eq!(hit(Freshness::StaleFor(stale)), "outflow; hit; ttl=-412");
        let huge = hit(Freshness::StaleFor(Duration::MAX));
        assert_eq!(huge, "outflow; hit; ttl=-999999999999999");
    }

    #[test]
    fn a_collapsed_miss_is_marked_as_both() {
        let status = CacheStatus::forwarded(ForwardReason::Miss).stored().collapsed();
        assert_eq!(status.header_value(), "outflow; fwd=uri-miss; stored; collapsed");
    }
}
