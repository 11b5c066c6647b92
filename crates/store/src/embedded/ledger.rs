//! Writes changes into the database, within one transaction.
//!
//! Counts are not written as they change but summed up first: a transaction that ends a thousand jobs of
//! one tenant writes that tenant once.

use std::collections::HashMap;

use rusqlite::{Connection, OptionalExtension as _, params};

use super::action::ActionState;
use super::change::{ActionRow, Change, Mark, Over, Pause};
use super::entry::{Place, Run};
use super::number::{class_number, millis, nanos, stored};
use crate::settle::Ended;
use crate::tenant::TenantRule;

/// One transaction's work.
pub(super) struct Ledger<'a> {
    pub(super) disk: &'a Connection,
    sums: Sums,
    /// The place of the last outcome or dead letter.
    place: u64,
    first_place: u64,
}

/// What a transaction changes of the counts.
#[derive(Default)]
struct Sums {
    lines: HashMap<u32, i64>,
    tenants: HashMap<u32, Sum>,
    actions: HashMap<u32, Sum>,
    total: Sum,
}

#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Sum {
    pub(super) live: i64,
    pub(super) done: i64,
    pub(super) dead: i64,
    pub(super) failed: i64,
    pub(super) cancelled: i64,
    pub(super) throttles: i64,
    pub(super) busy: i64,
}

impl<'a> Ledger<'a> {
    pub(super) fn new(disk: &'a Connection, place: u64) -> Self {
        Self {
            disk,
            sums: Sums::default(),
            place,
            first_place: place,
        }
    }

    /// Writes one change. A submission is not one: whoever decided it writes its jobs.
    pub(super) fn write(&mut self, change: &Change) -> rusqlite::Result<()> {
        match change {
            Change::Submit(_) => Ok(()),
            Change::Lane(id, name) => {
                let sql = "INSERT INTO lane (id, name) VALUES (?1, ?2)";
                self.run(sql, params![id, name.as_str()])
            }
            Change::Tenant(id, name) => {
                let sql = "INSERT INTO tenant (id, name) VALUES (?1, ?2)";
                self.run(sql, params![id, name.as_str()])
            }
            Change::Line(place) => self.line(*place),
            Change::Mark(mark) => self.mark(mark),
            Change::Unmark(seq) => {
                self.run("DELETE FROM mark WHERE seq = ?1", params![stored(*seq)])
            }
            Change::Mishap { seq, at, words } => self.mishap(*seq, millis(*at), words),
            Change::Over(over) => self.over(over),
            Change::RunOver(run) => self.run_over(*run),
            Change::Rule(tenant, rule) => self.rule(*tenant, rule),
            Change::Paused(tenant, pause) => {
                let sql = "UPDATE tenant SET paused = ?2 WHERE id = ?1";
                self.run(sql, params![tenant, *pause == Pause::Stopped])
            }
            Change::Congested {
                tenant,
                backoff,
                speed,
                at,
            } => {
                let sql = "UPDATE tenant SET backoff = ?2, speed = ?3, updated = ?4 WHERE id = ?1";
                let (backoff, speed) = (nanos(*backoff), stored(*speed));
                self.run(sql, params![tenant, backoff, speed, millis(*at)])
            }
            Change::Reset(tenant) => self.reset(*tenant),
            Change::Action(row) => self.action(row),
            Change::Letters(letters) => self.letters(letters),
            Change::Tidy(sweep) => self.tidy(sweep),
        }
    }

    pub(super) fn run(&self, sql: &str, values: impl rusqlite::Params) -> rusqlite::Result<()> {
        self.disk.prepare_cached(sql)?.execute(values).map(drop)
    }

    /// A job was added to a line and to an action.
    pub(super) fn add_live(&mut self, place: Place, action: Option<u32>) {
        *self.sums.lines.entry(place.line).or_default() += 1;
        if let Some(action) = action {
            self.sums.actions.entry(action).or_default().live += 1;
        }
    }

    pub(super) fn add_to_action(&mut self, action: u32, sum: Sum) {
        self.sums.actions.entry(action).or_default().add(sum);
    }

    pub(super) fn add(&mut self, tenant: u32, action: Option<u32>, sum: Sum) {
        self.sums.total.add(sum);
        self.sums.tenants.entry(tenant).or_default().add(sum);
        if let Some(action) = action {
            self.sums.actions.entry(action).or_default().add(sum);
        }
    }

    fn line(&self, place: Place) -> rusqlite::Result<()> {
        let sql = "INSERT INTO line (id, lane, tenant, class) VALUES (?1, ?2, ?3, ?4)";
        let class = class_number(place.class);
        self.run(sql, params![place.line, place.lane, place.tenant, class])
    }

