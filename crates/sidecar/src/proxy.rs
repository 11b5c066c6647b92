//! Proxy handler: turns one HTTP request into a call and its result into a response.

mod api_share;
pub(crate) mod control_headers;
mod cookie;
mod error_response;
mod hop_by_hop;
mod loop_detection;
pub(crate) mod problem;
mod read_ahead;
mod request_body;
pub(crate) mod request_guard;
mod response_body;
mod response_headers;
pub(crate) mod route;
mod sdk_error;
pub(crate) mod stalled_readers;

use std::sync::Arc;

use crate::config::ServerConfig;
use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_LENGTH, CONTENT_TYPE, EXPECT, TRAILER};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, Version};
use http_body::Body;
use hyper::body::Incoming;
use outflow::{Api, CacheMode, Call, CredentialPlacement, MemoryBudget, MemoryShare, Upstream};
use outflow_listener::{ActiveRequest, ConnectionLimits, IdleTracker};

use self::api_share::{ApiCall, ApiShares};
use self::control_headers::{CallOverrides, InvalidControl};
use self::hop_by_hop::TrailerSupport;
use self::loop_detection::ViaMark;
use self::problem::ProxyProblem;
use self::read_ahead::ReadAhead;
use self::request_body::{BodyError, RequestBody};
use self::request_guard::ListenerExposure;
use self::response_body::{BodySource, ResponseBody};
use self::response_headers::{ResponseFacts, annotate};
use self::route::RequestRoute;
use self::stalled_readers::StalledReaders;
use crate::Sidecar;
use crate::h1::framing::FramingError;
use crate::memory_cost::{self, ConnectionBudget, ConnectionMemory};

/// Handler of all requests of one listener.
pub(crate) struct ProxyHandler {
    sidecar: Arc<Sidecar>,
    connections: Arc<ConnectionLimits>,
    shares: ApiShares,
    exposure: ListenerExposure,
    mark: ViaMark,
}

impl ProxyHandler {
    pub(crate) fn new(sidecar: Arc<Sidecar>, connections: Arc<ConnectionLimits>, exposure: ListenerExposure) -> Self {
        Self {
            sidecar,
            connections,
            shares: ApiShares::default(),
            exposure,
            mark: ViaMark::random(),
        }
    }

    /// Forwards a request and returns the response of the API or a problem.
    pub(crate) async fn respond(
        &self,
        request: Request<Incoming>,
        active: ActiveRequest,
        readers: &StalledReaders,
        memory: &ConnectionMemory,
    ) -> Response<ResponseBody> {
        let readers = (request.version() == Version::HTTP_2).then_some(readers);
        let read_buffer = self.sidecar.config().max_header_size;
        let mut share = memory.begin(&request, read_buffer);
        let forwarded = match &mut share {
            // On the heap: an idle connection does not need its memory.
            Some(share) => Box::pin(self.forward(request)).await.and_then(|response| {
                let fits = share.add_response(&response);
                fits.then_some(response).ok_or_else(problem::memory_full)
            }),
            None => Err(problem::memory_full()),
        };
        let response = forwarded.unwrap_or_else(ProxyProblem::into_response);
        response.map(|source| ResponseBody::new(source, active, readers).holding(share))
    }

    /// Returns the memory for connections, requests and bodies.
    fn memory(&self) -> &MemoryBudget {
        self.sidecar.memory()
    }

    /// Returns the access of one connection to the memory.
    pub(crate) fn budget(&self, tracker: &IdleTracker) -> ConnectionBudget {
        ConnectionBudget {
            memory: self.memory().clone(),
            connections: Arc::clone(&self.connections),
            tracker: tracker.clone(),
        }
    }

