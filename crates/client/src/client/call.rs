//! Call before it is sent: request, API and limits on its duration.
//!
//! Errors are kept until `send`, so that a chain of methods needs no `?` in every line. Nothing
//! here decides about sending or retrying.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, HOST, TE, TRAILER};
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use outflow_core::{Cost, Priority};
use serde::Serialize;
use smol_str::SmolStr;

use super::credential::percent_encode;
use super::payload::RequestPayload;
use super::response::Response;
use super::{ApiClient, Outflow, ResponseShape};
use crate::error::{Error, ErrorReason};
use crate::http::HOP_BY_HOP;
use crate::memory_budget::MemoryBudget;
use crate::rules::WaitMode;
use crate::trace::TraceContext;
use crate::upstream::{CallDecision, Permit};

/// Builder of a call.
///
/// ```no_run
/// # #[derive(serde::Serialize)] struct Order { amount: u32 }
/// # async fn order(client: outflow::Outflow) -> Result<(), outflow::Error> {
/// use std::time::Duration;
///
/// let response = client
///     .post("exchange", "/v1/orders")
///     .json(&Order { amount: 3 })
///     .idempotency_key("order-17")
///     .timeout(Duration::from_secs(5))
///     .send()
///     .await?;
/// assert!(response.status().is_success());
/// # Ok(())
/// # }
/// ```
#[must_use = "call `send` to make the call"]
pub struct Call {
    /// None if the call belongs to the client of the process, and there is none yet.
    client: Option<Outflow>,
    /// The client of its API, if a handle looked it up already.
    pub(super) found: Option<Arc<ApiClient>>,
    /// On the heap: it moves through all stages, and a hundred thousand calls may wait.
    pub(crate) spec: Box<CallSpec>,
}

/// Specification of a call.
pub(crate) struct CallSpec {
    pub(crate) api: SmolStr,
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) headers: HeaderMap,
    pub(crate) payload: RequestPayload,
    pub(crate) cost: Option<Cost>,
    pub(crate) group: Option<SmolStr>,
    pub(crate) priority: Priority,
    pub(crate) mode: Option<WaitMode>,
    pub(crate) max_wait: Option<Duration>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) attempt_timeout: Option<Duration>,
    pub(crate) idempotency: Idempotency,
    pub(crate) cache: CacheDirective,
    pub(crate) redirects: Option<u8>,
    pub(crate) retry: RetryMode,
    /// Permit for the first attempt, if the caller already holds it.
    pub(crate) permit: Option<Permit>,
    /// Budget for the response body; `None` if only `max_body` bounds it.
    pub(crate) memory: Option<MemoryBudget>,
    pub(crate) error: Option<ErrorReason>,
}

/// Idempotency of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Idempotency {
    /// By the method.
    ByMethod,
    /// Declared by the caller.
    Always,
}

/// Retries of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RetryMode {
    /// As configured for the API.
    Configured,
    /// None: the caller retries or does not.
    Disabled,
}

/// Use of the cache by one call.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum CacheDirective {
    /// As configured for the API.
    #[default]
    Configured,
    /// Not used: neither read nor written.
    Bypass,
    /// Used alone: nothing is sent, and a miss is an error.
    Only,
}

impl Call {
    pub(super) fn new(client: Option<Outflow>, method: Method, api: &str, path: &str) -> Self {
        let spec = CallSpec {
            api: SmolStr::new(api),
            method,
            path: path.to_owned(),
            headers: HeaderMap::new(),
            payload: RequestPayload::Buffered(Bytes::new()),
            cost: None,
            group: None,
            priority: Priority::Normal,
            mode: None,
            max_wait: None,
            timeout: None,
            attempt_timeout: None,
            idempotency: Idempotency::ByMethod,
            cache: CacheDirective::Configured,
            redirects: None,
            retry: RetryMode::Configured,
            permit: None,
            memory: None,
            error: None,
        };
        Self {
            client,
            found: None,
            spec: Box::new(spec),
        }
    }

