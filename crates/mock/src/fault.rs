//! Answers that break the protocol, as bytes on the wire.
//!
//! The HTTP library would not write any of these, so the connection is taken away from it and the
//! bytes are written by hand. On HTTP/2 most have no such bytes and are a connection that ends
//! without an answer; only those that are given as bytes are written there as they are.

use std::time::Duration;

use bytes::Bytes;

/// A way to break an answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Fault {
    /// Resets the connection as soon as the head of the request is there, its body unread.
    ResetUnread,
    /// Resets the connection when the whole request is there.
    ResetBeforeHead,
    /// Resets the connection when some of the body was sent.
    ResetInBody,
    /// Resets the connection right behind a complete answer.
    ResetAfterBody,
    /// Closes the connection in an orderly way, without an answer.
    CloseBeforeHead,
    /// Never answers and never closes.
    Hang,
    /// Closes before as many bytes were sent as were announced.
    CutBody,
    /// Closes inside a chunk.
    CutChunk,
    /// Announces less than it sends.
    Surplus,
    /// Sends two answers to one request.
    TwoAnswers,
    /// Sends so many interim answers before the real one.
    InterimFlood(u32),
    /// Switches to a protocol that nobody asked for.
    Unasked101,
    /// Sends text that is no HTTP at all, and closes.
    Garbage,
    /// Sends header lines for ever, one every so often; zero is as fast as they are taken.
    EndlessHead(Duration),
    /// Sends one header of so many bytes.
    HugeHeader(usize),
    /// Sends so many headers.
    ManyHeaders(usize),
    /// Sends these bytes, and closes.
    Bytes(Bytes),
    /// Sends these bytes, and stays open without another word.
    Held(Bytes),
    /// Sends bytes, and then others for ever.
    Endless {
        /// What is sent once.
        first: Bytes,
        /// What is sent again and again.
        again: Bytes,
        /// How often; zero is as fast as it is taken.
        every: Duration,
    },
}

/// What is done to the wire.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Plan {
    pub(crate) bytes: Bytes,
    pub(crate) then: Then,
}

/// How the connection goes on after the bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Then {
    Close,
    Reset,
    /// Stays open and says nothing more.
    Hold,
    /// Sends the same bytes again and again.
    Repeat {
        line: Bytes,
        every: Duration,
    },
}

impl Fault {
    /// Whether the body of the request is read first.
    pub(crate) fn waits_for_body(&self) -> bool {
        *self != Self::ResetUnread
    }

    /// Whether it is given as the bytes that are sent, whatever the protocol.
    pub(crate) const fn is_raw(&self) -> bool {
        matches!(self, Self::Bytes(_) | Self::Held(_) | Self::Endless { .. })
    }

    pub(crate) fn plan(&self) -> Plan {
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
            Self::EndlessHead(every) => (START.into(), repeat(*every)),
            Self::HugeHeader(size) => (huge(*size).into(), Then::Hold),
            Self::ManyHeaders(count) => (many(*count).into(), Then::Hold),
            Self::Bytes(bytes) => (bytes.clone(), Then::Close),
            Self::Held(bytes) => (bytes.clone(), Then::Hold),
            Self::Endless {
                first,
                again,
                every,
            } => {
                let (line, every) = (again.clone(), *every);
                (first.clone(), Then::Repeat { line, every })
            }
        };
        Plan { bytes, then }
    }
}

fn interim(count: u32) -> String {
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    "HTTP/1.1 103 Early Hints\r\n\r\n".repeat(count) + WHOLE
}

fn repeat(every: Duration) -> Then {
    Then::Repeat {
        line: "x-more: to come\r\n".into(),
        every,
    }
}

fn huge(size: usize) -> String {
    format!("{START}x-huge: {}\r\n{END}", "h".repeat(size))
}

fn many(count: usize) -> String {
    let lines: Vec<_> = (0..count).map(|n| format!("x-{n}: {n}\r\n")).collect();
    format!("{START}{}{END}", lines.concat())
}

const START: &str = "HTTP/1.1 200 OK\r\n";
const END: &str = "content-length: 2\r\n\r\n{}";
const WHOLE: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}";
const CUT: &str = "HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n{\"ok\":";
const CUT_CHUNK: &str =
    "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n6\r\n{\"ok\":\r\n64\r\ntru";
const SURPLUS: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}{\"more\":true}";
const SWITCH: &str =
    "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: nothing\r\n\r\n";
const GARBAGE: &str = "<html>no status line, no headers, just text</html>\n";
