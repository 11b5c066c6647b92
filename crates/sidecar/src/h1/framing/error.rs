//! What can be wrong with the framing of a request, and what its sender is told.

use http::StatusCode;

/// Why bytes cannot be let through.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum FramingError {
    /// A line ends in a line feed alone.
    BareLf,
    /// A header goes on in a second line.
    Folded,
    /// What stands before the colon is no name.
    Name,
    /// A value holds a control character.
    Value,
    /// The first line is not a method, a target and a version.
    RequestLine,
    /// The target holds what targets cannot.
    Target,
    /// Not a version that is spoken here.
    Version,
    /// No host is named.
    NoHost,
    /// More than one is.
    TwoHosts,
    /// The length is no number.
    Length,
    /// There is more than one.
    TwoLengths,
    /// The body is coded in a way that is not `chunked`, once.
    Coding,
    /// It has a length and a coding.
    LengthAndCoding,
    /// HTTP/1.0 has no codings.
    CodingInOld,
    /// The head is too large.
    TooLarge,
    /// It has too many headers.
    TooMany,
    /// A chunk of the body is not as chunks are written.
    Chunk,
    /// The head did not come in time.
    Slow,
}

impl FramingError {
    /// All of them.
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

    /// In one word.
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

    /// The one of this name.
    pub(crate) fn named(name: &[u8]) -> Option<Self> {
        let is_it = |fault: &Self| fault.name().as_bytes() == name;
        Self::ALL.into_iter().find(is_it)
    }

    /// The status by which it is told.
    pub(crate) const fn status(self) -> StatusCode {
        match self {
            Self::Slow => StatusCode::REQUEST_TIMEOUT,
            Self::TooLarge | Self::TooMany => StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
            Self::Version => StatusCode::HTTP_VERSION_NOT_SUPPORTED,
            _ => StatusCode::BAD_REQUEST,
        }
    }

    /// What is wrong, and what to do about it.
    pub(crate) const fn advice(self) -> &'static str {
        match self {
            Self::BareLf => "a line ends in a line feed alone: end lines in CR LF",
            Self::Folded => "a header goes on in a second line: write it in one",
            Self::Name => "a header's name is empty, holds a blank or lacks its colon",
            Self::Value => "a header's value or a chunk holds a control character",
            Self::RequestLine => "the first line is not `METHOD /path HTTP/1.1`",
            Self::Target => "the target is not visible ASCII: percent-encode it",
            Self::Version => "only HTTP/1.1, HTTP/1.0 and HTTP/2 are spoken here",
            Self::NoHost => "there is no Host header: send one",
            Self::TwoHosts => "there is more than one Host header: send one",
            Self::Length => "Content-Length is not a plain number",
            Self::TwoLengths => "there is more than one Content-Length: send one",
            Self::Coding => "Transfer-Encoding is not `chunked`, once",
            Self::LengthAndCoding => {
                "there are Content-Length and Transfer-Encoding: send one of them"
            }
            Self::CodingInOld => "HTTP/1.0 has no Transfer-Encoding: speak HTTP/1.1",
            Self::TooLarge => "the head is too large: send less, or raise `max_header_size`",
            Self::TooMany => "there are too many headers: send fewer, or raise `max_headers`",
            Self::Chunk => "a chunk of the body is malformed",
            Self::Slow => "the head did not come in time: send it at once",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fault_is_found_by_its_name() {
        for fault in FramingError::ALL {
            assert_eq!(FramingError::named(fault.name().as_bytes()), Some(fault));
            assert!(fault.status().is_client_error() || fault == FramingError::Version);
        }
    }
}
