//! A wish made definite: where it goes, as what, and by when.

use std::time::Duration;

use http::header::USER_AGENT;
use http::{HeaderMap, HeaderValue, Method, Request, Uri};
use outflow_core::Nanos;
use smol_str::SmolStr;

use super::redirect::same_origin;
use crate::client::{ApiClient, CacheDirective, CallSpec, Idempotency, RequestPayload, forget};
use crate::error::{Error, ErrorKind, ErrorReason};
use crate::http::OutgoingBody;
use crate::refusal::{Refusal, RefusalReason};
use crate::trace::Trace;
use crate::upstream::{AcquireOptions, Target};

/// What is sent, and what is known about it.
pub(super) struct PreparedRequest {
    /// What was wished for; its headers are those that go out, but for our name.
    pub(super) wish: Box<CallSpec>,
    pub(super) uri: Uri,
    pub(super) target: Target,
    pub(super) place: RequestOrigin,
    pub(super) end: Option<Nanos>,
    pub(super) max_wait: Duration,
    pub(super) redirects: u8,
    pub(super) trace: Option<SmolStr>,
    pub(super) asked: Option<Box<CacheRequest>>,
    pub(super) visited: Vec<Uri>,
}

/// A request as the cache sees it: as its caller wrote it, without the API's own key.
pub(super) struct CacheRequest {
    pub(super) method: Method,
    pub(super) uri: Uri,
    pub(super) headers: HeaderMap,
}

impl CacheRequest {
    /// What the cache is asked; nothing if it has no part in this call.
    fn new(outlet: &ApiClient, wish: &CallSpec) -> Result<Option<Box<Self>>, Error> {
        let has_body = !matches!(&wish.payload, RequestPayload::Whole(bytes) if bytes.is_empty());
        let reads = [Method::GET, Method::HEAD].contains(&wish.method);
        // A write concerns the cache even around it: what was kept is obsolete all the same.
        let apart = reads && (wish.cache == CacheDirective::Bypass || has_body);
        if outlet.cache.is_none() || apart {
            return Ok(None);
        }
        let uri = outlet.api.base_url.join(&wish.path);
        Ok(Some(Box::new(Self {
            method: wish.method.clone(),
            uri: uri.map_err(ErrorReason::Path)?,
            headers: wish.headers.clone(),
        })))
    }
}

/// Whether a request goes to the API or was redirected away from it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum RequestOrigin {
    Here,
    Elsewhere,
}

/// Where a call begins, and with what.
pub(super) struct CallStart {
    uri: Uri,
    headers: HeaderMap,
    target: Target,
    place: RequestOrigin,
}

impl PreparedRequest {
    pub(super) fn new(
        outlet: &ApiClient,
        mut wish: Box<CallSpec>,
        now: Nanos,
    ) -> Result<Self, Error> {
        let api = &outlet.api;
        let known = api.methods.is_empty() || api.methods.contains(&wish.method);
        if !known || wish.method == Method::CONNECT {
            return Err(ErrorReason::Method(wish.method).into());
        }
        let target = target(outlet, &wish)?;
        let asked = CacheRequest::new(outlet, &wish)?;
        let trace = dress(outlet, &mut wish.headers);
        Ok(Self {
            uri: uri(outlet, &wish.path)?,
            asked,
            end: wish.within.map(|span| now.saturating_add(span)),
            max_wait: wish.max_wait.unwrap_or(api.rules.max_wait),
            redirects: wish.redirects.unwrap_or(api.redirects),
            place: RequestOrigin::Here,
            visited: Vec::new(),
            target,
            trace,
            wish,
        })
    }

    /// By when a permit that is waited for since then must have come.
    pub(super) fn patient_until(&self, since: Nanos) -> Nanos {
        let patient = since.saturating_add(self.max_wait);
        self.end.map_or(patient, |end| end.min(patient))
    }

    /// What the door is asked.
    pub(super) fn acquire_options(&self, until: Nanos) -> AcquireOptions {
        let options = AcquireOptions::new()
            .with_priority(self.wish.priority)
            .with_deadline(until);
        let mode = self.wish.mode;
        mode.map_or(options, |mode| options.with_mode(mode))
    }

    /// The request of one attempt.
    pub(super) fn request(&mut self) -> Request<OutgoingBody> {
        let mut request = Request::new(self.wish.payload.outgoing());
        *request.method_mut() = self.wish.method.clone();
        *request.uri_mut() = self.uri.clone();
        *request.headers_mut() = self.wish.headers.clone();
        // Here and not before: most calls have no headers of their own, and nothing to copy then.
        let name = request.headers_mut().entry(USER_AGENT);
        name.or_insert(HeaderValue::from_static(AGENT));
        request
    }

