//! The sum of a job: whether what is read is what was written.
//!
//! `SQLite` has sums of its journal and none of its pages, so a bit that flips on the disk is read back as
//! if somebody had submitted it so. Everything is in the sum that decides what is sent, for whom and how
//! often, by its meaning and not by its number in some table: a flip there is found, too. The action is
//! not: a letter that is revived after its action's end goes on without it.

use outflow_core::{Cost, Priority, WallTime};
use xxhash_rust::xxh3::Xxh3;

use super::int_codec::{class_number, many, millis, stored};

/// What a job is, as its submitter said it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Record<'a> {
    pub(crate) seq: u64,
    pub(crate) tenant: &'a str,
    pub(crate) lane: &'a str,
    pub(crate) class: Priority,
    pub(crate) name: Option<&'a str>,
    pub(crate) cost: Cost,
    pub(crate) deadline: Option<WallTime>,
    pub(crate) max_retries: u32,
    pub(crate) payload: &'a [u8],
}

impl Record<'_> {
    /// Its sum, signed, since `SQLite` keeps those in four bytes.
    pub(crate) fn sum(&self) -> i32 {
        let mut hash = Xxh3::new();
        let numbers = [
            stored(self.seq),
            stored(self.cost.units()),
            i64::from(self.max_retries),
            i64::from(class_number(self.class)),
            // No time that is ever written is before 1970.
            self.deadline.map_or(-1, millis),
        ];
        for number in numbers {
            hash.update(&number.to_le_bytes());
        }
        for text in [Some(self.tenant), Some(self.lane), self.name] {
            // Lengths keep parts apart, and no text is as long as none.
            let length = text.map_or(u64::MAX, |text| many(text.len()));
            hash.update(&length.to_le_bytes());
            hash.update(text.unwrap_or_default().as_bytes());
        }
        hash.update(self.payload);
        let [a, b, c, d, ..] = hash.digest().to_le_bytes();
        i32::from_le_bytes([a, b, c, d])
    }
}

/// What a dead letter's history says of a job that is not what was submitted.
pub(crate) const DAMAGED: &str = "it was not sent: what the disk kept of it does not match its checksum; check the disk, and submit \
     it again under another name";

#[cfg(test)]
mod tests {
    use super::*;

    // Each differs from the first in one part only; the last two only in where one part ends.
    #[test]
    fn every_part_of_a_job_is_in_its_sum() {
        let job = Record {
            seq: 7,
            tenant: "a",
            lane: "bc",
            class: Priority::Normal,
            name: Some("n"),
            cost: Cost::ONE,
            deadline: None,
            max_retries: 3,
            payload: b"hello",
        };
        let others = [
            Record { seq: 8, ..job },
            Record { tenant: "A", ..job },
            Record { lane: "bd", ..job },
            Record {
                class: Priority::High,
                ..job
            },
            Record { name: None, ..job },
            Record {
                name: Some(""),
                ..job
            },
            Record {
                cost: Cost::new(2),
                ..job
            },
            Record {
                deadline: Some(WallTime::from_unix_secs(0)),
                ..job
            },
            Record {
                max_retries: 2,
                ..job
            },
            Record {
                payload: b"hellp",
                ..job
            },
            Record {
                tenant: "ab",
                lane: "c",
                ..job
            },
        ];
        let mut sums: Vec<i32> = others.iter().chain([&job]).map(Record::sum).collect();
        sums.sort_unstable();
        sums.dedup();
        assert_eq!(sums.len(), 12);
    }
}
