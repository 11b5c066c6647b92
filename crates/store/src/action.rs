//! A bulk action: jobs that are begun, watched and finished together.

use std::time::Duration;

use outflow_core::WallTime;

use crate::name::Name;

/// What an action is to be, said before its first job or with it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ActionSpec {
    /// Its name. One that is over may be used again.
    pub id: Name,
    /// It fails if it is not complete after so long.
    pub timeout: Duration,
    /// How long it is remembered after its end, with its results.
    pub keep: Duration,
    /// Words for whoever is told of its end: where to, and what about. The engine reads them.
    pub note: Option<String>,
}

impl ActionSpec {
    /// An action that may take an hour and is remembered for a day.
    pub const fn new(id: Name) -> Self {
        Self {
            id,
            timeout: Duration::from_hours(1),
            keep: Duration::from_hours(24),
            note: None,
        }
    }
}

/// How far an action is. It only moves to the right.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum ActionStage {
    /// Jobs may still be added.
    Created,
    /// It is closed, and no job has started.
    Dispatched,
    /// A job has started.
    Running,
    /// It is closed and every job is over; its end has not been told yet.
    Aggregating,
    /// Its end was told.
    Completed,
    /// It took too long. Jobs that had not begun were cancelled; those under way end as they end.
    Failed,
    /// It was cancelled, in the same way.
    Cancelled,
}

impl ActionStage {
    /// The stage as answers and logs spell it.
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

    /// Whether it takes no more jobs and begins none, and its name may be used again. Of one that took too
    /// long or was cancelled jobs may still be under way: see [`ActionReport::is_over`].
    pub const fn is_over(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }
}

/// An action as it stands.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ActionReport {
    /// Its name, timeout and note.
    pub spec: ActionSpec,
    /// How far it is.
    pub stage: ActionStage,
    /// Whether an operator stopped it.
    pub paused: bool,
    /// How many tenants that an operator stopped have jobs of it waiting: it does not end before they go
    /// on. Of a tenant with a long line the first few thousand jobs are looked at, and a shared store
    /// takes it that a tenant of the action which has jobs waiting has jobs of the action waiting.
    pub held: u64,
    /// Its jobs.
    pub tally: JobCounts,
    /// When it was opened.
    pub opened: WallTime,
    /// When its first job started.
    pub started: Option<WallTime>,
    /// When it was over.
    pub ended: Option<WallTime>,
}

impl ActionReport {
    /// Whether it is over to its last job: one that took too long or was cancelled has those under way until
    /// they end.
    pub const fn is_over(&self) -> bool {
        self.stage.is_over() && self.tally.open() == 0
    }

    /// Whether it cannot end before an operator lets something go on.
    pub const fn is_stopped(&self) -> bool {
        self.tally.queued > 0 && (self.paused || self.held > 0)
    }
}

/// What somebody asks who tells the ends of actions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FinishedQuery<'a> {
    /// So many at most that are new to him.
    pub most: usize,
    /// For how long nobody else gets what he has: longer than between two of his questions, and as long as it
    /// may take until another tells what he left when he died.
    pub lease: Duration,
    /// Those that he was given before and is still telling.
    pub notifying: &'a [Name],
}

impl FinishedQuery<'_> {
    /// What somebody asks who only looks, and leaves all of it to whoever tells it.
    pub const fn peek(most: usize) -> Self {
        Self {
            most,
            lease: Duration::ZERO,
            notifying: &[],
        }
    }
}

/// What those jobs of an action still want that wait. Told for an estimate, and never too low: a store that
/// does not know which of a tenant's jobs in a lane are the action's takes it that all may be, up to as many
/// as the action has waiting, and one that has not looked at all takes the rest to be like those it has.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RemainingWork {
    /// By lane and tenant, in no order.
    pub places: Vec<RemainingInLane>,
    /// When the last of those may go that wait for an instant which their submitter named, as far as that is
    /// soon found.
    pub latest: Option<WallTime>,
}

impl RemainingWork {
    /// The same for all of so many jobs: those that were not found are like the others, or evenly at all places
    /// if none was.
    pub(crate) fn scaled_to(mut self, queued: u64) -> Self {
        let many = u64::try_from(self.places.len()).unwrap_or(u64::MAX);
        let found: u64 = self.places.iter().map(|place| place.jobs).sum();
        for place in &mut self.places {
            if found == 0 {
                place.jobs = queued.div_ceil(many);
                place.units = place.units.max(1).saturating_mul(place.jobs);
            } else {
                place.jobs = part(place.jobs, queued.max(found), found);
                place.units = part(place.units, queued.max(found), found);
            }
        }
        self.places.retain(|place| place.jobs > 0);
        self
    }
}

/// So much of a number, rounded up.
fn part(number: u64, times: u64, of: u64) -> u64 {
    let all = u128::from(number) * u128::from(times);
    u64::try_from(all.div_ceil(u128::from(of))).unwrap_or(u64::MAX)
}

/// What jobs of an action want of one lane for one tenant.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RemainingInLane {
    /// The lane.
    pub lane: Name,
    /// For whom.
    pub tenant: Name,
    /// How many jobs.
    pub jobs: u64,
    /// What they cost together.
    pub units: u64,
}

/// Jobs by what became of them. Every job that was ever taken is in exactly one of the six parts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct JobCounts {
    /// Waiting for their turn or their time.
    pub queued: u64,
    /// Of those, put off because there was no room for them.
    pub non_ready: u64,
    /// Of those that are queued, waiting for an instant: a retry, or a start that was asked for.
    pub delayed: u64,
    /// Claimed.
    pub in_flight: u64,
    /// Done.
    pub done: u64,
    /// Buried: failed for good or too often, and still among the dead letters.
    pub dead: u64,
    /// Failed, and gone from the dead letters: purged, or too old.
    pub failed: u64,
    /// Cancelled, or too late to begin.
    pub cancelled: u64,
    /// How often jobs were refused or put off, in all, whatever became of them.
    pub throttles: u64,
    /// How long those that are done took, in all.
    pub busy: Duration,
}

impl JobCounts {
    /// All jobs that were ever taken.
    pub const fn submitted(&self) -> u64 {
        self.queued + self.in_flight + self.over()
    }

    /// All that are over.
    pub const fn over(&self) -> u64 {
        self.done + self.dead + self.failed + self.cancelled
    }

    /// All that throttles can be of, as far as they are told apart: done, failed, under way or put off. One
    /// that a refusal sent back to its line is among those that were never tried.
    pub const fn tried(&self) -> u64 {
        self.done + self.dead + self.failed + self.in_flight + self.non_ready
    }

    /// How long one that is done took, on an average; nothing before the first is.
    pub fn mean(&self) -> Option<Duration> {
        let nanos = self.busy.as_nanos().checked_div(u128::from(self.done))?;
        u64::try_from(nanos).ok().map(Duration::from_nanos)
    }

    /// Those that wait and those under way.
    pub const fn open(&self) -> u64 {
        self.queued + self.in_flight
    }
}
