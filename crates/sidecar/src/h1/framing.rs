//! Where one HTTP/1 request ends and the next begins, read without any forgiveness.
//!
//! The parser behind this one forgives: it takes a line that ends in a bare line feed, two lengths that
//! agree, a length beside a coding, a request without a host. Each of these has been read differently
//! by two servers in a row, and whoever can make two servers disagree about where a request ends can
//! put words into somebody else's mouth. So every byte passes here first, and what could be read in
//! two ways is refused. What passes has one reading, which is then the parser's too: all rules here
//! are at least as strict as its own.
//!
//! It judges framing and nothing else. What a request asks for is judged once it is parsed.

mod error;
mod head;
mod parsed;

pub(crate) use self::error::FramingError;
pub use self::parsed::{BodyBytes, ParsedRequests};

use self::head::{BodyLength, HeadScan};

/// The requests on one connection, as far as they have come.
#[derive(Debug)]
pub(crate) struct Framing {
    state: FramingState,
    bounds: HeadLimits,
    head: HeadScan,
    /// Where the line begins that is not over yet, and how far its end was looked for. Both count from
    /// the first byte that was not let through, so that bytes which trickle in are looked at once.
    begun: usize,
    searched: usize,
    /// Bytes of trailers so far: they are let through line by line.
    behind: usize,
}

/// How much a head may be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HeadLimits {
    /// The most header lines.
    pub(crate) headers: usize,
    /// The most bytes, of head and of trailers.
    pub(crate) bytes: usize,
}

#[derive(Clone, Copy, Debug)]
enum FramingState {
    /// Before the first request: it may turn out to be HTTP/2.
    First,
    Head,
    Body(u64),
    ChunkSize,
    Chunk(u64),
    ChunkEnd,
    Trailers,
    /// HTTP/2, which has frames and is none of our business.
    Through,
}

/// What became of some bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ScanResult {
    /// So many of them are in order.
    pub(crate) passed: usize,
    /// The others.
    pub(crate) rest: HeldBytes,
}

/// What is known of bytes that were not let through.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum HeldBytes {
    /// There are none.
    Nothing,
    /// They are the beginning of something: they have to be shown again with what follows.
    Unfinished,
    /// They cannot be let through.
    Faulty(FramingError),
}

impl Framing {
    pub(crate) const fn new(bounds: HeadLimits) -> Self {
        Self {
            state: FramingState::First,
            bounds,
            head: HeadScan::new(),
            begun: 0,
            searched: 0,
            behind: 0,
        }
    }

    /// How many bytes are of a body and need not be looked at; none if the next byte must be.
    const fn unseen(&self) -> u64 {
        match self.state {
            FramingState::Through => u64::MAX,
            FramingState::Body(left) | FramingState::Chunk(left) => left,
            _ => 0,
        }
    }

    /// So many bytes of a body went by unseen.
    fn went_by(&mut self, count: u64) {
        self.state = match self.state {
            FramingState::Body(left) if left <= count => FramingState::Head,
            FramingState::Body(left) => FramingState::Body(left - count),
            FramingState::Chunk(left) if left <= count => FramingState::ChunkEnd,
            FramingState::Chunk(left) => FramingState::Chunk(left - count),
            other => other,
        };
    }

    /// Whether a fault now is one of a head, which can be answered, rather than of a body whose request
    /// is already under way.
    pub(crate) const fn is_between_bodies(&self) -> bool {
        matches!(self.state, FramingState::First | FramingState::Head)
    }

    /// Whether nothing has come yet.
    pub(crate) const fn is_untouched(&self) -> bool {
        matches!(self.state, FramingState::First)
    }

    /// Looks at the next bytes; those that were unfinished the last time come first, again.
    pub(crate) fn scan(&mut self, bytes: &[u8]) -> ScanResult {
        self.scan_noting(bytes, |_, _, _| ())
    }

    /// The same, and tells of each step from where to where it led, and over how many bytes.
    fn scan_noting(
        &mut self,
        bytes: &[u8],
        mut note: impl FnMut(FramingState, FramingState, usize),
    ) -> ScanResult {
        let mut passed = 0;
        while let Some(rest) = bytes.get(passed..).filter(|rest| !rest.is_empty()) {
            let from = self.state;
            let rest = match self.step(rest) {
                Ok(Some(count)) => {
                    note(from, self.state, count);
                    passed += count;
                    continue;
                }
                Ok(None) => HeldBytes::Unfinished,
                Err(fault) => HeldBytes::Faulty(fault),
            };
            return ScanResult { passed, rest };
        }
        ScanResult {
            passed,
            rest: HeldBytes::Nothing,
        }
    }