    async fn forward(&self, request: Request<Incoming>) -> Result<Response<BodySource>, ProxyProblem> {
        let (mut head, body) = request.into_parts();
        let config = self.sidecar.config();
        self.check(&mut head, &config)?;
        let client = &self.sidecar.client;
        let Some(route) = RequestRoute::from_uri(&head.uri) else {
            return Ok(text_response(route::help_text(client)));
        };
        let Some(api) = client.handle(route.api) else {
            return Err(route::unknown_api(route.api, client));
        };
        let api_call = self.begin_call(route.api)?;
        request_guard::check_key_name(&head.headers, key_header(api.config()).as_ref())?;
        let overrides = CallOverrides::take(&mut head.headers).map_err(|invalid| invalid_control_header(&invalid))?;
        self.mark.add_to(&mut head.headers, head.version)?;
        if head.version == Version::HTTP_2 {
            cookie::join(&mut head.headers);
        }
        let body = RequestBody::new(body, &config, key_header(api.config()));
        let mode = ResponseMode::new(api.config(), &head, &body, &overrides);
        let trailers = hop_by_hop::trailer_support(&head.headers);
        let call = api.request(head.method.clone(), route.path);
        let call = overrides.apply(call.redirects(0));
        let failure = body.failure.clone();
        let body_problem = |error| error_response::body_problem(route.api, error);
        let attached = attach(call, head.headers, body, self.memory()).await;
        let (call, body) = attached.map_err(body_problem)?;
        let call = call.memory(self.memory());
        let sent = async {
            match mode {
                ResponseMode::Buffered => call.send().await,
                ResponseMode::Streamed => call.send_streaming().await,
            }
        };
        let result = tokio::select! {
            biased;
            result = sent => result,
            error = body.failed() => return Err(body_problem(error)),
        };
        match (result, failure.get()) {
            (Ok(mut response), _) => {
                if !response.reserve_memory(self.memory()) {
                    return Err(problem::memory_full());
                }
                let response = build_response(api.upstream(), response, trailers);
                let mut response = response.map(|body| BodySource::Api(body, api_call));
                if head.method != Method::HEAD {
                    set_length(&mut response);
                }
                Ok(response)
            }
            (Err(error), _) if error.is_memory_full() => Err(problem::memory_full()),
            (Err(_), Some(error)) => Err(body_problem(*error)),
            (Err(error), None) if error.is_upload() => Err(body_problem(BodyError::Slow)),
            (Err(error), None) => Err(error_response::call_problem(route.api, &error)),
        }
    }

    /// Begins a call, unless calls of its API hold most connections or memory.
    fn begin_call(&self, api: &str) -> Result<ApiCall, ProxyProblem> {
        let free = self.sidecar.max_connections().saturating_sub(self.connections.open());
        self.shares
            .begin(api, free.min(memory_cost::free_places(self.memory())))
            .ok_or_else(|| problem::too_many_callers(api))
    }

    /// Rejects requests with invalid framing, unsupported requests and unauthorized callers.
    fn check(&self, head: &mut Parts, config: &ServerConfig) -> Result<(), ProxyProblem> {
        match request_guard::framing_error(&head.headers) {
            None => {}
            Some(FramingError::NoMemory) => return Err(problem::memory_full()),
            Some(error) => {
                self.sidecar.rejections.count_malformed();
                return Err(request_guard::ambiguous(error));
            }
        }
        request_guard::check_head(head, config).inspect_err(|_| self.sidecar.rejections.count_malformed())?;
        request_guard::check_supported(head, self.exposure)?;
        request_guard::check_token(head, config.token.as_ref())
            .inspect_err(|_| self.sidecar.rejections.count_unauthorized())
    }
}

/// Builds the response for the caller: drops hop-by-hop headers of the API and adds those of the sidecar.
fn build_response(
    upstream: &Upstream,
    response: outflow::Response,
    trailers: TrailerSupport,
) -> Response<outflow::Body> {
    let facts = ResponseFacts::from(&response);
    let mut response = response.into_http();
    let headers = response.headers_mut();
    let announced = hop_by_hop::announced_trailers(headers).filter(|_| trailers == TrailerSupport::Accepted);
    hop_by_hop::strip(headers);
    if let Some(names) = announced {
        headers.insert(TRAILER, names);
    }
    annotate(headers, &facts, upstream);
    response
}

/// Replaces the length of the API by that of the body, if it is known. Hyper writes a given length unchecked,
/// and the surplus of a longer body would be the caller's next response. A response to HEAD keeps the length:
/// it is that of another response.
fn set_length(response: &mut Response<BodySource>) {
    let length = response.body().size_hint().exact();
    let is_bodiless = matches!(response.status(), StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
    let headers = response.headers_mut();
    match length.filter(|_| !is_bodiless) {
        Some(length) => headers.insert(CONTENT_LENGTH, length.into()),
        None => headers.remove(CONTENT_LENGTH),
    };
}

/// Way in which the body of a response reaches the caller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum ResponseMode {
    /// Complete, so that the cache can store it and equal calls can share it.
    Buffered,
    /// Piece by piece as it arrives.
    Streamed,
}

