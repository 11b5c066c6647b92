//! One request and its answer: who asks, for what, by which call, and what came of it.

pub(crate) mod control_headers;
mod error_response;
mod hop_by_hop;
mod loop_detection;
pub(crate) mod problem;
mod request_body;
pub(crate) mod request_guard;
mod response_body;
mod response_headers;
pub(crate) mod route;
pub(crate) mod stalled_readers;

use std::sync::Arc;

use crate::config::ServerConfig;
use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, EXPECT, TRAILER};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, Version};
use http_body::Body;
use hyper::body::Incoming;
use outflow::{Api, CacheMode, Call, CredentialPlacement, Upstream};

use self::control_headers::{CallOverrides, InvalidControl};
use self::hop_by_hop::Trailers;
use self::loop_detection::ViaMark;
use self::problem::ProxyProblem;
use self::request_body::{BodyError, RequestBody};
use self::request_guard::ListenerExposure;
use self::response_body::{DownloadSource, ResponseBody};
use self::response_headers::{ResponseFacts, annotate};
use self::route::RequestRoute;
use self::stalled_readers::StalledReaders;
use crate::Sidecar;
use crate::accept::idle_tracker::ActiveRequest;

/// What translates between HTTP and calls.
pub(crate) struct ProxyHandler {
    sidecar: Arc<Sidecar>,
    exposure: ListenerExposure,
    mark: ViaMark,
}

impl ProxyHandler {
    pub(crate) fn new(sidecar: Arc<Sidecar>, exposure: ListenerExposure) -> Self {
        Self {
            sidecar,
            exposure,
            mark: ViaMark::random(),
        }
    }

    /// Answers a request.
    pub(crate) async fn answer(
        &self,
        request: Request<Incoming>,
        beat: ActiveRequest,
        readers: &StalledReaders,
    ) -> Response<ResponseBody> {
        let readers = (request.version() == Version::HTTP_2).then_some(readers);
        let answered = self.forwarded(request).await;
        let response = answered.unwrap_or_else(ProxyProblem::response);
        response.map(|source| ResponseBody::new(source, beat, readers))
    }

    async fn forwarded(
        &self,
        request: Request<Incoming>,
    ) -> Result<Response<DownloadSource>, ProxyProblem> {
        let (mut head, body) = request.into_parts();
        let config = self.sidecar.config();
        self.let_in(&mut head, &config)?;
        let client = &self.sidecar.client;
        let Some(route) = RequestRoute::from_uri(&head.uri) else {
            return Ok(text(route::help(client)));
        };
        let Some(api) = client.handle(route.api) else {
            return Err(route::unknown(route.api, client));
        };
        let steering = CallOverrides::take(&mut head.headers).map_err(|why| unclear(&why))?;
        self.mark.put_on(&mut head.headers, head.version)?;
        let upload = RequestBody::new(body, &config).without(key_header(api.config()));
        let shape = BodyShape::new(api.config(), &head, &upload, &steering);
        let trailers = hop_by_hop::trailers(&head.headers);
        let call = api.request(head.method, route.path);
        let call = steering.steer(call.redirects(0));
        let breach = upload.breach();
        let loaded = loaded(call, head.headers, upload).await;
        let call = loaded.map_err(|broken| error_response::body(route.api, broken))?;
        let ended = match shape {
            BodyShape::Whole => call.send().await,
            BodyShape::Flowing => call.send_streaming().await,
        };
        match (ended, breach.why()) {
            (Ok(answer), _) => Ok(build_response(api.upstream(), answer, trailers)),
            (Err(_), Some(broken)) => Err(error_response::body(route.api, broken)),
            (Err(error), None) if error.is_upload() => {
                Err(error_response::body(route.api, BodyError::Slow))
            }
            (Err(error), None) => Err(error_response::problem(route.api, &error)),
        }
    }

