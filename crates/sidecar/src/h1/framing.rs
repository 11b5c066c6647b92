//! Strict framing check: finds the end of each HTTP/1 request before hyper parses it.
//!
//! Hyper is lenient: it accepts a bare line feed, two equal lengths, a length next to a coding, a request
//! without a host. Two servers in a row have read each of these differently. A client that makes two servers
//! disagree about the end of a request can inject a request of its own (request smuggling). So every byte
//! passes this check first, and ambiguous bytes are rejected. Each rule is at least as strict as hyper's, so
//! hyper reads passed bytes the same way.
//!
//! The check covers framing only. The content of a request is checked after parsing.

mod error;
mod head;
mod parsed;

pub(crate) use self::error::FramingError;
pub use self::parsed::{BodyBytes, ParsedRequests};

use self::head::{BodyLength, HeadScan};

/// Framing state of one connection.
#[derive(Debug)]
pub(crate) struct Framing {
    state: FramingState,
    limits: HeadLimits,
    head: HeadScan,
    /// Begin of the unfinished line, and end of the searched part. Both count from the first byte that has not
    /// passed, so that bytes of a slow client are searched once.
    begun: usize,
    searched: usize,
    /// Bytes of trailers so far: they pass line by line.
    trailer_bytes: usize,
}

/// Limits of a head.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HeadLimits {
    /// Largest number of header lines.
    pub(crate) headers: usize,
    /// Largest number of bytes, for the head and for the trailers.
    pub(crate) bytes: usize,
}

#[derive(Clone, Copy, Debug)]
enum FramingState {
    /// Before the first request, which may be an HTTP/2 preface.
    First,
    Head,
    Body(u64),
    ChunkSize,
    Chunk(u64),
    ChunkEnd,
    Trailers,
    /// HTTP/2 has its own frames: all bytes pass.
    Http2,
}

/// Result of one scan.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ScanResult {
    /// Number of valid bytes.
    pub(crate) passed: usize,
    /// State of the other bytes.
    pub(crate) rest: HeldBytes,
}

/// State of bytes that did not pass.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum HeldBytes {
    /// No bytes are held.
    Nothing,
    /// The bytes are incomplete: the next scan begins with them again.
    Unfinished,
    /// The bytes are invalid.
    Invalid(FramingError),
}

impl Framing {
    pub(crate) fn new(limits: HeadLimits) -> Self {
        Self {
            state: FramingState::First,
            limits,
            head: HeadScan::default(),
            begun: 0,
            searched: 0,
            trailer_bytes: 0,
        }
    }

    /// Returns the number of body bytes that need no check.
    const fn unchecked_bytes(&self) -> u64 {
        match self.state {
            FramingState::Http2 => u64::MAX,
            FramingState::Body(left) | FramingState::Chunk(left) => left,
            _ => 0,
        }
    }

    /// Skips this number of body bytes.
    fn skip(&mut self, count: u64) {
        self.state = match self.state {
            FramingState::Body(left) if left <= count => FramingState::Head,
            FramingState::Body(left) => FramingState::Body(left - count),
            FramingState::Chunk(left) if left <= count => FramingState::ChunkEnd,
            FramingState::Chunk(left) => FramingState::Chunk(left - count),
            other => other,
        };
    }

    /// Returns true while a head is read: an error in it can get a response. The request of a body is already
    /// in progress.
    pub(crate) const fn is_in_head(&self) -> bool {
        matches!(self.state, FramingState::First | FramingState::Head)
    }

    /// Returns true inside of a body.
    pub(crate) const fn is_in_body(&self) -> bool {
        !self.is_in_head() && !self.is_http2()
    }

    /// Returns true if the connection speaks HTTP/2.
    pub(crate) const fn is_http2(&self) -> bool {
        matches!(self.state, FramingState::Http2)
    }

    /// Returns true before the first request is complete.
    pub(crate) const fn is_before_first(&self) -> bool {
        matches!(self.state, FramingState::First)
    }

    /// Checks the next bytes, beginning with the unfinished ones of the last scan.
    pub(crate) fn scan(&mut self, bytes: &[u8]) -> ScanResult {
        self.scan_with(bytes, |_, _, _| ())
    }

