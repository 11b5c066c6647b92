//! Responses that break the protocol, as bytes on the wire.
//!
//! The HTTP library would not write any of these, so the connection is taken over and the bytes are
//! written directly. On HTTP/2 most have no such bytes and end the connection without a response;
//! only raw bytes are written there as they are.

use std::time::Duration;

use bytes::Bytes;

/// Protocol fault of a response.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Fault {
    /// Resets the connection as soon as the request head is there, its body unread.
    ResetUnread,
    /// Resets the connection when the whole request is there.
    ResetBeforeHead,
    /// Resets the connection when some of the body was sent.
    ResetInBody,
    /// Resets the connection right after a complete response.
    ResetAfterBody,
    /// Closes the connection cleanly, without a response.
    CloseBeforeHead,
    /// Never responds and never closes.
    Hang,
    /// Closes before all announced bytes were sent.
    CutBody,
    /// Closes inside a chunk.
    CutChunk,
    /// Announces less than it sends.
    Surplus,
    /// Sends two responses to one request.
    TwoAnswers,
    /// Sends this many interim responses before the real one.
    InterimFlood(u32),
    /// Switches to a protocol that the request did not ask for.
    Unasked101,
    /// Sends text that is not HTTP, and closes.
    Garbage,
    /// Sends header lines for ever at this interval; zero is as fast as they are taken.
    EndlessHead(Duration),
    /// Sends one header of this many bytes.
    HugeHeader(usize),
    /// Sends this many headers.
    ManyHeaders(usize),
    /// Sends these bytes, and closes.
    Bytes(Bytes),
    /// Sends these bytes and stays open.
    Held(Bytes),
    /// Sends bytes, and then others for ever.
    Endless {
        /// Bytes that are sent once.
        first: Bytes,
        /// Bytes that are repeated.
        again: Bytes,
        /// Interval of the repetition; zero is as fast as they are taken.
        every: Duration,
    },
}

/// Operations on the connection.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct FaultPlan {
    pub(crate) bytes: Bytes,
    pub(crate) then: Then,
}

/// End of the connection after the bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Then {
    Close,
    Reset,
    /// Stays open and sends nothing more.
    Hold,
    /// Repeats the bytes.
    Repeat {
        line: Bytes,
        every: Duration,
    },
}

impl Fault {
    /// Returns true if the body of the request is read first.
    pub(crate) fn waits_for_body(&self) -> bool {
        *self != Self::ResetUnread
    }

    /// Returns true if it consists of raw bytes, independent of the protocol.
    pub(crate) const fn is_raw(&self) -> bool {
        matches!(self, Self::Bytes(_) | Self::Held(_) | Self::Endless { .. })
    }

    pub(crate) fn plan(&self) -> FaultPlan {
        let (bytes, then) = match self {
            Self::ResetUnread | Self::ResetBeforeHead => (Bytes::new(), Then::Reset),
            Self::ResetInBody => (CUT.into(), Then::Reset),
            Self::ResetAfterBody => (WHOLE.into(), Then::Reset),
            Self::CloseBeforeHead => (Bytes::new(), Then::Close),
            Self::Hang => (Bytes::new(), Then::Hold),
            Self::CutBody => (CUT.into(), Then::Close),
            Self::CutChunk => (CUT_CHUNK.into(), Then::Close),
            Self::Surplus => (SURPLUS.into(), Then::Hold),
            Self::TwoAnswers => (WHOLE.repeat(2).into(), Then::Hold),
            Self::InterimFlood(count) => (interim(*count).into(), Then::Hold),
            Self::Unasked101 => (SWITCH.into(), Then::Hold),
            Self::Garbage => (GARBAGE.into(), Then::Close),
            Self::EndlessHead(every) => {
                let (line, every) = ("x-more: to come\r\n".into(), *every);
                (START.into(), Then::Repeat { line, every })
            }
            Self::HugeHeader(size) => {
                let head = format!("{START}x-huge: {}\r\n{END}", "h".repeat(*size));
                (head.into(), Then::Hold)
            }
            Self::ManyHeaders(count) => (many(*count).into(), Then::Hold),
            Self::Bytes(bytes) => (bytes.clone(), Then::Close),
            Self::Held(bytes) => (bytes.clone(), Then::Hold),
            Self::Endless { first, again, every } => {
                let (line, every) = (again.clone(), *every);
                (first.clone(), Then::Repeat { line, every })
            }
        };
        FaultPlan { bytes, then }
    }
}

fn interim(count: u32) -> String {
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    "HTTP/1.1 103 Early Hints\r\n\r\n".repeat(count) + WHOLE
}

fn many(count: usize) -> String {
    let lines: Vec<_> = (0..count).map(|n| format!("x-{n}: {n}\r\n")).collect();
    format!("{START}{}{END}", lines.concat())
}

const START: &str = "HTTP/1.1 200 OK\r\n";
const END: &str = "content-length: 2\r\n\r\n{}";
const WHOLE: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}";
const CUT: &str = "HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n{\"ok\":";
const CUT_CHUNK: &str = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n6\r\n{\"ok\":\r\n64\r\ntru";
const SURPLUS: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}{\"more\":true}";
const SWITCH: &str = "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: nothing\r\n\r\n";
const GARBAGE: &str = "<html>no status line, no headers, just text</html>\n";
