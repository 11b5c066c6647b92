//! Response of a call, with its counters.
//!
//! Decoding is separate from calling: a body that cannot be decoded never causes another call.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use serde::de::DeserializeOwned;

use super::body::Body;
use crate::error::{DecodeError, Error, ErrorKind};
use crate::event::CacheLabel;
use crate::memory_budget::MemoryBudget;
use crate::upstream::{Target, Verdict};

/// Response of a call.
///
/// ```
/// # #[derive(serde::Deserialize)] struct Film { title: String }
/// async fn title(response: outflow::Response) -> Result<String, outflow::Error> {
///     let film: Film = response.error_for_status()?.json().await?;
///     Ok(film.title)
/// }
/// ```
pub struct Response {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Body,
    pub(crate) stats: ResponseStats,
}

/// Counters of the call behind a response.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ResponseStats {
    pub(crate) attempts: u32,
    pub(crate) waited: Duration,
    pub(crate) from_cache: Option<CacheLabel>,
    pub(crate) retry_after: Option<Duration>,
    pub(crate) verdict: Option<Verdict>,
    pub(crate) max_body: u64,
    pub(crate) target: Target,
}

impl Response {
    /// Returns the status.
    pub const fn status(&self) -> StatusCode {
        self.status
    }

    /// Returns the headers.
    pub const fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    /// Returns the number of attempts; zero for a cache hit.
    pub const fn attempts(&self) -> u32 {
        self.stats.attempts
    }

    /// Returns the time that the call waited for permits.
    pub const fn waited(&self) -> Duration {
        self.stats.waited
    }

    /// Returns the part of the cache; `None` if the response came from the server alone.
    pub const fn from_cache(&self) -> Option<CacheLabel> {
        self.stats.from_cache
    }

    /// Returns the wait that the server asked for.
    pub const fn retry_after(&self) -> Option<Duration> {
        self.stats.retry_after
    }

    /// Returns the verdict of the API's policy; `None` for a cached response.
    pub const fn verdict(&self) -> Option<Verdict> {
        self.stats.verdict
    }

    /// Returns the target that the call was counted for.
    pub const fn target(&self) -> Target {
        self.stats.target
    }

    /// Turns a response with a status of 400 or above into an error.
    ///
    /// # Errors
    /// If the server refused the request or failed.
    pub fn error_for_status(self) -> Result<Self, Error> {
        if self.status.is_client_error() || self.status.is_server_error() {
            return Err(Error::new(ErrorKind::Status(self.status.as_u16()))
                .with_attempts(self.stats.attempts)
                .with_retry_after(self.stats.retry_after));
        }
        Ok(self)
    }

    /// Returns the complete body.
    ///
    /// # Errors
    /// If reading fails, or the body exceeds the API's `max_body`.
    pub async fn bytes(self) -> Result<Bytes, Error> {
        let read = self.body.read(self.stats.max_body).await;
        read.map_err(|incomplete| incomplete.error.with_attempts(self.stats.attempts))
    }

    /// Returns the body as text.
    ///
    /// # Errors
    /// As [`Self::bytes`], and if it is not UTF-8.
    pub async fn text(self) -> Result<String, Error> {
        let bytes = self.bytes().await?;
        String::from_utf8(bytes.into()).map_err(|_| Error::new(ErrorKind::Undecoded(DecodeError::Text)))
    }

    /// Returns the body as a value.
    ///
    /// # Errors
    /// As [`Self::bytes`], and if it is not JSON of that type. The error names the position and
    /// quotes nothing.
    pub async fn json<T: DeserializeOwned>(self) -> Result<T, Error> {
        let bytes = self.bytes().await?;
        serde_json::from_slice(&bytes).map_err(|error| Error::new(ErrorKind::Undecoded(DecodeError::json(&error))))
    }

    /// Counts a buffered body against this budget until it is read or dropped. Returns false if it does not fit.
    pub fn reserve_memory(&mut self, budget: &MemoryBudget) -> bool {
        self.body.reserve_memory(budget)
    }

    /// Returns the body for reading in pieces.
    pub fn stream(self) -> Body {
        self.body
    }

    /// Converts it to an `http::Response`.
    pub fn into_http(self) -> http::Response<Body> {
        let mut response = http::Response::new(self.body);
        *response.status_mut() = self.status;
        *response.headers_mut() = self.headers;
        response
    }
}

impl fmt::Debug for Response {
    /// Omits headers and body, which may hold private data.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Response")
            .field("status", &self.status)
            .field("body", &self.body)
            .field("stats", &self.stats)
            .finish_non_exhaustive()
    }
}