    /// How many bytes are in order; nothing if more of them have to come first.
    fn step(&mut self, bytes: &[u8]) -> Result<Option<usize>, FramingError> {
        match self.state {
            FramingState::First | FramingState::Head => self.head(bytes),
            FramingState::Body(_) | FramingState::Chunk(_) | FramingState::Through => {
                let here = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
                let count = self.unseen().min(here);
                self.went_by(count);
                Ok(usize::try_from(count).ok())
            }
            FramingState::ChunkSize => self.one_line(bytes, |size| {
                Ok(match chunk_size(size)? {
                    0 => FramingState::Trailers,
                    size => FramingState::Chunk(size),
                })
            }),
            FramingState::ChunkEnd => self.one_line(bytes, |line| match line {
                b"" => Ok(FramingState::ChunkSize),
                _ => Err(FramingError::Chunk),
            }),
            FramingState::Trailers => self.trailer(bytes),
        }
    }

    fn head(&mut self, bytes: &[u8]) -> Result<Option<usize>, FramingError> {
        while let Some(line) = self.line(bytes)? {
            if matches!(self.state, FramingState::First)
                && self.head.is_untouched()
                && line == PREFACE
            {
                self.state = FramingState::Through;
                return Ok(Some(bytes.len()));
            }
            if !line.is_empty() || self.head.forgives_a_blank_line() {
                self.head.take(line, self.bounds.headers)?;
                continue;
            }
            let length = self.begun;
            self.state = match std::mem::take(&mut self.head).body()? {
                BodyLength::Of(0) => FramingState::Head,
                BodyLength::Of(length) => FramingState::Body(length),
                BodyLength::Chunked => FramingState::ChunkSize,
            };
            self.next_unit();
            return Ok(Some(length));
        }
        Ok(None)
    }

    fn trailer(&mut self, bytes: &[u8]) -> Result<Option<usize>, FramingError> {
        let behind = self.behind;
        let passed = self.one_line(bytes, |line| match line {
            b"" => Ok(FramingState::Head),
            field => head::field(field).map(|_| FramingState::Trailers),
        })?;
        let sum = behind.saturating_add(passed.unwrap_or(0));
        if sum > self.bounds.bytes {
            return Err(FramingError::TooLarge);
        }
        self.behind = match self.state {
            FramingState::Trailers => sum,
            _ => 0,
        };
        Ok(passed)
    }

    /// A line that is let through by itself.
    fn one_line(
        &mut self,
        bytes: &[u8],
        read: impl FnOnce(&[u8]) -> Result<FramingState, FramingError>,
    ) -> Result<Option<usize>, FramingError> {
        let Some(line) = self.line(bytes)? else {
            return Ok(None);
        };
        self.state = read(line)?;
        let length = self.begun;
        self.next_unit();
        Ok(Some(length))
    }

    /// The next line without its end, once all of it is there.
    fn line<'b>(&mut self, bytes: &'b [u8]) -> Result<Option<&'b [u8]>, FramingError> {
        let unsearched = bytes.get(self.searched..).unwrap_or_default();
        let Some(at) = unsearched.iter().position(|byte| *byte == b'\n') else {
            self.searched = bytes.len();
            return self.within_bounds().map(|()| None);
        };
        let end = self.searched + at;
        let line = bytes.get(self.begun..end).unwrap_or_default();
        self.begun = end + 1;
        self.searched = end + 1;
        self.within_bounds()?;
        line.strip_suffix(b"\r")
            .ok_or(FramingError::BareLf)
            .map(Some)
    }

    const fn within_bounds(&self) -> Result<(), FramingError> {
        if self.searched > self.bounds.bytes {
            return Err(FramingError::TooLarge);
        }
        Ok(())
    }

    const fn next_unit(&mut self) {
        self.begun = 0;
        self.searched = 0;
    }
}

/// Reads the size of a chunk. What may stand behind it is passed over, but must be text.
fn chunk_size(line: &[u8]) -> Result<u64, FramingError> {
    let end = line.iter().position(|byte| *byte == b';');
    let (digits, extension) = line.split_at(end.unwrap_or(line.len()));
    let digits = str::from_utf8(digits).map_err(|_| FramingError::Chunk)?;
    let plain = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    if !plain || line.len() > LONGEST_CHUNK_LINE || !extension.iter().copied().all(head::is_text) {
        return Err(FramingError::Chunk);
    }
    u64::from_str_radix(digits, 16).map_err(|_| FramingError::Chunk)
}

