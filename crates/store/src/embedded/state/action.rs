//! Actions in memory.

use std::collections::BTreeMap;

use outflow_core::{ClockPair, Nanos, WallTime};

use super::job_entry::JobEntry;
use super::named_table::{NamedEntry, NamedTable};
use crate::action::{ActionReport, ActionSpec, ActionStage, JobCounts, timeout_reason};
use crate::error::StoreError;
use crate::name::Name;

/// The state of an action that the disk keeps.
#[derive(Clone, Debug)]
pub(crate) struct ActionState {
    pub(crate) spec: ActionSpec,
    pub(crate) opened: WallTime,
    pub(crate) started: Option<WallTime>,
    pub(crate) ended: Option<WallTime>,
    pub(crate) closed: bool,
    pub(crate) notified: bool,
    pub(crate) end: ActionEnd,
    pub(crate) paused: bool,
}

/// The reason why an action ended before its jobs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ActionEnd {
    Open,
    Failed,
    Cancelled,
}

impl ActionEnd {
    pub(crate) const fn number(self) -> u32 {
        match self {
            Self::Open => 0,
            Self::Failed => 1,
            Self::Cancelled => 2,
        }
    }

    pub(crate) const fn from_number(number: u32) -> Self {
        match number {
            1 => Self::Failed,
            2 => Self::Cancelled,
            _ => Self::Open,
        }
    }
}

/// An action with its jobs.
#[derive(Debug)]
pub(crate) struct ActionEntry {
    pub(crate) state: ActionState,
    pub(crate) counts: JobCounts,
    /// The instant of its timeout.
    pub(crate) expires: Nanos,
    /// The instant of its last progress. The disk has it in the outcomes.
    pub(crate) progressed: WallTime,
    /// True if a job ended since the timeout was computed.
    has_progressed: bool,
    /// The end of the lease on its completion notice. Not on the disk: a new process starts without one.
    pub(crate) notifying_until: Nanos,
    /// Jobs that were next in order while it was paused.
    pub(crate) held: BTreeMap<u64, JobEntry>,
}

impl ActionEntry {
    pub(crate) fn new(spec: ActionSpec, moment: ClockPair) -> Self {
        let state = ActionState {
            spec,
            opened: moment.wall,
            started: None,
            ended: None,
            closed: false,
            notified: false,
            end: ActionEnd::Open,
            paused: false,
        };
        Self::from_state(state, JobCounts::default(), moment)
    }

    pub(crate) fn from_state(state: ActionState, counts: JobCounts, moment: ClockPair) -> Self {
        let mut action = Self {
            state,
            counts,
            expires: Nanos::ZERO,
            progressed: WallTime::EPOCH,
            has_progressed: false,
            notifying_until: Nanos::ZERO,
            held: BTreeMap::new(),
        };
        action.progressed = action.state.opened;
        action.restart_timeout(moment);
        action
    }

    /// Notes the end of a job: the timeout counts from it.
    pub(crate) const fn progress(&mut self, at: WallTime) {
        self.progressed = at;
        self.has_progressed = true;
    }

    /// Moves the timeout after the last progress. Counted in monotonic time, so that a changed clock fails no action.
    pub(crate) const fn extend_timeout(&mut self, now: Nanos) {
        if std::mem::replace(&mut self.has_progressed, false) {
            self.expires = now.saturating_add(self.state.spec.timeout);
        }
    }

    /// Computes the instant of the timeout from the spec.
    pub(crate) fn restart_timeout(&mut self, moment: ClockPair) {
        let age = moment.wall.since(self.progressed);
        let left = self.state.spec.timeout.saturating_sub(age);
        self.expires = moment.now.saturating_add(left);
    }

    pub(crate) fn stage(&self) -> ActionStage {
        let state = &self.state;
        match state.end {
            ActionEnd::Failed => ActionStage::Failed,
            ActionEnd::Cancelled => ActionStage::Cancelled,
            ActionEnd::Open if state.notified => ActionStage::Completed,
            ActionEnd::Open if state.closed && self.counts.open() == 0 => ActionStage::Aggregating,
            ActionEnd::Open if state.started.is_some() => ActionStage::Running,
            ActionEnd::Open if state.closed => ActionStage::Dispatched,
            ActionEnd::Open => ActionStage::Created,
        }
    }

    /// Returns true if its name may be used again: a completed action may have requeued dead letters.
    pub(crate) fn is_reusable(&self) -> bool {
        let has_requeued = self.state.end == ActionEnd::Open && self.counts.open() > 0;
        self.stage().is_over() && !has_requeued
    }

    /// Returns true if its completion notice may be sent: all of its jobs are over.
    pub(crate) fn is_finished(&self) -> bool {
        self.stage() >= ActionStage::Aggregating && !self.state.notified && self.counts.open() == 0
    }

    /// Returns true if it ended early and still has waiting jobs.
    pub(crate) fn is_cut_short(&self) -> bool {
        self.state.end != ActionEnd::Open && self.counts.queued > 0
    }

    /// Ends it before its jobs.
    pub(crate) const fn end_early(&mut self, end: ActionEnd, at: WallTime) {
        self.state.end = end;
        self.state.closed = true;
        self.state.ended = Some(at);
    }

    /// Reports it, with the number of paused tenants that delay it.
    pub(crate) fn report(&self, held: u64) -> ActionReport {
        ActionReport {
            spec: self.state.spec.clone(),
            stage: self.stage(),
            paused: self.state.paused,
            held,
            counts: self.counts,
            opened: self.state.opened,
            started: self.state.started,
            ended: self.state.ended,
            progressed: self.progressed,
        }
    }

    /// Returns the reason for which its unstarted jobs end, if it is the timeout.
    pub(crate) fn timeout_reason(&self) -> Option<String> {
        (self.state.end == ActionEnd::Failed).then(|| timeout_reason(self.state.spec.timeout))
    }
}

impl NamedEntry for ActionEntry {
    fn name(&self) -> &Name {
        &self.state.spec.id
    }
}

impl NamedTable<ActionEntry> {
    /// Returns an action that must exist.
    pub(crate) fn known_mut(&mut self, name: &Name) -> Result<(u32, &mut ActionEntry), StoreError> {
        self.find_mut(name)
            .ok_or_else(|| StoreError::refused(format!("no action {name}: check its name")))
    }
}