    /// Turns away who may not ask, and what cannot be asked.
    fn let_in(&self, head: &mut Parts, settings: &ServerConfig) -> Result<(), ProxyProblem> {
        if let Some(problem) = request_guard::misframed(&head.headers) {
            self.sidecar.rejections.bad_framing();
            return Err(problem);
        }
        request_guard::possible(head, self.exposure)?;
        request_guard::known(head, settings.token.as_ref())
            .inspect_err(|_| self.sidecar.rejections.no_token())
    }
}

/// Builds our response from the API's, without the headers of its connection and with ours.
fn build_response(
    upstream: &Upstream,
    answer: outflow::Response,
    trailers: Trailers,
) -> Response<DownloadSource> {
    let facts = ResponseFacts::from(&answer);
    let mut response = answer.into_http().map(DownloadSource::Api);
    let headers = response.headers_mut();
    let announced = hop_by_hop::announced(headers).filter(|_| trailers == Trailers::Welcome);
    hop_by_hop::strip(headers);
    if let Some(names) = announced {
        headers.insert(TRAILER, names);
    }
    annotate(headers, &facts, upstream);
    response
}

/// How the answer of an API is taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum BodyShape {
    /// Read whole, so that the cache can keep it and equal calls can share it.
    Whole,
    /// Handed on as it comes.
    Flowing,
}

impl BodyShape {
    /// Only what the cache may keep is held back until it is whole. A stream of events never would
    /// be, so whoever asks for one gets it as it comes.
    fn new(api: &Api, head: &Parts, upload: &RequestBody, steering: &CallOverrides) -> Self {
        let reads = head.method == Method::GET || head.method == Method::HEAD;
        let kept = api.cache != CacheMode::Off && reads && upload.is_end_stream();
        if kept && !steering.is_around_the_cache() && !wants_events(&head.headers) {
            Self::Whole
        } else {
            Self::Flowing
        }
    }
}

/// Where the key of an API stands, if that is a header of its own.
fn key_header(api: &Api) -> Option<HeaderName> {
    match &api.credential.as_ref()?.place {
        CredentialPlacement::Header(name) => Some(name.clone()),
        _ => None,
    }
}

fn wants_events(headers: &HeaderMap) -> bool {
    let named = |value: &HeaderValue| {
        let text = value.as_bytes();
        text.windows(EVENTS.len()).any(|part| part == EVENTS)
    };
    headers.get_all(ACCEPT).into_iter().any(named)
}

/// Puts headers and body into a call. A small body is held, so that the call can be repeated; a client
/// that waits for leave to send its body gets it when the API's turn has come, and not before.
async fn loaded(
    call: Call,
    mut headers: HeaderMap,
    upload: RequestBody,
) -> Result<Call, BodyError> {
    let announced = hop_by_hop::announced(&headers);
    let trailers = hop_by_hop::trailers(&headers);
    let waits_for_leave = headers.remove(EXPECT).is_some();
    hop_by_hop::strip(&mut headers);
    let mut call = call.headers(headers);
    if trailers == Trailers::Welcome {
        call = call.accepting_trailers();
    }
    if upload.is_end_stream() {
        return Ok(call);
    }
    if upload.is_too_large() {
        return Err(BodyError::TooLarge);
    }
    if upload.is_small() && !waits_for_leave {
        return Ok(call.body(upload.collect().await?));
    }
    if let Some(names) = announced {
        call = call.trailers(names);
    }
    Ok(call.stream(upload))
}

fn unclear(why: &InvalidControl) -> ProxyProblem {
    let status = http::StatusCode::BAD_REQUEST;
    ProxyProblem::new(status, "steering", "a header of ours cannot be read")
        .fact("header", why.header.as_str())
        .detail(format!("{} cannot be read", why.header))
        .advice(why.advice.clone())
}

fn text(text: String) -> Response<DownloadSource> {
    let mut response = Response::new(DownloadSource::text(Bytes::from(text)));
    let plain = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, plain);
    response
}

const EVENTS: &[u8] = b"text/event-stream";
