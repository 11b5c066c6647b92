//! The call of a job, as bytes for a store.
//!
//! It is a binary format and not JSON: a store holds a million calls, most of them short, and quotes, field names and
//! text for binary bodies would be half of their size. The first byte is the version, so that a later program reads
//! the jobs of an earlier one.

use std::fmt;
use std::time::Duration;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use http::{HeaderMap, HeaderName, HeaderValue, Method};

/// Call of an API.
///
/// ```
/// use outflow_bulk::HttpCall;
///
/// let call = HttpCall::new("tmdb", http::Method::GET, "/movie/603");
/// assert_eq!(HttpCall::decode(call.encode()).expect("encoded before"), call);
/// ```
#[derive(Clone, PartialEq, Debug)]
pub struct HttpCall {
    /// API.
    pub api: String,
    /// Method.
    pub method: Method,
    /// Path with query.
    pub path: String,
    /// Headers in addition to those of the API.
    pub headers: HeaderMap,
    /// Body.
    pub body: Bytes,
    /// Idempotency key; the job's id by default.
    pub idempotency_key: Option<String>,
    /// Timeout of one attempt, if not the engine's.
    pub timeout: Option<Duration>,
}

impl HttpCall {
    /// Creates a call without headers and body.
    pub fn new(api: &str, method: Method, path: &str) -> Self {
        Self {
            api: api.to_owned(),
            method,
            path: path.to_owned(),
            headers: HeaderMap::new(),
            body: Bytes::new(),
            idempotency_key: None,
            timeout: None,
        }
    }

    /// Sets the idempotency header: the call's key, the header that it has, or the job's id.
    pub(crate) fn set_idempotency_key(&mut self, id: &str) {
        let header = HeaderName::from_static(IDEMPOTENCY_KEY);
        let key = match &self.idempotency_key {
            Some(key) => key,
            None if self.headers.contains_key(&header) => return,
            None => id,
        };
        if let Ok(key) = HeaderValue::from_str(key) {
            self.headers.insert(header, key);
        }
    }

    /// Encodes the call.
    pub fn encode(&self) -> Bytes {
        let mut out = BytesMut::with_capacity(self.path.len() + self.body.len() + 64);
        out.put_u8(VERSION);
        put(&mut out, self.api.as_bytes());
        put(&mut out, self.method.as_str().as_bytes());
        put(&mut out, self.path.as_bytes());
        put_number(&mut out, count(self.headers.len()));
        for (name, value) in &self.headers {
            put(&mut out, name.as_str().as_bytes());
            put(&mut out, value.as_bytes());
        }
        put(&mut out, &self.body);
        put(&mut out, self.idempotency_key.as_deref().unwrap_or("").as_bytes());
        let timeout = self.timeout.map_or(0, |span| span.as_millis());
        put_number(&mut out, u64::try_from(timeout).unwrap_or(u64::MAX));
        out.freeze()
    }

    /// Decodes a call.
    ///
    /// # Errors
    /// If the bytes are no call, incomplete, or of a later version.
    pub fn decode(mut bytes: Bytes) -> Result<Self, InvalidPayload> {
        if bytes.is_empty() || bytes.get_u8() != VERSION {
            return Err(InvalidPayload::Version);
        }
        let call = Self {
            api: text(&mut bytes)?,
            method: Method::from_bytes(&piece(&mut bytes)?).map_err(|_| InvalidPayload::Torn)?,
            path: text(&mut bytes)?,
            headers: headers(&mut bytes)?,
            body: piece(&mut bytes)?,
            idempotency_key: Some(text(&mut bytes)?).filter(|key| !key.is_empty()),
            timeout: Some(number(&mut bytes)?)
                .filter(|millis| *millis > 0)
                .map(Duration::from_millis),
        };
        if bytes.is_empty() {
            Ok(call)
        } else {
            Err(InvalidPayload::Torn)
        }
    }
}

const IDEMPOTENCY_KEY: &str = "idempotency-key";

