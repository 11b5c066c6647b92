//! RFC 9457 problem details: the response if there is none of the API.
//!
//! It is marked as a response of the proxy, so that no caller takes it for one of the API. It contains no text
//! of the request or of a server.

use std::time::Duration;

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONNECTION, CONTENT_TYPE, RETRY_AFTER, VIA};
use http::{HeaderName, HeaderValue, Response, StatusCode};
use outflow::refusal::http_status;
use serde_json::{Map, Value, json};

use super::response_body::BodySource;
use super::response_headers::OUR_VIA;
use super::sdk_error;

/// Reason why there is no response of the API.
#[derive(Debug)]
pub(crate) struct ProxyProblem {
    status: StatusCode,
    kind: String,
    members: Map<String, Value>,
    retry_after: Option<Duration>,
    proxy_error: Option<&'static str>,
    headers: Vec<(HeaderName, HeaderValue)>,
}

impl ProxyProblem {
    /// Creates a problem; `kind` is the stable identifier of its type.
    pub(crate) fn new(status: StatusCode, kind: &str, title: &str) -> Self {
        let mut members = Map::new();
        members.insert("type".into(), format!("urn:outflow:problem:{kind}").into());
        members.insert("title".into(), title.into());
        members.insert("status".into(), status.as_u16().into());
        Self {
            status,
            kind: kind.into(),
            members,
            retry_after: None,
            proxy_error: None,
            headers: Vec::new(),
        }
    }

    /// Adds details of this occurrence.
    pub(crate) fn detail(self, detail: impl Into<String>) -> Self {
        self.fact("detail", detail.into())
    }

    /// Adds the remedy.
    pub(crate) fn advice(self, advice: impl Into<String>) -> Self {
        self.fact("advice", advice.into())
    }

    /// Adds a member for programs.
    pub(crate) fn fact(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.members.insert(name.into(), value.into());
        self
    }

    /// Adds the time until a retry, if it is known.
    pub(crate) fn retry_after(mut self, delay: Option<Duration>) -> Self {
        let Some(delay) = delay else {
            return self;
        };
        self.retry_after = Some(delay);
        let seconds = Value::from(delay.as_secs_f64());
        self.fact("retry_after", seconds)
    }

    /// Sets the proxy error of RFC 9209.
    pub(crate) const fn proxy_error(mut self, error: &'static str) -> Self {
        self.proxy_error = Some(error);
        self
    }

    /// Adds a header to the response.
    pub(crate) fn header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.push((name, value));
        self
    }

    /// Closes the connection after the response, because the begin of the next request is unknown.
    pub(crate) fn closing(self) -> Self {
        self.header(CONNECTION, HeaderValue::from_static("close"))
    }

    /// Returns true if Outflow decided not to send the call.
    fn is_refusal(&self) -> bool {
        matches!(self.proxy_error, Some("http_request_denied" | "proxy_loop_detected"))
    }

    /// Returns true if the attempts of a call have failed. A library that repeats it multiplies them.
    const fn is_failed_call(&self) -> bool {
        matches!(self.status, StatusCode::BAD_GATEWAY | StatusCode::GATEWAY_TIMEOUT)
    }

    /// Returns the sentence about this occurrence, or the title without one.
    fn reason(&self) -> &str {
        let texts = ["detail", "title"].into_iter();
        let mut texts = texts.filter_map(|name| self.members.get(name)?.as_str());
        texts.next().unwrap_or_default()
    }

    /// Builds the response.
    pub(crate) fn into_response(mut self) -> Response<BodySource> {
        let error = sdk_error::error_member(self.status, &self.kind, self.reason());
        self.members.insert("error".into(), error);
        if self.is_refusal() || self.is_failed_call() {
            let advice = sdk_error::should_retry(self.retry_after);
            self.headers.push((sdk_error::SHOULD_RETRY, advice));
        }
        let text = Value::Object(self.members).to_string();
        let mut response = Response::new(BodySource::Text(Bytes::from(text)));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, JSON);
        // A problem describes one moment: no cache may serve it to another caller.
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        headers.insert(VIA, OUR_VIA);
        if let Some(delay) = self.retry_after {
            headers.insert(RETRY_AFTER, HeaderValue::from(http_status::retry_after_seconds(delay)));
        }
        let mark = self.proxy_error.map_or_else(
            || Ok(HeaderValue::from_static("outflow; error=http_request_error")),
            |error| HeaderValue::try_from(format!("outflow; error={error}")),
        );
        if let Ok(mark) = mark {
            headers.insert(PROXY_STATUS, mark);
        }
        headers.extend(self.headers);
        response
    }
}

/// Builds the problem of a request, or of a stored response, that does not fit into the memory budget.
pub(crate) fn memory_full() -> ProxyProblem {
    ProxyProblem::new(StatusCode::SERVICE_UNAVAILABLE, "memory_full", NO_MEMORY)
        .detail(MEMORY_DETAIL)
        .advice("retry after `retry_after`, or raise `server.max_memory`")
        .retry_after(Some(Duration::from_secs(1)))
        .proxy_error("http_request_denied")
        .closing()
}

/// Builds the problem of a call whose API uses most connections or memory already.
pub(crate) fn too_many_callers(api: &str) -> ProxyProblem {
    let title = "too many callers wait for this API";
    ProxyProblem::new(StatusCode::SERVICE_UNAVAILABLE, "too_many_callers", title)
        .detail("calls of this API hold most connections or memory, and the rest is kept for other APIs")
        .advice("call it from fewer connections, or raise `max_connections`, `max_memory` and the limit of open files")
        .fact("api", api)
        .retry_after(Some(Duration::from_secs(1)))
        .proxy_error("http_request_denied")
        .closing()
}

/// Builds the response to a connection beyond the limits, which is written before any request.
pub(crate) fn too_many_connections(detail: &str) -> String {
    rejection("too_many_connections", "too many connections are open", detail)
}

/// Builds the response to a connection that does not fit into the memory budget.
pub(crate) fn no_memory_for_connection() -> String {
    rejection("memory_full", NO_MEMORY, MEMORY_DETAIL)
}

fn rejection(kind: &str, title: &str, detail: &str) -> String {
    let error = sdk_error::error_member(StatusCode::SERVICE_UNAVAILABLE, kind, detail);
    let body = json!({
        "type": format!("urn:outflow:problem:{kind}"),
        "title": title,
        "status": 503,
        "detail": detail,
        "retry_after": 1.0,
        "error": error,
    })
    .to_string();
    format!(
        "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/problem+json\r\n\
         content-length: {}\r\nretry-after: 1\r\nx-should-retry: true\r\nconnection: close\r\n\
         proxy-status: outflow; error=connection_limit_reached\r\nvia: 1.1 outflow\r\n\r\n{body}",
        body.len()
    )
}

const NO_MEMORY: &str = "the memory for requests is used up";

const MEMORY_DETAIL: &str = "requests and their bodies use all of `server.max_memory`";

const JSON: HeaderValue = HeaderValue::from_static("application/problem+json");

/// Header in which proxies report how they handled a response (RFC 9209).
pub(crate) const PROXY_STATUS: HeaderName = HeaderName::from_static("proxy-status");
