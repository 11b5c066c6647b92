//! Recent attempts of a lane in this process: the evidence of who failed, and of what a stall waits for.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use outflow_core::Nanos;
use outflow_store::{FencingToken, Name};
use outflow_sync::Mutex;
use tokio::sync::Notify;

/// Histories of all lanes that this process has served.
#[derive(Debug, Default)]
pub(crate) struct LaneHistories {
    lanes: Mutex<HashMap<Name, Arc<LaneHistory>>>,
    closing: AtomicBool,
}

impl LaneHistories {
    /// Returns the history of a lane, new or kept.
    pub(crate) fn get(&self, lane: &Name) -> Arc<LaneHistory> {
        Arc::clone(self.lanes.lock().entry(lane.clone()).or_default())
    }

    /// Returns the number of jobs that are over in some of the lanes.
    pub(crate) fn ended(&self, is_counted: impl Fn(&Name) -> bool) -> u64 {
        let lanes = self.lanes.lock();
        let counted = lanes.iter().filter(|(name, _)| is_counted(name));
        counted.map(|(_, lane)| lane.ended()).sum()
    }

    /// Ends all waits for evidence: the engine stops.
    pub(crate) fn close(&self) {
        self.closing.store(true, Ordering::Release);
        self.lanes
            .lock()
            .values()
            .for_each(|lane| lane.changed.notify_waiters());
    }

    /// Returns true if the engine stops.
    pub(crate) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Acquire)
    }
}

/// Recent attempts of one lane.
#[derive(Debug, Default)]
pub(crate) struct LaneHistory {
    state: Mutex<HistoryState>,
    /// Number of jobs that are over.
    ended: AtomicU64,
    /// Notified when an attempt has ended.
    pub(super) changed: Notify,
}

#[derive(Debug, Default)]
struct HistoryState {
    /// Last outcomes of distinct jobs, the oldest first.
    recent: VecDeque<AttemptSign>,
    /// Starts of attempts in flight, by claim.
    in_flight: BTreeMap<u64, Nanos>,
    last_error: Option<LaneError>,
    /// End of the first failure since the last success.
    failing_since: Option<Nanos>,
    /// Number of outcomes of jobs that failed before, since the last of another one.
    repeats: u32,
    /// True if jobs wait in the lane's queue.
    has_queued: bool,
    /// Jobs that let others go first since the last outcome.
    aside: HashSet<u64>,
    /// True if one of the last jobs ended because the API served no call for long.
    is_abandoned: bool,
}

impl HistoryState {
    fn has_failed(&self, job: u64) -> bool {
        self.recent
            .iter()
            .any(|sign| sign.job == job && sign.outcome != SignKind::Served)
    }
}

/// Outcome of one job, as evidence about its API.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct AttemptSign {
    pub(super) job: u64,
    pub(super) began: Nanos,
    /// Its end by the clock of the API's upstream.
    pub(super) ended: Nanos,
    pub(super) outcome: SignKind,
}

/// Kind of a sign.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum SignKind {
    /// The API served the job.
    Served,
    /// The job failed for the first time, or the API was failing before.
    Failed,
    /// The job failed, and had failed before while the API served others: it says nothing about the API.
    FailedAgain,
}

/// Outcomes of the jobs that started just before and just after an attempt, the nearest first.
#[derive(Debug)]
pub(super) struct NeighbourSigns {
    before: Vec<AttemptSign>,
    after: Vec<AttemptSign>,
    /// True if an attempt that started just after is still in flight.
    is_open: bool,
}

impl NeighbourSigns {
    /// Returns true if all jobs just before, or all just after, failed.
    pub(super) fn all_failed(&self) -> bool {
        let failed = |signs: &[AttemptSign]| {
            signs.len() == WITNESSES && signs.iter().all(|sign| sign.outcome == SignKind::Failed)
        };
        failed(&self.before) || failed(&self.after)
    }

    /// Returns true if no further outcome can change what the jobs just after show.
    pub(super) const fn is_complete(&self) -> bool {
        self.after.len() == WITNESSES && !self.is_open
    }
}

/// Last error of a lane.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct LaneError {
    pub(crate) message: String,
    pub(crate) at: Nanos,
}

/// Attempts of a lane that have no response yet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PendingAttempts {
    pub(crate) count: usize,
    /// Age of the oldest.
    pub(crate) oldest: Duration,
}

impl LaneHistory {
    /// Notes the start of an attempt; it counts as in flight until the returned mark drops.
    pub(crate) fn begin(self: &Arc<Self>, token: FencingToken, now: Nanos) -> AttemptMark {
        self.state.lock().in_flight.insert(token.claim, now);
        AttemptMark {
            history: Arc::clone(self),
            claim: token.claim,
        }
    }

