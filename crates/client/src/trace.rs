//! Trace context and request id of a call.
//!
//! W3C trace context: a `traceparent` that is valid in every character is continued; anything else
//! is ignored and a new trace starts, so that an unreadable header is never passed on. Randomness
//! and time are parameters. Nothing is exported: a context lets other tools find a call.

mod request_id;
mod trace_id;
mod tracestate;

use std::fmt;

use fastrand::Rng;
use http::{HeaderMap, HeaderName, HeaderValue};

pub use request_id::RequestId;
pub use trace_id::TraceId;
pub use tracestate::TraceState;

/// Position in a trace.
///
/// ```
/// use outflow::trace::TraceContext;
///
/// let header = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
/// let theirs = TraceContext::parse(header).ok_or("not a traceparent")?;
/// let ours = theirs.child(&mut fastrand::Rng::with_seed(7));
/// assert_eq!(ours.trace_id, theirs.trace_id);
/// assert_ne!(ours.span_id, theirs.span_id);
/// # Ok::<(), &str>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct TraceContext {
    /// Trace id; never zero.
    pub trace_id: u128,
    /// Span id; never zero.
    pub span_id: u64,
    /// Flags: recorded, and random id.
    pub flags: u8,
}

impl TraceContext {
    /// Parses a `traceparent`; `None` unless every character is valid. A later version is read up
    /// to this version's fields, as the standard demands.
    pub fn parse(header: &str) -> Option<Self> {
        let version = header.get(..2).filter(|version| *version != "ff")?;
        parse_hex(version)?;
        let fields = match (version, header.len(), header.get(..LENGTH)?) {
            (_, LENGTH, fields) => fields,
            ("00", ..) => return None,
            (_, _, fields) if header.get(LENGTH..)?.starts_with('-') => fields,
            _ => return None,
        };
        let mut parts = fields.split('-').skip(1);
        let mut part = |digits| parse_hex(parts.next().filter(|part| part.len() == digits)?);
        let (trace_id, span_id, flags) = (part(32)?, part(16)?, part(2)?);
        if trace_id == 0 || span_id == 0 {
            return None;
        }
        Some(Self {
            trace_id,
            span_id: u64::try_from(span_id).ok()?,
            flags: u8::try_from(flags).ok()? & KNOWN_FLAGS,
        })
    }

    /// Starts a new trace that is not recorded.
    pub fn start(rng: &mut Rng) -> Self {
        Self {
            trace_id: rng.u128(1..),
            span_id: rng.u64(1..),
            flags: RANDOM,
        }
    }

    /// Returns a child span.
    #[must_use]
    pub fn child(self, rng: &mut Rng) -> Self {
        Self {
            span_id: rng.u64(1..),
            ..self
        }
    }

    /// Returns the trace id as logs show it.
    pub const fn trace_id(&self) -> TraceId {
        TraceId::new(self.trace_id)
    }
}

impl fmt::Display for TraceContext {
    /// Formats it as a `traceparent`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (trace, span) = (self.trace_id, self.span_id);
        write!(f, "00-{trace:032x}-{span:016x}-{:02x}", self.flags)
    }
}

/// Trace data that a call passes on: its position and the entries of other tools.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Trace {
    /// Our position in the trace.
    pub context: TraceContext,
    /// Entries of others, passed on unchanged.
    pub state: Option<TraceState>,
}

impl Trace {
    /// Continues the trace of these headers, or starts one without a valid `traceparent`. Then a
    /// `tracestate` has no meaning.
    pub fn new(headers: &HeaderMap, rng: &mut Rng) -> Self {
        let Some(parent) = single_value(headers, &TRACEPARENT).and_then(TraceContext::parse) else {
            return Self {
                context: TraceContext::start(rng),
                state: None,
            };
        };
        Self {
            context: parent.child(rng),
            state: TraceState::from_headers(headers),
        }
    }

    /// Writes the trace to the headers of a request and replaces what they held.
    pub fn write(&self, headers: &mut HeaderMap) {
        headers.remove(&TRACESTATE);
        if let Ok(value) = HeaderValue::try_from(self.context.to_string()) {
            headers.insert(TRACEPARENT, value);
        }
        let state = self.state.as_ref().map(TraceState::as_str);
        if let Some(Ok(value)) = state.map(HeaderValue::from_str) {
            headers.insert(TRACESTATE, value);
        }
    }
}

/// Returns the value of a header that occurs exactly once.
fn single_value<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Option<&'h str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?.to_str().ok()?;
    values.next().is_none().then_some(value)
}

/// Parses lower-case hexadecimal digits, as the standard demands.
fn parse_hex(digits: &str) -> Option<u128> {
    let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    let is_hex = digits.bytes().all(is_digit);
    u128::from_str_radix(digits, 16).ok().filter(|_| is_hex)
}

const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
const TRACESTATE: HeaderName = HeaderName::from_static("tracestate");

/// Length of a `traceparent` of version 00.
const LENGTH: usize = 55;

/// The last seven bytes of the trace id are random.
const RANDOM: u8 = 0b10;

/// Recorded and random; other flags must be sent as zero.
const KNOWN_FLAGS: u8 = 0b11;
