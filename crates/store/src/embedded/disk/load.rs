//! Reads a store from the disk: at the start, and after the disk refused something.
//!
//! What is read grows with tenants, lines, runs and jobs that something befell, and not with the jobs
//! that merely wait. A job that is found claimed belongs to nobody at the start; after a refusal, to
//! whom it belonged before.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use outflow_core::{ClockPair, Nanos, WallTime};
use rusqlite::{Connection, Row, ffi, params};

use super::int_codec::{counted, span, stored, wall};
use super::rows::{action_of, entry_from, id_at, name_of, place_of, rows, tally_of, tenant_of};
use super::write_op::MarkState;
use crate::action::JobCounts;
use crate::embedded::ops::transitions::{DelayUntil, DelayedJob, JobCountState, count_as};
use crate::embedded::state::action::ActionEntry;
use crate::embedded::state::claims::{ClaimState, ClaimTable};
use crate::embedded::state::id_ranges::OpenRuns;
use crate::embedded::state::job_entry::{AttemptHistory, IdRun, JobEntry, JobPosition};
use crate::embedded::state::{LaneState, StorePhase, StoreState};
use crate::tenant::TenantRule;

impl StoreState {
    /// Reads everything that memory keeps.
    pub(crate) fn load(reader: Connection, moment: ClockPair) -> rusqlite::Result<Self> {
        let mut memory = Self::empty(reader);
        memory.read_total()?;
        memory.read_lanes()?;
        memory.read_tenants()?;
        memory.read_actions(moment)?;
        memory.read_lines()?;
        memory.read_marks(moment)?;
        memory.read_runs()?;
        Ok(memory)
    }

    /// Takes over from a memory that went astray what the disk does not know: sessions with their claims,
    /// who is parked, the usual rule, and what was remembered for a while. `undo` are claims that ended in a step which
    /// failed.
    pub(crate) fn inherit(&mut self, old: &mut Self, undo: Vec<ClaimState>) {
        if old.phase == StorePhase::Closed {
            self.phase = StorePhase::Closed;
        }
        self.set_usual(old.usual.clone());
        self.claims.go_on_after(&old.claims);
        for (name, session) in &old.claims.sessions {
            self.claims.hold(name.clone(), session.until);
        }
        let held = old.claims.by_job.drain().map(|(_, claim)| claim);
        for claim in held.chain(undo) {
            self.claims.reclaim(&claim);
        }
        let alone = old.claims.alone;
        self.claims.alone = alone.filter(|seq| self.claims.by_job.contains_key(seq));
        for (id, lane) in &mut self.lanes {
            if let Some(old) = old.lanes.get(id) {
                lane.shut_until = old.shut_until;
            }
        }
        for (id, tenant) in &mut self.tenants {
            if let Some(old) = old.tenants.get_mut(id) {
                tenant.history = std::mem::take(&mut old.history);
            }
        }
    }

    fn empty(reader: Connection) -> Self {
        Self {
            reader,
            lanes: BTreeMap::new(),
            lane_ids: HashMap::new(),
            tenants: HashMap::new(),
            tenant_ids: BTreeMap::new(),
            usual: TenantRule::default(),
            places: HashMap::new(),
            actions: HashMap::new(),
            action_ids: BTreeMap::new(),
            claims: ClaimTable::default(),
            drain: None,
            waiting: HashMap::new(),
            due: BTreeSet::new(),
            starts: BTreeSet::new(),
            runs: OpenRuns::default(),
            total: JobCounts::default(),
            active: 0,
            looked_at: (0, 0),
            weight: 0,
            epoch: 0,
            mint: String::new(),
            last_seq: 0,
            last_id: 0,
            pending: Vec::new(),
            waiters: Vec::new(),
            recounts: Vec::new(),
            urgent: false,
            rings: false,
            phase: StorePhase::Open,
        }
    }

