//! Reasons of an error. None holds any text of a request or a response.

use std::fmt;

use http::Method;
use smol_str::SmolStr;

use crate::base_url::InvalidPath;

/// Reason why a call is invalid.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum ErrorReason {
    /// The process has no client yet.
    NotInitialized,
    /// No API has this name.
    UnknownApi(SmolStr),
    /// The API does not allow the method.
    Method(Method),
    /// The path is invalid.
    Path(InvalidPath),
    /// A header name or value is invalid.
    Header,
    /// The connection sets this header.
    OwnHeader,
    /// The body could not be encoded as JSON.
    Json,
    /// The trace context is invalid.
    Trace,
}

impl fmt::Display for ErrorReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotInitialized => {
                f.write_str("this process has no client yet: call `outflow::init` once, before the first call")
            }
            Self::UnknownApi(name) => write!(f, "there is no API `{name}`: configure it first"),
            Self::Method(method) => write!(
                f,
                "{method} is not among the methods allowed for this API: add it to `methods`"
            ),
            Self::Path(error) => error.fmt(f),
            Self::Header => {
                f.write_str("a header name or value holds an invalid character: encode it, or remove the header")
            }
            Self::OwnHeader => {
                f.write_str("the connection sets the host, the length and its own headers: remove this header")
            }
            Self::Json => f.write_str("the body cannot be encoded as JSON: map keys must be text, numbers finite"),
            Self::Trace => {
                f.write_str("this is not a valid W3C `traceparent`: expected `00-<32 hex>-<16 hex>-<2 hex>`")
            }
        }
    }
}

/// Error of decoding a body.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum DecodeError {
    /// Not JSON, or not of the requested type.
    Json {
        /// Description of the error.
        what: &'static str,
        /// Line in the body.
        line: usize,
        /// Column in the line.
        column: usize,
    },
    /// Not UTF-8.
    Text,
}

impl DecodeError {
    /// Reads the position where the decoder stopped. Its text is dropped because it quotes the
    /// body.
    pub(crate) fn json(error: &serde_json::Error) -> Self {
        let what = match error.classify() {
            serde_json::error::Category::Io | serde_json::error::Category::Syntax => "is not JSON",
            serde_json::error::Category::Eof => "ends too early to be JSON",
            serde_json::error::Category::Data => "is JSON of another type than requested",
        };
        Self::Json {
            what,
            line: error.line(),
            column: error.column(),
        }
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Json { what, line, column } => {
                write!(f, "the body {what} (line {line}, column {column})")
            }
            Self::Text => f.write_str("the body is not UTF-8: read it as bytes"),
        }
    }
}

outflow_core::error_enum! {
    /// Error of a redirect.
    pub(crate) enum RedirectError {
        /// More redirects than the maximum.
        TooMany = "too many redirects: raise `redirects`",
        /// A redirect to a visited URI.
        Loop = "the redirects form a loop",
        /// An invalid target.
        Unreadable = "a redirect leads to an invalid URL",
    }
}