/// What a client says first that speaks HTTP/2 without asking; the rest of its greeting is for the
/// parser.
const PREFACE: &[u8] = b"PRI * HTTP/2.0";

/// Sixteen digits and an extension that says something. Nobody known sends any.
const LONGEST_CHUNK_LINE: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    fn framing() -> Framing {
        Framing::new(HeadLimits {
            headers: 4,
            bytes: 256,
        })
    }

    fn whole(bytes: &str) -> ScanResult {
        framing().scan(bytes.as_bytes())
    }

    fn is_let_through(bytes: &str) -> bool {
        whole(bytes)
            == ScanResult {
                passed: bytes.len(),
                rest: HeldBytes::Nothing,
            }
    }

    const TWO: &str = "POST /a HTTP/1.1\r\nhost: x\r\ncontent-length: 3\r\n\r\nabc\
                       POST /b HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n\
                       2;ext=1\r\nab\r\n0\r\nsum: 1\r\n\r\n\
                       GET /c HTTP/1.1\r\nhost: x\r\n\r\n";

    // However they are cut, the same bytes are let through: a head, a body and a chunk at each edge.
    #[test]
    fn requests_are_found_wherever_the_network_cuts_them() {
        assert!(is_let_through(TWO));
        for cut in 1..TWO.len() {
            let (first, second) = TWO.as_bytes().split_at(cut);
            let mut framing = framing();
            let scanned = framing.scan(first);
            assert!(
                !matches!(scanned.rest, HeldBytes::Faulty(_)),
                "{cut}: {scanned:?}"
            );
            let mut held = first[scanned.passed..].to_vec();
            held.extend(second);
            let last = framing.scan(&held);
            assert_eq!(
                (last.passed, last.rest),
                (held.len(), HeldBytes::Nothing),
                "{cut}"
            );
        }
    }

    #[test]
    fn only_a_whole_head_is_let_through() {
        let head = "GET /a HTTP/1.1\r\nhost: x\r\n";
        assert_eq!(
            whole(head),
            ScanResult {
                passed: 0,
                rest: HeldBytes::Unfinished
            }
        );
        assert!(is_let_through(&format!("{head}\r\n")));
    }

    // 256 bytes are the bound: one more is too much even before the head is over.
    #[test]
    fn a_head_without_end_is_refused_at_its_bound() {
        let endless = format!("GET /{} HTTP/1.1\r\n", "a".repeat(300));
        assert_eq!(
            whole(&endless).rest,
            HeldBytes::Faulty(FramingError::TooLarge)
        );
        let endless = "GET /".to_owned() + &"a".repeat(252);
        assert_eq!(
            whole(&endless).rest,
            HeldBytes::Faulty(FramingError::TooLarge)
        );
        let many = "GET / HTTP/1.1\r\nhost: x\r\na: 1\r\nb: 1\r\nc: 1\r\nd: 1\r\n\r\n";
        assert_eq!(whole(many).rest, HeldBytes::Faulty(FramingError::TooMany));
    }

    // Trailers are let through line by line, and yet are bounded together.
    #[test]
    fn trailers_without_end_are_refused_at_their_bound() {
        let head = "POST /b HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n0\r\n";
        let endless = head.to_owned() + &"a: 1\r\n".repeat(100);
        assert_eq!(
            whole(&endless).rest,
            HeldBytes::Faulty(FramingError::TooLarge)
        );
    }

    #[test]
    fn the_greeting_of_http_2_is_one_only_at_the_beginning() {
        assert!(is_let_through("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04"));
        let later = format!("{TWO}PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
        assert_eq!(whole(&later).rest, HeldBytes::Faulty(FramingError::Version));
        // Behind a blank line or within a head nobody takes it for a greeting, and what follows is checked.
        let behind = "\r\nPRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
        assert_eq!(whole(behind).rest, HeldBytes::Faulty(FramingError::Version));
        let within = "GET / HTTP/1.1\r\nPRI * HTTP/2.0\r\nhost: x\r\n\r\n";
        assert_eq!(whole(within).rest, HeldBytes::Faulty(FramingError::Name));
    }
}
