//! Jobs that wait for an instant: a retry, a deferral, or a start that the submitter set.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use outflow_core::{ClockPair, Nanos, WallTime};

use super::job_entry::JobEntry;

/// A job that waits for an instant.
#[derive(Debug)]
pub(crate) struct DelayedJob {
    pub(crate) entry: JobEntry,
    pub(crate) until: DelayUntil,
    pub(crate) counted_as: JobCountState,
}

/// The instant that ends a delay.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum DelayUntil {
    Instant(Nanos),
    Civil(WallTime),
}

/// The count of an open job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum JobCountState {
    Queued,
    Delayed,
    Deferred,
    InFlight,
}

/// All delayed jobs, by the instant at which they may start.
#[derive(Debug, Default)]
pub(crate) struct DelayedJobs {
    jobs: HashMap<u64, DelayedJob>,
    due: BTreeSet<(Nanos, u64)>,
    starts: BTreeSet<(WallTime, u64)>,
}

impl DelayedJobs {
    pub(crate) fn len(&self) -> usize {
        self.jobs.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, &DelayedJob)> {
        self.jobs.iter().map(|(seq, job)| (*seq, job))
    }

    pub(crate) fn insert(&mut self, seq: u64, job: DelayedJob) {
        match job.until {
            DelayUntil::Instant(at) => self.due.insert((at, seq)),
            DelayUntil::Civil(at) => self.starts.insert((at, seq)),
        };
        self.jobs.insert(seq, job);
    }

    pub(crate) fn remove(&mut self, seq: u64) -> Option<DelayedJob> {
        let job = self.jobs.remove(&seq)?;
        match job.until {
            DelayUntil::Instant(at) => self.due.remove(&(at, seq)),
            DelayUntil::Civil(at) => self.starts.remove(&(at, seq)),
        };
        Some(job)
    }

    /// Returns a job whose delay is over.
    pub(crate) fn first_due(&self, moment: ClockPair) -> Option<u64> {
        let due = self.due.first().filter(|(at, _)| *at <= moment.now);
        let start = self.starts.first().filter(|(at, _)| *at <= moment.wall);
        due.map(|(_, seq)| *seq).or_else(|| start.map(|(_, seq)| *seq))
    }

    /// Returns the time until the next delay ends.
    pub(crate) fn next_wakeup(&self, moment: ClockPair) -> Option<Duration> {
        let due = self.due.first().map(|(at, _)| at.since(moment.now));
        let start = self.starts.first().map(|(at, _)| at.since(moment.wall));
        due.into_iter().chain(start).min()
    }

    /// Returns deferred jobs of a tenant, those due first.
    pub(crate) fn deferred_of(&self, tenant: u32) -> impl Iterator<Item = (u64, &DelayedJob)> {
        let due = self.due.iter().filter_map(|(_, seq)| Some((*seq, self.jobs.get(seq)?)));
        due.filter(move |(_, job)| job.counted_as == JobCountState::Deferred && job.entry.position.tenant == tenant)
    }

    /// Returns the end of the longest delay of jobs that are meant, among the last `limit` ends of each kind.
    pub(crate) fn last_end(
        &self,
        limit: usize,
        moment: ClockPair,
        is_meant: impl Fn(&JobEntry) -> bool,
    ) -> Option<WallTime> {
        let is_delayed = |seq| {
            let job = self.jobs.get(seq);
            job.is_some_and(|job| job.counted_as == JobCountState::Delayed && is_meant(&job.entry))
        };
        let mut due = self.due.iter().rev().take(limit);
        let mut starts = self.starts.iter().rev().take(limit);
        let due = due.find(|(_, seq)| is_delayed(seq));
        let due = due.map(|(at, _)| moment.wall.saturating_add(at.since(moment.now)));
        let start = starts.find(|(_, seq)| is_delayed(seq)).map(|(at, _)| *at);
        due.max(start)
    }
}
