//! What a job does: a call of an API, as bytes that a store keeps.
//!
//! A form of our own rather than JSON: a million calls wait in a store, most of them short, and quotes,
//! names of fields and text for binary bodies would be half of what they take. The first byte is the
//! version, so that a later program reads what an earlier one left.

use std::fmt;
use std::time::Duration;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use http::{HeaderMap, HeaderName, HeaderValue, Method};

/// A call of an API, to be made when its turn comes.
///
/// ```
/// use outflow_bulk::HttpCall;
///
/// let call = HttpCall::new("tmdb", http::Method::GET, "/movie/603");
/// assert_eq!(HttpCall::decode(call.encode()).expect("what was encoded"), call);
/// ```
#[derive(Clone, PartialEq, Debug)]
pub struct HttpCall {
    /// Which API.
    pub api: String,
    /// How.
    pub method: Method,
    /// What, with its query.
    pub path: String,
    /// Headers beside those of the API.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
    /// By what the server knows a repetition; the job's own name if nothing is said.
    pub idempotency_key: Option<String>,
    /// How long one attempt may take, if not what the engine's settings say.
    pub timeout: Option<Duration>,
}

impl HttpCall {
    /// A call without headers and body.
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

    /// Puts the key by which the server knows a repetition among the headers, once: what was said, what is
    /// there already, or the job's own name.
    pub(crate) fn put_key(&mut self, own: &str) {
        let header = HeaderName::from_static(IDEMPOTENCY_KEY);
        let key = match &self.idempotency_key {
            Some(said) => said,
            None if self.headers.contains_key(&header) => return,
            None => own,
        };
        if let Ok(key) = HeaderValue::from_str(key) {
            self.headers.insert(header, key);
        }
    }

    /// As it is kept.
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
        put(
            &mut out,
            self.idempotency_key.as_deref().unwrap_or("").as_bytes(),
        );
        let timeout = self.timeout.map_or(0, |span| span.as_millis());
        put_number(&mut out, u64::try_from(timeout).unwrap_or(u64::MAX));
        out.freeze()
    }

    /// What was kept.
    ///
    /// # Errors
    /// If it is none of ours, cut off, or of a later version.
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

/// Why bytes are no call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InvalidPayload {
    /// They are of another version.
    Version,
    /// They end too early, or go on too long.
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

/// Seven bits a byte, the lowest first: lengths are mostly below 128.
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

/// The first there is.
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
    fn what_is_kept_is_what_comes_back() {
        for call in [call(), HttpCall::new("a", Method::GET, "/")] {
            assert_eq!(HttpCall::decode(call.encode()), Ok(call));
        }
    }

    // Every cut of the bytes, and a byte too many.
    #[test]
    fn a_torn_call_is_none() {
        let whole = call().encode();
        for length in 0..whole.len() {
            assert!(HttpCall::decode(whole.slice(..length)).is_err(), "{length}");
        }
        let mut longer = BytesMut::from(whole.as_ref());
        longer.put_u8(0);
        assert_eq!(HttpCall::decode(longer.freeze()), Err(InvalidPayload::Torn));
    }

    #[test]
    fn a_short_call_takes_few_bytes() {
        let call = HttpCall::new("tmdb", Method::GET, "/movie/603");
        assert_eq!(call.encode().len(), 1 + 5 + 4 + 11 + 1 + 1 + 1 + 1);
    }
}
