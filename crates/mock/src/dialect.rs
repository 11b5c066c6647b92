//! What the server tells about its limits, in the headers of each provider.
//!
//! The numbers are those of the limits that are enforced, as they stand when the request has been
//! judged; a reset is when all of the quota is back if nobody asks for more, rounded up.

use http::{HeaderMap, HeaderName, HeaderValue};
use outflow_core::{ClockPair, UtcDate, WallTime};

use crate::enforcer::Standing;
use crate::throttle_response::whole_seconds;

/// A family of headers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Dialect {
    /// `RateLimit` and `RateLimit-Policy`, one item for each limit.
    Ietf,
    /// `X-RateLimit-Limit`, `-Remaining` and `-Reset` of the limit with the least left.
    XRateLimit(ResetForm),
    /// `X-RateLimit-Limit-Requests` and the like, by the names of the limits.
    OpenAi,
    /// `Anthropic-RateLimit-Requests-Limit` and the like, by the names of the limits.
    Anthropic,
    /// `Remaining-Req` of the limit with the least left, its name as the group.
    Upbit,
    /// `X-MBX-USED-WEIGHT-1M` and the like, by the windows of the limits.
    Binance,
    /// `X-Shopify-Shop-Api-Call-Limit` of the limit with the least left.
    Shopify,
}

/// How a reset is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ResetForm {
    /// Seconds from now: `12`.
    Seconds,
    /// Seconds since 1970.
    Epoch,
    /// A date: `2026-01-01T00:00:12Z`.
    Rfc3339,
    /// A span in Go's notation: `6m0s`.
    Span,
}

impl Dialect {
    /// Adds the headers that tell how the limits stand.
    pub(crate) fn write_headers(
        self,
        standings: &[Standing],
        moment: ClockPair,
        headers: &mut HeaderMap,
    ) {
        let Some(tightest) = standings.iter().min_by_key(|standing| standing.remaining()) else {
            return;
        };
        match self {
            Self::Ietf => ietf(standings, headers),
            Self::XRateLimit(form) => {
                put(headers, "x-ratelimit-limit", tightest.limit);
                put(headers, "x-ratelimit-remaining", tightest.remaining());
                put(headers, "x-ratelimit-reset", form.write(tightest, moment));
            }
            Self::OpenAi => standings.iter().for_each(|s| {
                put(headers, &format!("x-ratelimit-limit-{}", s.name), s.limit);
                let remaining = format!("x-ratelimit-remaining-{}", s.name);
                put(headers, &remaining, s.remaining());
                let reset = format!("x-ratelimit-reset-{}", s.name);
                put(headers, &reset, ResetForm::Span.write(s, moment));
            }),
            Self::Anthropic => standings.iter().for_each(|s| {
                let name = |part| format!("anthropic-ratelimit-{}-{part}", s.name);
                put(headers, &name("limit"), s.limit);
                put(headers, &name("remaining"), s.remaining());
                put(headers, &name("reset"), ResetForm::Rfc3339.write(s, moment));
            }),
            Self::Upbit => {
                let left = tightest.remaining();
                let text = format!("group={}; min=1800; sec={left}", tightest.name);
                put(headers, "remaining-req", text);
            }
            Self::Binance => standings.iter().for_each(|s| {
                put(headers, &format!("x-mbx-used-weight-{}", letter(s)), s.used);
            }),
            Self::Shopify => {
                let text = format!("{}/{}", tightest.used, tightest.limit);
                put(headers, "x-shopify-shop-api-call-limit", text);
            }
        }
    }
}

impl ResetForm {
    fn write(self, standing: &Standing, moment: ClockPair) -> String {
        let at = moment.wall.saturating_add(standing.resets_in);
        let secs = whole_seconds(standing.resets_in);
        let epoch = whole_seconds(at.as_duration());
        match self {
            Self::Seconds => secs.to_string(),
            Self::Epoch => epoch.to_string(),
            Self::Rfc3339 => UtcDate::from_wall(WallTime::from_unix_secs(epoch)).to_string(),
            Self::Span if secs >= 60 => format!("{}m{}s", secs / 60, secs % 60),
            Self::Span => format!("{secs}s"),
        }
    }
}

fn ietf(standings: &[Standing], headers: &mut HeaderMap) {
    let list = |item: fn(&Standing) -> String| {
        let items: Vec<_> = standings.iter().map(item).collect();
        items.join(", ")
    };
    put(
        headers,
        "ratelimit",
        list(|s| {
            let reset = whole_seconds(s.resets_in);
            format!("\"{}\";r={};t={reset}", s.name, s.remaining())
        }),
    );
    put(
        headers,
        "ratelimit-policy",
        list(|s| format!("\"{}\";q={};w={}", s.name, s.limit, whole_seconds(s.window))),
    );
}

/// `1S`, `5M`, `1H`, `1D`: the largest unit that divides the window.
fn letter(standing: &Standing) -> String {
    let secs = whole_seconds(standing.window);
    let units = [(86_400, "d"), (3_600, "h"), (60, "m"), (1, "s")];
    let (unit, name) = units
        .into_iter()
        .find(|(unit, _)| secs.is_multiple_of(*unit))
        .unwrap_or((1, "s"));
    format!("{}{name}", secs / unit)
}

/// Names come from tests: one that no header may have is not told.
fn put(headers: &mut HeaderMap, name: &str, value: impl ToString) {
    let pair = (
        HeaderName::try_from(name),
        HeaderValue::try_from(value.to_string()),
    );
    if let (Ok(name), Ok(value)) = pair {
        headers.insert(name, value);
    }
}
