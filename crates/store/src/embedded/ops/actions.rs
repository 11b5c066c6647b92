//! Actions: opened, closed, told, and what came of their jobs.

use bytes::Bytes;
use outflow_core::{ClockPair, Nanos};
use rusqlite::{Row, params};

use super::submit::minted;
use crate::action::{ActionReport, ActionSpec, FinishedQuery};
use crate::embedded::disk::int_codec::{counted, length, many, stored, wall};
use crate::embedded::disk::outcome_rows::ended_of;
use crate::embedded::disk::rows::{name_of, text_at};
use crate::embedded::disk::write_op::{ActionRow, WriteOp};
use crate::embedded::state::StoreState;
use crate::embedded::state::action::{ActionEnd, ActionEntry};
use crate::error::StoreError;
use crate::name::Name;
use crate::settle::JobOutcome;
use crate::tenant::PageRequest;

impl StoreState {
    /// Opens an action, or changes one that is open.
    pub(crate) fn open(&mut self, spec: ActionSpec, moment: ClockPair) {
        self.urgent = true;
        let open = self.action_ids.get(&spec.id).copied();
        let open = open.filter(|id| self.actions.get(id).is_some_and(|of| !of.stage().is_over()));
        let Some(id) = open else {
            self.open_action(spec, moment);
            return;
        };
        if let Some(action) = self.actions.get_mut(&id) {
            let lasted = moment.wall.since(action.state.opened);
            let left = spec.timeout.saturating_sub(lasted);
            action.expires = moment.now.saturating_add(left);
            action.state.spec = spec;
        }
        self.record_action(id);
    }

    /// An action gets no more jobs.
    pub(crate) fn close(&mut self, name: &Name, moment: ClockPair) -> Result<(), StoreError> {
        let (id, action) = self.known_action(name)?;
        if !action.state.closed {
            action.state.closed = true;
            self.urgent = true;
            self.record_action(id);
            self.close_action(Some(id), moment.wall);
        }
        Ok(())
    }

    /// The end of an action was told.
    pub(crate) fn mark_notified(&mut self, name: &Name) -> Result<(), StoreError> {
        let (id, action) = self.known_action(name)?;
        if action.is_ripe() {
            action.state.told = true;
            self.urgent = true;
            self.record_action(id);
            return Ok(());
        }
        let stage = action.stage();
        if stage.is_over() && action.tally.open() == 0 {
            return Ok(());
        }
        Err(StoreError::refused(format!(
            "action {name} is {} and has jobs that are not over: it has no end to tell yet",
            stage.as_str()
        )))
    }

    pub(crate) fn known_action(
        &mut self,
        name: &Name,
    ) -> Result<(u32, &mut ActionEntry), StoreError> {
        let id = self.action_ids.get(name).copied();
        id.and_then(|id| Some((id, self.actions.get_mut(&id)?)))
            .ok_or_else(|| {
                StoreError::refused(format!("nobody opened an action {name}: look at its name"))
            })
    }

    /// Writes an action's state.
    pub(crate) fn record_action(&mut self, id: u32) {
        if let Some(action) = self.actions.get(&id) {
            let state = action.state.clone();
            self.record(WriteOp::Action(Box::new(ActionRow { id, state })));
        }
    }

    pub(crate) fn action_report(&self, name: &Name) -> rusqlite::Result<Option<ActionReport>> {
        let id = self.action_ids.get(name);
        let report = |id: &u32| self.report_of(*id, &self.stopped_tenants());
        Ok(id.map(report).transpose()?.flatten())
    }

    pub(crate) fn action_reports(&self, page: &PageRequest) -> rusqlite::Result<Vec<ActionReport>> {
        let stopped = self.stopped_tenants();
        names_after(&self.action_ids, page)
            .filter_map(|id| self.report_of(*id, &stopped).transpose())
            .collect()
    }

    fn report_of(&self, id: u32, stopped: &[u32]) -> rusqlite::Result<Option<ActionReport>> {
        let Some(action) = self.actions.get(&id) else {
            return Ok(None);
        };
        let held = match action.tally.queued {
            0 => 0,
            _ => self.holders(id, stopped)?,
        };
        Ok(Some(action.report(held)))
    }

