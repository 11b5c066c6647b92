//! Cancelling, in pieces.
//!
//! A million jobs are not ended while everybody waits: a mark says that they are cancelled, so none of
//! them is given out from that moment on, and they end some thousand at a time with the store free in
//! between. Whoever asked is answered when the last has ended. If he dies before that, what is left is
//! found when somebody asks for the ends of actions.

use std::time::Duration;

use outflow_core::ClockPair;
use rusqlite::params;

use super::transitions::{JobCountState, JobEnding};
use crate::action::ActionStage;
use crate::embedded::disk::directory::failed;
use crate::embedded::disk::int_codec::{counted, stored};
use crate::embedded::disk::rows::entry_at;
use crate::embedded::disk::write_op::{JobMark, MarkState, WriteOp};
use crate::embedded::state::StoreState;
use crate::embedded::state::action::ActionEnd;
use crate::embedded::state::job_entry::{JobEntry, JobPosition};
use crate::embedded::state::priority_classes::CLASSES;
use crate::error::StoreError;
use crate::settle::JobStatus;
use crate::tenant::ControlScope;

/// A cancellation under way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PendingCancel {
    whose: CancelScope,
    /// Jobs up to this number.
    to: u64,
    /// Where the last piece ended.
    from: u64,
    /// How many had not begun.
    pub(crate) count: u64,
}

#[derive(Clone, Copy, Debug)]
enum CancelScope {
    Tenant(u32),
    Action(u32),
}

impl StoreState {
    /// From now on nothing of this scope is given out. Nothing if nobody knows it.
    pub(crate) fn begin_cancel(
        &mut self,
        scope: &ControlScope,
        moment: ClockPair,
    ) -> Result<Option<PendingCancel>, StoreError> {
        self.catch_up(moment);
        self.urgent = true;
        let to = self.last_seq;
        let (whose, count) = match scope {
            ControlScope::Tenant(name) => {
                let id = self.tenant_ids.get(name).copied();
                let Some((id, tenant)) = id.and_then(|id| Some((id, self.tenants.get_mut(&id)?)))
                else {
                    return Ok(None);
                };
                tenant.doomed_to = to;
                (CancelScope::Tenant(id), tenant.tally.queued)
            }
            ControlScope::Action(name) => {
                let (id, action) = self.known_action(name)?;
                let count = action.tally.queued;
                if action.is_cut_short() {
                    return Ok(Some(PendingCancel {
                        count,
                        ..self.cancel_rest(id)
                    }));
                }
                if action.stage() >= ActionStage::Aggregating {
                    return Ok(None);
                }
                action.state.fate = ActionEnd::Cancelled;
                action.state.closed = true;
                action.state.ended = Some(moment.wall);
                self.record_action(id);
                (CancelScope::Action(id), count)
            }
        };
        self.doom_claims(whose);
        Ok(Some(PendingCancel {
            whose,
            to,
            from: 0,
            count,
        }))
    }

    /// The jobs of an action that took too long or was cancelled, and have not begun.
    pub(crate) fn cancel_rest(&self, action: u32) -> PendingCancel {
        PendingCancel {
            whose: CancelScope::Action(action),
            to: self.last_seq,
            from: 0,
            count: 0,
        }
    }

    /// What is under way does not begin again.
    fn doom_claims(&mut self, whose: CancelScope) {
        let mut marks = Vec::new();
        for claim in self.claims.by_job.values_mut() {
            let theirs = match whose {
                CancelScope::Tenant(id) => claim.entry.place.tenant == id,
                CancelScope::Action(id) => claim.entry.action == Some(id),
            };
            if theirs && !claim.doomed {
                claim.doomed = true;
                marks.push(JobMark {
                    seq: claim.seq,
                    state: MarkState::Doomed,
                    tries: claim.entry.tries,
                    due: None,
                    span: None,
                });
            }
        }
        for mark in marks {
            self.record(WriteOp::Mark(mark));
        }
    }

    /// Ends the next piece. Answers whether there may be more.
    pub(crate) fn cancel_piece(
        &mut self,
        cancel: &mut PendingCancel,
        moment: ClockPair,
    ) -> Result<bool, StoreError> {
        self.urgent = true;
        let more = match cancel.whose {
            CancelScope::Tenant(tenant) => self.cancel_lines(tenant, cancel.to, moment)?,
            CancelScope::Action(action) => {
                self.cancel_rows(action, cancel, moment).map_err(failed)?
            }
        };
        if !more
            && let CancelScope::Tenant(id) = cancel.whose
            && let Some(tenant) = self.tenants.get_mut(&id)
            && tenant.doomed_to == cancel.to
        {
            tenant.doomed_to = 0;
        }
        Ok(more)
    }

    fn cancel_lines(
        &mut self,
        tenant: u32,
        to: u64,
        moment: ClockPair,
    ) -> Result<bool, StoreError> {
        let lanes = self.tenants.get(&tenant).map(|of| of.lanes.clone());
        let mut left = PIECE;
        for lane in lanes.unwrap_or_default() {
            for class in CLASSES {
                let place = self.place_of(lane, tenant, class);
                left -= self.cancel_line(place, to, left, moment)?;
            }
        }
        left -= self.cancel_waiting(tenant, to, left, moment);
        left -= self.cancel_held(tenant, to, left, moment);
        Ok(left == 0)
    }

