//! Freshness of a stored response under RFC 9111.
//!
//! A library implements the rules. It gets no address and no `Vary` (the key covers both) and
//! normalised directives. Its time of receipt is when the response was new, so that the age needs
//! no header that could overflow. Its rendering of cached responses is not used: it folds repeated
//! headers into one and formats dates in a way that HTTP does not know.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Method, StatusCode, Uri};
use http_cache_semantics::{BeforeRequest, CacheOptions, CachePolicy, RequestLike, ResponseLike};
use outflow_core::{HttpDate, WallTime};

use super::cache_control::{CacheControl, FOREVER, parse_seconds};
use super::entry::CacheEntry;
use super::query::CacheQuery;
use crate::api::CacheMode;

/// Rules applied to one response and one request.
pub(super) struct FreshnessCheck<'a> {
    entry: &'a CacheEntry,
    control: CacheControl,
    policy: CachePolicy,
    request: RequestDirectives,
    /// Freshness lifetime, from when the response was new.
    lifetime: Duration,
    source: FreshnessSource,
}

impl<'a> FreshnessCheck<'a> {
    /// Checks a response for this request.
    pub(super) fn new(query: &CacheQuery<'_>, entry: &'a CacheEntry) -> Self {
        let control = CacheControl::from_headers(&entry.headers).unwrap_or_else(CacheControl::forbidding);
        let source = FreshnessSource::new(query, entry, &control);
        let request = RequestDirectives::from_query(query);
        let start = source.start(entry);
        let options = CacheOptions {
            shared: !query.is_personal(),
            ..CacheOptions::default()
        };
        let policy = CachePolicy::new_options(&request, &source.stated(entry, &control), start, options);
        let lifetime = match source {
            FreshnessSource::Heuristic => policy.time_to_live(start).min(MAX_HEURISTIC),
            _ => policy.time_to_live(start),
        };
        Self {
            entry,
            control,
            policy,
            request,
            lifetime,
            source,
        }
    }

    /// Returns true if the response may be stored.
    pub(super) fn is_storable(&self, query: &CacheQuery<'_>) -> bool {
        let is_private = self.control.has("private") && !query.is_personal();
        !self.control.has("no-store") && !is_private && self.policy.is_storable()
    }

    /// Returns true if the response may be served without revalidation.
    pub(super) fn is_fresh(&self, now: WallTime) -> bool {
        let satisfied = matches!(
            self.policy.before_request(&self.request, to_system_time(now)),
            BeforeRequest::Fresh(_)
        );
        let Some(age) = self.age(now) else {
            return false;
        };
        // A request may accept a stale response (`max-stale`), but not against the response's directives. A
        // heuristic lifetime is ours to end.
        let is_final = matches!(self.source, FreshnessSource::Heuristic) || self.forbids_stale();
        satisfied && !(is_final && age >= self.lifetime)
    }

    /// Returns the remaining freshness, or the time since it ended.
    pub(super) fn freshness(&self, now: WallTime) -> Freshness {
        let age = self.age(now).unwrap_or(self.lifetime);
        match self.lifetime.checked_sub(age) {
            Some(left) if left > Duration::ZERO => Freshness::For(left),
            _ => Freshness::StaleFor(age.saturating_sub(self.lifetime)),
        }
    }

    /// Returns true if the response may be served stale while the server fails. It must not be
    /// forbidden, nor stale for longer than the response, the request or the settings allow.
    pub(super) fn may_serve_on_error(&self, now: WallTime, default: Duration) -> bool {
        let Freshness::StaleFor(stale) = self.freshness(now) else {
            // It is fresh and the request demands confirmation, so it does not accept an
            // unconfirmed response.
            return false;
        };
        let request = CacheControl::from_headers(&self.request.headers).unwrap_or_default();
        let stated = [&self.control, &request]
            .into_iter()
            .filter_map(|control| control.seconds("stale-if-error"));
        let window = stated.map(Duration::from_secs).fold(default, Duration::max);
        window > Duration::ZERO && stale <= window && !self.forbids_stale() && !request.has("no-cache")
    }

    /// Returns true if the response may be served while nothing may be sent: it is fresh, or no
    /// directive forbids to serve it stale. The request's wish for confirmation cannot be met.
    pub(super) fn may_serve_offline(&self, now: WallTime) -> bool {
        matches!(self.freshness(now), Freshness::For(_)) || !self.forbids_stale()
    }

