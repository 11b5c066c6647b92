//! What the server says when it behaves: a status, headers and a body.
//!
//! An answer with an `ETag` or `Last-Modified` is a page that can be revalidated: a request that
//! names the tag, or without one the very date, gets a 304 with the same headers and no body.

use bytes::Bytes;
use http::header::{CONTENT_TYPE, ETAG, IF_MODIFIED_SINCE, IF_NONE_MATCH, LAST_MODIFIED, LOCATION};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};

use crate::chat;
use crate::echo::Echo;
use crate::payload::{Content, Payload};

/// An answer, said to every request it is meant for.
///
/// ```
/// use outflow_mock::Answer;
///
/// let page = Answer::ok("{\"id\":7}")
///     .header("etag", "\"v1\"")
///     .header("cache-control", "max-age=60")
///     .header("vary", "accept");
/// let moved = Answer::redirect(302, "http://other.test/");
/// # let _ = (page, moved);
/// ```
#[derive(Clone, Debug)]
pub struct MockResponse {
    status: StatusCode,
    headers: HeaderMap,
    content: Content,
}

impl MockResponse {
    /// This status, without a body. A number that is no status is 500.
    pub fn status(status: u16) -> Self {
        Self {
            status: StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR),
            headers: HeaderMap::new(),
            content: Content::Whole(Bytes::new()),
        }
    }

    /// A 200 with this JSON; the text is not looked at, so it may be wrong on purpose.
    pub fn ok(json: impl Into<Bytes>) -> Self {
        Self::status(200)
            .header("content-type", "application/json")
            .content(Content::Whole(json.into()))
    }

    /// A 200 that tells as JSON what the server received.
    pub fn echo() -> Self {
        Self::ok("").content(Content::Echo)
    }

    /// What a language model says to a `POST …/chat/completions`: always the same, whole or as a stream of
    /// events, as the request wants it. A token is a word.
    pub fn chat() -> Self {
        Self::status(200).content(Content::Chat)
    }

    /// A 200 whose body ends in the middle of a JSON value.
    pub fn bad_json() -> Self {
        Self::ok("{\"ok\": tru")
    }

    /// A redirect to wherever it says, the same path included.
    pub fn redirect(status: u16, location: &str) -> Self {
        Self::status(status).header(LOCATION.as_str(), location)
    }

    /// Adds a header, beside others of its name; one that cannot be sent is left out.
    #[must_use]
    pub fn header(mut self, name: &str, value: impl AsRef<[u8]>) -> Self {
        let value = HeaderValue::from_bytes(value.as_ref());
        let pair = (HeaderName::try_from(name), value);
        if let (Ok(name), Ok(value)) = pair {
            self.headers.append(name, value);
        }
        self
    }

    /// Sends another body.
    #[must_use]
    pub fn content(mut self, content: Content) -> Self {
        self.content = content;
        self
    }

    /// How many bytes of a request's body it depends on.
    pub(crate) fn reads(&self) -> usize {
        match self.content {
            Content::Chat => chat::LONGEST_QUESTION,
            _ => 0,
        }
    }

    /// As it is said to this request.
    pub(crate) fn response(&self, asked: &Parts, echo: &Echo) -> http::Response<Payload> {
        let known = self.is_known(&asked.headers);
        let mut response = if known {
            let mut unchanged = http::Response::new(Payload::empty());
            *unchanged.status_mut() = StatusCode::NOT_MODIFIED;
            unchanged
        } else {
            self.said(asked, echo)
        };
        response.headers_mut().extend(self.headers.clone());
        if known {
            response.headers_mut().remove(CONTENT_TYPE);
        }
        response
    }

    fn said(&self, asked: &Parts, echo: &Echo) -> http::Response<Payload> {
        let payload = match &self.content {
            Content::Whole(bytes) => Payload::Whole(bytes.clone()),
            Content::Zeros(length) => Payload::Zeros(*length),
            Content::Endless => Payload::Endless,
            Content::Drip { bytes, every } => Payload::drip(bytes.clone(), *every),
            Content::Echo => Payload::Whole(echo.json(asked)),
            Content::Chat => return chat::reply(echo.kept()),
        };
        let mut response = http::Response::new(payload);
        *response.status_mut() = self.status;
        response
    }

    /// Whether the asker has this page already, by its tag or else by its date.
    fn is_known(&self, asked: &HeaderMap) -> bool {
        if asked.contains_key(IF_NONE_MATCH) {
            return self.has_tag_of(asked);
        }
        let since = asked.get(IF_MODIFIED_SINCE);
        since.is_some() && since == self.headers.get(LAST_MODIFIED)
    }

    /// Strong and weak tags are compared alike, as revalidation wants it.
    fn has_tag_of(&self, asked: &HeaderMap) -> bool {
        let Some(tag) = self.headers.get(ETAG).and_then(|tag| tag.to_str().ok()) else {
            return false;
        };
        let opaque = |tag: &str| tag.trim().trim_start_matches("W/").to_owned();
        let mut named = asked
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

    fn status(asked: &[(HeaderName, &'static str)]) -> u16 {
        let pairs = asked.iter().cloned();
        let headers = pairs.map(|(name, value)| (name, HeaderValue::from_static(value)));
        let (mut asked, ()) = http::Request::new(()).into_parts();
        asked.headers = headers.collect();
        let page = MockResponse::ok("x")
            .header("etag", "W/\"v1\"")
            .header("last-modified", "yesterday");
        let response = page.response(&asked, &Echo::keeping(0));
        response.status().as_u16()
    }

    #[test]
    fn only_a_matching_validator_revalidates_the_page() {
        for (asked, wanted) in [
            ("\"v1\"", 304),
            ("\"v0\", W/\"v1\"", 304),
            ("*", 304),
            ("\"v2\"", 200),
        ] {
            assert_eq!(status(&[(IF_NONE_MATCH, asked)]), wanted, "{asked}");
        }
        assert_eq!(status(&[(IF_MODIFIED_SINCE, "yesterday")]), 304);
        assert_eq!(status(&[(IF_MODIFIED_SINCE, "today")]), 200);
        let both = [(IF_NONE_MATCH, "\"v2\""), (IF_MODIFIED_SINCE, "yesterday")];
        assert_eq!(status(&both), 200, "a tag is more than a date");
        assert_eq!(status(&[]), 200);
    }
}