    fn cancel_line(
        &mut self,
        place: JobPosition,
        to: u64,
        most: usize,
        moment: ClockPair,
    ) -> Result<usize, StoreError> {
        while let Some(line) = self.line_mut(place)
            && line.front.len() < most
            && line.runs.front().is_some_and(|run| run.first <= to)
            && let Some(run) = line.runs.pop_front()
        {
            self.read_run(place, run)?;
        }
        let Some(line) = self.line_mut(place) else {
            return Ok(0);
        };
        let seqs: Vec<u64> = line
            .front
            .range(..=to)
            .map(|(seq, _)| *seq)
            .take(most)
            .collect();
        for seq in &seqs {
            if let Some(entry) = self.pull(*seq, place) {
                self.cancel_job(*seq, entry, JobCountState::InLine, moment);
            }
        }
        Ok(seqs.len())
    }

    fn cancel_waiting(&mut self, tenant: u32, to: u64, most: usize, moment: ClockPair) -> usize {
        let theirs = self
            .waiting
            .iter()
            .filter(|(seq, waiting)| **seq <= to && waiting.entry.place.tenant == tenant);
        let seqs: Vec<u64> = theirs.map(|(seq, _)| *seq).take(most).collect();
        for seq in &seqs {
            if let Some(waiting) = self.wake(*seq) {
                self.cancel_job(*seq, waiting.entry, waiting.standing, moment);
            }
        }
        seqs.len()
    }

    fn cancel_held(&mut self, tenant: u32, to: u64, most: usize, moment: ClockPair) -> usize {
        let mut found = Vec::new();
        for action in self.actions.values_mut() {
            let theirs =
                |seq: &u64, entry: &mut JobEntry| *seq <= to && entry.place.tenant == tenant;
            while found.len() < most
                && let Some((seq, entry)) = action.held.extract_if(.., theirs).next()
            {
                found.push((seq, entry));
            }
        }
        let count = found.len();
        for (seq, entry) in found {
            self.cancel_job(seq, entry, JobCountState::InLine, moment);
        }
        count
    }

    /// The jobs of an action are found among all jobs: nobody keeps a list of them, which every
    /// submission would pay for.
    fn cancel_rows(
        &mut self,
        action: u32,
        cancel: &mut PendingCancel,
        moment: ClockPair,
    ) -> rusqlite::Result<bool> {
        let sql = "SELECT max(seq) FROM (SELECT seq FROM job WHERE seq > ?1 ORDER BY seq LIMIT ?2)";
        let piece = i64::try_from(PIECE).unwrap_or(i64::MAX);
        let last: Option<i64> = self
            .reader
            .prepare_cached(sql)?
            .query_row(params![stored(cancel.from), piece], |row| row.get(0))?;
        let Some(last) = last.map(counted) else {
            return Ok(false);
        };
        let sql = "SELECT seq, line, action, cost, deadline, retries FROM job \
                   WHERE seq > ?1 AND seq <= ?2 AND action = ?3";
        let mut statement = self.reader.prepare_cached(sql)?;
        let found: Vec<(u64, Option<JobEntry>)> = statement
            .query_map(params![stored(cancel.from), stored(last), action], |row| {
                Ok((counted(row.get(0)?), entry_at(row, &self.places)))
            })?
            .collect::<rusqlite::Result<_>>()?;
        drop(statement);
        for (seq, entry) in found {
            if let Some(entry) = entry {
                self.cancel_wherever(seq, entry, moment);
            }
        }
        cancel.from = last;
        Ok(last < cancel.to)
    }

    /// Ends a job, wherever it waits. One that is under way, or over and still on the disk, is left.
    fn cancel_wherever(&mut self, seq: u64, read: JobEntry, moment: ClockPair) {
        let place = read.place;
        if self.claims.by_job.contains_key(&seq) {
            return;
        }
        if let Some(waiting) = self.wake(seq) {
            return self.cancel_job(seq, waiting.entry, waiting.standing, moment);
        }
        let action = read.action.and_then(|id| self.actions.get_mut(&id));
        let held = action.and_then(|action| action.held.remove(&seq));
        let here = held.or_else(|| self.pull(seq, place));
        match here {
            Some(entry) => self.cancel_job(seq, entry, JobCountState::InLine, moment),
            None if self.is_unread(seq, place) => {
                self.cancel_job(seq, read, JobCountState::InLine, moment);
            }
            None => {}
        }
    }

    fn is_unread(&mut self, seq: u64, place: JobPosition) -> bool {
        let unread = self
            .line_mut(place)
            .is_some_and(|line| line.has_unread(seq));
        unread && self.runs.is_silent_about(seq)
    }

    fn cancel_job(&mut self, seq: u64, entry: JobEntry, from: JobCountState, moment: ClockPair) {
        self.end(JobEnding {
            seq,
            entry,
            from,
            ended: JobStatus::Cancelled,
            at: moment.wall,
            took: Duration::ZERO,
            kept: None,
        });
    }
}

/// Some milliseconds' work with the store locked.
const PIECE: usize = 2_048;
