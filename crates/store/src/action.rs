//! Bulk action: jobs that start, progress and finish together.

use std::time::Duration;

use outflow_core::WallTime;

use crate::name::Name;

/// The specification of an action, set before its first job or with it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ActionSpec {
    /// Its name. A finished action's name may be used again.
    pub id: Name,
    /// The action fails if it makes no progress for this span: no job of it ends.
    pub timeout: Duration,
    /// The store keeps the action and its results for this span after its end.
    pub keep: Duration,
    /// Target and text of the completion notice. Only the engine reads it.
    pub note: Option<String>,
}

impl ActionSpec {
    /// Creates an action with a timeout of an hour without progress that is kept for a day.
    pub const fn new(id: Name) -> Self {
        Self {
            id,
            timeout: Duration::from_hours(1),
            keep: Duration::from_hours(24),
            note: None,
        }
    }
}

/// Stage of an action. It only moves to the right, except that a requeued dead letter takes it from
/// [`Aggregating`](Self::Aggregating) back to [`Running`](Self::Running).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum ActionStage {
    /// Jobs may still be added.
    Created,
    /// It is closed, and no job has started.
    Dispatched,
    /// A job has started.
    Running,
    /// It is closed and every job is over; its completion notice was not sent yet.
    Aggregating,
    /// Its completion notice was sent.
    Completed,
    /// It made no progress within its timeout. Unstarted jobs were cancelled; jobs in flight end with their own outcome.
    Failed,
    /// It was cancelled. Unstarted jobs were cancelled; jobs in flight end with their own outcome.
    Cancelled,
}

impl ActionStage {
    /// Returns the stage as responses and logs spell it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Created => "CREATED",
            Self::Dispatched => "DISPATCHED",
            Self::Running => "RUNNING",
            Self::Aggregating => "AGGREGATING",
            Self::Completed => "COMPLETED",
            Self::Failed => "FAILED",
            Self::Cancelled => "CANCELLED",
        }
    }

    /// Returns true if it accepts and starts no more jobs, and its name may be used again. A failed or
    /// cancelled action may still have jobs in flight: see [`ActionReport::is_over`].
    pub const fn is_over(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }
}

/// Returns the reason for which the jobs of an action that timed out end.
pub(crate) fn timeout_reason(timeout: Duration) -> String {
    let seconds = timeout.as_secs_f64();
    format!("the action made no progress for {seconds} s, its timeout: submit the job again with a longer timeout")
}

/// Returns a reason with the last error of its job, if there is one.
pub(crate) fn with_last_error(reason: &str, last: Option<&str>) -> String {
    let last = last.map(|last| format!("; last error: {last}"));
    format!("{reason}{}", last.unwrap_or_default())
}

/// Report of an action.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ActionReport {
    /// Its name, timeout and note.
    pub spec: ActionSpec,
    /// Its stage.
    pub stage: ActionStage,
    /// An operator paused it.
    pub paused: bool,
    /// The number of paused tenants with waiting jobs of it: it cannot end before they are resumed. The
    /// store searches the first few thousand jobs of a long queue. A shared store counts every tenant of
    /// the action that has waiting jobs.
    pub held: u64,
    /// Its jobs.
    pub counts: JobCounts,
    /// The instant at which it was opened.
    pub opened: WallTime,
    /// The instant at which its first job started.
    pub started: Option<WallTime>,
    /// The instant at which it was over.
    pub ended: Option<WallTime>,
    /// The instant of its last progress: the last end of a job, or its opening before the first.
    pub progressed: WallTime,
}

impl ActionReport {
    /// Returns true if its last job is over: a failed or cancelled action may have jobs in flight.
    pub const fn is_over(&self) -> bool {
        self.stage.is_over() && self.counts.open() == 0
    }

    /// Returns the instant at which it fails unless a job of it ends before; nothing for an action without open jobs.
    pub fn times_out(&self) -> Option<WallTime> {
        let is_open = !self.stage.is_over() && self.counts.open() > 0;
        is_open.then(|| self.progressed.saturating_add(self.spec.timeout))
    }

    /// Returns true if it cannot end before an operator resumes something.
    pub const fn is_stopped(&self) -> bool {
        self.counts.queued > 0 && (self.paused || self.held > 0)
    }
}