    /// Returns true if the response may also go to requests that were sent while it was awaited. One
    /// that states to be stale on arrival serves only its own request.
    pub(super) fn may_share(&self, now: WallTime) -> bool {
        match self.source {
            FreshnessSource::Forced(_) => true,
            FreshnessSource::Stated => matches!(self.freshness(now), Freshness::For(_)),
            FreshnessSource::Heuristic => !self.control.has("no-cache"),
        }
    }

    /// Returns the used part of the lifetime; `None` if the clock is before the receipt. A forced
    /// lifetime starts at the receipt.
    fn age(&self, now: WallTime) -> Option<Duration> {
        let age = self.entry.age(now)?;
        Some(match self.source {
            FreshnessSource::Forced(_) => age.saturating_sub(self.entry.initial_age),
            _ => age,
        })
    }

    fn forbids_stale(&self) -> bool {
        let private = ["must-revalidate", "no-cache"];
        let shared = ["proxy-revalidate", "s-maxage"];
        let has = |names: &[&str]| names.iter().any(|name| self.control.has(name));
        match self.source {
            FreshnessSource::Forced(_) => false,
            _ => has(&private) || (self.request.shared && has(&shared)),
        }
    }

    /// Returns the headers for a conditional request; empty without a validator.
    pub(super) fn conditions(&self) -> HeaderMap {
        let pairs = [
            (header::IF_NONE_MATCH, header::ETAG),
            (header::IF_MODIFIED_SINCE, header::LAST_MODIFIED),
        ];
        let stated = |(asks, says): (HeaderName, HeaderName)| Some((asks, self.entry.headers.get(says)?.clone()));
        pairs.into_iter().filter_map(stated).collect()
    }
}

/// Remaining freshness, or time since it ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Freshness {
    /// Fresh for this time.
    For(Duration),
    /// Stale for this time.
    StaleFor(Duration),
}

/// Source of a freshness lifetime.
#[derive(Clone, Copy)]
enum FreshnessSource {
    /// The configuration, regardless of the response.
    Forced(Duration),
    /// The response.
    Stated,
    /// A heuristic: a share of the time since the last change.
    Heuristic,
}

impl FreshnessSource {
    fn new(query: &CacheQuery<'_>, entry: &CacheEntry, control: &CacheControl) -> Self {
        let is_success = query.method == Method::GET && entry.status.is_success();
        let is_stated = control.has("max-age") || control.has("immutable");
        let is_stated_shared = control.has("s-maxage") && !query.is_personal();
        match query.mode {
            CacheMode::Force(ttl) if is_success => Self::Forced(ttl),
            _ if is_stated || is_stated_shared => Self::Stated,
            _ if entry.headers.contains_key(header::EXPIRES) => Self::Stated,
            _ => Self::Heuristic,
        }
    }

    /// Returns the start of the lifetime.
    fn start(self, entry: &CacheEntry) -> SystemTime {
        let received = to_system_time(entry.received);
        match self {
            Self::Forced(_) => received,
            _ => received.checked_sub(entry.initial_age).unwrap_or(received),
        }
    }

    /// Returns the response's time headers for the library.
    fn stated(self, entry: &CacheEntry, control: &CacheControl) -> ResponseDirectives {
        let mut headers = HeaderMap::new();
        if let Self::Forced(ttl) = self {
            let seconds = ttl.as_secs() + u64::from(ttl.subsec_nanos() > 0);
            let text = format!("max-age={}", seconds.min(FOREVER));
            let value = HeaderValue::from_str(&text).unwrap_or(HeaderValue::from_static("max-age=0"));
            headers.insert(header::CACHE_CONTROL, value);
        } else {
            let dates = [header::DATE, header::LAST_MODIFIED].into_iter();
            headers.extend(dates.filter_map(|name| {
                let date = normalize_date(entry.headers.get(&name)?, entry.received)?;
                Some((name, date))
            }));
            if let Some(expires) = entry.headers.get(header::EXPIRES) {
                headers.insert(header::EXPIRES, normalize_expires(expires, entry.received));
            }
            if let Some(pragma) = entry.headers.get(header::PRAGMA) {
                headers.insert(header::PRAGMA, pragma.clone());
            }
            if entry.headers.contains_key(header::CACHE_CONTROL) {
                headers.insert(header::CACHE_CONTROL, control.to_header());
            }
        }
        ResponseDirectives {
            status: entry.status,
            headers,
        }
    }
}