    /// Scans and reports each step: the state before, the state after and the number of bytes.
    fn scan_with(&mut self, bytes: &[u8], mut on_step: impl FnMut(FramingState, FramingState, usize)) -> ScanResult {
        let mut passed = 0;
        while let Some(rest) = bytes.get(passed..).filter(|rest| !rest.is_empty()) {
            let from = self.state;
            let rest = match self.step(rest) {
                Ok(Some(count)) => {
                    on_step(from, self.state, count);
                    passed += count;
                    continue;
                }
                Ok(None) => HeldBytes::Unfinished,
                Err(error) => HeldBytes::Invalid(error),
            };
            return ScanResult { passed, rest };
        }
        ScanResult {
            passed,
            rest: HeldBytes::Nothing,
        }
    }

    /// Returns the number of valid bytes; `None` if more bytes are needed first.
    fn step(&mut self, bytes: &[u8]) -> Result<Option<usize>, FramingError> {
        match self.state {
            FramingState::First | FramingState::Head => self.read_head(bytes),
            FramingState::Body(_) | FramingState::Chunk(_) | FramingState::Http2 => {
                let available = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
                let count = self.unchecked_bytes().min(available);
                self.skip(count);
                Ok(usize::try_from(count).ok())
            }
            FramingState::ChunkSize => self.pass_line(bytes, |size| {
                Ok(match parse_chunk_size(size)? {
                    0 => FramingState::Trailers,
                    size => FramingState::Chunk(size),
                })
            }),
            FramingState::ChunkEnd => self.pass_line(bytes, |line| match line {
                b"" => Ok(FramingState::ChunkSize),
                _ => Err(FramingError::Chunk),
            }),
            FramingState::Trailers => self.read_trailer(bytes),
        }
    }

    fn read_head(&mut self, bytes: &[u8]) -> Result<Option<usize>, FramingError> {
        while let Some(line) = self.next_line(bytes)? {
            if self.is_before_first() && self.head.is_empty() && line == PREFACE {
                self.state = FramingState::Http2;
                return Ok(Some(bytes.len()));
            }
            if !line.is_empty() || self.head.is_empty() {
                self.head.push_line(line, self.limits.headers)?;
                continue;
            }
            let length = self.begun;
            self.state = match std::mem::take(&mut self.head).into_body_length()? {
                BodyLength::Fixed(0) => FramingState::Head,
                BodyLength::Fixed(length) => FramingState::Body(length),
                BodyLength::Chunked => FramingState::ChunkSize,
            };
            self.next_unit();
            return Ok(Some(length));
        }
        Ok(None)
    }

    fn read_trailer(&mut self, bytes: &[u8]) -> Result<Option<usize>, FramingError> {
        let passed = self.pass_line(bytes, |line| match line {
            b"" => Ok(FramingState::Head),
            field => head::split_field(field).map(|_| FramingState::Trailers),
        })?;
        let sum = self.trailer_bytes.saturating_add(passed.unwrap_or(0));
        if sum > self.limits.bytes {
            return Err(FramingError::TooLarge);
        }
        self.trailer_bytes = match self.state {
            FramingState::Trailers => sum,
            _ => 0,
        };
        Ok(passed)
    }

    /// Reads the next line, which passes alone, and enters the state that it leads to.
    fn pass_line(
        &mut self,
        bytes: &[u8],
        read: impl FnOnce(&[u8]) -> Result<FramingState, FramingError>,
    ) -> Result<Option<usize>, FramingError> {
        let Some(line) = self.next_line(bytes)? else {
            return Ok(None);
        };
        self.state = read(line)?;
        let length = self.begun;
        self.next_unit();
        Ok(Some(length))
    }

    /// Returns the next complete line, without its line end.
    fn next_line<'b>(&mut self, bytes: &'b [u8]) -> Result<Option<&'b [u8]>, FramingError> {
        let unsearched = bytes.get(self.searched..).unwrap_or_default();
        let Some(at) = unsearched.iter().position(|byte| *byte == b'\n') else {
            self.searched = bytes.len();
            return self.check_size().map(|()| None);
        };
        let end = self.searched + at;
        let line = bytes.get(self.begun..end).unwrap_or_default();
        self.begun = end + 1;
        self.searched = end + 1;
        self.check_size()?;
        line.strip_suffix(b"\r").ok_or(FramingError::BareLf).map(Some)
    }

    const fn check_size(&self) -> Result<(), FramingError> {
        if self.searched > self.limits.bytes {
            return Err(FramingError::TooLarge);
        }
        Ok(())
    }

    const fn next_unit(&mut self) {
        self.begun = 0;
        self.searched = 0;
    }
}