impl ResponseMode {
    /// Buffers only responses that the cache may store. A stream of events never ends, so it is streamed.
    fn new(api: &Api, head: &Parts, body: &RequestBody, overrides: &CallOverrides) -> Self {
        let is_read = head.method == Method::GET || head.method == Method::HEAD;
        let is_cacheable = api.cache != CacheMode::Off && is_read && body.is_end_stream();
        if is_cacheable && !overrides.bypasses_cache() && !accepts_events(&head.headers) {
            Self::Buffered
        } else {
            Self::Streamed
        }
    }
}

/// Returns the header that carries the key of an API, if the key has its own header.
fn key_header(api: &Api) -> Option<HeaderName> {
    match &api.credential.as_ref()?.place {
        CredentialPlacement::Header(name) => Some(name.clone()),
        _ => None,
    }
}

fn accepts_events(headers: &HeaderMap) -> bool {
    let names_events = |value: &HeaderValue| {
        let text = value.as_bytes();
        text.windows(EVENT_STREAM.len()).any(|part| part == EVENT_STREAM)
    };
    headers.get_all(ACCEPT).into_iter().any(names_events)
}

/// Body of a call that waits.
enum AttachedBody {
    /// The call has none, or it stays unread until the call has its permit.
    Unread,
    /// The call holds it; it counts in the memory budget.
    Collected(#[expect(dead_code, reason = "held until it is dropped")] MemoryShare),
    /// The connection reads it while the call waits.
    Ahead(ReadAhead),
}

impl AttachedBody {
    /// Returns only if the body fails before the call sends any of it.
    async fn failed(&self) -> BodyError {
        match self {
            Self::Ahead(reader) => reader.failed().await,
            Self::Unread | Self::Collected(_) => std::future::pending().await,
        }
    }
}

/// Adds headers and body to a call. A small body is collected first, if memory allows, so that the call can be
/// retried; a larger one is read ahead. A body stays unread if the client expects `100 Continue`, which it gets with
/// the permit, or if memory is short.
async fn attach(
    call: Call,
    mut headers: HeaderMap,
    body: RequestBody,
    memory: &MemoryBudget,
) -> Result<(Call, AttachedBody), BodyError> {
    let announced = hop_by_hop::announced_trailers(&headers);
    let trailers = hop_by_hop::trailer_support(&headers);
    let expects_continue = headers.remove(EXPECT).is_some();
    hop_by_hop::strip(&mut headers);
    let mut call = call.headers(headers);
    if trailers == TrailerSupport::Accepted {
        call = call.accepting_trailers();
    }
    if body.is_end_stream() {
        return Ok((call, AttachedBody::Unread));
    }
    if body.is_too_large() {
        return Err(BodyError::TooLarge);
    }
    let small = body.small_size().filter(|_| !expects_continue);
    if let Some(share) = small.and_then(|size| memory.reserve_buffer(size)) {
        return Ok((call.body(body.collect().await?), AttachedBody::Collected(share)));
    }
    if let Some(names) = announced {
        call = call.trailers(names);
    }
    if small.is_some() || expects_continue {
        return Ok((call.stream(body), AttachedBody::Unread));
    }
    let (reader, body) = ReadAhead::new(body, memory);
    Ok((call.stream(body), AttachedBody::Ahead(reader)))
}

fn invalid_control_header(invalid: &InvalidControl) -> ProxyProblem {
    let status = StatusCode::BAD_REQUEST;
    ProxyProblem::new(status, "control_header", "a control header is invalid")
        .fact("header", invalid.header.as_str())
        .detail(format!("{} is invalid", invalid.header))
        .advice(invalid.advice.clone())
}

fn text_response(text: String) -> Response<BodySource> {
    let mut response = Response::new(BodySource::Text(Bytes::from(text)));
    let plain = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, plain);
    response
}

const EVENT_STREAM: &[u8] = b"text/event-stream";
