//! Checks the journal of a database that was not closed for damage.
//!
//! `SQLite` reads a journal up to the first frame with a wrong checksum, takes that for the point of a
//! power cut, and reports nothing. A flipped bit ends the journal in the same way, and all later frames
//! are lost silently, even confirmed ones. So this check looks for frames of the same round after the
//! break, and the store warns about them.
//!
//! It does not refuse such a journal: a disk that reorders writes leaves the same after a power cut, and
//! then only unsynced claims and settlements are missing. A broken head is no effect of a power cut: it
//! is synced before the first frame, and shorter than a disk sector.

use std::fs;
use std::io;
use std::path::Path;

use super::private_files::if_exists;

/// The readable part of a journal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum JournalExtent {
    /// All frames of this round, or it ends with an incomplete frame.
    Whole,
    /// Frames of this round follow a broken one.
    Broken,
    /// None: its head is broken, so the round is unknown.
    Headless,
}

impl JournalExtent {
    /// Reads the journal at a path; a missing one is whole.
    pub(crate) fn read(path: &Path) -> io::Result<Self> {
        let journal = if_exists(fs::read(path))?;
        Ok(journal.map_or(Self::Whole, |bytes| Self::parse(&bytes)))
    }

    fn parse(bytes: &[u8]) -> Self {
        let Some((head, rest)) = bytes.split_first_chunk::<HEAD>() else {
            return Self::Whole;
        };
        let Some(round) = JournalRound::parse(head) else {
            return if rest.len() > FRAME {
                Self::Headless
            } else {
                Self::Whole
            };
        };
        let mut frames = rest.chunks_exact(FRAME + round.page);
        let mut sum = round.sum;
        let sound = |frame: &[u8]| {
            sum = round.add_frame(sum, frame);
            round.contains(frame) && read_pair(frame, 16) == Some(sum)
        };
        // `all` consumes the broken frame.
        let breaks = !frames.by_ref().all(sound);
        if breaks && frames.any(|frame| round.contains(frame)) {
            Self::Broken
        } else {
            Self::Whole
        }
    }
}

/// The common part of all frames between two resets of a journal.
struct JournalRound {
    page: usize,
    salt: (u32, u32),
    sum: (u32, u32),
    word: fn([u8; 4]) -> u32,
}

impl JournalRound {
    /// Parses the head; nothing if its checksum is wrong.
    fn parse(head: &[u8; HEAD]) -> Option<Self> {
        let (magic, _) = read_pair(head, 0)?;
        let (page, _) = read_pair(head, 8)?;
        let word = match magic {
            0x377f_0682 => u32::from_le_bytes,
            0x377f_0683 => u32::from_be_bytes,
            _ => return None,
        };
        let round = Self {
            page: usize::try_from(page).ok().filter(|page| *page >= 512)?,
            salt: read_pair(head, 16)?,
            sum: read_pair(head, 24)?,
            word,
        };
        let sum = round.checksum((0, 0), head.get(..24)?);
        (sum == round.sum).then_some(round)
    }

    /// Returns true if a frame belongs to this round.
    fn contains(&self, frame: &[u8]) -> bool {
        read_pair(frame, 8) == Some(self.salt)
    }

    /// Adds a frame to the checksum: its page number and its page.
    fn add_frame(&self, sum: (u32, u32), frame: &[u8]) -> (u32, u32) {
        let (head, page) = frame.split_at_checked(FRAME).unwrap_or_default();
        let sum = self.checksum(sum, head.get(..8).unwrap_or_default());
        self.checksum(sum, page)
    }

    fn checksum(&self, sum: (u32, u32), bytes: &[u8]) -> (u32, u32) {
        let (pairs, _) = bytes.as_chunks::<8>();
        pairs.iter().fold(sum, |(one, two), [a, b, c, d, e, f, g, h]| {
            let one = one.wrapping_add((self.word)([*a, *b, *c, *d])).wrapping_add(two);
            let two = two.wrapping_add((self.word)([*e, *f, *g, *h])).wrapping_add(one);
            (one, two)
        })
    }
}

/// Reads two numbers at an offset.
fn read_pair(bytes: &[u8], at: usize) -> Option<(u32, u32)> {
    let (one, rest) = bytes.get(at..)?.split_first_chunk::<4>()?;
    let (two, _) = rest.split_first_chunk::<4>()?;
    Some((u32::from_be_bytes(*one), u32::from_be_bytes(*two)))
}

/// The warning about a broken journal.
pub(crate) const BROKEN: &str = "the journal of the job store was broken, and what stood behind the break is not \
     taken: after a power cut these are unsynced claims and settlements, and their jobs are done again; if the \
     power did not fail the disk is damaged, and submitted jobs may be missing: check the disk, and submit \
     missing jobs again";

/// The bytes of a journal's head.
const HEAD: usize = 32;

/// The bytes of a frame's head.
const FRAME: usize = 24;

#[cfg(test)]
mod tests {
    use rusqlite::Connection;

    use super::*;

    /// Returns the journal of a dozen commits, and the length of a frame.
    fn write_journal() -> (Vec<u8>, usize) {
        let dir = tempfile::tempdir().expect("a directory");
        let disk = Connection::open(dir.path().join("db")).expect("a database");
        disk.execute_batch("PRAGMA page_size = 512; PRAGMA journal_mode = wal; CREATE TABLE t (x)")
            .expect("made");
        for number in 0..12 {
            disk.execute("INSERT INTO t VALUES (?1)", [number]).expect("written");
        }
        let bytes = fs::read(dir.path().join("db-wal")).expect("a journal");
        (bytes, FRAME + 512)
    }

    // Flips every bit of a journal of some fifteen frames. In the last frame it looks like a power cut.
    #[test]
    fn every_flipped_bit_before_the_last_frame_is_found() {
        let (whole, frame) = write_journal();
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

    // Any prefix, and a prefix followed by frames of an earlier, longer round.
    #[test]
    fn a_truncated_journal_is_whole() {
        let (whole, frame) = write_journal();
        for length in 0..whole.len() {
            assert_eq!(JournalExtent::parse(&whole[..length]), JournalExtent::Whole, "{length}");
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
