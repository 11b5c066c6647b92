//! Forgetting what is too old, a piece at a time.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use outflow_core::ClockPair;
use rusqlite::params;

use crate::embedded::disk::int_codec::{many, millis};
use crate::embedded::disk::sql_writer::SqlWriter;
use crate::embedded::disk::write_op::WriteOp;
use crate::embedded::state::StoreState;
use crate::embedded::state::priority_classes::CLASSES;

/// What is to be forgotten, and how much it was.
#[derive(Clone, Debug)]
pub(crate) struct GarbageSweep {
    at: ClockPair,
    actions: Vec<u32>,
    swept: Arc<SweepResult>,
}

/// Tenants that are forgotten, with their lines.
#[derive(Debug)]
pub(crate) struct IdleTenants {
    tenants: Vec<u32>,
    lines: Vec<u32>,
}

/// What a sweep found on the disk.
#[derive(Debug, Default)]
pub(crate) struct SweepResult {
    gone: AtomicU64,
    actions: Mutex<Vec<u32>>,
}

impl SweepResult {
    /// How many things went.
    pub(crate) fn gone(&self) -> u64 {
        self.gone.load(Ordering::Relaxed)
    }

    fn forget(&self, action: u32) {
        let mut actions = self.actions.lock().unwrap_or_else(PoisonError::into_inner);
        actions.push(action);
    }