/// Parses the size of a chunk. An extension is ignored, but must be text.
fn parse_chunk_size(line: &[u8]) -> Result<u64, FramingError> {
    let end = line.iter().position(|byte| *byte == b';');
    let (digits, extension) = line.split_at(end.unwrap_or(line.len()));
    let digits = str::from_utf8(digits).map_err(|_| FramingError::Chunk)?;
    let plain = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    if !plain || line.len() > MAX_CHUNK_LINE || !extension.iter().copied().all(head::is_text) {
        return Err(FramingError::Chunk);
    }
    u64::from_str_radix(digits, 16).map_err(|_| FramingError::Chunk)
}

/// First line of an HTTP/2 connection with prior knowledge; hyper reads the rest of the preface.
const PREFACE: &[u8] = b"PRI * HTTP/2.0";

/// Sixteen digits and a useful extension. No known client sends one.
const MAX_CHUNK_LINE: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    fn framing() -> Framing {
        Framing::new(HeadLimits { headers: 4, bytes: 256 })
    }

    fn scan(bytes: &str) -> ScanResult {
        framing().scan(bytes.as_bytes())
    }

    fn passes(bytes: &str) -> bool {
        scan(bytes)
            == ScanResult {
                passed: bytes.len(),
                rest: HeldBytes::Nothing,
            }
    }

    const TWO: &str = "POST /a HTTP/1.1\r\nhost: x\r\ncontent-length: 3\r\n\r\nabc\
                       POST /b HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n\
                       2;ext=1\r\nab\r\n0\r\nsum: 1\r\n\r\n\
                       GET /c HTTP/1.1\r\nhost: x\r\n\r\n";

    // Equal bytes pass wherever they are cut: in a head, a body, a chunk and between them.
    #[test]
    fn requests_are_found_wherever_the_network_cuts_them() {
        assert!(passes(TWO));
        for cut in 1..TWO.len() {
            let (first, second) = TWO.as_bytes().split_at(cut);
            let mut framing = framing();
            let scanned = framing.scan(first);
            assert!(!matches!(scanned.rest, HeldBytes::Invalid(_)), "{cut}: {scanned:?}");
            let mut held = first[scanned.passed..].to_vec();
            held.extend(second);
            let last = framing.scan(&held);
            assert_eq!((last.passed, last.rest), (held.len(), HeldBytes::Nothing), "{cut}");
        }
    }

    #[test]
    fn only_a_complete_head_passes() {
        let head = "GET /a HTTP/1.1\r\nhost: x\r\n";
        assert_eq!(
            scan(head),
            ScanResult {
                passed: 0,
                rest: HeldBytes::Unfinished
            }
        );
        assert!(passes(&format!("{head}\r\n")));
    }

    // 256 bytes are the limit: one more is too much even before the head is complete.
    #[test]
    fn an_endless_head_is_rejected_at_its_limit() {
        let endless = format!("GET /{} HTTP/1.1\r\n", "a".repeat(300));
        assert_eq!(scan(&endless).rest, HeldBytes::Invalid(FramingError::TooLarge));
        let endless = "GET /".to_owned() + &"a".repeat(252);
        assert_eq!(scan(&endless).rest, HeldBytes::Invalid(FramingError::TooLarge));
        let many = "GET / HTTP/1.1\r\nhost: x\r\na: 1\r\nb: 1\r\nc: 1\r\nd: 1\r\n\r\n";
        assert_eq!(scan(many).rest, HeldBytes::Invalid(FramingError::TooMany));
    }

    // Trailers pass line by line, but one limit covers all of them.
    #[test]
    fn endless_trailers_are_rejected_at_their_limit() {
        let head = "POST /b HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n0\r\n";
        let endless = head.to_owned() + &"a: 1\r\n".repeat(100);
        assert_eq!(scan(&endless).rest, HeldBytes::Invalid(FramingError::TooLarge));
    }

    #[test]
    fn the_http_2_preface_counts_only_at_the_beginning() {
        assert!(passes("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04"));
        let later = format!("{TWO}PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
        assert_eq!(scan(&later).rest, HeldBytes::Invalid(FramingError::Version));
        // After a blank line or within a head it is no preface, and the next bytes are checked.
        let behind = "\r\nPRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
        assert_eq!(scan(behind).rest, HeldBytes::Invalid(FramingError::Version));
        let within = "GET / HTTP/1.1\r\nPRI * HTTP/2.0\r\nhost: x\r\n\r\n";
        assert_eq!(scan(within).rest, HeldBytes::Invalid(FramingError::Name));
    }
}