/// Reason why bytes are no call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InvalidPayload {
    /// Another version wrote them.
    Version,
    /// They are too short or too long.
    Torn,
}

impl fmt::Display for InvalidPayload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Version => {
                "the job was written by a later version, or is no call: update this program, \
                 or run it where its handler is"
            }
            Self::Torn => "the job's call is damaged: submit it again",
        })
    }
}

impl std::error::Error for InvalidPayload {}

fn put(out: &mut BytesMut, piece: &[u8]) {
    put_number(out, count(piece.len()));
    out.put_slice(piece);
}

/// Writes seven bits per byte, the lowest first: most lengths are below 128.
fn put_number(out: &mut BytesMut, mut number: u64) {
    while number >= 0x80 {
        let low = u8::try_from(number & 0x7f).unwrap_or(0);
        out.put_u8(low | 0x80);
        number >>= 7;
    }
    out.put_u8(u8::try_from(number).unwrap_or(0));
}

fn number(bytes: &mut Bytes) -> Result<u64, InvalidPayload> {
    let mut number = 0_u64;
    for shift in (0..64).step_by(7) {
        if bytes.is_empty() {
            return Err(InvalidPayload::Torn);
        }
        let byte = bytes.get_u8();
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Ok(number);
        }
    }
    Err(InvalidPayload::Torn)
}

fn piece(bytes: &mut Bytes) -> Result<Bytes, InvalidPayload> {
    let length = usize::try_from(number(bytes)?).map_err(|_| InvalidPayload::Torn)?;
    if length > bytes.len() {
        return Err(InvalidPayload::Torn);
    }
    Ok(bytes.split_to(length))
}

fn text(bytes: &mut Bytes) -> Result<String, InvalidPayload> {
    let piece = piece(bytes)?;
    String::from_utf8(piece.into()).map_err(|_| InvalidPayload::Torn)
}

fn headers(bytes: &mut Bytes) -> Result<HeaderMap, InvalidPayload> {
    let mut headers = HeaderMap::new();
    for _ in 0..number(bytes)? {
        let name = HeaderName::from_bytes(&piece(bytes)?).map_err(|_| InvalidPayload::Torn)?;
        let value = HeaderValue::from_maybe_shared(piece(bytes)?);
        headers.append(name, value.map_err(|_| InvalidPayload::Torn)?);
    }
    Ok(headers)
}

fn count(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}

/// First version.
const VERSION: u8 = 1;

#[cfg(test)]
mod tests {
    use super::*;

    fn call() -> HttpCall {
        let mut call = HttpCall::new("up", Method::POST, "/orders?x=1");
        call.headers.append("x-a", HeaderValue::from_static("1"));
        call.headers.append("x-a", HeaderValue::from_static("2"));
        call.body = Bytes::from(vec![0_u8; 300]);
        call.idempotency_key = Some("order-17".to_owned());
        call.timeout = Some(Duration::from_millis(1500));
        call
    }

    #[test]
    fn a_decoded_call_equals_the_encoded_one() {
        for call in [call(), HttpCall::new("a", Method::GET, "/")] {
            assert_eq!(HttpCall::decode(call.encode()), Ok(call));
        }
    }

    // Every prefix of the bytes, and one byte too many.
    #[test]
    fn an_incomplete_call_is_refused() {
        let encoded = call().encode();
        for length in 0..encoded.len() {
            assert!(HttpCall::decode(encoded.slice(..length)).is_err(), "{length}");
        }
        let mut longer = BytesMut::from(encoded.as_ref());
        longer.put_u8(0);
        assert_eq!(HttpCall::decode(longer.freeze()), Err(InvalidPayload::Torn));
    }

    #[test]
    fn a_short_call_takes_few_bytes() {
        let call = HttpCall::new("tmdb", Method::GET, "/movie/603");
        assert_eq!(call.encode().len(), 1 + 5 + 4 + 11 + 1 + 1 + 1 + 1);
    }
}