    /// Adds a header. Host, length and connection headers are not allowed, and the API's own key
    /// replaces one given here.
    pub fn header<N, V>(mut self, name: N, value: V) -> Self
    where
        N: TryInto<HeaderName>,
        V: TryInto<HeaderValue>,
    {
        match (name.try_into(), value.try_into()) {
            (Ok(name), Ok(_)) if is_connection_header(&name) => self.with_error(ErrorReason::OwnHeader),
            (Ok(name), Ok(value)) => {
                self.spec.headers.append(name, value);
                self
            }
            _ => self.with_error(ErrorReason::Header),
        }
    }

    /// Adds headers of another connection, as a gateway does. Its connection headers are dropped
    /// instead of an error.
    pub fn headers(mut self, headers: HeaderMap) -> Self {
        if self.spec.headers.is_empty() {
            self.spec.headers = headers;
        } else {
            self.spec.headers.extend(headers);
        }
        let headers = &mut self.spec.headers;
        for name in WRITTEN_BY_HTTP.iter().chain(&HOP_BY_HOP) {
            // Most are absent, and a check is cheaper than a removal.
            if headers.keys().any(|one| one == name) {
                headers.remove(name);
            }
        }
        self
    }

    /// Announces trailers, as a gateway does for a stream: HTTP/1.1 sends none without.
    pub fn trailers(mut self, names: HeaderValue) -> Self {
        self.spec.headers.insert(TRAILER, names);
        self
    }

    /// Accepts trailers in the response; few servers send them otherwise.
    pub fn accepting_trailers(mut self) -> Self {
        let value = HeaderValue::from_static("trailers");
        self.spec.headers.insert(TE, value);
        self
    }

    /// Adds percent-encoded query parameters. Parameters in the path stay.
    pub fn query<K: AsRef<str>, V: AsRef<str>>(mut self, parameters: impl IntoIterator<Item = (K, V)>) -> Self {
        for (name, value) in parameters {
            let path = &mut self.spec.path;
            path.push(if path.contains('?') { '&' } else { '?' });
            path.push_str(&percent_encode(name.as_ref()));
            path.push('=');
            path.push_str(&percent_encode(value.as_ref()));
        }
        self
    }

    /// Sends a value as JSON.
    pub fn json<T: Serialize + ?Sized>(mut self, value: &T) -> Self {
        match serde_json::to_vec(value) {
            Ok(bytes) => {
                let json = HeaderValue::from_static("application/json");
                self.spec.headers.entry(CONTENT_TYPE).or_insert(json);
                self.body(bytes)
            }
            Err(_) => self.with_error(ErrorReason::Json),
        }
    }

    /// Sends bytes. They are kept until the call ends, so that it can be retried.
    pub fn body(mut self, bytes: impl Into<Bytes>) -> Self {
        self.spec.payload = RequestPayload::Buffered(bytes.into());
        self
    }

