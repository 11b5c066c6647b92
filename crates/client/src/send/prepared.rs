//! Call specification resolved to a request: address, headers, target and deadline.

use std::time::Duration;

use http::header::USER_AGENT;
use http::{HeaderMap, HeaderValue, Method, Request, Uri};
use outflow_core::Nanos;

use super::redirect::is_same_origin;
use crate::client::{ApiClient, CacheDirective, CallSpec, Idempotency, RequestPayload, strip_credentials};
use crate::error::{Error, ErrorKind, ErrorReason};
use crate::http::OutgoingBody;
use crate::refusal::{Refusal, RefusalReason};
use crate::trace::{Trace, TraceId};
use crate::upstream::{AcquireOptions, Target};

/// Request to send, and its routing.
pub(super) struct PreparedRequest {
    /// Specification; its headers are the ones sent, except `User-Agent`.
    pub(super) spec: Box<CallSpec>,
    pub(super) uri: Uri,
    pub(super) target: Target,
    pub(super) origin: RequestOrigin,
    pub(super) deadline: Option<Nanos>,
    pub(super) max_wait: Duration,
    pub(super) redirects: u8,
    pub(super) trace: TraceId,
    pub(super) cache_request: Option<Box<CacheRequest>>,
    pub(super) visited: Vec<Uri>,
}

/// Request as the cache sees it: as the caller wrote it, without the API's key.
pub(super) struct CacheRequest {
    pub(super) method: Method,
    pub(super) uri: Uri,
    pub(super) headers: HeaderMap,
}

impl CacheRequest {
    /// Returns the request to the cache; `None` if the cache takes no part in this call.
    fn new(client: &ApiClient, spec: &CallSpec) -> Result<Option<Box<Self>>, Error> {
        let has_body = !matches!(&spec.payload, RequestPayload::Buffered(bytes) if bytes.is_empty());
        let is_read = [Method::GET, Method::HEAD].contains(&spec.method);
        // A write concerns the cache even if it bypasses it: it makes stored responses obsolete.
        let is_bypassed = is_read && (spec.cache == CacheDirective::Bypass || has_body);
        if client.cache.is_none() || is_bypassed {
            return Ok(None);
        }
        let uri = client.api.base_url.join(&spec.path);
        Ok(Some(Box::new(Self {
            method: spec.method.clone(),
            uri: uri.map_err(ErrorReason::Path)?,
            headers: spec.headers.clone(),
        })))
    }
}

/// Destination of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum RequestOrigin {
    /// The API.
    Api,
    /// Another origin, after a redirect.
    Foreign,
}

/// Address and headers at the start of a call.
pub(super) struct CallStart {
    uri: Uri,
    headers: HeaderMap,
    target: Target,
    origin: RequestOrigin,
}

impl PreparedRequest {
    pub(super) fn new(client: &ApiClient, mut spec: Box<CallSpec>, now: Nanos) -> Result<Self, Error> {
        let api = &client.api;
        let is_allowed = api.methods.is_empty() || api.methods.contains(&spec.method);
        if !is_allowed || spec.method == Method::CONNECT {
            return Err(ErrorReason::Method(spec.method).into());
        }
        let target = target_of(client, &spec)?;
        let cache_request = CacheRequest::new(client, &spec)?;
        let trace = prepare_headers(client, &mut spec.headers);
        Ok(Self {
            uri: uri(client, &spec.path)?,
            cache_request,
            deadline: spec.timeout.map(|span| now.saturating_add(span)),
            max_wait: spec.max_wait.unwrap_or(api.rules.max_wait),
            redirects: spec.redirects.unwrap_or(api.redirects),
            origin: RequestOrigin::Api,
            visited: Vec::new(),
            target,
            trace,
            spec,
        })
    }

    /// Returns the end of a wait that counts from `since`.
    pub(super) fn wait_end(&self, since: Nanos) -> Nanos {
        let latest = since.saturating_add(self.max_wait);
        self.deadline.map_or(latest, |deadline| deadline.min(latest))
    }

    /// Returns the options for acquiring a permit that is requested at `since`.
    pub(super) fn acquire_options(&self, since: Nanos) -> AcquireOptions {
        let options = AcquireOptions::new().with_priority(self.spec.priority);
        let options = options.with_trace(self.trace);
        let latest = since.saturating_add(self.max_wait);
        let options = match self.deadline {
            Some(end) if end <= latest => options.with_end(end),
            _ => options.with_deadline(latest),
        };
        let mode = self.spec.mode;
        mode.map_or(options, |mode| options.with_mode(mode))
    }

