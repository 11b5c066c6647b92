//! What the reader makes of bytes, request by request, for whoever compares it with another reader.

use super::{Framing, FramingState, HeadLimits, HeldBytes};

/// The requests that some bytes hold.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ParsedRequests {
    /// The body of each request whose head was let through.
    pub bodies: Vec<BodyBytes>,
    /// So many bytes were let through.
    pub passed: usize,
    /// Why the next one was not, in one word.
    pub fault: Option<&'static str>,
    /// They begin as HTTP/2 does, and nothing of them was looked at.
    pub is_http2: bool,
}

/// How much of a body there is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct BodyBytes {
    /// So many bytes of content.
    pub bytes: u64,
    /// And its end.
    pub is_whole: bool,
}

impl ParsedRequests {
    /// Reads bytes that come in these pieces, as a connection does: what is unfinished is shown again.
    pub(crate) fn new<'a>(bounds: HeadLimits, pieces: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let (mut framing, mut reading) = (Framing::new(bounds), Self::default());
        let mut held = Vec::new();
        for piece in pieces {
            held.extend_from_slice(piece);
            let scanned = framing.scan_noting(&held, |from, to, count| {
                reading.note(from, to, u64::try_from(count).unwrap_or(u64::MAX));
            });
            reading.passed += scanned.passed;
            held.drain(..scanned.passed);
            if let HeldBytes::Faulty(fault) = scanned.rest {
                reading.fault = Some(fault.name());
                break;
            }
        }
        reading
    }

    fn note(&mut self, from: FramingState, to: FramingState, count: u64) {
        if matches!(to, FramingState::Through) {
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
