//! Checksum of a job, which shows damage on the disk.
//!
//! `SQLite` has checksums of its journal and none of its pages: a flipped bit is read back as if it had
//! been submitted. The checksum covers all that decides which request is sent, for which tenant and how often. It
//! uses names and not ids, so that it covers the tables of names, too. It leaves out the action, because a
//! requeued dead letter may leave its action.

use outflow_core::{Cost, Priority, WallTime};
use xxhash_rust::xxh3::Xxh3;

use super::int_codec::{class_number, to_count, to_millis, to_sql};

/// The submitted content of a job.
#[derive(Clone, Copy, Debug)]
pub(crate) struct JobRecord<'a> {
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

impl JobRecord<'_> {
    /// Computes the checksum, signed because `SQLite` stores that in four bytes.
    pub(crate) fn checksum(&self) -> i32 {
        let mut hash = Xxh3::new();
        let numbers = [
            to_sql(self.seq),
            to_sql(self.cost.units()),
            i64::from(self.max_retries),
            i64::from(class_number(self.class)),
            // A deadline before 1970 cannot be written.
            self.deadline.map_or(-1, to_millis),
        ];
        for number in numbers {
            hash.update(&number.to_le_bytes());
        }
        for text in [Some(self.tenant), Some(self.lane), self.name] {
            // Lengths separate the parts, and an empty text differs from a missing one.
            let length = text.map_or(u64::MAX, |text| to_count(text.len()));
            hash.update(&length.to_le_bytes());
            hash.update(text.unwrap_or_default().as_bytes());
        }
        hash.update(self.payload);
        let [a, b, c, d, ..] = hash.digest().to_le_bytes();
        i32::from_le_bytes([a, b, c, d])
    }
}

/// The error of a damaged job.
pub(crate) const DAMAGED: &str = "it was not sent: what the disk kept of it does not match its checksum; check the disk, and submit \
     it again under another name";

#[cfg(test)]
mod tests {
    use super::*;

    // Each record differs from the first in one part; the last one only in the end of a part.
    #[test]
    fn the_checksum_covers_every_part_of_a_job() {
        let job = JobRecord {
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
            JobRecord { seq: 8, ..job },
            JobRecord { tenant: "A", ..job },
            JobRecord { lane: "bd", ..job },
            JobRecord {
                class: Priority::High,
                ..job
            },
            JobRecord { name: None, ..job },
            JobRecord { name: Some(""), ..job },
            JobRecord {
                cost: Cost::new(2),
                ..job
            },
            JobRecord {
                deadline: Some(WallTime::from_unix_secs(0)),
                ..job
            },
            JobRecord { max_retries: 2, ..job },
            JobRecord {
                payload: b"hellp",
                ..job
            },
            JobRecord {
                tenant: "ab",
                lane: "c",
                ..job
            },
        ];
        let mut deltas: Vec<i32> = others.iter().chain([&job]).map(JobRecord::checksum).collect();
        deltas.sort_unstable();
        deltas.dedup();
        assert_eq!(deltas.len(), 12);
    }
}