/// Request as the library sees it: only its directives.
struct RequestDirectives {
    method: Method,
    headers: HeaderMap,
    shared: bool,
}

impl RequestDirectives {
    fn from_query(query: &CacheQuery<'_>) -> Self {
        let mut headers = HeaderMap::new();
        if query.headers.contains_key(header::CACHE_CONTROL) {
            let control = CacheControl::from_headers(query.headers).unwrap_or_else(CacheControl::forbidding);
            headers.insert(header::CACHE_CONTROL, control.to_header());
        }
        if let Some(pragma) = query.headers.get(header::PRAGMA) {
            headers.insert(header::PRAGMA, pragma.clone());
        }
        Self {
            method: query.method.clone(),
            headers,
            shared: !query.is_personal(),
        }
    }
}

impl RequestLike for RequestDirectives {
    fn uri(&self) -> Uri {
        Uri::from_static("/")
    }

    fn is_same_uri(&self, _: &Uri) -> bool {
        true
    }

    fn method(&self) -> &Method {
        &self.method
    }

    fn headers(&self) -> &HeaderMap {
        &self.headers
    }
}

/// Response as the library sees it: only its time headers.
struct ResponseDirectives {
    status: StatusCode,
    headers: HeaderMap,
}

impl ResponseLike for ResponseDirectives {
    fn status(&self) -> StatusCode {
        self.status
    }

    fn headers(&self) -> &HeaderMap {
        &self.headers
    }
}

/// Returns the age of a response at receipt: the larger of its `Age` and the age by its `Date`,
/// with the time that the response took added. Of several values of `Age` the first counts.
pub(super) fn initial_age(headers: &HeaderMap, received: WallTime, delay: Duration) -> Duration {
    let text = headers.get(header::AGE).and_then(|age| age.to_str().ok());
    let first = text.and_then(|ages| ages.split(',').next());
    let stated = first.and_then(|age| parse_seconds(age.trim())).unwrap_or(0);
    let stated = Duration::from_secs(stated).saturating_add(delay);
    let date = headers
        .get(header::DATE)
        .map(|date| HttpDate::read(date.as_bytes(), received));
    // Dates are whole seconds: a fraction of one is no age.
    let apparent = match date {
        Some(Ok(date)) => Duration::from_secs(received.since(date.at()).as_secs()),
        _ => Duration::ZERO,
    };
    stated.max(apparent).min(Duration::from_secs(FOREVER))
}

/// Rewrites a date in the form that the library reads; `None` if it is no date. The library would
/// accept some that are none.
fn normalize_date(value: &HeaderValue, now: WallTime) -> Option<HeaderValue> {
    let date = HttpDate::read(value.as_bytes(), now).ok()?;
    HeaderValue::from_str(&date.to_string()).ok()
}

/// Rewrites the end of a lifetime; one that is no date is long past. A date in another zone than
/// `GMT` is none here: a lenient reader of it would serve a stale response.
fn normalize_expires(value: &HeaderValue, now: WallTime) -> HeaderValue {
    let zone = value.as_bytes().trim_ascii().rsplit(|byte| *byte == b' ').next();
    let is_foreign = zone.is_some_and(|zone| zone.eq_ignore_ascii_case(b"utc") || zone == b"+0000");
    let date = normalize_date(value, now).filter(|_| !is_foreign);
    date.unwrap_or(HeaderValue::from_static("0"))
}

/// Caps the time: the library formats a date with every response and panics in the year 10000.
fn to_system_time(at: WallTime) -> SystemTime {
    let span = at.as_duration().min(LAST_DATE);
    UNIX_EPOCH.checked_add(span).unwrap_or(UNIX_EPOCH)
}

/// About the year 9993 in hours after the epoch, safely before the last date that can be formatted.
const LAST_DATE: Duration = Duration::from_hours(8024 * 8766);

/// One day: a tenth of the years for which a list of currencies had not changed would be months.
const MAX_HEURISTIC: Duration = Duration::from_hours(24);