    pub(super) fn mark(&self, mark: &Mark) -> rusqlite::Result<()> {
        let sql = "INSERT OR REPLACE INTO mark (seq, state, attempts, retries, throttles, \
                   recoveries, due, span) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
        let tries = mark.tries;
        self.run(
            sql,
            params![
                stored(mark.seq),
                mark.state.number(),
                tries.attempts,
                tries.retries,
                tries.throttles,
                tries.recoveries,
                mark.due.map(millis),
                mark.span.map(nanos),
            ],
        )
    }

    fn mishap(&self, seq: u64, at: i64, words: &str) -> rusqlite::Result<()> {
        let seq = stored(seq);
        self.run(
            "INSERT INTO mishap (seq, at, words) VALUES (?1, ?2, ?3)",
            params![seq, at, words],
        )?;
        let sql = "DELETE FROM mishap WHERE id IN (SELECT id FROM mishap WHERE seq = ?1 \
                   ORDER BY id DESC LIMIT -1 OFFSET ?2)";
        self.run(sql, params![seq, HISTORY])
    }

    fn over(&mut self, over: &Over) -> rusqlite::Result<()> {
        let seq = stored(over.seq);
        if over.ended == Ended::Failed {
            self.bury(over)?;
        } else if over.tries.retries + over.tries.recoveries > 0 {
            self.run("DELETE FROM mishap WHERE seq = ?1", params![seq])?;
        }
        let name: Option<String> = self
            .disk
            .prepare_cached("DELETE FROM job WHERE seq = ?1 RETURNING name")?
            .query_row(params![seq], |row| row.get(0))
            .optional()?
            .flatten();
        self.run("DELETE FROM mark WHERE seq = ?1", params![seq])?;
        if let Some(name) = &name {
            let sql = "UPDATE name SET until = ?2 + remember WHERE name = ?1";
            self.run(sql, params![name, millis(over.at)])?;
        }
        if over.action.is_some() {
            self.outcome(over, name.as_deref())?;
        }
        self.count_over(over);
        Ok(())
    }

    fn count_over(&mut self, over: &Over) {
        let mut sum = Sum {
            live: -1,
            ..Sum::default()
        };
        let throttles = i64::from(over.tries.throttles);
        match over.ended {
            Ended::Done => {
                (sum.done, sum.throttles) = (1, throttles);
                sum.busy = nanos(over.took);
            }
            Ended::Failed => (sum.dead, sum.throttles) = (1, throttles),
            Ended::Expired | Ended::Cancelled => sum.cancelled = 1,
        }
        *self.sums.lines.entry(over.place.line).or_default() -= 1;
        self.add(over.place.tenant, over.action, sum);
    }

    fn bury(&mut self, over: &Over) -> rusqlite::Result<()> {
        self.place += 1;
        let sql = "INSERT INTO dead (place, seq, line, name, action, cost, deadline, retries, at, \
                   attempts, recoveries, throttles, payload) SELECT ?2, seq, line, name, action, \
                   cost, deadline, retries, ?3, ?4, ?5, ?6, payload FROM job WHERE seq = ?1";
        self.run(
            sql,
            params![
                stored(over.seq),
                stored(self.place),
                millis(over.at),
                over.tries.attempts,
                over.tries.recoveries,
                over.tries.throttles,
            ],
        )
    }

    fn outcome(&mut self, over: &Over, name: Option<&str>) -> rusqlite::Result<()> {
        self.place += 1;
        let sql = "INSERT INTO outcome (place, action, seq, name, tenant, ended, at, attempts, \
                   throttles, status, body, until) \
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)";
        let kept = over.kept.as_ref();
        let until = kept.map(|kept| millis(over.at.saturating_add(kept.keep)));
        self.run(
            sql,
            params![
                stored(self.place),
                over.action,
                stored(over.seq),
                name,
                over.tenant.as_str(),
                ended_number(over.ended),
                millis(over.at),
                over.tries.attempts,
                over.tries.throttles,
                kept.map(|kept| kept.status),
                kept.map(|kept| kept.body.as_ref()),
                until,
            ],
        )
    }

    /// Looks once more before it lets go of a run: a job that nobody could find any more is lost.
    fn run_over(&self, run: Run) -> rusqlite::Result<()> {
        let sql = "DELETE FROM run WHERE first = ?1 AND NOT EXISTS \
                   (SELECT 1 FROM job WHERE seq >= ?1 AND seq < ?2)";
        self.run(sql, params![stored(run.first), stored(run.end())])
    }

