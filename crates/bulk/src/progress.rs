//! Progress of an action, with the one estimate of its remaining time.
//!
//! Measured throughput alone ignores limits: the quota of the first window starts at once, and at that speed the
//! rest would end in a moment. So the store returns the remaining work, and its limits give a lower bound from the
//! instant at which the first of its calls can start.

mod bottleneck;
pub(crate) mod in_flight_bound;
pub(crate) mod lower_bound;
pub(crate) mod stall;
pub(crate) mod tenant_bounds;
pub(crate) mod throughput;
pub(crate) mod workload;

use std::time::Duration;

use outflow::core::{Decision, Nanos};
use outflow_store::{ActionReport, ActionStage, JobCounts, JobStore, Name, RemainingWork};

use crate::engine::{Engine, EngineContext};
use crate::error::BulkError;
use crate::submit::lane::Lane;
use throughput::Throughput;
use workload::Workload;

/// Progress of an action.
#[derive(Clone, PartialEq, Debug)]
pub struct ActionProgress {
    /// Stage of the action.
    pub stage: ActionStage,
    /// Its jobs.
    pub counts: JobCounts,
    /// Part of its jobs that ended, of a million.
    pub over_ppm: u32,
    /// Remaining time by [`estimate_eta`]; nothing before the first job ended, or while the action, one of its
    /// tenants or one of its APIs is paused.
    pub eta: Option<Duration>,
    /// Sentences about concurrency and workers that hold its jobs back, in place of limits.
    pub bottlenecks: Vec<String>,
    /// Sentences about what its jobs wait for now: a limit, a sleep, a pause, a response. Empty without open jobs.
    pub waits: Vec<String>,
}

impl ActionProgress {
    fn new(report: &ActionReport, throughput: Option<Throughput>, lower_bound: Option<Duration>) -> Self {
        let counts = report.counts;
        let ended = u128::from(counts.over());
        let part = ended * MILLION / u128::from(counts.submitted().max(1));
        let throughput = throughput.filter(|_| !report.is_stopped());
        Self {
            stage: report.stage,
            counts,
            over_ppm: u32::try_from(part).unwrap_or(u32::MAX),
            eta: estimate_eta(counts.open(), throughput, lower_bound),
            bottlenecks: Vec::new(),
            waits: Vec::new(),
        }
    }
}

/// Estimates the time until the remaining jobs have ended: by the measured throughput, and never less than the
/// lower bound of the limits. Returns nothing if no job ended yet or no lower bound exists.
///
/// Idle time since the last end counts as part of the remaining time, since jobs that wait for the next window
/// come closer to it. Without a lower bound, idle time means that the API became slow.
///
/// ```
/// use std::time::Duration;
///
/// use outflow_bulk::{Throughput, estimate_eta};
///
/// let throughput = Throughput { ended: 25, span: Duration::from_secs(10), idle: Duration::ZERO };
/// let by_speed = estimate_eta(75, Some(throughput), Some(Duration::ZERO));
/// assert_eq!(by_speed, Some(Duration::from_secs(30)));
/// let by_limits = estimate_eta(75, Some(throughput), Some(Duration::from_secs(58)));
/// assert_eq!(by_limits, Some(Duration::from_secs(58)));
/// ```
pub fn estimate_eta(remaining: u64, throughput: Option<Throughput>, lower_bound: Option<Duration>) -> Option<Duration> {
    let throughput = throughput.filter(|measured| measured.ended > 0)?;
    let lower_bound = lower_bound?;
    let active = throughput.span.saturating_sub(throughput.idle);
    let by_speed = throughput.scale(active, remaining);
    Some(match by_speed.checked_sub(throughput.idle) {
        Some(left) => left.max(lower_bound),
        None if lower_bound.is_zero() => throughput.scale(throughput.span, remaining),
        None => lower_bound,
    })
}

impl<S: JobStore> Engine<S> {
    /// Returns the progress of an action; nothing for an unknown action.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn progress(&self, action: &Name) -> Result<Option<ActionProgress>, BulkError> {
        match self.store().action(action).await? {
            Some(report) => self.report_progress(&report).await.map(Some),
            None => Ok(None),
        }
    }

    /// Returns the progress of an action whose report was read before.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn report_progress(&self, report: &ActionReport) -> Result<ActionProgress, BulkError> {
        let context = &self.context;
        let remaining = match report.counts.queued {
            0 => RemainingWork::default(),
            _ => context.store.remaining(&report.spec.id).await?,
        };
        let continues = report.counts.queued > 0 && report.counts.over() > 0;
        let lower_bound = if continues && !report.is_stopped() {
            context.lower_bound(&Workload::from(&remaining))
        } else {
            Some(Duration::ZERO)
        };
        let throughput = context.measure_throughput(report);
        let waits = match report.counts.open() {
            0 => Vec::new(),
            _ => self.action_waits(report, &remaining).await?,
        };
        Ok(ActionProgress {
            waits,
            bottlenecks: self.bottlenecks(report.counts.queued),
            ..ActionProgress::new(report, throughput, lower_bound)
        })
    }
}

