//! One copy of an account as bytes: a head, the account's words and a checksum.
//!
//! A file has two copies that are written in turn, so that a process that is killed while it writes leaves
//! the one before. Numbers are little-endian, so that a directory can move between machines.

use outflow_core::{Account, InvalidAccount};
use xxhash_rust::xxh3::xxh3_64;

use crate::host_timeline::StoredMoment;

/// An account as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AccountCopy {
    /// Number of this write; the highest intact one counts.
    pub(crate) sequence: u64,
    pub(crate) moment: StoredMoment,
    /// Time of the account at its last checkpoint.
    pub(crate) checkpointed_at: u64,
    pub(crate) account: Account,
}

/// Head of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CopyHead {
    pub(crate) sequence: u64,
    /// Length of the whole copy in bytes.
    pub(crate) length: usize,
}

impl AccountCopy {
    /// Returns the copy as bytes.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let words = self.account.to_words();
        let head = [
            self.sequence,
            u64::try_from(words.len()).unwrap_or(u64::MAX),
            low(self.moment.boot),
            low(self.moment.boot >> 64),
            self.moment.wall,
            self.moment.shift,
            self.checkpointed_at,
        ];
        let mut bytes = Vec::with_capacity((head.len() + words.len() + 1) * WORD);
        for word in head.iter().chain(&words) {
            bytes.extend(word.to_le_bytes());
        }
        bytes.extend(xxh3_64(&bytes).to_le_bytes());
        bytes
    }

    /// Reads a copy.
    ///
    /// # Errors
    /// If it is torn or damaged.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, InvalidAccount> {
        let Some((content, checksum)) = bytes.split_last_chunk::<WORD>() else {
            return Err(InvalidAccount::Malformed);
        };
        if xxh3_64(content) != u64::from_le_bytes(*checksum) {
            return Err(InvalidAccount::Malformed);
        }
        let (words, []) = content.as_chunks::<WORD>() else {
            return Err(InvalidAccount::Malformed);
        };
        let words: Vec<u64> = words.iter().map(|word| u64::from_le_bytes(*word)).collect();
        let [
            sequence,
            count,
            boot_low,
            boot_high,
            wall,
            shift,
            checkpointed_at,
            account @ ..,
        ] = &words[..]
        else {
            return Err(InvalidAccount::Malformed);
        };
        if usize::try_from(*count) != Ok(account.len()) {
            return Err(InvalidAccount::Malformed);
        }
        let moment = StoredMoment {
            boot: u128::from(*boot_low) | u128::from(*boot_high) << 64,
            wall: *wall,
            shift: *shift,
        };
        Ok(Self {
            sequence: *sequence,
            moment,
            checkpointed_at: *checkpointed_at,
            account: Account::from_words(account)?,
        })
    }
}

impl CopyHead {
    /// Reads a head. Zeros are a place that was never written.
    pub(crate) fn decode(bytes: &[u8; Self::LENGTH]) -> Option<Self> {
        let (sequence, count) = bytes.split_first_chunk::<WORD>()?;
        let (sequence, count) = (u64::from_le_bytes(*sequence), count.first_chunk::<WORD>()?);
        let count = u64::from_le_bytes(*count);
        let words = usize::try_from(count)
            .unwrap_or(usize::MAX)
            .saturating_add(HEAD_WORDS + 1);
        let length = words.saturating_mul(WORD);
        (sequence > 0 || count > 0).then_some(Self { sequence, length })
    }

    /// Bytes that hold the sequence and the number of words.
    pub(crate) const LENGTH: usize = 2 * WORD;
}

fn low(wide: u128) -> u64 {
    u64::try_from(wide & u128::from(u64::MAX)).unwrap_or(u64::MAX)
}

const WORD: usize = 8;
const HEAD_WORDS: usize = 7;

#[cfg(test)]
mod tests {
    use outflow_core::ClockPair;
    use proptest::prelude::*;

    use super::*;

    fn copy() -> AccountCopy {
        AccountCopy {
            sequence: 9,
            moment: StoredMoment {
                boot: 1 << 70 | 5,
                wall: 3,
                shift: u64::MAX,
            },
            checkpointed_at: 4,
            account: Account::new(ClockPair::default()),
        }
    }

    #[test]
    fn a_copy_is_read_as_it_was_written() {
        let bytes = copy().encode();
        assert_eq!(AccountCopy::decode(&bytes), Ok(copy()));
        let head = bytes.first_chunk().expect("a head");
        let expected = CopyHead {
            sequence: 9,
            length: bytes.len(),
        };
        assert_eq!(CopyHead::decode(head), Some(expected));
        assert_eq!(CopyHead::decode(&[0; CopyHead::LENGTH]), None);
    }

    // Ten thousand single flipped bits, and as many cut ends: each is seen.
    #[test]
    fn a_damaged_copy_is_refused() {
        let bytes = copy().encode();
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(
                AccountCopy::decode(&damaged),
                Err(InvalidAccount::Malformed),
                "bit {bit}"
            );
        }
        for length in 0..bytes.len() {
            assert!(AccountCopy::decode(&bytes[..length]).is_err(), "length {length}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(10_000))]
        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            let _any = AccountCopy::decode(&bytes);
            if let Some(head) = bytes.first_chunk() {
                let _any = CopyHead::decode(head);
            }
        }
    }
}
