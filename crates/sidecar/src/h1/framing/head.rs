//! Line-by-line check of one head, and the body length that it declares.

use super::FramingError;

/// State of a partially read head.
#[derive(Debug, Default)]
pub(super) struct HeadScan {
    lines: usize,
    blank: bool,
    is_old: bool,
    hosts: u8,
    length: Option<u64>,
    coded: bool,
}

/// Declared length of a body.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum BodyLength {
    /// Number of bytes.
    Fixed(u64),
    /// Chunks, the last of which is empty.
    Chunked,
}

impl HeadScan {
    /// Returns true if no line was read. One blank line is ignored then: some old clients send one after a body.
    pub(super) const fn is_empty(&self) -> bool {
        self.lines == 0 && !self.blank
    }

    /// Checks the next line, given without its line end.
    pub(super) fn push_line(&mut self, line: &[u8], limit: usize) -> Result<(), FramingError> {
        if line.is_empty() {
            self.blank = true;
            return Ok(());
        }
        self.lines += 1;
        if self.lines == 1 {
            return self.read_request_line(line);
        }
        // The first line is not a header.
        if self.lines > limit.saturating_add(1) {
            return Err(FramingError::TooMany);
        }
        let (name, value) = split_field(line)?;
        self.read_header(name, value)
    }

    /// Ends the head and returns the length of its body.
    pub(super) fn into_body_length(self) -> Result<BodyLength, FramingError> {
        if self.lines == 0 {
            return Err(FramingError::RequestLine);
        }
        match self.hosts {
            0 => return Err(FramingError::NoHost),
            1 => {}
            _ => return Err(FramingError::TwoHosts),
        }
        match (self.length, self.coded) {
            (Some(_), true) => Err(FramingError::LengthAndCoding),
            (None, true) if self.is_old => Err(FramingError::CodingInOld),
            (None, true) => Ok(BodyLength::Chunked),
            (length, false) => Ok(BodyLength::Fixed(length.unwrap_or(0))),
        }
    }

    /// Reads `METHOD TARGET HTTP/1.1`: single blanks between visible ASCII.
    fn read_request_line(&mut self, line: &[u8]) -> Result<(), FramingError> {
        let mut words = line.split(|byte| *byte == b' ');
        let (method, target, version) = (words.next(), words.next(), words.next());
        let (Some(method), Some(target), Some(version), None) = (method, target, version, words.next()) else {
            return Err(FramingError::RequestLine);
        };
        let visible = |byte: &u8| byte.is_ascii_graphic() && *byte != b'#';
        if method.is_empty() || !method.iter().copied().all(is_token) {
            return Err(FramingError::RequestLine);
        }
        if target.is_empty() || !target.iter().all(visible) {
            return Err(FramingError::Target);
        }
        self.is_old = match version {
            b"HTTP/1.1" => false,
            b"HTTP/1.0" => true,
            _ => return Err(FramingError::Version),
        };
        Ok(())
    }

    fn read_header(&mut self, name: &[u8], value: &[u8]) -> Result<(), FramingError> {
        if name.eq_ignore_ascii_case(b"host") {
            self.hosts = self.hosts.saturating_add(1);
        } else if name.eq_ignore_ascii_case(b"content-length") {
            if self.length.is_some() {
                return Err(FramingError::TwoLengths);
            }
            self.length = Some(parse_length(value).ok_or(FramingError::Length)?);
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
            if self.coded || !value.eq_ignore_ascii_case(b"chunked") {
                return Err(FramingError::Coding);
            }
            self.coded = true;
        }
        Ok(())
    }
}

/// Splits `name: value` and trims the value.
pub(super) fn split_field(line: &[u8]) -> Result<(&[u8], &[u8]), FramingError> {
    if line.first().is_some_and(|byte| is_blank(*byte)) {
        return Err(FramingError::Folded);
    }
    let colon = line.iter().position(|byte| *byte == b':');
    let (name, value) = line.split_at(colon.ok_or(FramingError::Name)?);
    if name.is_empty() || !name.iter().copied().all(is_token) {
        return Err(FramingError::Name);
    }
    let value = value.strip_prefix(b":").unwrap_or(value);
    if !value.iter().copied().all(is_text) {
        return Err(FramingError::Value);
    }
    Ok((name, value.trim_ascii()))
}

/// Parses digits only: servers disagree about signs, blanks and lists.
fn parse_length(value: &[u8]) -> Option<u64> {
    let digits = str::from_utf8(value).ok()?;
    let plain = digits.bytes().all(|byte| byte.is_ascii_digit());
    let length = plain.then(|| digits.parse().ok()).flatten();
    length.filter(|length| *length <= MAX_BODY)
}

/// Returns true for a character of a header name.
const fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(
            byte,
            b'!' | b'#' | b'$' | b'%' | b'&' | b'\'' | b'*' | b'+' | b'-' | b'.' | b'^' | b'_' | b'`' | b'|' | b'~'
        )
}

/// Returns true for a character of a header value: no control character except the tab.
pub(super) const fn is_text(byte: u8) -> bool {
    byte == b'\t' || !byte.is_ascii_control()
}

const fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

/// Largest length; hyper reserves the two numbers above it for bodies without a length.
const MAX_BODY: u64 = u64::MAX - 2;