    /// Actions that went with all of their outcomes.
    pub(crate) fn actions(&self) -> Vec<u32> {
        std::mem::take(&mut *self.actions.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl StoreState {
    /// Looks for actions that are too old, and has the writer forget them and the rest.
    pub(crate) fn tidy(&mut self, moment: ClockPair) -> Arc<SweepResult> {
        self.catch_up(moment);
        let sweep = GarbageSweep {
            at: moment,
            actions: self.old_actions(moment),
            swept: Arc::default(),
        };
        let swept = Arc::clone(&sweep.swept);
        self.record(WriteOp::Tidy(sweep));
        swept
    }

    fn old_actions(&self, moment: ClockPair) -> Vec<u32> {
        let old = self.actions.iter().filter(|(_, action)| {
            let ended = action.state.ended.filter(|_| action.stage().is_over());
            let settled = action.tally.open() == 0;
            settled && ended.is_some_and(|at| moment.wall.since(at) >= action.state.spec.keep)
        });
        old.map(|(id, _)| *id).take(PIECE_ACTIONS).collect()
    }

    /// An action whose outcomes are gone goes itself.
    pub(crate) fn forget_action(&mut self, id: u32) {
        if let Some(action) = self.actions.remove(&id) {
            let name = &action.state.spec.id;
            if self.action_ids.get(name) == Some(&id) {
                self.action_ids.remove(name);
            }
        }
    }

    /// Forgets tenants that were idle for a while, but for those `expected` to have work. The writer asks,
    /// where it forgets them itself: before that, somebody may have begun to write jobs of theirs, and
    /// after it a tenant of the same name is another.
    pub(crate) fn forget_idle(
        &mut self,
        sweep: &GarbageSweep,
        expected: &HashSet<u32>,
    ) -> IdleTenants {
        let tenants = self.idle_tenants(sweep.at, expected);
        let lines = tenants.iter().flat_map(|id| self.forget_tenant(*id));
        let lines = lines.collect();
        IdleTenants { tenants, lines }
    }

    fn idle_tenants(&mut self, moment: ClockPair, expected: &HashSet<u32>) -> Vec<u32> {
        let mut idle = Vec::new();
        for (id, tenant) in &mut self.tenants {
            let needed = tenant.ruled || tenant.paused || tenant.tally.dead > 0;
            if needed || tenant.tally.open() > 0 || expected.contains(id) {
                tenant.idle_since = None;
                continue;
            }
            let since = *tenant.idle_since.get_or_insert(moment.now);
            if moment.now.since(since) >= A_WHILE && idle.len() < PIECE_TENANTS {
                idle.push(*id);
            }
        }
        idle
    }

    /// Forgets a tenant, and answers its lines. They are known from its seats: to look for them among all lines
    /// would take as long as there are lines, for each tenant that goes.
    fn forget_tenant(&mut self, id: u32) -> Vec<u32> {
        let Some(tenant) = self.tenants.remove(&id) else {
            return Vec::new();
        };
        self.tenant_ids.remove(&tenant.name);
        let mut lines = Vec::new();
        for lane in &tenant.lanes {
            let Some(lane) = self.lanes.get_mut(lane) else {
                continue;
            };
            if let Some(seat) = lane.seats.remove(&id) {
                lane.order.leave(seat.handle);
                let ids = CLASSES.map(|class| seat.lines.get(class).id);
                lines.extend(ids.into_iter().filter(|line| *line != 0));
            }
        }
        for line in &lines {
            self.places.remove(line);
        }
        lines
    }
}

impl SqlWriter<'_> {
    /// Forgets what is too old, with these tenants.
    pub(crate) fn tidy(&self, sweep: &GarbageSweep, idle: &IdleTenants) -> rusqlite::Result<()> {
        let mut gone = many(idle.tenants.len());
        let at = millis(sweep.at.wall);
        for line in &idle.lines {
            self.run("DELETE FROM line WHERE id = ?1", params![line])?;
        }
        for tenant in &idle.tenants {
            self.run("DELETE FROM tenant WHERE id = ?1", params![tenant])?;
        }
        gone += self.changed(
            "DELETE FROM name WHERE name IN \
             (SELECT name FROM name WHERE until <= ?1 LIMIT ?2)",
            params![at, PIECE],
        )?;
        gone += self.changed(
            "UPDATE outcome SET status = NULL, body = NULL, until = NULL WHERE place IN \
             (SELECT place FROM outcome WHERE until <= ?1 LIMIT ?2)",
            params![at, PIECE],
        )?;
        for action in &sweep.actions {
            let outcomes = self.drop_outcomes(*action)?;
            if outcomes < u64::from(PIECE) {
                self.run("DELETE FROM action WHERE id = ?1", params![action])?;
                gone += 1;
                sweep.swept.forget(*action);
            }
            gone += outcomes;
        }
        gone += self.drop_strays()?;
        sweep.swept.gone.fetch_add(gone, Ordering::Relaxed);
        Ok(())
    }

    fn drop_outcomes(&self, action: u32) -> rusqlite::Result<u64> {
        self.changed(
            "DELETE FROM outcome WHERE place IN \
             (SELECT place FROM outcome WHERE action = ?1 LIMIT ?2)",
            params![action, PIECE],
        )
    }

    /// Outcomes of an action whose name another one has now. Steps from action to action along the
    /// index, not from outcome to outcome.
    fn drop_strays(&self) -> rusqlite::Result<u64> {
        let sql = "WITH RECURSIVE of (action) AS (SELECT min(action) FROM outcome UNION ALL \
                   SELECT (SELECT min(action) FROM outcome WHERE action > of.action) FROM of \
                   WHERE of.action IS NOT NULL) SELECT action FROM of WHERE action IS NOT NULL \
                   AND action NOT IN (SELECT id FROM action) LIMIT 1";
        let stray: Option<u32> = {
            let mut statement = self.disk.prepare_cached(sql)?;
            let mut rows = statement.query([])?;
            rows.next()?.map(|row| row.get(0)).transpose()?
        };
        stray.map_or(Ok(0), |action| self.drop_outcomes(action))
    }

    fn changed(&self, sql: &str, values: impl rusqlite::Params) -> rusqlite::Result<u64> {
        let rows = self.disk.prepare_cached(sql)?.execute(values)?;
        Ok(many(rows))
    }
}

/// A tenant that was away for so long begins anew.
const A_WHILE: Duration = Duration::from_hours(1);

/// Rows of each kind that one piece forgets: some milliseconds of the disk's time.
const PIECE: u32 = 1_000;

/// Actions that one piece forgets, each with up to as many outcomes.
const PIECE_ACTIONS: usize = 4;

/// Tenants that one piece forgets.
const PIECE_TENANTS: usize = 256;