    fn read_total(&mut self) -> rusqlite::Result<()> {
        let sql = "SELECT done, dead, failed, cancelled, throttles, busy, epoch, mint, seq \
                   FROM total";
        let (total, epoch, mint, seq) = self.reader.query_row(sql, [], |row| {
            Ok((tally_of(row, 0)?, row.get(6)?, row.get(7)?, row.get(8)?))
        })?;
        self.total = total;
        self.epoch = counted(epoch);
        self.mint = mint;
        self.last_seq = counted(seq);
        Ok(())
    }

    fn read_lanes(&mut self) -> rusqlite::Result<()> {
        for (id, name) in rows(&self.reader, "SELECT id, name FROM lane", |row| {
            Ok((row.get(0)?, name_of(row, 1)?))
        })? {
            self.saw_id(id);
            self.lane_ids.insert(name.clone(), id);
            self.lanes.insert(id, LaneState::new(name));
        }
        Ok(())
    }

    fn read_tenants(&mut self) -> rusqlite::Result<()> {
        let sql = "SELECT id, name, paused, ruled, weight, priority, rate, per, in_flight, done, \
                   dead, failed, cancelled, throttles, busy, backoff, speed, updated FROM tenant";
        for (id, tenant) in rows(&self.reader, sql, tenant_of)? {
            self.saw_id(id);
            self.tenant_ids.insert(tenant.name.clone(), id);
            self.tenants.insert(id, tenant);
        }
        Ok(())
    }

    fn read_actions(&mut self, moment: ClockPair) -> rusqlite::Result<()> {
        let sql = "SELECT id, name, timeout, keep, note, opened, started, ended, closed, told, \
                   fate, paused, live, done, dead, failed, cancelled, throttles, busy FROM action";
        for (id, state, tally) in rows(&self.reader, sql, action_of)? {
            self.saw_id(id);
            self.action_ids.insert(state.spec.id.clone(), id);
            let lasted = moment.wall.since(state.opened);
            let left = state.spec.timeout.saturating_sub(lasted);
            let action = ActionEntry {
                expires: moment.now.saturating_add(left),
                state,
                tally,
                told_until: Nanos::ZERO,
                held: BTreeMap::new(),
            };
            self.actions.insert(id, action);
        }
        Ok(())
    }

    fn read_lines(&mut self) -> rusqlite::Result<()> {
        let sql = "SELECT id, lane, tenant, class, live FROM line";
        for (place, live) in rows(&self.reader, sql, place_of)? {
            self.saw_id(place.line);
            self.add_place(place);
            if let Some(line) = self.line_mut(place) {
                line.live = live;
            }
            self.count_many(place, live);
        }
        Ok(())
    }

    /// Jobs of a line, all as if they stood in it; actions have counted their own.
    fn count_many(&mut self, place: JobPosition, jobs: u64) {
        self.total.queued += jobs;
        if let Some(tenant) = self.tenants.get_mut(&place.tenant) {
            if jobs > 0 && tenant.tally.open() == 0 {
                self.active += 1;
            }
            tenant.tally.queued += jobs;
        }
        if let Some(lane) = self.lanes.get_mut(&place.lane) {
            lane.open += jobs;
        }
        self.count_lane_tenant(place, |queued| *queued += jobs);
    }

    fn read_marks(&mut self, moment: ClockPair) -> rusqlite::Result<()> {
        let sql = "SELECT seq, state, attempts, mark.retries, throttles, recoveries, due, span, \
                   line, action, cost, deadline, job.retries FROM mark JOIN job USING (seq)";
        let found = rows(&self.reader, sql, |row| MarkedJob::new(row, &self.places))?;
        for marked in found.into_iter().flatten() {
            self.runs.apart.insert(marked.seq);
            self.restore(marked, moment);
        }
        Ok(())
    }