impl<S> EngineContext<S> {
    /// Measures the throughput of an action: recently if known, and otherwise since its start.
    fn measure_throughput(&self, report: &ActionReport) -> Option<Throughput> {
        let (action, ended, now) = (&report.spec.id, report.counts.over(), self.clock.now());
        if report.is_stopped() {
            self.throughput.restart(action, now, ended);
        }
        let until = report.ended.unwrap_or_else(|| self.clock.wall());
        let since_start = report.started.map(|started| until.since(started));
        self.throughput.record(action, now, ended, since_start)
    }

    /// Returns the least time that limits need for this work from now on; nothing if an API is paused.
    fn lower_bound(&self, workload: &Workload) -> Option<Duration> {
        let now = self.clock.wall();
        let bound = workload.lower_bound(&self.client, &self.settings.load(), now);
        let waits: Option<Vec<_>> = workload.lanes().map(|lane| self.first_wait(lane)).collect();
        let first = waits?.into_iter().min().unwrap_or_default();
        Some(bound.span.saturating_add(first))
    }

    /// Returns the wait of a lane's next call; nothing if its API is paused or unknown.
    fn first_wait(&self, lane: &Name) -> Option<Duration> {
        let lane = Lane::from_name(lane);
        if matches!(lane, Lane::Handler(_)) {
            return Some(Duration::ZERO);
        }
        let (upstream, target) = lane.upstream(&self.client)?;
        match upstream.check(target) {
            Decision::WaitUntil(Nanos::MAX) => None,
            Decision::WaitUntil(at) => Some(at.since(upstream.now())),
            Decision::Allow(()) | Decision::Never => Some(Duration::ZERO),
        }
    }
}

const MILLION: u128 = 1_000_000;

#[cfg(test)]
mod tests {
    use outflow_core::WallTime;
    use outflow_store::ActionSpec;

    use super::*;

    const BOUND: Duration = Duration::from_secs(29);

    fn measured(ended: u64, span: u64, idle: u64) -> Throughput {
        Throughput {
            ended,
            span: Duration::from_secs(span),
            idle: Duration::from_secs(idle),
        }
    }

    fn report() -> ActionReport {
        ActionReport {
            spec: ActionSpec::new(Name::new("a").expect("a name")),
            stage: ActionStage::Running,
            paused: false,
            held: 0,
            counts: JobCounts {
                queued: 70,
                in_flight: 5,
                done: 20,
                dead: 5,
                ..JobCounts::default()
            },
            opened: WallTime::EPOCH,
            started: Some(WallTime::EPOCH),
            ended: None,
            progressed: WallTime::EPOCH,
        }
    }

    // 25 of 100 in ten seconds: thirty more.
    #[test]
    fn the_rest_takes_as_long_as_the_throughput_says_and_no_less_than_limits_need() {
        let progress = ActionProgress::new(&report(), Some(measured(25, 10, 0)), Some(BOUND));
        assert_eq!(progress.over_ppm, 250_000);
        assert_eq!(progress.eta, Some(Duration::from_secs(30)));
        assert_eq!(progress.eta, estimate_eta(75, Some(measured(25, 10, 0)), Some(BOUND)));
        let slow = ActionProgress::new(&report(), Some(measured(25, 10, 0)), Some(2 * BOUND));
        assert_eq!(slow.eta, Some(2 * BOUND), "no faster than limits allow");
    }

    #[test]
    fn there_is_no_eta_without_an_end_and_none_while_paused() {
        let (speed, bound) = (Some(measured(25, 10, 0)), Some(BOUND));
        let held = ActionReport { held: 1, ..report() };
        assert_eq!(ActionProgress::new(&held, speed, bound).eta, None, "tenant");
        assert_eq!(ActionProgress::new(&report(), speed, None).eta, None, "API");
        assert_eq!(ActionProgress::new(&report(), None, bound).eta, None);
        assert_eq!(estimate_eta(5, Some(measured(0, 1, 0)), bound), None);
    }

    // 5/min: five ended in the first second. Ten more need two windows, and 50 s of idle time are a part of that.
    // Without a limit they say that the API became slow: ten as slow as five in 51 s.
    #[test]
    fn a_wait_for_the_next_window_is_no_slowness() {
        let bound = Duration::from_secs(69);
        assert_eq!(estimate_eta(10, Some(measured(5, 51, 50)), Some(bound)), Some(bound));
        let slow = estimate_eta(10, Some(measured(5, 51, 50)), Some(Duration::ZERO));
        assert_eq!(slow, Some(Duration::from_secs(102)));
    }
}