    /// Sends a body that is produced on the way. Such a call is never retried after it started.
    pub fn stream<B>(mut self, body: B) -> Self
    where
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        self.spec.payload = RequestPayload::streamed(body);
        self
    }

    /// Sets the cost; the default is the route's.
    pub fn cost(mut self, cost: Cost) -> Self {
        self.spec.cost = Some(cost);
        self
    }

    /// Sets the group; the default is the route's.
    pub fn group(mut self, name: &str) -> Self {
        self.spec.group = Some(SmolStr::new(name));
        self
    }

    /// Sets the queue priority.
    pub const fn priority(mut self, priority: Priority) -> Self {
        self.spec.priority = priority;
        self
    }

    /// Sets the wait mode; the default is in the API's rules.
    pub const fn mode(mut self, mode: WaitMode) -> Self {
        self.spec.mode = Some(mode);
        self
    }

    /// Sets the longest wait for a permit; the default is in the API's rules.
    pub const fn max_wait(mut self, duration: Duration) -> Self {
        self.spec.max_wait = Some(duration);
        self
    }

    /// Sets the longest duration of the call: waits, attempts and pauses between them.
    pub const fn timeout(mut self, duration: Duration) -> Self {
        self.spec.timeout = Some(duration);
        self
    }

    /// Raises the timeout of each attempt, and of silence in it, above the API's. For a call that
    /// is known to be slow; [`timeout`](Self::timeout) limits the whole call.
    pub const fn attempt_timeout(mut self, duration: Duration) -> Self {
        self.spec.attempt_timeout = Some(duration);
        self
    }

    /// Declares the call idempotent, so that it may be retried with any method.
    pub const fn idempotent(mut self) -> Self {
        self.spec.idempotency = Idempotency::Always;
        self
    }

    /// Sends an `Idempotency-Key`, by which the server recognises a retry. Every attempt carries
    /// this key.
    pub fn idempotency_key(self, key: &str) -> Self {
        self.header("idempotency-key", key)
    }

    /// Disables retries, for callers that retry by themselves: two layers of retries multiply.
    pub const fn no_retry(mut self) -> Self {
        self.spec.retry = RetryMode::Disabled;
        self
    }

    /// Uses this permit of the API's upstream, [without retries](Self::no_retry). If the permit is
    /// revoked before the first byte leaves, the call is refused and may be made again.
    pub fn with_permit(mut self, permit: Permit) -> Self {
        self.spec.permit = Some(permit);
        self.no_retry()
    }

    /// Takes the memory for the response from this budget. A response that does not fit streams: it is neither
    /// stored nor shared.
    pub fn memory(mut self, budget: &MemoryBudget) -> Self {
        self.spec.memory = Some(budget.clone());
        self
    }

    /// Sets the use of the cache.
    pub const fn cache(mut self, cache: CacheDirective) -> Self {
        self.spec.cache = cache;
        self
    }

    /// Sets the number of redirects to follow; the default is the API's.
    pub const fn redirects(mut self, max: u8) -> Self {
        self.spec.redirects = Some(max);
        self
    }

    /// Continues a trace, given as a W3C `traceparent`. The call becomes a span of its own.
    pub fn trace_parent(self, written: &str) -> Self {
        if TraceContext::parse(written).is_none() {
            return self.with_error(ErrorReason::Trace);
        }
        self.header("traceparent", written)
    }

    /// Makes the call and reads the complete response, so that a truncated one can be retried and a
    /// cacheable one stored. Every status is `Ok`.
    ///
    /// # Errors
    /// If no response came, or the call could not be made.
    pub async fn send(self) -> Result<Response, Error> {
        self.make(ResponseShape::Buffered).await
    }

    /// Makes the call and returns at the response head. The attempt is in flight while the body is
    /// read.
    ///
    /// # Errors
    /// If no response came, or the call could not be made.
    pub async fn send_streaming(self) -> Result<Response, Error> {
        self.make(ResponseShape::Streaming).await
    }

    async fn make(self, shape: ResponseShape) -> Result<Response, Error> {
        match self.client {
            Some(client) => client.make(self.found, self.spec, shape).await,
            None => Err(ErrorReason::NotInitialized.into()),
        }
    }

    /// Decides what would happen to the call now: it starts, waits, is refused at once, or the cache responds. It
    /// takes nothing and sends nothing, and other calls may come first.
    ///
    /// ```no_run
    /// # async fn look(client: outflow::Outflow) -> Result<(), outflow::Error> {
    /// let decision = client.get("github", "/repos/rust-lang/rust").explain().await?;
    /// println!("{}", decision.name());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// If the call is invalid as written.
    pub async fn explain(self) -> Result<CallDecision, Error> {
        match self.client {
            Some(client) => client.explain(self.found, self.spec).await,
            None => Err(ErrorReason::NotInitialized.into()),
        }
    }

    fn with_error(mut self, error: ErrorReason) -> Self {
        self.spec.error.get_or_insert(error);
        self
    }
}

/// Returns true for a header that only the connection may write.
pub(crate) fn is_connection_header(name: &HeaderName) -> bool {
    WRITTEN_BY_HTTP.contains(name) || HOP_BY_HOP.contains(name)
}

/// Headers that the transport writes. A caller who sets them could forge the end of a request or its
/// host.
const WRITTEN_BY_HTTP: [HeaderName; 2] = [HOST, CONTENT_LENGTH];