    /// Builds the request of one attempt.
    pub(super) fn build(&mut self) -> Request<OutgoingBody> {
        let mut request = Request::new(self.spec.payload.outgoing());
        *request.method_mut() = self.spec.method.clone();
        *request.uri_mut() = self.uri.clone();
        *request.headers_mut() = self.spec.headers.clone();
        // Added here: most calls have no headers of their own, and so nothing to copy.
        let name = request.headers_mut().entry(USER_AGENT);
        name.or_insert(HeaderValue::from_static(USER_AGENT_VALUE));
        request
    }

    /// Returns true if the request is idempotent.
    pub(super) fn is_idempotent(&self) -> bool {
        let by_method = [
            Method::GET,
            Method::HEAD,
            Method::OPTIONS,
            Method::PUT,
            Method::DELETE,
            Method::TRACE,
        ]
        .contains(&self.spec.method);
        by_method || self.spec.idempotency == Idempotency::Always || self.spec.headers.contains_key("idempotency-key")
    }

    /// Returns the state needed to restart the call.
    pub(super) fn start(&self) -> CallStart {
        CallStart {
            uri: self.uri.clone(),
            headers: self.spec.headers.clone(),
            target: self.target,
            origin: self.origin,
        }
    }

    /// Restarts the call at its original address.
    pub(super) fn restart(&mut self, start: CallStart) {
        self.uri = start.uri;
        self.spec.headers = start.headers;
        self.target = start.target;
        self.origin = start.origin;
        self.visited.clear();
    }

    /// Returns the target of a redirect. A key in the query follows within the API, like one in a
    /// header. A redirect back from another origin gets none.
    pub(super) fn resolve_redirect(&self, to: Uri, client: &ApiClient) -> Uri {
        match &client.auth {
            Some(auth) if self.origin == RequestOrigin::Api && is_at_api(client, &to) => auth.add_to_redirect(to),
            _ => to,
        }
    }

    /// Continues at another address. Headers that identify the caller stay at their origin.
    pub(super) fn redirect_to(&mut self, to: Uri, client: &ApiClient) {
        if !is_same_origin(&self.uri, &to) {
            strip_credentials(&mut self.spec.headers, client.auth.as_ref());
        }
        self.origin = if is_at_api(client, &to) {
            RequestOrigin::Api
        } else {
            RequestOrigin::Foreign
        };
        // A group named by the caller holds for the complete call.
        if self.origin == RequestOrigin::Api && self.spec.group.is_none() {
            let target = client.upstream.route(&self.spec.method, relative_path(client, &to));
            let cost = self.spec.cost;
            self.target = cost.map_or(target, |cost| target.with_cost(cost));
        }
        self.visited.push(std::mem::replace(&mut self.uri, to));
    }
}

fn is_at_api(client: &ApiClient, to: &Uri) -> bool {
    let base = client.api.base_url.join("");
    base.is_ok_and(|base| is_same_origin(&base, to))
}

/// Returns the path as routes write it: relative to the base, if it is below it.
fn relative_path<'a>(client: &ApiClient, to: &'a Uri) -> &'a str {
    let path = to.path();
    path.strip_prefix(client.api.base_url.prefix())
        .filter(|rest| rest.is_empty() || rest.starts_with('/'))
        .unwrap_or(path)
}

/// Returns the target of a call.
pub(super) fn target_of(client: &ApiClient, spec: &CallSpec) -> Result<Target, Error> {
    let upstream = &client.upstream;
    let target = match &spec.group {
        None => upstream.route(&spec.method, &spec.path),
        Some(name) => upstream.group(name).ok_or_else(|| {
            Error::new(ErrorKind::Refused(Refusal {
                reason: RefusalReason::UnknownGroup(name.clone()),
                retry_after: None,
            }))
        })?,
    };
    Ok(spec.cost.map_or(target, |cost| target.with_cost(cost)))
}

fn uri(client: &ApiClient, path: &str) -> Result<Uri, Error> {
    let join = |path: &str| {
        let joined = client.api.base_url.join(path);
        joined.map_err(|error| Error::from(ErrorReason::Path(error)))
    };
    match &client.auth {
        None => join(path),
        Some(auth) => {
            let mut full = path.to_owned();
            auth.add_to_query(&mut full);
            join(&full)
        }
    }
}

/// Adds the API's headers to the caller's; returns the id of the trace they belong to, if any.
fn prepare_headers(client: &ApiClient, headers: &mut HeaderMap) -> TraceId {
    if let Some(auth) = &client.auth {
        auth.add_to_headers(headers);
    }
    for (name, value) in &client.api.headers {
        headers.entry(name).or_insert_with(|| value.clone());
    }
    // A trace is continued and never started here.
    if headers.is_empty() || !headers.contains_key("traceparent") {
        return TraceId::NONE;
    }
    let trace = Trace::new(headers, &mut fastrand::Rng::new());
    trace.write(headers);
    trace.context.trace_id()
}

/// Some providers refuse requests without a name.
const USER_AGENT_VALUE: &str = concat!("outflow/", env!("CARGO_PKG_VERSION"));
