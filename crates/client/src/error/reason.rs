//! The small reasons behind an error, none of which holds a word of a request or a response.

use std::fmt;

use http::Method;
use smol_str::SmolStr;

use crate::base_url::InvalidPath;

/// A call that could not be made as written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum ErrorReason {
    /// No API has this name.
    UnknownApi(SmolStr),
    /// The API does not allow the method.
    Method(Method),
    /// The path is none.
    Path(InvalidPath),
    /// A header's name or value is none.
    Header,
    /// A header that the connection writes itself.
    OwnHeader,
    /// The body could not be written as JSON.
    Json,
    /// The trace context is none.
    Trace,
}

impl fmt::Display for ErrorReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownApi(name) => write!(f, "there is no API `{name}`: configure it first"),
            Self::Method(method) => write!(
                f,
                "{method} is not among the methods allowed for this API: add it to `methods`"
            ),
            Self::Path(why) => why.fmt(f),
            Self::Header => f.write_str("a header's name or value holds what headers cannot"),
            Self::OwnHeader => f.write_str(
                "the host, the length and the connection's headers are not the caller's",
            ),
            Self::Json => f.write_str("the body cannot be written as JSON"),
            Self::Trace => f.write_str("this is no W3C `traceparent`"),
        }
    }
}

/// A body that is not what was asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum DecodeError {
    /// Not JSON, or not of the type that was asked for.
    Json {
        /// What is wrong with it.
        what: &'static str,
        /// Where.
        line: usize,
        /// Where.
        column: usize,
    },
    /// Not UTF-8.
    Text,
}

impl DecodeError {
    /// Reads where a decoder stopped. Its own text is not kept: it quotes what it found.
    pub(crate) fn json(error: &serde_json::Error) -> Self {
        let what = match error.classify() {
            serde_json::error::Category::Io | serde_json::error::Category::Syntax => "is not JSON",
            serde_json::error::Category::Eof => "ends too early to be JSON",
            serde_json::error::Category::Data => "is JSON of another shape than asked for",
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

/// A redirect that led nowhere.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RedirectError {
    /// More of them than are followed.
    TooMany,
    /// Back to where it had been.
    Loop,
    /// To what is no place.
    Unreadable,
}

impl fmt::Display for RedirectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TooMany => "more redirects than are followed: raise `redirects`",
            Self::Loop => "the redirects lead in a circle",
            Self::Unreadable => "a redirect leads to what is no URL",
        })
    }
}
