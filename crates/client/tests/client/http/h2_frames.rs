//! Hand-written HTTP/2 frames that no library would send.
//!
//! Each call is the first of its connection here, and so has the stream 1.

use bytes::Bytes;

/// Builds one frame.
pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Bytes {
    let length = u32::try_from(payload.len()).expect("short").to_be_bytes();
    let head = [&length[1..], &[kind, flags], &stream.to_be_bytes()].concat();
    [head.as_slice(), payload].concat().into()
}

/// Builds a GOAWAY: the server ignores streams after this one.
pub(crate) fn going_away(last: u32, code: u32) -> Bytes {
    let payload = [last.to_be_bytes(), code.to_be_bytes()].concat();
    frame(7, 0, 0, &payload)
}

/// Builds a `RST_STREAM`.
pub(crate) fn reset(code: u32) -> Bytes {
    frame(3, 0, 1, &code.to_be_bytes())
}

/// Builds the head of a response whose body follows: 200 is entry eight of the static table.
pub(crate) fn head() -> Bytes {
    frame(1, END_HEADERS, 1, &[0x88])
}

/// Builds a response without a body.
pub(crate) fn response() -> Bytes {
    frame(1, END_HEADERS | END_STREAM, 1, &[0x88])
}

/// Builds an interim response, with its 103 as a literal value.
pub(crate) fn interim() -> Bytes {
    frame(1, END_HEADERS, 1, &[0x08, 0x03, b'1', b'0', b'3'])
}

/// Concatenates several frames.
pub(crate) fn together(frames: &[Bytes]) -> Bytes {
    frames.concat().into()
}

pub(crate) const END_STREAM: u8 = 1;
pub(crate) const END_HEADERS: u8 = 4;

pub(crate) const NO_ERROR: u32 = 0;
pub(crate) const INTERNAL_ERROR: u32 = 2;
pub(crate) const REFUSED_STREAM: u32 = 7;
pub(crate) const CANCEL: u32 = 8;
