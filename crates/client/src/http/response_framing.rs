//! Check of a response head: one length or one coding, so that its body has one end.
//!
//! Hyper reads a body by its coding and also returns the length beside it. A reader that trusts the length
//! sees another end and takes the rest for the next response: one API could forge the response of another.
//! So such a head is refused, over HTTP/1 and HTTP/2 alike. The rules are those for responses in RFC 9112,
//! section 6, and RFC 9110, section 8.6. Where they let a recipient repair or refuse, it refuses.
//!
//! Hyper has checked lines, names and values before, and checks chunks while the body arrives.

use http::header::{CONTENT_LENGTH, TRANSFER_ENCODING};
use http::{HeaderMap, Method, Response, StatusCode, Version};

use super::failure::AttemptFailure;

/// Refuses a response whose head leaves the end of its body open to interpretation.
pub(super) fn check_framing<B>(response: &Response<B>) -> Result<(), AttemptFailure> {
    let status = response.status();
    let length = read_length(response.headers());
    let is_chunked = read_coding(response.headers());
    let phrase = match (length, is_chunked) {
        _ if status == StatusCode::SWITCHING_PROTOCOLS => SWITCHED_PROTOCOL,
        (Err(phrase), _) | (_, Err(phrase)) => phrase,
        (Ok(Some(_)), Ok(true)) => LENGTH_AND_CODING,
        (_, Ok(true)) if response.version() != Version::HTTP_11 => CODING_IN_OLD,
        (Ok(Some(1..)), _) | (_, Ok(true)) if status == StatusCode::NO_CONTENT => CONTENT_IN_204,
        _ => return Ok(()),
    };
    Err(AttemptFailure::invalid_response(phrase))
}

/// Returns true if a response to this method with this status has no body, whatever its headers announce.
pub(super) fn is_bodiless(method: &Method, status: StatusCode) -> bool {
    *method == Method::HEAD || matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED)
}

/// Reads the only length, in digits alone: readers disagree about signs, blanks and lists.
fn read_length(headers: &HeaderMap) -> Result<Option<u64>, &'static str> {
    let mut lengths = headers.get_all(CONTENT_LENGTH).into_iter();
    let Some(first) = lengths.next() else {
        return Ok(None);
    };
    if lengths.next().is_some() {
        return Err(TWO_LENGTHS);
    }
    let digits = first.to_str().ok();
    let digits = digits.filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()));
    let length = digits.and_then(|digits| digits.parse().ok());
    length.map(Some).ok_or(LENGTH)
}

/// Returns true if the only coding is `chunked`. No request offers another one with `TE`, so no server may
/// use one.
fn read_coding(headers: &HeaderMap) -> Result<bool, &'static str> {
    let mut codings = headers.get_all(TRANSFER_ENCODING).into_iter();
    match (codings.next(), codings.next()) {
        (None, _) => Ok(false),
        (Some(only), None) if only.as_bytes().eq_ignore_ascii_case(b"chunked") => Ok(true),
        (Some(_), _) => Err(CODING),
    }
}

const SWITCHED_PROTOCOL: &str = "the server switched protocols without a request";
const LENGTH: &str = "the Content-Length of the response is not a plain number";
const TWO_LENGTHS: &str = "the response has more than one Content-Length";
const CODING: &str = "the Transfer-Encoding of the response is not `chunked`, once";
const LENGTH_AND_CODING: &str = "the response has both Content-Length and Transfer-Encoding";
const CODING_IN_OLD: &str = "the response has a Transfer-Encoding, which only HTTP/1.1 has";
const CONTENT_IN_204: &str = "the response has status 204 and announces a body";
