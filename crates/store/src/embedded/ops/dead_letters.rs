//! Dead letters: read, revived and thrown away.

use bytes::Bytes;
use outflow_core::WallTime;
use rusqlite::{Row, params};

use crate::action::ActionStage;
use crate::dead_letter::{DeadLetter, DeadLetterFilter};
use crate::embedded::disk::counters::CountDelta;
use crate::embedded::disk::int_codec::{counted, many, millis, stored, wall};
use crate::embedded::disk::rows::entry_from;
use crate::embedded::disk::sql_writer::SqlWriter;
use crate::embedded::disk::write_op::{JobMark, LetterOp, LetterWrite, MarkState, WriteOp};
use crate::embedded::state::StoreState;
use crate::embedded::state::action::ActionEntry;
use crate::embedded::state::job_entry::{AttemptHistory, JobEntry};
use crate::job::AttemptError;
use crate::name::Name;

/// Which letters are meant, in the store's own numbers.
#[derive(Clone, Debug)]
pub(crate) enum LetterPick {
    All,
    Tenant(u32),
    Action(u32),
    Jobs(Vec<Name>),
    Before(WallTime),
    /// Of somebody whom nobody knows.
    None,
}

/// A piece of what was picked.
#[derive(Debug)]
pub(crate) struct LetterPage {
    pub(crate) letters: Vec<LetterWrite>,
    /// Where the next piece begins; nothing if this was the last.
    pub(crate) next: Option<u64>,
}

impl StoreState {
    pub(crate) fn pick_of(&self, pick: &DeadLetterFilter) -> LetterPick {
        match pick {
            DeadLetterFilter::All => LetterPick::All,
            DeadLetterFilter::Tenant(name) => {
                let id = self.tenant_ids.get(name);
                id.map_or(LetterPick::None, |id| LetterPick::Tenant(*id))
            }
            DeadLetterFilter::Action(name) => {
                let id = self.action_ids.get(name);
                id.map_or(LetterPick::None, |id| LetterPick::Action(*id))
            }
            DeadLetterFilter::Jobs(names) => LetterPick::Jobs(names.clone()),
        }
    }

    /// Dead letters after a place.
    pub(crate) fn dead(&self, after: u64, most: usize) -> rusqlite::Result<Vec<DeadLetter>> {
        let sql = "SELECT place, seq, line, name, action, at, attempts, recoveries, payload \
                   FROM dead WHERE place > ?1 ORDER BY place LIMIT ?2";
        let mut statement = self.reader.prepare_cached(sql)?;
        let letters = statement.query_map(params![stored(after), stored(many(most))], |row| {
            self.dead_letter(row)
        })?;
        letters.filter_map(Result::transpose).collect()
    }

    fn dead_letter(&self, row: &Row<'_>) -> rusqlite::Result<Option<DeadLetter>> {
        let seq = counted(row.get(1)?);
        let Some(place) = self.places.get(&row.get(2)?) else {
            return Ok(None);
        };
        let (Some(tenant), Some(lane)) =
            (self.tenants.get(&place.tenant), self.lanes.get(&place.lane))
        else {
            return Ok(None);
        };
        let action = row.get::<_, Option<u32>>(4)?;
        let action = action.and_then(|id| self.actions.get(&id));
        let payload: Vec<u8> = row.get(8)?;
        Ok(Some(DeadLetter {
            place: counted(row.get(0)?),
            id: self.name_from(row, 3, seq)?,
            tenant: tenant.name.clone(),
            lane: lane.name.clone(),
            action: action.map(|action| action.state.spec.id.clone()),
            at: wall(row.get(5)?),
            attempts: row.get(6)?,
            recoveries: row.get(7)?,
            history: self.mishaps(seq)?,
            payload: Bytes::from(payload),
        }))
    }

    fn mishaps(&self, seq: u64) -> rusqlite::Result<Vec<AttemptError>> {
        let sql = "SELECT at, words FROM mishap WHERE seq = ?1 ORDER BY id";
        let mut statement = self.reader.prepare_cached(sql)?;
        statement
            .query_map(params![stored(seq)], |row| {
                Ok(AttemptError {
                    at: wall(row.get(0)?),
                    words: row.get(1)?,
                })
            })?
            .collect()
    }

    /// The next letters that are meant, of so many that are looked at.
    pub(crate) fn pick(&self, pick: &LetterPick, after: u64) -> rusqlite::Result<LetterPage> {
        let sql = "SELECT place, seq, line, name, action, cost, deadline, retries, at FROM dead \
                   WHERE place > ?1 ORDER BY place LIMIT ?2";
        let mut statement = self.reader.prepare_cached(sql)?;
        let mut rows = statement.query(params![stored(after), PIECE])?;
        let (mut letters, mut seen, mut last) = (Vec::new(), 0, after);
        while let Some(row) = rows.next()? {
            seen += 1;
            last = counted(row.get(0)?);
            if let Some(letter) = self.letter_of(row)?
                && self.is_meant(pick, row, &letter)?
            {
                letters.push(letter);
            }
        }
        let next = (seen == PIECE).then_some(last);
        Ok(LetterPage { letters, next })
    }