    /// Counts a job that is over.
    pub(crate) fn count_end(&self) {
        self.ended.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the number of jobs that are over.
    pub(crate) fn ended(&self) -> u64 {
        self.ended.load(Ordering::Relaxed)
    }

    /// Notes if jobs wait in the lane's queue.
    pub(crate) fn set_queued(&self, has_queued: bool) {
        let before = std::mem::replace(&mut self.state.lock().has_queued, has_queued);
        if before && !has_queued {
            self.changed.notify_waiters();
        }
    }

    /// Returns true if other jobs of the lane wait or are in flight.
    pub(super) fn has_others(&self) -> bool {
        let state = self.state.lock();
        state.has_queued || !state.in_flight.is_empty()
    }

    /// Returns the end of the first failure since the last success, if only jobs that failed before are left: others
    /// go first, so that two of them in a row show it.
    pub(super) fn failing_without_others(&self) -> Option<Nanos> {
        let state = self.state.lock();
        state.failing_since.filter(|_| state.repeats >= 2)
    }

    /// Returns true if a job that failed before lets others go first, once for each outcome, while the API is down: jobs
    /// that can never succeed would keep it asleep.
    pub(super) fn steps_aside(&self, job: u64) -> bool {
        let mut state = self.state.lock();
        state.has_queued && state.has_failed(job) && state.aside.insert(job)
    }

    /// Returns the number of jobs whose last known outcome is a failure.
    pub(super) fn failed_jobs(&self) -> usize {
        let state = self.state.lock();
        let signs = state.recent.iter();
        signs.filter(|sign| sign.outcome != SignKind::Served).count()
    }

    /// Ends the jobs that failed before without another attempt, until the API serves a job or a new one comes.
    pub(super) fn abandon(&self) {
        self.state.lock().is_abandoned = true;
    }

    /// Returns the error of a job that failed before, if the lane is abandoned.
    pub(super) fn abandoned_error(&self, job: u64) -> Option<String> {
        let state = self.state.lock();
        let error = state.last_error.as_ref().filter(|_| state.is_abandoned)?;
        state.has_failed(job).then(|| error.message.clone())
    }

    /// Returns the end of a job's last attempt, if it failed.
    pub(super) fn last_failure(&self, job: u64) -> Option<Nanos> {
        let state = self.state.lock();
        let sign = state.recent.iter().find(|sign| sign.job == job)?;
        (sign.outcome != SignKind::Served).then_some(sign.ended)
    }

    /// Records the outcome of a job, in place of its earlier one.
    pub(super) fn record(&self, sign: AttemptSign) {
        let mut state = self.state.lock();
        let before = state.recent.len();
        state.recent.retain(|known| known.job != sign.job);
        let is_first = state.recent.len() == before;
        let is_served = sign.outcome == SignKind::Served;
        state.repeats = if is_first || is_served { 0 } else { state.repeats + 1 };
        state.failing_since = match state.failing_since {
            _ if is_served => None,
            known => known.or(Some(sign.ended)),
        };
        state.aside.clear();
        state.is_abandoned &= !is_first && !is_served;
        if state.recent.len() == MAX_SIGNS {
            state.recent.pop_front();
        }
        state.recent.push_back(sign);
        drop(state);
        self.changed.notify_waiters();
    }

    /// Records an error, for reports.
    pub(super) fn note_error(&self, message: &str, at: Nanos) {
        let message = message.to_owned();
        self.state.lock().last_error = Some(LaneError { message, at });
    }

    /// Returns the outcomes of the jobs that started just before and just after an attempt.
    pub(super) fn neighbours(&self, job: u64, began: Nanos) -> NeighbourSigns {
        let state = self.state.lock();
        let is_witness = |sign: &&AttemptSign| sign.job != job && sign.outcome != SignKind::FailedAgain;
        let mut signs: Vec<_> = state.recent.iter().filter(is_witness).copied().collect();
        signs.sort_unstable_by_key(|sign| sign.began);
        let (before, after) = signs.split_at(signs.partition_point(|sign| sign.began < began));
        let after: Vec<_> = after.iter().take(WITNESSES).copied().collect();
        let last = after.last().map_or(Nanos::MAX, |sign| sign.began);
        NeighbourSigns {
            is_open: state.in_flight.values().any(|start| (began..=last).contains(start)),
            before: before.iter().rev().take(WITNESSES).copied().collect(),
            after,
        }
    }

    /// Returns the last error since the last success, if there is one.
    pub(crate) fn last_error(&self) -> Option<LaneError> {
        let state = self.state.lock();
        let is_served = state.recent.back().is_some_and(|sign| sign.outcome == SignKind::Served);
        state.last_error.clone().filter(|_| !is_served)
    }

    /// Returns the attempts without a response, if there are any.
    pub(crate) fn pending(&self, now: Nanos) -> Option<PendingAttempts> {
        let state = self.state.lock();
        let first = state.in_flight.values().min()?;
        Some(PendingAttempts {
            count: state.in_flight.len(),
            oldest: now.since(*first),
        })
    }
}

/// Mark of an attempt in flight.
#[derive(Debug)]
pub(crate) struct AttemptMark {
    history: Arc<LaneHistory>,
    claim: u64,
}

impl Drop for AttemptMark {
    fn drop(&mut self) {
        self.history.state.lock().in_flight.remove(&self.claim);
    }
}

/// Jobs that must agree: two may fail together by coincidence, and more would use retries at a slow rate.
const WITNESSES: usize = 3;

/// Enough for the neighbours of an attempt that ended after its timeout, at thirty a second.
const MAX_SIGNS: usize = 1_024;
