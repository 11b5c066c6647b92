//! A regular response: a status, headers and a body.
//!
//! A response with an `ETag` or `Last-Modified` is a page that can be revalidated: a request with
//! the tag, or without one the exact date, gets a 304 with equal headers and no body.

use bytes::Bytes;
use http::header::{CONTENT_TYPE, ETAG, IF_MODIFIED_SINCE, IF_NONE_MATCH, LAST_MODIFIED, LOCATION};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};

use crate::chat;
use crate::echo::Echo;
use crate::payload::{Content, Payload};

/// Response to every matching request.
///
/// ```
/// use outflow_mock::MockResponse;
///
/// let page = MockResponse::ok("{\"id\":7}")
///     .header("etag", "\"v1\"")
///     .header("cache-control", "max-age=60")
///     .header("vary", "accept");
/// let moved = MockResponse::redirect(302, "http://other.test/");
/// # let _ = (page, moved);
/// ```
#[derive(Clone, Debug)]
pub struct MockResponse {
    status: StatusCode,
    headers: HeaderMap,
    content: Content,
}

impl MockResponse {
    /// Builds a response with this status and no body. An invalid number becomes 500.
    pub fn status(status: u16) -> Self {
        Self {
            status: StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR),
            headers: HeaderMap::new(),
            content: Content::Whole(Bytes::new()),
        }
    }

    /// Builds a 200 with this JSON; the text is not checked, so it may be invalid on purpose.
    pub fn ok(json: impl Into<Bytes>) -> Self {
        Self::status(200)
            .header("content-type", "application/json")
            .content(Content::Whole(json.into()))
    }

    /// Builds a 200 with the received request as JSON.
    pub fn echo() -> Self {
        Self::ok("").content(Content::Echo)
    }

    /// Builds a completion for `POST …/chat/completions`: constant text, as one document or a
    /// stream of events, as the request asks. A token is a word.
    pub fn chat() -> Self {
        Self::status(200).content(Content::Chat)
    }

    /// Builds a 200 whose body ends in the middle of a JSON value.
    pub fn bad_json() -> Self {
        Self::ok("{\"ok\": tru")
    }

    /// Builds a redirect to any location, its own path included.
    pub fn redirect(status: u16, location: &str) -> Self {
        Self::status(status).header(LOCATION.as_str(), location)
    }

    /// Adds a header to others of its name; an invalid one is left out.
    #[must_use]
    pub fn header(mut self, name: &str, value: impl AsRef<[u8]>) -> Self {
        let value = HeaderValue::from_bytes(value.as_ref());
        let pair = (HeaderName::try_from(name), value);
        if let (Ok(name), Ok(value)) = pair {
            self.headers.append(name, value);
        }
        self
    }

    /// Sets the body.
    #[must_use]
    pub fn content(mut self, content: Content) -> Self {
        self.content = content;
        self
    }

    /// Returns the number of request body bytes that it depends on.
    pub(crate) fn reads(&self) -> usize {
        match self.content {
            Content::Chat => chat::MAX_REQUEST,
            _ => 0,
        }
    }

    /// Builds the response to this request.
    pub(crate) fn response(&self, request: &Parts, echo: &Echo) -> http::Response<Payload> {
        let known = self.is_known(&request.headers);
        let mut response = if known {
            let mut unchanged = http::Response::new(Payload::Whole(Bytes::new()));
            *unchanged.status_mut() = StatusCode::NOT_MODIFIED;
            unchanged
        } else {
            self.said(request, echo)
        };
        response.headers_mut().extend(self.headers.clone());
        if known {
            response.headers_mut().remove(CONTENT_TYPE);
        }
        response
    }

    fn said(&self, request: &Parts, echo: &Echo) -> http::Response<Payload> {
        let payload = match &self.content {
            Content::Whole(bytes) => Payload::Whole(bytes.clone()),
            Content::Zeros(length) => Payload::Zeros(*length),
            Content::Endless => Payload::Endless,
            Content::Drip { bytes, every } => Payload::drip(bytes.clone(), *every),
            Content::Echo => Payload::Whole(echo.json(request)),
            Content::Chat => return chat::reply(&echo.kept),
        };
        let mut response = http::Response::new(payload);
        *response.status_mut() = self.status;
        response
    }

    /// Returns true if the client has this page already, by its tag or else by its date.
    fn is_known(&self, request: &HeaderMap) -> bool {
        if request.contains_key(IF_NONE_MATCH) {
            return self.has_tag_of(request);
        }
        let since = request.get(IF_MODIFIED_SINCE);
        since.is_some() && since == self.headers.get(LAST_MODIFIED)
    }

    /// Strong and weak tags compare equal, as revalidation requires.
    fn has_tag_of(&self, request: &HeaderMap) -> bool {
        let Some(tag) = self.headers.get(ETAG).and_then(|tag| tag.to_str().ok()) else {
            return false;
        };
        let opaque = |tag: &str| tag.trim().trim_start_matches("W/").to_owned();
        let mut named = request
            .get_all(IF_NONE_MATCH)
            .iter()
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(','));
        named.any(|known| known.trim() == "*" || opaque(known) == opaque(tag))
    }
}

impl Default for MockResponse {
    fn default() -> Self {
        Self::ok("{\"ok\":true}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(request: &[(HeaderName, &'static str)]) -> u16 {
        let pairs = request.iter().cloned();
        let headers = pairs.map(|(name, value)| (name, HeaderValue::from_static(value)));
        let (mut request, ()) = http::Request::new(()).into_parts();
        request.headers = headers.collect();
        let page = MockResponse::ok("x")
            .header("etag", "W/\"v1\"")
            .header("last-modified", "yesterday");
        let response = page.response(&request, &Echo::keeping(0));
        response.status().as_u16()
    }

    #[test]
    fn only_a_matching_validator_revalidates_the_page() {
        for (request, wanted) in [("\"v1\"", 304), ("\"v0\", W/\"v1\"", 304), ("*", 304), ("\"v2\"", 200)] {
            assert_eq!(status(&[(IF_NONE_MATCH, request)]), wanted, "{request}");
        }
        assert_eq!(status(&[(IF_MODIFIED_SINCE, "yesterday")]), 304);
        assert_eq!(status(&[(IF_MODIFIED_SINCE, "today")]), 200);
        let both = [(IF_NONE_MATCH, "\"v2\""), (IF_MODIFIED_SINCE, "yesterday")];
        assert_eq!(status(&both), 200, "a tag is more than a date");
        assert_eq!(status(&[]), 200);
    }
}
