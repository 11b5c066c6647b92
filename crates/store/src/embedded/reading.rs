//! Jobs that memory does not hold are read from the disk when their turn nears.

use bytes::Bytes;
use outflow_core::Cost;
use rusqlite::{Row, params};

use super::change::Change;
use super::entry::{Body, Entry, Place, Run, Tries};
use super::files::failed;
use super::memory::Memory;
use super::number::{counted, stored, wall};
use super::publish::WEIGHT_MOST;
use crate::error::StoreError;
use crate::name::Name;

impl Memory {
    /// Reads the jobs of a run into their line.
    pub(super) fn read_run(&mut self, place: Place, run: Run) -> Result<(), StoreError> {
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
            self.weight += entry.body.as_ref().map_or(0, Body::weight);
            if let Some(line) = self.line_mut(place) {
                line.front.insert(seq, entry);
            }
        }
        for seq in run.first..run.end() {
            self.runs.gone.remove(&seq);
            self.runs.apart.remove(&seq);
        }
        if left == 0 {
            self.tell(Change::RunOver(run));
        } else {
            self.runs.opened(run, left);
        }
        Ok(())
    }

    fn rows_of(&self, place: Place, run: Run) -> rusqlite::Result<Vec<(u64, Entry)>> {
        let sql = "SELECT seq, name, action, cost, deadline, retries, payload FROM job \
                   WHERE seq >= ?1 AND seq < ?2 ORDER BY seq";
        let mut statement = self.reader.prepare_cached(sql)?;
        statement
            .query_map(params![stored(run.first), stored(run.end())], |row| {
                entry_of(row, place)
            })?
            .collect()
    }

    /// The payload of a job in line, from the disk if it is not here.
    pub(super) fn body_of(&mut self, seq: u64, place: Place) -> Result<Body, StoreError> {
        let here = self
            .line_mut(place)
            .and_then(|line| line.front.get(&seq)?.body.clone());
        match here {
            Some(body) => Ok(body),
            None => self.read_body(seq).map_err(failed),
        }
    }

    fn read_body(&self, seq: u64) -> rusqlite::Result<Body> {
        let sql = "SELECT name, payload FROM job WHERE seq = ?1";
        let mut statement = self.reader.prepare_cached(sql)?;
        statement.query_row(params![stored(seq)], |row| body_from(row, 0, 1))
    }
}

fn entry_of(row: &Row<'_>, place: Place) -> rusqlite::Result<(u64, Entry)> {
    let entry = Entry {
        place,
        action: row.get(2)?,
        cost: Cost::new(counted(row.get(3)?)),
        deadline: row.get::<_, Option<i64>>(4)?.map(wall),
        max_retries: row.get(5)?,
        tries: Tries::default(),
        body: Some(body_from(row, 1, 6)?),
    };
    Ok((counted(row.get(0)?), entry))
}

fn body_from(row: &Row<'_>, name: usize, payload: usize) -> rusqlite::Result<Body> {
    let given: Option<String> = row.get(name)?;
    let bytes: Vec<u8> = row.get(payload)?;
    Ok(Body {
        name: given.and_then(|text| Name::new(&text).ok()),
        payload: Bytes::from(bytes),
    })
}
