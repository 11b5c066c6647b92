//! The families of headers, and the set to read.

named_enum! {
    /// Family of headers that a hint was read from.
    #[non_exhaustive]
    pub enum Dialect {
        /// `RateLimit`, `RateLimit-Policy` and the older `RateLimit-Limit`, `-Remaining`, `-Reset`.
        Ietf = "ietf",
        /// `X-RateLimit-Limit`, `-Remaining`, `-Reset`, GitHub's `-Used` and `-Resource`, and Kong's
        /// limits per second, minute, hour and day.
        XRateLimit = "x-ratelimit",
        /// `X-RateLimit-Limit-Requests`, `-Tokens` and the like.
        OpenAi = "openai",
        /// `Anthropic-RateLimit-Requests-Limit`, `-Tokens-…`, `-Input-Tokens-…`, `-Output-Tokens-…`.
        Anthropic = "anthropic",
        /// `Remaining-Req`.
        Upbit = "upbit",
        /// `X-MBX-USED-WEIGHT-1M`, `X-MBX-ORDER-COUNT-10S` and the like.
        Binance = "binance",
        /// `X-Shopify-Shop-Api-Call-Limit`.
        Shopify = "shopify",
    }
}

/// Set of dialects to read.
///
/// ```
/// use outflow_core::{Dialect, Dialects};
///
/// let dialects = Dialects::NONE.with(Dialect::Ietf).with(Dialect::XRateLimit);
/// assert!(dialects.contains(Dialect::Ietf));
/// assert!(!dialects.contains(Dialect::Shopify));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Dialects(u8);

impl Dialects {
    /// Reads no dialect.
    pub const NONE: Self = Self(0);
    /// Reads all dialects. No two claim the same header, so this is safe for an unknown provider.
    pub const ALL: Self = Self(0b0111_1111);

    /// Adds a dialect.
    #[must_use]
    pub const fn with(self, dialect: Dialect) -> Self {
        Self(self.0 | bit(dialect))
    }

    /// Returns true if the dialect is in the set.
    pub const fn contains(self, dialect: Dialect) -> bool {
        self.0 & bit(dialect) != 0
    }
}

const fn bit(dialect: Dialect) -> u8 {
    match dialect {
        Dialect::Ietf => 1,
        Dialect::XRateLimit => 1 << 1,
        Dialect::OpenAi => 1 << 2,
        Dialect::Anthropic => 1 << 3,
        Dialect::Upbit => 1 << 4,
        Dialect::Binance => 1 << 5,
        Dialect::Shopify => 1 << 6,
    }
}
