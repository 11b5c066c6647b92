//! Progress of an action, with the one estimate of its remaining time.
//!
//! Measured throughput alone ignores limits: the quota of the first window starts at once, and at that speed the
//! rest would end in a moment. So the store returns the remaining work, and the limits give the time that it needs
//! from now on. Before a job has ended, that is the estimate.

mod bottleneck;
pub(crate) mod in_flight_bound;
pub(crate) mod lower_bound;
pub(crate) mod remaining_time;
pub(crate) mod stall;
pub(crate) mod tenant_bounds;
pub(crate) mod throughput;
pub(crate) mod workload;

use std::time::Duration;

use outflow_store::{ActionReport, ActionStage, JobCounts, JobStore, Name, RemainingWork};

use crate::engine::{Engine, EngineContext};
use crate::error::BulkError;
use remaining_time::LimitTime;
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
    /// Remaining time by [`estimate_eta`]; nothing while the action, one of its tenants or one of its APIs is paused,
    /// and without limits before the first job ended.
    pub eta: Option<Duration>,
    /// Sentences about concurrency and workers that hold its jobs back, in place of limits.
    pub bottlenecks: Vec<String>,
    /// Sentences about what its jobs wait for now: a limit, a sleep, a pause, a response. Empty without open jobs.
    pub waits: Vec<String>,
}

impl ActionProgress {
    fn new(report: &ActionReport, throughput: Option<Throughput>, limits: Option<LimitTime>) -> Self {
        let counts = report.counts;
        let ended = u128::from(counts.over());
        let part = ended * MILLION / u128::from(counts.submitted().max(1));
        let limits = limits.filter(|_| !report.is_stopped());
        let throughput = throughput.filter(|measured| limits.is_none_or(|limits| limits.trusts(measured)));
        let eta = estimate_eta(counts.open(), throughput, limits.map(|limits| limits.span));
        Self {
            stage: report.stage,
            counts,
            over_ppm: u32::try_from(part).unwrap_or(u32::MAX),
            eta: eta.map(|eta| limits.map_or(eta, |limits| limits.smooth(eta))),
            bottlenecks: Vec::new(),
            waits: Vec::new(),
        }
    }
}

/// Estimates the time until the remaining jobs have ended: by the measured throughput, and never less than the
/// limits need. Before a job ended, the limits alone give it. Returns nothing if both are unknown, or while a pause
/// leaves no bound.
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
/// assert_eq!(estimate_eta(75, None, Some(Duration::from_secs(58))), by_limits);
/// ```
pub fn estimate_eta(remaining: u64, throughput: Option<Throughput>, lower_bound: Option<Duration>) -> Option<Duration> {
    let lower_bound = lower_bound?;
    let Some(throughput) = throughput.filter(|measured| measured.ended > 0) else {
        return Some(lower_bound).filter(|bound| !bound.is_zero());
    };
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
        let limits = if report.counts.queued > 0 && !report.is_stopped() {
            let latency = report.counts.mean().unwrap_or_default();
            context.remaining_time(&Workload::from(&remaining), latency)
        } else {
            Some(LimitTime::default())
        };
        let throughput = context.measure_throughput(report);
        let waits = match report.counts.open() {
            0 => Vec::new(),
            _ => self.action_waits(report, &remaining).await?,
        };
        Ok(ActionProgress {
            waits,
            bottlenecks: self.bottlenecks(report.counts.queued),
            ..ActionProgress::new(report, throughput, limits)
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
}

const MILLION: u128 = 1_000_000;

#[cfg(test)]
mod tests {
    use outflow_core::WallTime;
    use outflow_store::ActionSpec;

    use super::*;

    const BOUND: LimitTime = LimitTime {
        span: Duration::from_secs(29),
        window: Duration::from_millis(500),
    };

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

    // 25 of 100 in twenty seconds: sixty more. In ten seconds: thirty, if limits allow that.
    #[test]
    fn the_rest_takes_as_long_as_the_throughput_says_and_no_less_than_limits_need() {
        let progress = |span, limits| ActionProgress::new(&report(), Some(measured(25, span, 0)), Some(limits));
        let slow = progress(20, BOUND);
        assert_eq!(slow.over_ppm, 250_000);
        assert_eq!(slow.eta, Some(Duration::from_mins(1)));
        let longer = LimitTime {
            span: Duration::from_secs(90),
            ..BOUND
        };
        assert_eq!(
            progress(20, longer).eta,
            Some(longer.span),
            "no faster than limits allow"
        );
        assert_eq!(progress(10, BOUND).eta, Some(BOUND.span), "too soon to say");
        let unlimited = progress(10, LimitTime::default());
        assert_eq!(unlimited.eta, Some(Duration::from_secs(30)));
    }

    // By throughput sixty seconds, and by limits 29 with a window of a minute: the last window ends early.
    #[test]
    fn throughput_that_is_less_than_a_window_behind_is_the_rhythm_of_the_limit() {
        let minute = LimitTime {
            window: Duration::from_mins(1),
            ..BOUND
        };
        let progress = ActionProgress::new(&report(), Some(measured(25, 20, 0)), Some(minute));
        assert_eq!(progress.eta, Some(BOUND.span));
    }

    #[test]
    fn limits_give_the_eta_before_an_end_and_nothing_while_paused() {
        let (speed, bound) = (Some(measured(25, 20, 0)), Some(BOUND));
        let held = ActionReport { held: 1, ..report() };
        assert_eq!(ActionProgress::new(&held, speed, bound).eta, None, "tenant");
        assert_eq!(ActionProgress::new(&report(), speed, None).eta, None, "API");
        assert_eq!(ActionProgress::new(&report(), None, bound).eta, Some(BOUND.span));
        let none_ended = estimate_eta(5, Some(measured(0, 1, 0)), Some(BOUND.span));
        assert_eq!(none_ended, Some(BOUND.span));
        assert_eq!(estimate_eta(5, None, Some(Duration::ZERO)), None, "no limit");
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
