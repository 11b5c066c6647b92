//! The server's limits in the headers of each provider.
//!
//! The numbers are those of the enforced limits after the request was judged. A reset is the time
//! at which the whole quota is back without further requests, rounded up.

use http::{HeaderMap, HeaderName, HeaderValue};
use outflow_core::{ClockPair, UtcDate, WallTime};

use crate::enforcer::QuotaStatus;
use crate::throttle_response::whole_seconds;

/// Family of headers.
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

/// Format of a reset.
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
    /// Adds the headers that report the limits.
    pub(crate) fn write_headers(self, statuses: &[QuotaStatus], moment: ClockPair, headers: &mut HeaderMap) {
        let Some(tightest) = statuses.iter().min_by_key(|status| status.remaining()) else {
            return;
        };
        match self {
            Self::Ietf => ietf(statuses, headers),
            Self::XRateLimit(form) => {
                put(headers, "x-ratelimit-limit", tightest.limit);
                put(headers, "x-ratelimit-remaining", tightest.remaining());
                put(headers, "x-ratelimit-reset", form.write(tightest, moment));
            }
            Self::OpenAi => statuses.iter().for_each(|s| {
                let name = |part| format!("x-ratelimit-{part}-{}", s.name);
                put(headers, &name("limit"), s.limit);
                put(headers, &name("remaining"), s.remaining());
                put(headers, &name("reset"), ResetForm::Span.write(s, moment));
            }),
            Self::Anthropic => statuses.iter().for_each(|s| {
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
            Self::Binance => statuses.iter().for_each(|s| {
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
    fn write(self, status: &QuotaStatus, moment: ClockPair) -> String {
        let at = moment.wall.saturating_add(status.resets_in);
        let secs = whole_seconds(status.resets_in);
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

fn ietf(statuses: &[QuotaStatus], headers: &mut HeaderMap) {
    let list = |item: fn(&QuotaStatus) -> String| {
        let items: Vec<_> = statuses.iter().map(item).collect();
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

/// Formats `1S`, `5M`, `1H`, `1D`: the largest unit that divides the window.
fn letter(status: &QuotaStatus) -> String {
    let secs = whole_seconds(status.window);
    let units = [(86_400, "d"), (3_600, "h"), (60, "m"), (1, "s")];
    let (unit, name) = units
        .into_iter()
        .find(|(unit, _)| secs.is_multiple_of(*unit))
        .unwrap_or((1, "s"));
    format!("{}{name}", secs / unit)
}

/// Adds a header. Names come from tests: an invalid one is left out.
fn put(headers: &mut HeaderMap, name: &str, value: impl ToString) {
    let pair = (HeaderName::try_from(name), HeaderValue::try_from(value.to_string()));
    if let (Ok(name), Ok(value)) = pair {
        headers.insert(name, value);
    }
}