    fn rule(&self, tenant: u32, rule: &TenantRule) -> rusqlite::Result<()> {
        let sql = "UPDATE tenant SET ruled = 1, weight = ?2, priority = ?3, rate = ?4, per = ?5, \
                   in_flight = ?6 WHERE id = ?1";
        self.run(
            sql,
            params![
                tenant,
                rule.weight.as_u32(),
                class_number(rule.priority),
                rule.rate.map(|rate| stored(rate.quantity())),
                rule.rate.map(|rate| nanos(rate.per())),
                rule.in_flight,
            ],
        )
    }

    fn reset(&self, tenant: u32) -> rusqlite::Result<()> {
        let sql = "UPDATE tenant SET done = 0, failed = 0, cancelled = 0, throttles = 0, busy = 0, \
                   backoff = 0, speed = 0, updated = NULL WHERE id = ?1";
        self.run(sql, params![tenant])
    }

    fn action(&self, row: &ActionRow) -> rusqlite::Result<()> {
        let ActionRow { id, state } = row;
        let ActionState { spec, .. } = state;
        // The name of one that is over may be taken by a new one; its outcomes go with the next tidying.
        self.run(
            "DELETE FROM action WHERE name = ?1 AND id <> ?2",
            params![spec.id.as_str(), id],
        )?;
        let sql = "INSERT INTO action (id, name, timeout, keep, note, opened, started, ended, \
                   closed, told, fate, paused) \
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12) \
                   ON CONFLICT (id) DO UPDATE SET timeout = ?3, keep = ?4, note = ?5, \
                   started = ?7, ended = ?8, closed = ?9, told = ?10, fate = ?11, paused = ?12";
        self.run(
            sql,
            params![
                id,
                spec.id.as_str(),
                nanos(spec.timeout),
                nanos(spec.keep),
                spec.note,
                millis(state.opened),
                state.started.map(millis),
                state.ended.map(millis),
                state.closed,
                state.told,
                state.fate.number(),
                state.paused,
            ],
        )
    }

    /// Writes the sums, and where the numbers stand.
    pub(super) fn close(self, first_seq: u64, seq: u64) -> rusqlite::Result<u64> {
        for (line, live) in &self.sums.lines {
            let sql = "UPDATE line SET live = live + ?2 WHERE id = ?1";
            self.run(sql, params![line, live])?;
        }
        for (tenant, sum) in &self.sums.tenants {
            self.run(
                "UPDATE tenant SET done = done + ?2, dead = dead + ?3, failed = failed + ?4, \
                 cancelled = cancelled + ?5, throttles = throttles + ?6, busy = busy + ?7 \
                 WHERE id = ?1",
                params![
                    tenant,
                    sum.done,
                    sum.dead,
                    sum.failed,
                    sum.cancelled,
                    sum.throttles,
                    sum.busy
                ],
            )?;
        }
        for (action, sum) in &self.sums.actions {
            self.run(
                "UPDATE action SET live = live + ?8, done = done + ?2, dead = dead + ?3, \
                 failed = failed + ?4, cancelled = cancelled + ?5, throttles = throttles + ?6, \
                 busy = busy + ?7 WHERE id = ?1",
                params![
                    action,
                    sum.done,
                    sum.dead,
                    sum.failed,
                    sum.cancelled,
                    sum.throttles,
                    sum.busy,
                    sum.live
                ],
            )?;
        }
        let sum = self.sums.total;
        if self.place == self.first_place && seq == first_seq && sum == Sum::default() {
            return Ok(self.place);
        }
        self.run(
            "UPDATE total SET seq = ?1, place = ?8, done = done + ?2, dead = dead + ?3, \
             failed = failed + ?4, cancelled = cancelled + ?5, throttles = throttles + ?6, \
             busy = busy + ?7",
            params![
                stored(seq),
                sum.done,
                sum.dead,
                sum.failed,
                sum.cancelled,
                sum.throttles,
                sum.busy,
                stored(self.place)
            ],
        )?;
        Ok(self.place)
    }
}

impl Sum {
    fn add(&mut self, other: Self) {
        self.live += other.live;
        self.done += other.done;
        self.dead += other.dead;
        self.failed += other.failed;
        self.cancelled += other.cancelled;
        self.throttles += other.throttles;
        self.busy = self.busy.saturating_add(other.busy);
    }
}

pub(super) const fn ended_number(ended: Ended) -> u32 {
    match ended {
        Ended::Done => 0,
        Ended::Failed => 1,
        Ended::Expired => 2,
        Ended::Cancelled => 3,
    }
}

pub(super) const fn ended_of(number: u32) -> Ended {
    match number {
        0 => Ended::Done,
        1 => Ended::Failed,
        2 => Ended::Expired,
        _ => Ended::Cancelled,
    }
}

/// What is remembered of what befell a job: enough to see a pattern.
const HISTORY: u32 = 10;
