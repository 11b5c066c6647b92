//! What RFC 9111 says of one kept answer, for one request.
//!
//! The rules are the library's; this file hands it what it needs and nothing else. It gets no address
//! and no `Vary` (the key has answered both), the directives in a form it reads, and as the moment of
//! receipt the moment at which the answer was new, so that its age needs no header that could
//! overflow. Its way of writing a cached answer is not used: it folds repeated headers into one and
//! dates in a format that HTTP does not know.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Method, StatusCode, Uri};
use http_cache_semantics::{BeforeRequest, CacheOptions, CachePolicy, RequestLike, ResponseLike};
use outflow_core::{HttpDate, WallTime};

use super::cache_control::{CacheControl, FOREVER};
use super::entry::CacheEntry;
use super::query::CacheQuery;
use crate::api::CacheMode;

/// The rules, applied to one answer and one request.
pub(super) struct FreshnessCheck<'a> {
    entry: &'a CacheEntry,
    control: CacheControl,
    policy: CachePolicy,
    asked: RequestDirectives,
    /// How long it is fresh, from when it was new.
    lifetime: Duration,
    terms: FreshnessSource,
}

impl<'a> FreshnessCheck<'a> {
    /// Judges an answer as one to this request.
    pub(super) fn new(query: &CacheQuery<'_>, entry: &'a CacheEntry) -> Self {
        let control = CacheControl::from_headers(&entry.headers).unwrap_or_default();
        let terms = FreshnessSource::new(query, entry, &control);
        let asked = RequestDirectives::from_query(query);
        let born = terms.born(entry);
        let options = CacheOptions {
            shared: !query.is_personal(),
            ..CacheOptions::default()
        };
        let policy = CachePolicy::new_options(&asked, &terms.said(entry, &control), born, options);
        let lifetime = match terms {
            FreshnessSource::Guessed => policy.time_to_live(born).min(LONGEST_GUESS),
            _ => policy.time_to_live(born),
        };
        Self {
            entry,
            control,
            policy,
            asked,
            lifetime,
            terms,
        }
    }

    /// Whether it may be kept at all.
    pub(super) fn is_storable(&self, query: &CacheQuery<'_>) -> bool {
        let readable = CacheControl::from_headers(&self.entry.headers).is_some();
        let shown_to_all = self.control.has("private") && !query.is_personal();
        readable && !self.control.has("no-store") && !shown_to_all && self.policy.is_storable()
    }

    /// Whether it answers the request without a word from the server.
    pub(super) fn is_fresh(&self, now: WallTime) -> bool {
        let satisfied = matches!(
            self.policy.before_request(&self.asked, system(now)),
            BeforeRequest::Fresh(_)
        );
        let Some(age) = self.age(now) else {
            return false;
        };
        let guess_is_over = matches!(self.terms, FreshnessSource::Guessed) && age >= self.lifetime;
        satisfied && !guess_is_over
    }

    /// How long it stays fresh, or how long it has not been.
    pub(super) fn freshness(&self, now: WallTime) -> Freshness {
        let age = self.age(now).unwrap_or(self.lifetime);
        match self.lifetime.checked_sub(age) {
            Some(left) if left > Duration::ZERO => Freshness::For(left),
            _ => Freshness::GoneFor(age.saturating_sub(self.lifetime)),
        }
    }

    /// Whether it may be given, stale, when the server cannot be had: it is not forbidden, and it has
    /// not been stale for longer than the answer, the request or the settings allow.
    pub(super) fn serves_errors(&self, now: WallTime, usual: Duration) -> bool {
        let Freshness::GoneFor(gone) = self.freshness(now) else {
            // Fresh, and the request wanted it confirmed: it does not want it unconfirmed.
            return false;
        };
        let asked = CacheControl::from_headers(&self.asked.headers).unwrap_or_default();
        let said = [&self.control, &asked]
            .into_iter()
            .filter_map(|control| control.seconds("stale-if-error"));
        let window = said.map(Duration::from_secs).fold(usual, Duration::max);
        window > Duration::ZERO && gone <= window && !self.forbids_stale() && !asked.has("no-cache")
    }

    /// How much of its lifetime has passed; `None` if the clock says that it has not come yet. What we
    /// force is forced from when it came.
    fn age(&self, now: WallTime) -> Option<Duration> {
        let age = self.entry.age(now)?;
        Some(match self.terms {
            FreshnessSource::Forced(_) => age.saturating_sub(self.entry.initial_age),
            _ => age,
        })
    }

    fn forbids_stale(&self) -> bool {
        let own = ["must-revalidate", "no-cache"];
        let shared = ["proxy-revalidate", "s-maxage"];
        let has = |names: &[&str]| names.iter().any(|name| self.control.has(name));
        match self.terms {
            FreshnessSource::Forced(_) => false,
            _ => has(&own) || (self.asked.shared && has(&shared)),
        }
    }