    fn is_meant(
        &self,
        pick: &LetterPick,
        row: &Row<'_>,
        letter: &LetterWrite,
    ) -> rusqlite::Result<bool> {
        Ok(match pick {
            LetterPick::All => true,
            LetterPick::None => false,
            LetterPick::Tenant(id) => letter.entry.place.tenant == *id,
            LetterPick::Action(id) => letter.entry.action.or(letter.left) == Some(*id),
            LetterPick::Jobs(names) => names.contains(&self.name_from(row, 3, letter.seq)?),
            LetterPick::Before(at) => row.get::<_, i64>(8)? < millis(*at),
        })
    }

    fn letter_of(&self, row: &Row<'_>) -> rusqlite::Result<Option<LetterWrite>> {
        let Some(place) = self.places.get(&row.get(2)?).copied() else {
            return Ok(None);
        };
        let of: Option<u32> = row.get(4)?;
        let action = of.and_then(|id| Some((id, self.actions.get(&id)?)));
        let goes_on = |action: &ActionEntry| action.stage() < ActionStage::Aggregating;
        let (action, left) = match action {
            Some((id, action)) if goes_on(action) => (Some(id), None),
            Some((id, _)) => (None, Some(id)),
            None => (None, None),
        };
        Ok(Some(LetterWrite {
            place: counted(row.get(0)?),
            seq: counted(row.get(1)?),
            left,
            entry: JobEntry {
                action,
                ..entry_from(row, place, 4)
            },
        }))
    }

    /// Throws letters away.
    pub(crate) fn purge(&mut self, mut letters: Vec<LetterWrite>) {
        for letter in &mut letters {
            // Thrown away, it stays counted in its action, over or not.
            letter.entry.action = letter.entry.action.or(letter.left.take());
            self.count(letter.entry.place, letter.entry.action, |tally| {
                tally.dead -= 1;
                tally.failed += 1;
            });
        }
        self.record_synced(WriteOp::Letters(LetterOp::Purged(letters)));
    }

    /// Lets a letter stand in line again, once the disk has it there.
    pub(crate) fn revived(&mut self, letter: LetterWrite) {
        let LetterWrite {
            seq, entry, left, ..
        } = letter;
        if let Some(action) = left.and_then(|id| self.actions.get_mut(&id)) {
            action.tally.dead -= 1;
            action.tally.failed += 1;
        }
        self.count(entry.place, entry.action, |tally| {
            tally.dead -= 1;
            tally.queued += 1;
        });
        let place = entry.place;
        self.count_lane_tenant(place, |queued| *queued += 1);
        if let Some(line) = self.line_mut(place) {
            line.live += 1;
        }
        if let Some(lane) = self.lanes.get_mut(&place.lane) {
            lane.open += 1;
        }
        self.runs.revived(seq);
        self.stand(seq, entry);
    }
}

impl SqlWriter<'_> {
    pub(crate) fn letters(&mut self, letters: &LetterOp) -> rusqlite::Result<()> {
        match letters {
            LetterOp::Revived(letters) => letters.iter().try_for_each(|of| self.revive(of)),
            LetterOp::Purged(letters) => letters.iter().try_for_each(|of| self.purge(of)),
        }
    }

    fn revive(&mut self, letter: &LetterWrite) -> rusqlite::Result<()> {
        let sql = "INSERT INTO job (seq, line, name, action, cost, deadline, retries, payload, \
                   sum) SELECT seq, line, name, ?2, cost, deadline, retries, payload, sum \
                   FROM dead WHERE place = ?1";
        self.run(sql, params![stored(letter.place), letter.entry.action])?;
        let sql =
            "UPDATE name SET until = NULL WHERE name = (SELECT name FROM dead WHERE place = ?1)";
        self.run(sql, params![stored(letter.place)])?;
        self.mark(JobMark {
            seq: letter.seq,
            state: MarkState::Back,
            tries: AttemptHistory::default(),
            due: None,
            span: None,
        });
        self.add_live(letter.entry.place, letter.entry.action);
        self.forget_failure(letter)?;
        self.unbury(letter, 0)
    }

    /// In an action that goes on, what came of a job is what comes of it now. A letter's outcome was written
    /// right behind it.
    fn forget_failure(&self, letter: &LetterWrite) -> rusqlite::Result<()> {
        let sql = "DELETE FROM outcome WHERE place = ?1 AND seq = ?2 AND action = ?3";
        let place = stored(letter.place + 1);
        self.run(sql, params![place, stored(letter.seq), letter.entry.action])
    }

    fn purge(&mut self, letter: &LetterWrite) -> rusqlite::Result<()> {
        self.unbury(letter, 1)
    }

    fn unbury(&mut self, letter: &LetterWrite, failed: i64) -> rusqlite::Result<()> {
        let dead = CountDelta {
            dead: -1,
            failed,
            ..CountDelta::default()
        };
        self.add(letter.entry.place.tenant, letter.entry.action, dead);
        if let Some(left) = letter.left {
            let failed = CountDelta {
                dead: -1,
                failed: 1,
                ..CountDelta::default()
            };
            self.add_to_action(left, failed);
        }
        self.run(
            "DELETE FROM mishap WHERE seq = ?1",
            params![stored(letter.seq)],
        )?;
        self.run(
            "DELETE FROM dead WHERE place = ?1",
            params![stored(letter.place)],
        )
    }
}

/// So many letters are looked at with the store locked.
const PIECE: u32 = 512;
