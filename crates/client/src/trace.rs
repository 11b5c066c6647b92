//! Whose trace a call belongs to, and a number of its own.
//!
//! Trace context as the W3C writes it: a `traceparent` that is right in every character is continued,
//! anything else is ignored and a new trace begins; a header that we cannot read must not become one
//! that we sent. Randomness and time are handed in. Nothing is exported here: a context is what
//! others need in order to find a call again.

mod request_id;
mod tracestate;

use std::fmt;

use fastrand::Rng;
use http::{HeaderMap, HeaderName, HeaderValue};
use smol_str::{SmolStr, format_smolstr};

pub use request_id::RequestId;
pub use tracestate::TraceState;

/// A place in a trace.
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
    /// The trace; never zero.
    pub trace_id: u128,
    /// This part of it; never zero.
    pub span_id: u64,
    /// Whether it is recorded, and whether its number is random.
    pub flags: u8,
}

impl TraceContext {
    /// Reads a `traceparent`; `None` unless it is right in every character. One of a later version
    /// is read as far as this one goes, as the standard asks.
    pub fn parse(header: &str) -> Option<Self> {
        let version = header.get(..2).filter(|version| *version != "ff")?;
        hex(version)?;
        let fields = match (version, header.len(), header.get(..LENGTH)?) {
            (_, LENGTH, fields) => fields,
            ("00", ..) => return None,
            (_, _, fields) if header.get(LENGTH..)?.starts_with('-') => fields,
            _ => return None,
        };
        let mut parts = fields.split('-').skip(1);
        let mut part = |digits| hex(parts.next().filter(|part| part.len() == digits)?);
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

    /// The beginning of a new trace, which nobody asked to record.
    pub fn start(rng: &mut Rng) -> Self {
        Self {
            trace_id: rng.u128(1..),
            span_id: rng.u64(1..),
            flags: RANDOM,
        }
    }

    /// The next part of the same trace.
    #[must_use]
    pub fn child(self, rng: &mut Rng) -> Self {
        Self {
            span_id: rng.u64(1..),
            ..self
        }
    }

    /// The trace's number as logs show it.
    pub fn trace_id(&self) -> SmolStr {
        format_smolstr!("{:032x}", self.trace_id)
    }
}

impl fmt::Display for TraceContext {
    /// As a `traceparent`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (trace, span) = (self.trace_id, self.span_id);
        write!(f, "00-{trace:032x}-{span:016x}-{:02x}", self.flags)
    }
}

/// What a call passes on: its place, and what the tools before us want kept.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Trace {
    /// Our place in the trace.
    pub context: TraceContext,
    /// Others' entries, passed on as they are.
    pub state: Option<TraceState>,
}

impl Trace {
    /// Continues the trace of these headers, or begins one if they hold none that is right. Without
    /// a right `traceparent` a `tracestate` means nothing.
    pub fn new(headers: &HeaderMap, rng: &mut Rng) -> Self {
        let Some(theirs) = only(headers, &TRACEPARENT).and_then(TraceContext::parse) else {
            return Self {
                context: TraceContext::start(rng),
                state: None,
            };
        };
        Self {
            context: theirs.child(rng),
            state: TraceState::from_headers(headers),
        }
    }

    /// Writes it into the headers of a request, in place of what they held.
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

/// The value of a header that is there exactly once.
fn only<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Option<&'h str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?.to_str().ok()?;
    values.next().is_none().then_some(value)
}

/// Lower case only, as the standard writes it.
fn hex(digits: &str) -> Option<u128> {
    let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    let all = digits.bytes().all(is_digit);
    u128::from_str_radix(digits, 16).ok().filter(|_| all)
}

const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
const TRACESTATE: HeaderName = HeaderName::from_static("tracestate");

/// Of a `traceparent` of version 00.
const LENGTH: usize = 55;

/// The trace's number is random in its last seven bytes.
const RANDOM: u8 = 0b10;

/// Recorded, and random; the rest must be sent as zero.
const KNOWN_FLAGS: u8 = 0b11;
