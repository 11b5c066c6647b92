//! The journal of a database that was not closed: whether it ends where it was broken.
//!
//! `SQLite` reads a journal up to the first frame whose sum is wrong, takes that for where the power failed, and
//! says nothing. Mostly that is so. But a bit that flips there ends it in the same way, and everything that
//! was written behind it, however long ago it was answered, is gone without a word. So it is looked whether
//! something stands behind the break that was written in the same round: then whoever opens it says so.
//!
//! It is not refused: after a power cut a disk that writes in an order of its own leaves the same, and nothing
//! is missing then but claims and settlements that were not waited for. A broken head is no power cut's: it
//! is synced before the first frame, and shorter than what a disk writes at once.

use std::fs;
use std::io;
use std::path::Path;

/// How much of a journal counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum JournalExtent {
    /// All that was written in this round, or it broke off at its end.
    Whole,
    /// It breaks, and what stands behind was written later.
    Broken,
    /// Nothing: nobody knows which round it is.
    Headless,
}

impl JournalExtent {
    /// Looks at the journal there, if there is one.
    pub(crate) fn read(path: &Path) -> io::Result<Self> {
        match fs::read(path) {
            Ok(bytes) => Ok(Self::parse(&bytes)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self::Whole),
            Err(error) => Err(error),
        }
    }

    fn parse(bytes: &[u8]) -> Self {
        let Some((head, rest)) = bytes.split_first_chunk::<HEAD>() else {
            return Self::Whole;
        };
        let Some(round) = JournalRound::begin(head) else {
            return if rest.len() > FRAME {
                Self::Headless
            } else {
                Self::Whole
            };
        };
        let mut frames = rest.chunks_exact(FRAME + round.page);
        let mut sum = round.sum;
        let sound = |frame: &[u8]| {
            sum = round.add(sum, frame);
            round.wrote(frame) && numbers(frame, 16) == Some(sum)
        };
        // This takes the frame away at which it breaks.
        let breaks = !frames.by_ref().all(sound);
        if breaks && frames.any(|frame| round.wrote(frame)) {
            Self::Broken
        } else {
            Self::Whole
        }
    }
}

/// What the frames of a journal have in common, from one emptying to the next.
struct JournalRound {
    page: usize,
    salt: (u32, u32),
    sum: (u32, u32),
    word: fn([u8; 4]) -> u32,
}

impl JournalRound {
    /// What the head says; nothing if its own sum is wrong.
    fn begin(head: &[u8; HEAD]) -> Option<Self> {
        let (magic, _) = numbers(head, 0)?;
        let (page, _) = numbers(head, 8)?;
        let word = match magic {
            0x377f_0682 => u32::from_le_bytes,
            0x377f_0683 => u32::from_be_bytes,
            _ => return None,
        };
        let round = Self {
            page: usize::try_from(page).ok().filter(|page| *page >= 512)?,
            salt: numbers(head, 16)?,
            sum: numbers(head, 24)?,
            word,
        };
        let sum = round.sum_of((0, 0), head.get(..24)?);
        (sum == round.sum).then_some(round)
    }

    /// Whether a frame is of this round.
    fn wrote(&self, frame: &[u8]) -> bool {
        numbers(frame, 8) == Some(self.salt)
    }

    /// The sum after a frame: of where its page belongs, and of the page.
    fn add(&self, sum: (u32, u32), frame: &[u8]) -> (u32, u32) {
        let (head, page) = frame.split_at_checked(FRAME).unwrap_or_default();
        let sum = self.sum_of(sum, head.get(..8).unwrap_or_default());
        self.sum_of(sum, page)
    }

    fn sum_of(&self, sum: (u32, u32), bytes: &[u8]) -> (u32, u32) {
        let (pairs, _) = bytes.as_chunks::<8>();
        pairs
            .iter()
            .fold(sum, |(one, two), [a, b, c, d, e, f, g, h]| {
                let one = one
                    .wrapping_add((self.word)([*a, *b, *c, *d]))
                    .wrapping_add(two);
                let two = two
                    .wrapping_add((self.word)([*e, *f, *g, *h]))
                    .wrapping_add(one);
                (one, two)
            })
    }
}

/// Two numbers that stand there.
fn numbers(bytes: &[u8], at: usize) -> Option<(u32, u32)> {
    let (one, rest) = bytes.get(at..)?.split_first_chunk::<4>()?;
    let (two, _) = rest.split_first_chunk::<4>()?;
    Some((u32::from_be_bytes(*one), u32::from_be_bytes(*two)))
}

/// What is told of one that is broken.
pub(crate) const BROKEN: &str = "the journal of the job store was broken, and what stood behind the break is not \
     taken: after a power cut that is claims and settlements that nobody waited for, and their jobs are done \
     again; if the power did not fail the disk is damaged, and jobs that were submitted may be missing: check the \
     disk, and submit again what is not done";

/// The bytes of a journal's head, and of a frame's.
const HEAD: usize = 32;
const FRAME: usize = 24;

#[cfg(test)]
mod tests {
    use rusqlite::Connection;

    use super::*;

    /// The journal of a dozen commits, and how long a frame is.
    fn written() -> (Vec<u8>, usize) {
        let dir = tempfile::tempdir().expect("a directory");
        let disk = Connection::open(dir.path().join("db")).expect("a database");
        disk.execute_batch("PRAGMA page_size = 512; PRAGMA journal_mode = wal; CREATE TABLE t (x)")
            .expect("made");
        for number in 0..12 {
            disk.execute("INSERT INTO t VALUES (?1)", [number])
                .expect("written");
        }
        let bytes = fs::read(dir.path().join("db-wal")).expect("a journal");
        (bytes, FRAME + 512)
    }

    // Every bit of a journal of some fifteen frames: only one of the last is as if the power had failed there.
    #[test]
    fn every_flipped_bit_before_the_last_frame_is_found() {
        let (whole, frame) = written();
        assert_eq!(JournalExtent::parse(&whole), JournalExtent::Whole);
        let last = whole.len() - frame;
        for bit in 0..whole.len() * 8 {
            let mut bytes = whole.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            let expected = match bit / 8 {
                0..HEAD => JournalExtent::Headless,
                byte if byte < last => JournalExtent::Broken,
                _ => JournalExtent::Whole,
            };
            assert_eq!(JournalExtent::parse(&bytes), expected, "bit {bit}");
        }
    }

    // However short it is cut, and with what an earlier, longer round left behind it.
    #[test]
    fn a_journal_that_breaks_off_is_whole() {
        let (whole, frame) = written();
        for length in 0..whole.len() {
            assert_eq!(
                JournalExtent::parse(&whole[..length]),
                JournalExtent::Whole,
                "{length}"
            );
        }
        let mut over = whole;
        let (head, rest) = over.split_at_mut(HEAD + 4 * frame);
        assert!(head.len() > HEAD);
        for old in rest.chunks_exact_mut(frame) {
            old[8] ^= 0xFF;
        }
        assert_eq!(JournalExtent::parse(&over), JournalExtent::Whole);
    }
}
