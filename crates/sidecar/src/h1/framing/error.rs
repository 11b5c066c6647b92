//! Framing errors of a request, with the status and advice for its sender.

use http::StatusCode;

/// Violation of the framing rules.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum FramingError {
    /// A line ends in a line feed alone.
    BareLf,
    /// A header continues on a second line.
    Folded,
    /// The text before the colon is not a header name.
    Name,
    /// A value holds a control character.
    Value,
    /// The first line is not a method, a target and a version.
    RequestLine,
    /// The target contains an invalid character.
    Target,
    /// The HTTP version is not supported.
    Version,
    /// The `Host` header is missing.
    NoHost,
    /// There is more than one `Host` header.
    TwoHosts,
    /// `Content-Length` is not a number.
    Length,
    /// There is more than one `Content-Length`.
    TwoLengths,
    /// `Transfer-Encoding` is not `chunked`, once.
    Coding,
    /// There are both a length and a coding.
    LengthAndCoding,
    /// HTTP/1.0 has no transfer codings.
    CodingInOld,
    /// The head is too large.
    TooLarge,
    /// The head has too many headers.
    TooMany,
    /// A chunk of the body is malformed.
    Chunk,
    /// The head did not arrive in time.
    Slow,
    /// The target names a user beside the host.
    UserInfo,
    /// A header name has an underscore.
    Underscore,
    /// The head does not fit into the memory budget.
    NoMemory,
}

impl FramingError {
    const ALL: [Self; 21] = [
        Self::BareLf,
        Self::Folded,
        Self::Name,
        Self::Value,
        Self::RequestLine,
        Self::Target,
        Self::Version,
        Self::NoHost,
        Self::TwoHosts,
        Self::Length,
        Self::TwoLengths,
        Self::Coding,
        Self::LengthAndCoding,
        Self::CodingInOld,
        Self::TooLarge,
        Self::TooMany,
        Self::Chunk,
        Self::Slow,
        Self::UserInfo,
        Self::Underscore,
        Self::NoMemory,
    ];

    /// Returns the identifier of the problem type.
    pub(crate) const fn name(self) -> &'static str {
        self.texts().0
    }

    /// Returns the cause and the remedy.
    pub(crate) const fn advice(self) -> &'static str {
        self.texts().1
    }

    const fn texts(self) -> (&'static str, &'static str) {
        match self {
            Self::BareLf => ("bare_lf", "a line ends in a line feed alone: end lines in CR LF"),
            Self::Folded => ("folded", "a header continues on a second line: write it on one line"),
            Self::Name => ("name", "a header name is empty, contains a blank or lacks its colon"),
            Self::Value => ("value", "a header value or a chunk contains a control character"),
            Self::RequestLine => ("request_line", "the first line is not `METHOD /path HTTP/1.1`"),
            Self::Target => ("target", "the target is not visible ASCII: percent-encode it"),
            Self::Version => ("version", "only HTTP/1.1, HTTP/1.0 and HTTP/2 are supported"),
            Self::NoHost => ("no_host", "there is no Host header: send one"),
            Self::TwoHosts => ("two_hosts", "there is more than one Host header: send one"),
            Self::Length => ("length", "Content-Length is not a plain number"),
            Self::TwoLengths => ("two_lengths", "there is more than one Content-Length: send one"),
            Self::Coding => ("coding", "Transfer-Encoding is not `chunked`, once"),
            Self::LengthAndCoding => (
                "length_and_coding",
                "there are Content-Length and Transfer-Encoding: send one of them",
            ),
            Self::CodingInOld => ("coding_in_old", "HTTP/1.0 has no Transfer-Encoding: use HTTP/1.1"),
            Self::TooLarge => (
                "too_large",
                "the head is too large: send less, or raise `max_header_size`",
            ),
            Self::TooMany => (
                "too_many",
                "there are too many headers: send fewer, or raise `max_headers`",
            ),
            Self::Chunk => ("chunk", "a chunk of the body is malformed"),
            Self::Slow => ("slow", "the head did not arrive in time: send it at once"),
            Self::UserInfo => (
                "user_info",
                "the target has user info before its host: send the host alone",
            ),
            Self::Underscore => (
                "underscore",
                "a header name with `_` can be read as another one with `-`: write `-`, or see `underscore_headers`",
            ),
            Self::NoMemory => ("memory_full", "the memory for requests is used up: retry later"),
        }
    }

    /// Finds the error with this identifier.
    pub(crate) fn from_name(name: &[u8]) -> Option<Self> {
        let has_name = |error: &Self| error.name().as_bytes() == name;
        Self::ALL.into_iter().find(has_name)
    }

    /// Returns the status of the response.
    pub(crate) const fn status(self) -> StatusCode {
        match self {
            Self::Slow => StatusCode::REQUEST_TIMEOUT,
            Self::TooLarge | Self::TooMany => StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
            Self::Version => StatusCode::HTTP_VERSION_NOT_SUPPORTED,
            Self::NoMemory => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::BAD_REQUEST,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_is_found_by_its_name() {
        for error in FramingError::ALL {
            assert_eq!(FramingError::from_name(error.name().as_bytes()), Some(error));
            let is_ours = matches!(error, FramingError::Version | FramingError::NoMemory);
            assert_eq!(error.status().is_server_error(), is_ours);
        }
    }
}
