//! Actions in memory.

use std::collections::{BTreeMap, HashMap};

use outflow_core::{ClockPair, Nanos, WallTime};

use super::job_entry::JobEntry;
use super::names_after;
use crate::action::{ActionReport, ActionSpec, ActionStage, JobCounts};
use crate::error::StoreError;
use crate::name::Name;
use crate::tenant::PageRequest;

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
            notifying_until: Nanos::ZERO,
            held: BTreeMap::new(),
        };
        action.restart_timeout(moment);
        action
    }

    /// Computes the instant of the timeout from the spec.
    pub(crate) fn restart_timeout(&mut self, moment: ClockPair) {
        let age = moment.wall.since(self.state.opened);
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
        }
    }
}

/// All actions, by id and by name.
#[derive(Debug, Default)]
pub(crate) struct ActionTable {
    actions: HashMap<u32, ActionEntry>,
    ids: BTreeMap<Name, u32>,
}

impl ActionTable {
    pub(crate) fn find(&self, name: &Name) -> Option<u32> {
        self.ids.get(name).copied()
    }

    pub(crate) fn get(&self, id: u32) -> Option<&ActionEntry> {
        self.actions.get(&id)
    }

    pub(crate) fn get_mut(&mut self, id: u32) -> Option<&mut ActionEntry> {
        self.actions.get_mut(&id)
    }

    /// Returns an action that must exist.
    pub(crate) fn known_mut(&mut self, name: &Name) -> Result<(u32, &mut ActionEntry), StoreError> {
        let id = self.find(name);
        id.and_then(|id| Some((id, self.actions.get_mut(&id)?)))
            .ok_or_else(|| StoreError::refused(format!("no action {name}: check its name")))
    }

    /// Adds an action, in the place of an earlier one with this name.
    pub(crate) fn insert(&mut self, id: u32, action: ActionEntry) {
        if let Some(old) = self.ids.insert(action.state.spec.id.clone(), id) {
            self.actions.remove(&old);
        }
        self.actions.insert(id, action);
    }

    pub(crate) fn remove(&mut self, id: u32) {
        if let Some(action) = self.actions.remove(&id) {
            let name = &action.state.spec.id;
            if self.ids.get(name) == Some(&id) {
                self.ids.remove(name);
            }
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &ActionEntry)> {
        self.actions.iter().map(|(id, action)| (*id, action))
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (u32, &mut ActionEntry)> {
        self.actions.iter_mut().map(|(id, action)| (*id, action))
    }

    /// Returns the ids of a page, in the order of names.
    pub(crate) fn page(&self, page: &PageRequest) -> impl Iterator<Item = u32> {
        names_after(&self.ids, page)
    }
}