/// A query for finished actions that need a completion notice.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FinishedQuery<'a> {
    /// The number of further actions at most.
    pub max: usize,
    /// The span for which no other caller gets them: longer than the interval between two queries. After
    /// a crash of the notifier, another one waits this long.
    pub lease: Duration,
    /// Actions that the caller got before and still notifies about.
    pub notifying: &'a [Name],
}

impl FinishedQuery<'_> {
    /// Creates a query that only looks, and leaves the actions to other callers.
    pub const fn peek(max: usize) -> Self {
        Self {
            max,
            lease: Duration::ZERO,
            notifying: &[],
        }
    }
}

/// Estimate of the work that an action's waiting jobs need. It is never too low. A store that does not
/// know which jobs of a tenant belong to the action counts all, up to the action's waiting jobs. A store
/// that searched only a part scales the result up.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RemainingWork {
    /// By lane and tenant, in no order.
    pub places: Vec<RemainingInLane>,
    /// The end of the longest delay, if a short search finds it: a retry, or a start that the submitter set.
    pub latest: Option<WallTime>,
}

impl RemainingWork {
    /// Scales the estimate up to this number of jobs. If none was found, the jobs are spread evenly over
    /// all places.
    pub(crate) fn scaled_to(mut self, queued: u64) -> Self {
        let count = u64::try_from(self.places.len()).unwrap_or(u64::MAX);
        let found: u64 = self.places.iter().map(|place| place.jobs).sum();
        for place in &mut self.places {
            place.until_last = place.until_last.saturating_sub(place.jobs);
            if found == 0 {
                place.jobs = queued.div_ceil(count);
                place.units = place.units.max(1).saturating_mul(place.jobs);
            } else {
                place.jobs = scale(place.jobs, queued.max(found), found);
                place.units = scale(place.units, queued.max(found), found);
            }
            place.until_last = place.until_last.saturating_add(place.jobs);
        }
        self.places.retain(|place| place.jobs > 0);
        self
    }
}

/// Returns `number * times / of`, rounded up.
fn scale(number: u64, times: u64, of: u64) -> u64 {
    let all = u128::from(number) * u128::from(times);
    u64::try_from(all.div_ceil(u128::from(of))).unwrap_or(u64::MAX)
}

/// Waiting jobs of an action in one lane, for one tenant.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RemainingInLane {
    /// The lane.
    pub lane: Name,
    /// The tenant.
    pub tenant: Name,
    /// The number of jobs.
    pub jobs: u64,
    /// Their total cost.
    pub units: u64,
    /// The number of the tenant's jobs up to the last of them, with those of other actions. A store that does not find
    /// the last one counts all.
    pub until_last: u64,
}

/// Counts of jobs. Every job that was ever accepted is in exactly one of six counts: queued, in flight,
/// done, dead, failed or cancelled.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct JobCounts {
    /// Jobs that wait.
    pub queued: u64,
    /// Queued jobs that are deferred.
    pub non_ready: u64,
    /// Queued jobs that wait for an instant: a retry, or a start that the submitter set.
    pub delayed: u64,
    /// Claimed jobs.
    pub in_flight: u64,
    /// Finished jobs.
    pub done: u64,
    /// Dead letters: jobs that failed for good or too often.
    pub dead: u64,
    /// Failed jobs whose dead letters were purged or are too old.
    pub failed: u64,
    /// Jobs that were cancelled or expired.
    pub cancelled: u64,
    /// Throttles and deferrals of all jobs.
    pub throttles: u64,
    /// The total duration of finished jobs.
    pub busy: Duration,
}

impl JobCounts {
    /// Returns the number of jobs that were ever accepted.
    pub const fn submitted(&self) -> u64 {
        self.queued + self.in_flight + self.over()
    }

    /// Returns the number of jobs that are over.
    pub const fn over(&self) -> u64 {
        self.done + self.dead + self.failed + self.cancelled
    }

    /// Returns the number of jobs that may have been throttled: done, failed, in flight or deferred. A
    /// throttled job that returned to its queue counts as untried.
    pub const fn tried(&self) -> u64 {
        self.done + self.dead + self.failed + self.in_flight + self.non_ready
    }

    /// Returns the mean duration of finished jobs, or nothing before the first.
    pub fn mean(&self) -> Option<Duration> {
        let nanos = self.busy.as_nanos().checked_div(u128::from(self.done))?;
        u64::try_from(nanos).ok().map(Duration::from_nanos)
    }

    /// Returns the number of jobs that wait or are in flight.
    pub const fn open(&self) -> u64 {
        self.queued + self.in_flight
    }
}
