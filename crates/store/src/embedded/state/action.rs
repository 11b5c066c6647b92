//! An action as memory knows it.

use std::collections::BTreeMap;

use outflow_core::{Nanos, WallTime};

use super::job_entry::JobEntry;
use crate::action::{ActionReport, ActionSpec, ActionStage, JobCounts};

/// An action's own state, as the disk keeps it.
#[derive(Clone, Debug)]
pub(crate) struct ActionState {
    pub(crate) spec: ActionSpec,
    pub(crate) opened: WallTime,
    pub(crate) started: Option<WallTime>,
    pub(crate) ended: Option<WallTime>,
    pub(crate) closed: bool,
    pub(crate) told: bool,
    pub(crate) fate: ActionEnd,
    pub(crate) paused: bool,
}

/// What ended an action before its jobs did.
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
    pub(crate) tally: JobCounts,
    /// When it has taken too long.
    pub(crate) expires: Nanos,
    /// Somebody tells its end until then, or has died over it. Of this process alone: another begins anew.
    pub(crate) told_until: Nanos,
    /// Jobs whose turn came while it was paused.
    pub(crate) held: BTreeMap<u64, JobEntry>,
}

impl ActionEntry {
    pub(crate) fn new(spec: ActionSpec, opened: WallTime, now: Nanos) -> Self {
        Self {
            expires: now.saturating_add(spec.timeout),
            state: ActionState {
                spec,
                opened,
                started: None,
                ended: None,
                closed: false,
                told: false,
                fate: ActionEnd::Open,
                paused: false,
            },
            tally: JobCounts::default(),
            told_until: Nanos::ZERO,
            held: BTreeMap::new(),
        }
    }

    pub(crate) fn stage(&self) -> ActionStage {
        let state = &self.state;
        match state.fate {
            ActionEnd::Failed => ActionStage::Failed,
            ActionEnd::Cancelled => ActionStage::Cancelled,
            ActionEnd::Open if state.told => ActionStage::Completed,
            ActionEnd::Open if state.closed && self.tally.open() == 0 => ActionStage::Aggregating,
            ActionEnd::Open if state.started.is_some() => ActionStage::Running,
            ActionEnd::Open if state.closed => ActionStage::Dispatched,
            ActionEnd::Open => ActionStage::Created,
        }
    }

    /// Whether its end waits to be told: what is told is what came of all of its jobs.
    pub(crate) fn is_ripe(&self) -> bool {
        self.stage() >= ActionStage::Aggregating && !self.state.told && self.tally.open() == 0
    }

    /// Whether it ended early, and jobs of it wait all the same.
    pub(crate) fn is_cut_short(&self) -> bool {
        self.state.fate != ActionEnd::Open && self.tally.queued > 0
    }

    /// As it stands, with so many tenants that hold it up.
    pub(crate) fn report(&self, held: u64) -> ActionReport {
        ActionReport {
            spec: self.state.spec.clone(),
            stage: self.stage(),
            paused: self.state.paused,
            held,
            tally: self.tally,
            opened: self.state.opened,
            started: self.state.started,
            ended: self.state.ended,
        }
    }
}
