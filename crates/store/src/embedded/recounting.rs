//! Counting anew what was counted as it moved.

use super::memory::Memory;
use super::number::{counted, many};
use super::rows::rows;

impl Memory {
    /// The difference between what is counted here and what the rows say: of each line, of claims, of
    /// jobs that wait for an instant, and of dead letters. Disk and memory have to be in step.
    pub(super) fn recount(&self) -> rusqlite::Result<u64> {
        let mut difference = self.recount_lines()?;
        let marked = |states: &str| -> rusqlite::Result<u64> {
            let sql = format!("SELECT count(*) FROM mark WHERE state IN ({states})");
            self.number(&sql)
        };
        difference += marked("1, 2")?.abs_diff(self.total.in_flight);
        difference += self
            .total
            .in_flight
            .abs_diff(many(self.claims.by_job.len()));
        let waiting = self.total.non_ready + self.total.delayed;
        difference += waiting.abs_diff(many(self.waiting.len()));
        difference += self
            .number("SELECT count(*) FROM dead")?
            .abs_diff(self.total.dead);
        Ok(difference)
    }

    fn recount_lines(&self) -> rusqlite::Result<u64> {
        let sql = "SELECT line, count(*) FROM job GROUP BY line";
        let counts = rows(&self.reader, sql, |row| {
            Ok((row.get::<_, u32>(0)?, counted(row.get(1)?)))
        })?;
        let (mut difference, mut rows, mut known) = (0, 0, 0);
        for (line, count) in counts {
            rows += count;
            difference += self.live_of(line).abs_diff(count);
            known += self.live_of(line);
        }
        // Lines that have no row, and should.
        let open = self.total.open();
        Ok(difference + open.abs_diff(rows) + open.abs_diff(known))
    }

    fn live_of(&self, line: u32) -> u64 {
        let seat = self.places.get(&line).and_then(|place| {
            let seats = &self.lanes.get(&place.lane)?.seats;
            Some((seats.get(&place.tenant)?, place.class))
        });
        seat.map_or(0, |(seat, class)| seat.lines.of(class).live)
    }

    fn number(&self, sql: &str) -> rusqlite::Result<u64> {
        self.reader
            .query_row(sql, [], |row| row.get(0).map(counted))
    }
}
