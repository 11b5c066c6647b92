//! An answer, and what it took to get it.
//!
//! Reading it is apart from getting it: whatever a body turns out to be, the call that brought it is
//! over and is never made again for it.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use serde::de::DeserializeOwned;

use super::body::Body;
use crate::error::{DecodeError, Error, ErrorKind};
use crate::event::CacheLabel;
use crate::upstream::{Target, Verdict};

/// An answer.
///
/// ```
/// # #[derive(serde::Deserialize)] struct Film { title: String }
/// async fn title(answer: outflow::Response) -> Result<String, outflow::Error> {
///     let film: Film = answer.error_for_status()?.json().await?;
///     Ok(film.title)
/// }
/// ```
pub struct Response {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Body,
    pub(crate) facts: ResponseStats,
}

/// What it took to get an answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ResponseStats {
    pub(crate) attempts: u32,
    pub(crate) waited: Duration,
    pub(crate) from_cache: Option<CacheLabel>,
    pub(crate) retry_after: Option<Duration>,
    pub(crate) verdict: Option<Verdict>,
    pub(crate) largest: u64,
    pub(crate) target: Target,
}

impl Response {
    /// Its status.
    pub const fn status(&self) -> StatusCode {
        self.status
    }

    /// Its headers.
    pub const fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    /// How many attempts were made for it; none if the cache had it.
    pub const fn attempts(&self) -> u32 {
        self.facts.attempts
    }

    /// How long its permits were waited for.
    pub const fn waited(&self) -> Duration {
        self.facts.waited
    }

    /// What the cache had to do with it; nothing if it came from the server alone.
    pub const fn from_cache(&self) -> Option<CacheLabel> {
        self.facts.from_cache
    }

    /// How long the server wants us away, if it said so.
    pub const fn retry_after(&self) -> Option<Duration> {
        self.facts.retry_after
    }

    /// What the API's table made of it; nothing of an answer that the cache had.
    pub const fn verdict(&self) -> Option<Verdict> {
        self.facts.verdict
    }

    /// As what the call was counted.
    pub const fn target(&self) -> Target {
        self.facts.target
    }

    /// The same answer, or an error if its status is 400 or above.
    ///
    /// # Errors
    /// If the server refused or failed.
    pub fn error_for_status(self) -> Result<Self, Error> {
        if self.status.is_client_error() || self.status.is_server_error() {
            return Err(Error::new(ErrorKind::Status(self.status.as_u16()))
                .after(self.facts.attempts)
                .with_retry_after(self.facts.retry_after));
        }
        Ok(self)
    }

    /// The whole body.
    ///
    /// # Errors
    /// If it still had to come and did not, or is larger than the API's `max_body`.
    pub async fn bytes(self) -> Result<Bytes, Error> {
        let read = self.body.read(self.facts.largest).await;
        read.map_err(|broken| broken.error.after(self.facts.attempts))
    }

    /// The whole body as text.
    ///
    /// # Errors
    /// As [`Self::bytes`], and if it is not UTF-8.
    pub async fn text(self) -> Result<String, Error> {
        let bytes = self.bytes().await?;
        String::from_utf8(bytes.into())
            .map_err(|_| Error::new(ErrorKind::Undecoded(DecodeError::Text)))
    }

    /// The whole body as a value.
    ///
    /// # Errors
    /// As [`Self::bytes`], and if it is not JSON of that type. The error says where, and quotes
    /// nothing.
    pub async fn json<T: DeserializeOwned>(self) -> Result<T, Error> {
        let bytes = self.bytes().await?;
        serde_json::from_slice(&bytes)
            .map_err(|error| Error::new(ErrorKind::Undecoded(DecodeError::json(&error))))
    }

    /// The body, to be read piece by piece.
    pub fn stream(self) -> Body {
        self.body
    }

    /// The same answer as HTTP libraries hold it.
    pub fn into_http(self) -> http::Response<Body> {
        let mut response = http::Response::new(self.body);
        *response.status_mut() = self.status;
        *response.headers_mut() = self.headers;
        response
    }
}

impl fmt::Debug for Response {
    /// Without headers or body: either may hold what is nobody else's business.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Response")
            .field("status", &self.status)
            .field("body", &self.body)
            .field("facts", &self.facts)
            .finish_non_exhaustive()
    }
}
