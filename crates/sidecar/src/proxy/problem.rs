//! What a caller is told when there is no answer of the API to hand on: RFC 9457 problem details.
//!
//! It is marked as ours, so that nobody takes it for the API's own word, and holds no word of the
//! request or of what a server sent.

use std::time::Duration;

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONNECTION, CONTENT_TYPE, RETRY_AFTER, VIA};
use http::{HeaderName, HeaderValue, Response, StatusCode};
use outflow::refusal::http_status;
use serde_json::{Map, Value, json};

use super::response_body::DownloadSource;
use super::response_headers::OUR_VIA;

/// Why there is no answer.
#[derive(Debug)]
pub(crate) struct ProxyProblem {
    status: StatusCode,
    members: Map<String, Value>,
    retry_after: Option<Duration>,
    proxy_error: Option<&'static str>,
    headers: Vec<(HeaderName, HeaderValue)>,
}

impl ProxyProblem {
    /// A problem of this kind, which is one word of ours and stands for the title.
    pub(crate) fn new(status: StatusCode, kind: &str, title: &str) -> Self {
        let mut members = Map::new();
        members.insert("type".into(), format!("urn:outflow:problem:{kind}").into());
        members.insert("title".into(), title.into());
        members.insert("status".into(), status.as_u16().into());
        Self {
            status,
            members,
            retry_after: None,
            proxy_error: None,
            headers: Vec::new(),
        }
    }

    /// The same, and what is the matter this time.
    pub(crate) fn detail(self, detail: impl Into<String>) -> Self {
        self.fact("detail", detail.into())
    }

    /// The same, and what would have to change.
    pub(crate) fn advice(self, advice: impl Into<String>) -> Self {
        self.fact("advice", advice.into())
    }

    /// The same, with one more thing that a program may want to know.
    pub(crate) fn fact(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.members.insert(name.into(), value.into());
        self
    }

    /// The same, and when to come back.
    pub(crate) fn retry_after(mut self, span: Option<Duration>) -> Self {
        let Some(span) = span else {
            return self;
        };
        self.retry_after = Some(span);
        let seconds = Value::from(span.as_secs_f64());
        self.fact("retry_after", seconds)
    }

    /// The same, marked as a gateway's answer with this word of RFC 9209.
    pub(crate) const fn proxy_error(mut self, error: &'static str) -> Self {
        self.proxy_error = Some(error);
        self
    }

    /// The same with one more header.
    pub(crate) fn header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.push((name, value));
        self
    }

    /// The same, after which the connection closes: where the next request begins is not known.
    pub(crate) fn closing(self) -> Self {
        self.header(CONNECTION, HeaderValue::from_static("close"))
    }

    /// As it is sent.
    pub(crate) fn response(self) -> Response<DownloadSource> {
        let text = Value::Object(self.members).to_string();
        let mut response = Response::new(DownloadSource::text(Bytes::from(text)));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, JSON);
        // A refusal is about this moment: nobody may hand it to another caller.
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        headers.insert(VIA, OUR_VIA);
        if let Some(span) = self.retry_after {
            headers.insert(
                RETRY_AFTER,
                HeaderValue::from(http_status::retry_after_seconds(span)),
            );
        }
        let mark = self.proxy_error.map_or_else(
            || {
                Ok(HeaderValue::from_static(
                    "outflow; error=http_request_error",
                ))
            },
            |error| HeaderValue::try_from(format!("outflow; error={error}")),
        );
        if let Ok(mark) = mark {
            headers.insert(PROXY_STATUS, mark);
        }
        headers.extend(self.headers);
        response
    }
}

/// The text of the answer to whoever finds no place, which is written without a request.
pub(crate) fn no_place(detail: &str) -> String {
    let body = json!({
        "type": "urn:outflow:problem:crowded",
        "title": "there is no place for one more connection",
        "status": 503,
        "detail": detail,
        "retry_after": 1.0,
    })
    .to_string();
    format!(
        "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/problem+json\r\n\
         content-length: {}\r\nretry-after: 1\r\nconnection: close\r\n\
         proxy-status: outflow; error=connection_limit_reached\r\nvia: 1.1 outflow\r\n\r\n{body}",
        body.len()
    )
}

const JSON: HeaderValue = HeaderValue::from_static("application/problem+json");

/// Where those who hand an answer on say what became of it.
pub(crate) const PROXY_STATUS: HeaderName = HeaderName::from_static("proxy-status");