    fn restore(&mut self, marked: MarkedJob, moment: ClockPair) {
        let MarkedJob {
            seq, entry, state, ..
        } = marked;
        let standing = match state {
            MarkState::Back => JobCountState::InLine,
            MarkState::Claimed | MarkState::Doomed => JobCountState::InFlight,
            MarkState::PutOff => JobCountState::PutOff,
            MarkState::Retry | MarkState::Start => JobCountState::Delayed,
        };
        self.count(entry.place, entry.action, |tally| {
            tally.queued -= 1;
            count_as(tally, standing);
        });
        let until = match state {
            MarkState::Back => return self.stand(seq, entry),
            MarkState::Claimed | MarkState::Doomed => {
                self.count_lane_tenant(entry.place, |queued| *queued = queued.saturating_sub(1));
                return self.claims.insert(ClaimState {
                    seq,
                    number: 0,
                    session: None,
                    entry,
                    tag: None,
                    doomed: state == MarkState::Doomed,
                });
            }
            MarkState::Start => DelayUntil::Civil(marked.due),
            MarkState::Retry | MarkState::PutOff => {
                let left = marked.due.since(moment.wall).min(marked.span);
                DelayUntil::Instant(moment.now.saturating_add(left))
            }
        };
        self.wait(
            seq,
            DelayedJob {
                entry,
                until,
                standing,
            },
        );
    }

    fn read_runs(&mut self) -> rusqlite::Result<()> {
        let sql = "SELECT first, line, count FROM run ORDER BY first";
        let mut touched = Vec::new();
        for (run, line) in rows(&self.reader, sql, |row| {
            let run = IdRun {
                first: counted(row.get(0)?),
                count: counted(row.get(2)?),
            };
            Ok((run, row.get::<_, u32>(1)?))
        })? {
            let place = self.places.get(&line).copied();
            let known = place.and_then(|place| Some((place, self.line_mut(place)?)));
            let Some((place, line)) = known else {
                self.is_over(run)?;
                continue;
            };
            if line.runs.is_empty() {
                touched.push(place);
            }
            line.runs.push_back(run);
        }
        for place in touched {
            self.update_lane_tenant(place.lane, place.tenant);
        }
        Ok(())
    }

    /// A tenant that is forgotten may leave runs behind, but no job in them: that would be in no line.
    fn is_over(&self, run: IdRun) -> rusqlite::Result<()> {
        let sql = "SELECT EXISTS (SELECT 1 FROM job WHERE seq >= ?1 AND seq < ?2)";
        let mut statement = self.reader.prepare_cached(sql)?;
        let range = params![stored(run.first), stored(run.end())];
        if statement.query_row(range, |row| row.get(0))? {
            let words = format!("the line of job {} is gone", run.first);
            let corrupt = ffi::Error::new(ffi::SQLITE_CORRUPT);
            return Err(rusqlite::Error::SqliteFailure(corrupt, Some(words)));
        }
        Ok(())
    }

    fn saw_id(&mut self, id: u32) {
        self.last_id = self.last_id.max(id);
    }
}

/// A job that something befell, as it is read.
struct MarkedJob {
    seq: u64,
    entry: JobEntry,
    state: MarkState,
    due: WallTime,
    span: std::time::Duration,
}

impl MarkedJob {
    fn new(row: &Row<'_>, places: &HashMap<u32, JobPosition>) -> rusqlite::Result<Option<Self>> {
        let tries = AttemptHistory {
            attempts: row.get(2)?,
            retries: row.get(3)?,
            throttles: row.get(4)?,
            recoveries: row.get(5)?,
        };
        let place = id_at(row, 8).and_then(|line| places.get(&line));
        let Some(place) = place.copied() else {
            return Ok(None);
        };
        Ok(Some(Self {
            seq: counted(row.get(0)?),
            state: MarkState::from_number(row.get(1)?),
            due: wall(row.get::<_, Option<i64>>(6)?.unwrap_or(0)),
            span: span(row.get::<_, Option<i64>>(7)?.unwrap_or(0)),
            entry: JobEntry {
                tries,
                ..entry_from(row, place, 9)
            },
        }))
    }
}
