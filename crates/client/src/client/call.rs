//! A call before it is made: what is asked of which API, and how much patience there is.
//!
//! Mistakes are kept and told when the call is sent, so that a chain of words reads without `?` in
//! every line. Nothing here decides whether the call goes or is repeated.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, HOST, TE, TRAILER};
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use outflow_core::{Cost, Priority};
use serde::Serialize;
use smol_str::SmolStr;

use super::credential::encoded;
use super::payload::RequestPayload;
use super::response::Response;
use super::{ApiClient, Outflow, ResponseShape};
use crate::error::{Error, ErrorReason};
use crate::http::HOP_BY_HOP;
use crate::rules::WaitMode;
use crate::trace::TraceContext;
use crate::upstream::Permit;

/// A call that is being put together.
///
/// ```no_run
/// # #[derive(serde::Serialize)] struct Order { amount: u32 }
/// # async fn order(client: outflow::Outflow) -> Result<(), outflow::Error> {
/// use std::time::Duration;
///
/// let answer = client
///     .post("exchange", "/v1/orders")
///     .json(&Order { amount: 3 })
///     .idempotency_key("order-17")
///     .within(Duration::from_secs(5))
///     .send()
///     .await?;
/// assert!(answer.status().is_success());
/// # Ok(())
/// # }
/// ```
#[must_use = "a call is made by `send`"]
pub struct Call {
    pub(crate) client: Outflow,
    /// The client of its API, if a handle looked it up already.
    pub(super) found: Option<Arc<ApiClient>>,
    /// On the heap: it is handed from room to room, and a hundred thousand calls may wait with theirs.
    pub(crate) wish: Box<CallSpec>,
}

/// What is wanted.
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
    pub(crate) within: Option<Duration>,
    pub(crate) granted: Option<Duration>,
    pub(crate) repeats: Idempotency,
    pub(crate) cache: CacheDirective,
    pub(crate) redirects: Option<u8>,
    pub(crate) tries: RetryMode,
    /// Leave for the first attempt, if whoever calls has it already.
    pub(crate) permit: Option<Permit>,
    pub(crate) mistake: Option<ErrorReason>,
}

/// Whether doing it twice is doing it once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Idempotency {
    /// As the method says.
    ByMethod,
    /// The caller says so.
    Safely,
}

/// How often it may be tried.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RetryMode {
    /// As the API's configuration says.
    Configured,
    /// Once: the caller repeats it, or does not.
    One,
}

/// What the cache has to do with one call.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum CacheDirective {
    /// What the API's configuration says.
    #[default]
    Configured,
    /// Nothing: it is neither asked nor told.
    Bypass,
    /// Everything: no packet leaves, and what it does not have is an error.
    Only,
}

impl Call {
    pub(super) fn new(client: Outflow, method: Method, api: &str, path: &str) -> Self {
        let wish = CallSpec {
            api: SmolStr::new(api),
            method,
            path: path.to_owned(),
            headers: HeaderMap::new(),
            payload: RequestPayload::Whole(Bytes::new()),
            cost: None,
            group: None,
            priority: Priority::Normal,
            mode: None,
            max_wait: None,
            within: None,
            granted: None,
            repeats: Idempotency::ByMethod,
            cache: CacheDirective::Configured,
            redirects: None,
            tries: RetryMode::Configured,
            permit: None,
            mistake: None,
        };
        Self {
            client,
            found: None,
            wish: Box::new(wish),
        }
    }

    /// Adds a header. The host, the length and what belongs to the connection are not the caller's to
    /// write, and the API's own key is laid over whatever is written here.
    pub fn header<N, V>(mut self, name: N, value: V) -> Self
    where
        N: TryInto<HeaderName>,
        V: TryInto<HeaderValue>,
    {
        match (name.try_into(), value.try_into()) {
            (Ok(name), Ok(_)) if is_the_connections(&name) => {
                self.with_error(ErrorReason::OwnHeader)
            }
            (Ok(name), Ok(value)) => {
                self.wish.headers.append(name, value);
                self
            }
            _ => self.with_error(ErrorReason::Header),
        }
    }

    /// Adds headers that were written for another connection, as a gateway hands them on. What belongs
    /// to that connection stays behind instead of being a mistake.
    pub fn headers(mut self, headers: HeaderMap) -> Self {
        if self.wish.headers.is_empty() {
            self.wish.headers = headers;
        } else {
            self.wish.headers.extend(headers);
        }
        let headers = &mut self.wish.headers;
        for name in WRITTEN_BY_HTTP.iter().chain(&HOP_BY_HOP) {
            // Most are not there, and to look is cheaper than to remove.
            if headers.keys().any(|one| one == name) {
                headers.remove(name);
            }
        }
        self
    }

    /// Announces fields behind the body, as a gateway does that hands a stream on: HTTP/1.1 sends none
    /// that were not announced.
    pub fn trailers(mut self, names: HeaderValue) -> Self {
        self.wish.headers.insert(TRAILER, names);
        self
    }

    /// Says that fields behind the body of the answer are welcome; few servers send them unasked.
    pub fn accepting_trailers(mut self) -> Self {
        let welcome = HeaderValue::from_static("trailers");
        self.wish.headers.insert(TE, welcome);
        self
    }

