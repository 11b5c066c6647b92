//! Result of the framing check, request by request, for a comparison with another parser.

use super::{Framing, FramingState, HeadLimits, HeldBytes};

/// Requests found in a sequence of bytes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ParsedRequests {
    /// Body of each request with a valid head.
    pub bodies: Vec<BodyBytes>,
    /// Number of bytes that passed.
    pub passed: usize,
    /// Identifier of the error in the next bytes, if any.
    pub fault: Option<&'static str>,
    /// True if the bytes begin with the HTTP/2 preface and were not checked.
    pub is_http2: bool,
}

/// Part of a body that was found.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct BodyBytes {
    /// Number of bytes of content.
    pub bytes: u64,
    /// True if the end was found.
    pub is_whole: bool,
}

impl ParsedRequests {
    /// Scans bytes that arrive in these pieces, as a connection does: unfinished bytes are scanned again.
    pub(crate) fn new<'a>(limits: HeadLimits, pieces: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let (mut framing, mut parsed) = (Framing::new(limits), Self::default());
        let mut held = Vec::new();
        for piece in pieces {
            held.extend_from_slice(piece);
            let scanned = framing.scan_with(&held, |from, to, count| {
                parsed.record(from, to, u64::try_from(count).unwrap_or(u64::MAX));
            });
            parsed.passed += scanned.passed;
            held.drain(..scanned.passed);
            if let HeldBytes::Invalid(error) = scanned.rest {
                parsed.fault = Some(error.name());
                break;
            }
        }
        parsed
    }

    fn record(&mut self, from: FramingState, to: FramingState, count: u64) {
        if matches!(to, FramingState::Http2) {
            self.is_http2 = true;
            return;
        }
        if matches!(from, FramingState::First | FramingState::Head) {
            self.bodies.push(BodyBytes::default());
        }
        if let Some(body) = self.bodies.last_mut() {
            if matches!(from, FramingState::Body(_) | FramingState::Chunk(_)) {
                body.bytes += count;
            }
            body.is_whole = matches!(to, FramingState::Head);
        }
    }
}
