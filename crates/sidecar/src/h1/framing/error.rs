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
}

impl FramingError {
    const ALL: [Self; 18] = [
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
    ];

    /// Returns the identifier of the problem type.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::BareLf => "bare_lf",
            Self::Folded => "folded",
            Self::Name => "name",
            Self::Value => "value",
            Self::RequestLine => "request_line",
            Self::Target => "target",
            Self::Version => "version",
            Self::NoHost => "no_host",
            Self::TwoHosts => "two_hosts",
            Self::Length => "length",
            Self::TwoLengths => "two_lengths",
            Self::Coding => "coding",
            Self::LengthAndCoding => "length_and_coding",
            Self::CodingInOld => "coding_in_old",
            Self::TooLarge => "too_large",
            Self::TooMany => "too_many",
            Self::Chunk => "chunk",
            Self::Slow => "slow",
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
            _ => StatusCode::BAD_REQUEST,
        }
    }

    /// Returns the cause and the remedy.
    pub(crate) const fn advice(self) -> &'static str {
        match self {
            Self::BareLf => "a line ends in a line feed alone: end lines in CR LF",
            Self::Folded => "a header continues on a second line: write it on one line",
            Self::Name => "a header name is empty, contains a blank or lacks its colon",
            Self::Value => "a header value or a chunk contains a control character",
            Self::RequestLine => "the first line is not `METHOD /path HTTP/1.1`",
            Self::Target => "the target is not visible ASCII: percent-encode it",
            Self::Version => "only HTTP/1.1, HTTP/1.0 and HTTP/2 are supported",
            Self::NoHost => "there is no Host header: send one",
            Self::TwoHosts => "there is more than one Host header: send one",
            Self::Length => "Content-Length is not a plain number",
            Self::TwoLengths => "there is more than one Content-Length: send one",
            Self::Coding => "Transfer-Encoding is not `chunked`, once",
            Self::LengthAndCoding => "there are Content-Length and Transfer-Encoding: send one of them",
            Self::CodingInOld => "HTTP/1.0 has no Transfer-Encoding: use HTTP/1.1",
            Self::TooLarge => "the head is too large: send less, or raise `max_header_size`",
            Self::TooMany => "there are too many headers: send fewer, or raise `max_headers`",
            Self::Chunk => "a chunk of the body is malformed",
            Self::Slow => "the head did not arrive in time: send it at once",
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
            assert!(error.status().is_client_error() || error == FramingError::Version);
        }
    }
}