    /// The headers that ask the server whether it is still the same; empty if nothing tells.
    pub(super) fn conditions(&self) -> HeaderMap {
        let pairs = [
            (header::IF_NONE_MATCH, header::ETAG),
            (header::IF_MODIFIED_SINCE, header::LAST_MODIFIED),
        ];
        let told = |(asks, says): (HeaderName, HeaderName)| {
            Some((asks, self.entry.headers.get(says)?.clone()))
        };
        pairs.into_iter().filter_map(told).collect()
    }
}

/// How long an answer stays fresh, or how long it has not been.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Freshness {
    /// It is fresh for so long.
    For(Duration),
    /// It has been stale for so long.
    GoneFor(Duration),
}

/// By whose word an answer is fresh.
#[derive(Clone, Copy)]
enum FreshnessSource {
    /// Ours, whatever it says.
    Forced(Duration),
    /// Its own.
    Said,
    /// Nobody's: a share of the time for which it had not changed.
    Guessed,
}

impl FreshnessSource {
    fn new(query: &CacheQuery<'_>, entry: &CacheEntry, control: &CacheControl) -> Self {
        let good = query.method == Method::GET && entry.status.is_success();
        let said = ["max-age", "s-maxage", "immutable"];
        match query.mode {
            CacheMode::Force(ttl) if good => Self::Forced(ttl),
            _ if said.iter().any(|name| control.has(name)) => Self::Said,
            _ if entry.headers.contains_key(header::EXPIRES) => Self::Said,
            _ => Self::Guessed,
        }
    }

    /// When its lifetime began.
    fn born(self, entry: &CacheEntry) -> SystemTime {
        let received = system(entry.received);
        match self {
            Self::Forced(_) => received,
            _ => received.checked_sub(entry.initial_age).unwrap_or(received),
        }
    }

    /// The answer's part in the library's reckoning.
    fn said(self, entry: &CacheEntry, control: &CacheControl) -> ResponseDirectives {
        let mut headers = HeaderMap::new();
        if let Self::Forced(ttl) = self {
            let seconds = ttl.as_secs() + u64::from(ttl.subsec_nanos() > 0);
            let text = format!("max-age={}", seconds.min(FOREVER));
            let value =
                HeaderValue::from_str(&text).unwrap_or(HeaderValue::from_static("max-age=0"));
            headers.insert(header::CACHE_CONTROL, value);
        } else {
            let told = SAID.into_iter().filter_map(|name| {
                let value = in_one_form(entry.headers.get(&name)?, entry.received);
                Some((name, value))
            });
            headers.extend(told);
            if entry.headers.contains_key(header::CACHE_CONTROL) {
                headers.insert(header::CACHE_CONTROL, control.rendered());
            }
        }
        ResponseDirectives {
            status: entry.status,
            headers,
        }
    }
}

/// A request as the library sees it: its directives alone.
struct RequestDirectives {
    method: Method,
    headers: HeaderMap,
    shared: bool,
}

impl RequestDirectives {
    fn from_query(query: &CacheQuery<'_>) -> Self {
        let mut headers = HeaderMap::new();
        if query.headers.contains_key(header::CACHE_CONTROL) {
            let control = CacheControl::from_headers(query.headers).unwrap_or_default();
            headers.insert(header::CACHE_CONTROL, control.rendered());
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

/// An answer as the library sees it: what it says about time.
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

/// How old an answer is when it comes in: what caches on its way say, or what its date says, whichever
/// is more, and the time we waited for it.
pub(super) fn initial_age(headers: &HeaderMap, received: WallTime, delay: Duration) -> Duration {
    let text = headers.get(header::AGE).and_then(|age| age.to_str().ok());
    let told = text.and_then(|age| age.trim().parse().ok()).unwrap_or(0);
    let told = Duration::from_secs(told).saturating_add(delay);
    let date = headers
        .get(header::DATE)
        .map(|date| HttpDate::read(date.as_bytes(), received));
    // Dates are whole seconds: the part of one that has passed since is no age.
    let apparent = match date {
        Some(Ok(date)) => Duration::from_secs(received.since(date.at()).as_secs()),
        _ => Duration::ZERO,
    };
    told.max(apparent).min(Duration::from_secs(FOREVER))
}

/// A date in the one form that the library reads; what is no date stays what it is.
fn in_one_form(value: &HeaderValue, now: WallTime) -> HeaderValue {
    let date = HttpDate::read(value.as_bytes(), now).ok();
    date.and_then(|date| HeaderValue::from_str(&date.to_string()).ok())
        .unwrap_or_else(|| value.clone())
}

/// The library writes a date with every answer and panics in the year 10000.
fn system(at: WallTime) -> SystemTime {
    let span = at.as_duration().min(LAST_DATE);
    UNIX_EPOCH.checked_add(span).unwrap_or(UNIX_EPOCH)
}

/// What an answer says about time beside its directives.
const SAID: [HeaderName; 4] = [
    header::EXPIRES,
    header::DATE,
    header::LAST_MODIFIED,
    header::PRAGMA,
];

/// About the year 9993: hours after the epoch, and safely before the last date that can be written.
const LAST_DATE: Duration = Duration::from_hours(8024 * 8766);

/// A guess is good for a day: a tenth of the years for which a list of currencies had not changed
/// would keep it for months.
const LONGEST_GUESS: Duration = Duration::from_hours(24);
