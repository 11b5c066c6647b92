//! Jobs that memory does not hold are read from the disk when their turn nears.
//!
//! What is read is held against its sum before anybody is given it. A job that does not match has no
//! body here, however often it is read.

use bytes::Bytes;
use rusqlite::types::ValueRef;
use rusqlite::{Row, params};

use super::checksum::Record;
use super::directory::failed;
use super::int_codec::{counted, stored};
use super::rows::{entry_from, text_at};
use super::write_op::WriteOp;
use crate::embedded::ops::publish::WEIGHT_MOST;
use crate::embedded::state::StoreState;
use crate::embedded::state::job_entry::{IdRun, JobBody, JobEntry, JobPosition};
use crate::error::StoreError;
use crate::name::Name;

impl StoreState {
    /// Reads the jobs of a run into their line.
    pub(crate) fn read_run(&mut self, place: JobPosition, run: IdRun) -> Result<(), StoreError> {
        let found = match self.rows_of(place, run) {
            Ok(found) => found,
            Err(error) => {
                // It is still to be read when the disk is well again.
                if let Some(line) = self.line_mut(place) {
                    line.runs.push_front(run);
                }
                return Err(failed(error));
            }
        };
        let mut left = 0;
        for (seq, mut entry) in found {
            if self.runs.gone.contains(&seq) {
                continue;
            }
            left += 1;
            if self.runs.apart.contains(&seq) {
                continue;
            }
            if self.weight >= WEIGHT_MOST {
                entry.body = None;
            }
            self.weight += entry.body.as_ref().map_or(0, JobBody::weight);
            if let Some(line) = self.line_mut(place) {
                line.front.insert(seq, entry);
            }
        }
        for seq in run.first..run.end() {
            self.runs.gone.remove(&seq);
            self.runs.apart.remove(&seq);
        }
        if left == 0 {
            self.record(WriteOp::RunOver(run));
        } else {
            self.runs.opened(run, left);
        }
        Ok(())
    }

    fn rows_of(&self, place: JobPosition, run: IdRun) -> rusqlite::Result<Vec<(u64, JobEntry)>> {
        let sql = "SELECT seq, name, payload, sum, action, cost, deadline, retries FROM job \
                   WHERE seq >= ?1 AND seq < ?2 ORDER BY seq";
        let mut statement = self.reader.prepare_cached(sql)?;
        statement
            .query_map(params![stored(run.first), stored(run.end())], |row| {
                let seq = counted(row.get(0)?);
                let entry = entry_from(row, place, 4);
                let body = self.sound_body(row, seq, &entry);
                Ok((seq, JobEntry { body, ..entry }))
            })?
            .collect()
    }

    /// Whether the body of a job in line is here, read from the disk if it was not. It cannot be had if
    /// what the disk keeps is not what was submitted.
    pub(crate) fn has_body(&mut self, seq: u64, place: JobPosition) -> Result<bool, StoreError> {
        let front = |memory: &Self| Some(memory.line(place)?.front.get(&seq)?.clone());
        let Some(entry) = front(self).filter(|entry| entry.body.is_none()) else {
            return Ok(true);
        };
        let Some(body) = self.read_body(seq, &entry).map_err(failed)? else {
            return Ok(false);
        };
        self.weight += body.weight();
        let line = self.line_mut(place);
        if let Some(entry) = line.and_then(|line| line.front.get_mut(&seq)) {
            entry.body = Some(body);
        }
        Ok(true)
    }

    fn read_body(&self, seq: u64, entry: &JobEntry) -> rusqlite::Result<Option<JobBody>> {
        let sql = "SELECT seq, name, payload, sum FROM job WHERE seq = ?1";
        let mut statement = self.reader.prepare_cached(sql)?;
        statement.query_row(params![stored(seq)], |row| {
            Ok(self.sound_body(row, seq, entry))
        })
    }

    /// The name and the payload of a row that begins with its number, both and its sum, if the job is what
    /// was submitted.
    fn sound_body(&self, row: &Row<'_>, seq: u64, entry: &JobEntry) -> Option<JobBody> {
        let payload = row.get_ref(2).ok()?.as_bytes().ok()?;
        let name = match row.get_ref(1).ok()? {
            ValueRef::Null => None,
            _ => Some(text_at(row, 1)?),
        };
        let record = Record {
            seq,
            tenant: self.tenants.get(&entry.place.tenant)?.name.as_str(),
            lane: self.lanes.get(&entry.place.lane)?.name.as_str(),
            class: entry.place.class,
            name,
            cost: entry.cost,
            deadline: entry.deadline,
            max_retries: entry.max_retries,
            payload,
        };
        let is_sound = match row.get_ref(3).ok()? {
            // It came with an earlier version.
            ValueRef::Null => true,
            sum => sum.as_i64() == Ok(i64::from(record.sum())),
        };
        let name = name.map(Name::new).transpose().ok()?;
        is_sound.then(|| JobBody {
            name,
            payload: Bytes::copy_from_slice(payload),
        })
    }
}