    /// Whether doing it twice is doing it once.
    pub(super) fn can_be_repeated(&self) -> bool {
        let by_method = [
            Method::GET,
            Method::HEAD,
            Method::OPTIONS,
            Method::PUT,
            Method::DELETE,
            Method::TRACE,
        ]
        .contains(&self.wish.method);
        by_method
            || self.wish.repeats == Idempotency::Safely
            || self.wish.headers.contains_key("idempotency-key")
    }

    /// What a call needs to begin again.
    pub(super) fn start(&self) -> CallStart {
        CallStart {
            uri: self.uri.clone(),
            headers: self.wish.headers.clone(),
            target: self.target,
            place: self.place,
        }
    }

    /// Begins again, as if it had led nowhere yet.
    pub(super) fn return_to(&mut self, start: CallStart) {
        self.uri = start.uri;
        self.wish.headers = start.headers;
        self.target = start.target;
        self.place = start.place;
        self.visited.clear();
    }

    /// Where a redirect really leads: a key that stands in the query goes along within the API, as one
    /// in a header does. What came back from elsewhere gets none.
    pub(super) fn led(&self, to: Uri, outlet: &ApiClient) -> Uri {
        match &outlet.shown {
            Some(shown) if self.place == RequestOrigin::Here && is_here(outlet, &to) => {
                shown.follow(to)
            }
            _ => to,
        }
    }

    /// Goes on elsewhere. What could make the caller known there stays behind.
    pub(super) fn turn_to(&mut self, to: Uri, outlet: &ApiClient) {
        if !same_origin(&self.uri, &to) {
            forget(&mut self.wish.headers, outlet.shown.as_ref());
        }
        self.place = if is_here(outlet, &to) {
            RequestOrigin::Here
        } else {
            RequestOrigin::Elsewhere
        };
        // A group that the caller named is the caller's word about the whole call.
        if self.place == RequestOrigin::Here && self.wish.group.is_none() {
            let target = outlet.upstream.route(&self.wish.method, below(outlet, &to));
            let cost = self.wish.cost;
            self.target = cost.map_or(target, |cost| target.with_cost(cost));
        }
        self.visited.push(std::mem::replace(&mut self.uri, to));
    }
}

fn is_here(outlet: &ApiClient, to: &Uri) -> bool {
    let base = outlet.api.base_url.join("");
    base.is_ok_and(|base| same_origin(&base, to))
}

/// The path as routes are written: behind the base, unless it is beside it.
fn below<'a>(outlet: &ApiClient, to: &'a Uri) -> &'a str {
    let path = to.path();
    path.strip_prefix(outlet.api.base_url.prefix())
        .filter(|rest| rest.is_empty() || rest.starts_with('/'))
        .unwrap_or(path)
}

fn target(outlet: &ApiClient, wish: &CallSpec) -> Result<Target, Error> {
    let upstream = &outlet.upstream;
    let target = match &wish.group {
        None => upstream.route(&wish.method, &wish.path),
        Some(name) => upstream.group(name).ok_or_else(|| {
            Error::new(ErrorKind::Refused(Refusal {
                cause: RefusalReason::UnknownGroup(name.clone()),
                retry_after: None,
            }))
        })?,
    };
    Ok(wish.cost.map_or(target, |cost| target.with_cost(cost)))
}

fn uri(outlet: &ApiClient, path: &str) -> Result<Uri, Error> {
    let join = |path: &str| {
        let joined = outlet.api.base_url.join(path);
        joined.map_err(|why| Error::from(ErrorReason::Path(why)))
    };
    match &outlet.shown {
        None => join(path),
        Some(shown) => {
            let mut whole = path.to_owned();
            shown.behind(&mut whole);
            join(&whole)
        }
    }
}

/// Makes a caller's headers those that go out; answers the trace they belong to if they name one.
fn dress(outlet: &ApiClient, headers: &mut HeaderMap) -> Option<SmolStr> {
    if let Some(shown) = &outlet.shown {
        shown.put(headers);
    }
    // A trace is continued and never begun: whoever wants one has begun it.
    let traced = !headers.is_empty() && headers.contains_key("traceparent");
    traced.then(|| {
        let trace = Trace::new(headers, &mut fastrand::Rng::new());
        trace.write(headers);
        trace.context.trace_id()
    })
}

/// Some providers answer nobody without a name.
const AGENT: &str = concat!("outflow/", env!("CARGO_PKG_VERSION"));
