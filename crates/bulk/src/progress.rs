//! How far an action is, and how long the rest takes at least.
//!
//! The past alone says nothing of limits: the first window's worth goes at once, and by that speed the rest
//! would be done in a moment. So what is left is asked of the store, and counted against the limits that it
//! meets, from the instant on at which one of its calls could go.

use std::time::Duration;

use outflow::core::{Decision, Nanos, WallTime};
use outflow_store::{ActionReport, JobStore, Name};

use crate::engine::{Engine, EngineContext};
use crate::error::BulkError;
use crate::events::ActionProgress;
use crate::lane::Lane;
use crate::throughput::EndRate;
use crate::workload::Workload;

impl<S: JobStore> Engine<S> {
    /// How far an action is; nothing if it is not known.
    ///
    /// # Errors
    /// If the store cannot be asked.
    pub async fn progress(&self, action: &Name) -> Result<Option<ActionProgress>, BulkError> {
        match self.store().action(action).await? {
            Some(report) => self.progress_of(&report).await.map(Some),
            None => Ok(None),
        }
    }

    /// How far an action is that was asked for already.
    ///
    /// # Errors
    /// If the store cannot be asked.
    pub async fn progress_of(&self, report: &ActionReport) -> Result<ActionProgress, BulkError> {
        let hub = self.hub();
        let now = hub.clock.wall();
        let goes_on = report.tally.queued > 0 && report.tally.over() > 0;
        let least = if goes_on && !report.is_stopped() {
            let left = hub.store.remaining(&report.spec.id).await?;
            hub.least(&Workload::from(&left), now)
        } else {
            Some(Duration::ZERO)
        };
        Ok(ActionProgress::new(report, (hub.speed(report, now), least)))
    }
}

impl<S> EngineContext<S> {
    /// How fast an action goes: lately if that is known, and otherwise since it began.
    fn speed(&self, report: &ActionReport, now: WallTime) -> Option<EndRate> {
        let (action, over, at) = (&report.spec.id, report.tally.over(), self.clock.now());
        if report.is_stopped() {
            self.pulses.stop(action, at, over);
        }
        let until = report.ended.unwrap_or(now);
        let ever = report.started.map(|started| EndRate {
            over,
            span: until.since(started),
        });
        self.pulses.feel(action, at, over).or(ever)
    }

    /// How long this takes at least, from now on; nothing if a door stays shut until somebody opens it.
    fn least(&self, demand: &Workload, now: WallTime) -> Option<Duration> {
        let bound = demand.bound(&self.client, &self.settings.load(), now);
        let waits: Option<Vec<_>> = demand.lanes().map(|lane| self.wait_of(lane)).collect();
        let first = waits?.into_iter().min().unwrap_or_default();
        Some(bound.span.saturating_add(first))
    }

    /// How long the next call of a lane waits for its door; nothing if no time opens it, or its API is gone.
    fn wait_of(&self, lane: &Name) -> Option<Duration> {
        let lane = Lane::from_name(lane);
        if matches!(lane, Lane::Handler(_)) {
            return Some(Duration::ZERO);
        }
        let (door, target) = lane.upstream(&self.client)?;
        match door.check(target) {
            Decision::WaitUntil(Nanos::MAX) => None,
            Decision::WaitUntil(at) => Some(at.since(door.now())),
            Decision::Allow(()) | Decision::Never => Some(Duration::ZERO),
        }
    }
}
