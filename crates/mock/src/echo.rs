//! The received request as JSON.

use bytes::Bytes;
use http::request::Parts;
use serde::Serialize;

use crate::payload::length;

/// Measures a body while it arrives and stores only its beginning.
#[derive(Debug)]
pub(crate) struct Echo {
    pub(crate) length: u64,
    hash: u64,
    keeps: usize,
    /// Stored beginning of the body.
    pub(crate) kept: Vec<u8>,
}

impl Echo {
    /// Stores the first `keeps` bytes.
    pub(crate) fn keeping(keeps: usize) -> Self {
        Self {
            length: 0,
            hash: FNV_OFFSET,
            keeps,
            kept: Vec::new(),
        }
    }

    pub(crate) fn take(&mut self, piece: &Bytes) {
        self.length += length(piece);
        for byte in piece {
            self.hash = (self.hash ^ u64::from(*byte)).wrapping_mul(FNV_PRIME);
        }
        let room = self.keeps - self.kept.len();
        self.kept.extend(piece.iter().take(room));
    }

    pub(crate) fn json(&self, request: &Parts) -> Bytes {
        let header = |(name, value): (&http::HeaderName, &http::HeaderValue)| {
            let value = String::from_utf8_lossy(value.as_bytes()).into_owned();
            (name.as_str().to_owned(), value)
        };
        let seen = Seen {
            method: request.method.as_str(),
            path: request.uri.path(),
            query: request.uri.query(),
            version: format!("{:?}", request.version),
            headers: request.headers.iter().map(header).collect(),
            body_length: self.length,
            body_hash: format!("{:016x}", self.hash),
        };
        serde_json::to_vec(&seen).unwrap_or_default().into()
    }
}

#[derive(Serialize)]
struct Seen<'a> {
    method: &'a str,
    path: &'a str,
    query: Option<&'a str>,
    version: String,
    headers: Vec<(String, String)>,
    body_length: u64,
    body_hash: String,
}

/// FNV-1a: enough to compare two bodies, and short enough for any test.
const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0100_0000_01b3;