    /// Adds parameters to the query, percent-encoded. One that is already in the path stays as it is.
    pub fn query<K: AsRef<str>, V: AsRef<str>>(
        mut self,
        parameters: impl IntoIterator<Item = (K, V)>,
    ) -> Self {
        for (name, value) in parameters {
            let path = &mut self.wish.path;
            path.push(if path.contains('?') { '&' } else { '?' });
            path.push_str(&encoded(name.as_ref()));
            path.push('=');
            path.push_str(&encoded(value.as_ref()));
        }
        self
    }

    /// Sends a value as JSON.
    pub fn json<T: Serialize + ?Sized>(mut self, value: &T) -> Self {
        match serde_json::to_vec(value) {
            Ok(bytes) => {
                let json = HeaderValue::from_static("application/json");
                self.wish.headers.entry(CONTENT_TYPE).or_insert(json);
                self.body(bytes)
            }
            Err(_) => self.with_error(ErrorReason::Json),
        }
    }

    /// Sends bytes. They are held until the call is over, so that it can be repeated.
    pub fn body(mut self, bytes: impl Into<Bytes>) -> Self {
        self.wish.payload = RequestPayload::Whole(bytes.into());
        self
    }

    /// Sends a body that is produced as it goes. It goes once: such a call is never repeated after it
    /// began.
    pub fn stream<B>(mut self, body: B) -> Self
    where
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        self.wish.payload = RequestPayload::streamed(body);
        self
    }

    /// What it costs, if not what its route says.
    pub fn cost(mut self, cost: Cost) -> Self {
        self.wish.cost = Some(cost);
        self
    }

    /// Which group it counts in, if not the one of its route.
    pub fn group(mut self, name: &str) -> Self {
        self.wish.group = Some(SmolStr::new(name));
        self
    }

    /// Whom it goes before while it waits.
    pub const fn priority(mut self, priority: Priority) -> Self {
        self.wish.priority = priority;
        self
    }

    /// Whether it waits at all, if not what the API's rules say.
    pub const fn mode(mut self, mode: WaitMode) -> Self {
        self.wish.mode = Some(mode);
        self
    }

    /// The longest that it waits for a permit, if not what the API's rules say.
    pub const fn max_wait(mut self, span: Duration) -> Self {
        self.wish.max_wait = Some(span);
        self
    }

    /// The longest that all of it may take: waits, attempts and what lies between them.
    pub const fn timeout(mut self, span: Duration) -> Self {
        self.wish.within = Some(span);
        self
    }

    /// Lets each of its attempts take so long, in silence too, if that is more than the API's timeouts say. For a
    /// call that is known to be slow; a shorter time is [`within`](Self::timeout).
    pub const fn attempt_timeout(mut self, span: Duration) -> Self {
        self.wish.granted = Some(span);
        self
    }

    /// Says that doing it twice is doing it once, so that it may be repeated whatever its method.
    pub const fn idempotent(mut self) -> Self {
        self.wish.repeats = Idempotency::Safely;
        self
    }

    /// Sends an `Idempotency-Key`, by which the server knows a repetition. Every attempt carries the
    /// same.
    pub fn idempotency_key(self, key: &str) -> Self {
        self.header("idempotency-key", key)
    }

    /// Tries once. For whoever repeats calls by other rules: two who repeat multiply.
    pub const fn no_retry(mut self) -> Self {
        self.wish.tries = RetryMode::One;
        self
    }

    /// Goes with this permit of the API's own door, and [once](Self::no_retry). If the permit is called off
    /// before the first byte has left, the call is refused and may be made again.
    pub fn with_permit(mut self, permit: Permit) -> Self {
        self.wish.permit = Some(permit);
        self.no_retry()
    }

    /// What the cache has to do with it.
    pub const fn cache(mut self, cache: CacheDirective) -> Self {
        self.wish.cache = cache;
        self
    }

    /// How many redirects are followed, if not as many as the API's configuration says.
    pub const fn redirects(mut self, most: u8) -> Self {
        self.wish.redirects = Some(most);
        self
    }

    /// Makes it part of a trace, given as a W3C `traceparent`. The call becomes a span of its own.
    pub fn trace_parent(self, written: &str) -> Self {
        if TraceContext::parse(written).is_none() {
            return self.with_error(ErrorReason::Trace);
        }
        self.header("traceparent", written)
    }

    /// Makes the call and reads its answer whole, so that one that breaks off can be repeated and one
    /// that may be kept is. The status is the caller's to judge.
    ///
    /// # Errors
    /// If no answer came, or the call could not be made.
    pub async fn send(self) -> Result<Response, Error> {
        let shape = ResponseShape::Whole;
        self.client.make(self.found, self.wish, shape).await
    }

    /// Makes the call and answers as soon as the head is there. The body is read, and its place at
    /// the API held, for as long as it flows.
    ///
    /// # Errors
    /// If no answer came, or the call could not be made.
    pub async fn send_streaming(self) -> Result<Response, Error> {
        let shape = ResponseShape::Flowing;
        self.client.make(self.found, self.wish, shape).await
    }

    fn with_error(mut self, mistake: ErrorReason) -> Self {
        self.wish.mistake.get_or_insert(mistake);
        self
    }
}

fn is_the_connections(name: &HeaderName) -> bool {
    WRITTEN_BY_HTTP.contains(name) || HOP_BY_HOP.contains(name)
}

/// Headers that the transport writes. A caller that could set them would decide the host, or where one request
/// ends and the next begins.
const WRITTEN_BY_HTTP: [HeaderName; 2] = [HOST, CONTENT_LENGTH];