    /// Ends actions whose time is over and whose jobs are not.
    pub(crate) fn overdue(&mut self, most: usize, moment: ClockPair) {
        let late = |action: &ActionEntry| !action.stage().is_over() && !action.is_ripe();
        let overdue = self
            .actions
            .iter_mut()
            .filter(|(_, action)| action.expires <= moment.now && late(action));
        let mut ended = Vec::new();
        for (id, action) in overdue.take(most) {
            action.state.fate = ActionEnd::Failed;
            action.state.closed = true;
            action.state.ended = Some(moment.wall);
            ended.push(*id);
        }
        for id in &ended {
            self.urgent = true;
            self.record_action(*id);
        }
    }

    /// Actions that ended early, and whose jobs nobody ended to the last: whoever did has died, or is
    /// still at it.
    pub(crate) fn left_over(&self, most: usize) -> Vec<u32> {
        let left = self
            .actions
            .iter()
            .filter(|(_, action)| action.is_cut_short());
        left.map(|(id, _)| *id).take(most).collect()
    }

    /// Gives out ends that nobody tells, and leaves those to whoever asks that he tells already.
    pub(crate) fn ripe(&mut self, ask: FinishedQuery<'_>, now: Nanos) -> Vec<ActionReport> {
        let until = now.saturating_add(ask.lease);
        for name in ask.telling {
            let id = self.action_ids.get(name);
            if let Some(action) = id.and_then(|id| self.actions.get_mut(id)) {
                action.told_until = until;
            }
        }
        let ripe = self.actions.values_mut();
        let ripe = ripe.filter(|action| action.is_ripe() && action.told_until <= now);
        let taken = ripe.take(ask.most).map(|action| {
            action.told_until = until;
            action.report(0)
        });
        taken.collect()
    }

    /// Outcomes of an action, as far as they are on the disk.
    pub(crate) fn outcomes(
        &self,
        name: &Name,
        after: u64,
        most: usize,
    ) -> rusqlite::Result<Vec<JobOutcome>> {
        let Some(id) = self.action_ids.get(name) else {
            return Ok(Vec::new());
        };
        let sql = "SELECT place, seq, name, tenant, ended, at, attempts, throttles, status, body, \
                   words FROM outcome WHERE action = ?1 AND place > ?2 ORDER BY place LIMIT ?3";
        let mut statement = self.reader.prepare_cached(sql)?;
        statement
            .query_map(params![id, stored(after), stored(many(most))], |row| {
                self.outcome_of(row)
            })?
            .collect()
    }

    fn outcome_of(&self, row: &Row<'_>) -> rusqlite::Result<JobOutcome> {
        let body: Option<Vec<u8>> = row.get(9)?;
        Ok(JobOutcome {
            place: counted(row.get(0)?),
            id: self.name_from(row, 2, counted(row.get(1)?))?,
            tenant: name_of(row, 3)?,
            ended: ended_of(row.get(4)?),
            at: wall(row.get(5)?),
            attempts: row.get(6)?,
            throttles: row.get(7)?,
            status: row.get(8)?,
            body: body.map(Bytes::from),
            error: row.get(10)?,
        })
    }

    /// The name that a job was given, or the one that was made for it.
    pub(crate) fn name_from(
        &self,
        row: &Row<'_>,
        column: usize,
        seq: u64,
    ) -> rusqlite::Result<Name> {
        let given = text_at(row, column).and_then(|text| Name::new(text).ok());
        match given.or_else(|| minted(&self.mint, seq)) {
            Some(name) => Ok(name),
            None => name_of(row, column),
        }
    }
}

/// What is named after, in order, as many as are asked for.
pub(crate) fn names_after<'a, T>(
    names: &'a std::collections::BTreeMap<Name, T>,
    page: &'a PageRequest,
) -> impl Iterator<Item = &'a T> {
    use std::ops::Bound;

    let after = page
        .after
        .as_ref()
        .map_or(Bound::Unbounded, Bound::Excluded);
    let most = match page.most {
        0 => length(PAGE_MOST),
        most => most,
    };
    names
        .range::<Name, _>((after, Bound::Unbounded))
        .map(|(_, value)| value)
        .take(most)
}

/// What is told at once to whoever does not say how much: a screen, and no second of anybody's time.
const PAGE_MOST: u64 = 1_000;
