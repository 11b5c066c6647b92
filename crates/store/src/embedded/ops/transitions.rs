//! How a job moves between its line, a wait and its end, and how that is counted.
//!
//! Every job is counted three times, for all, for its tenant and for its action, always by the same
//! function: so the three cannot differ.

use std::time::Duration;

use outflow_core::{ClockPair, Nanos, WallTime};

use crate::action::JobCounts;
use crate::embedded::disk::write_op::{JobOver, WriteOp};
use crate::embedded::state::StoreState;
use crate::embedded::state::job_entry::{JobEntry, JobPosition};
use crate::settle::{JobStatus, StoredResult};

/// A job that waits for an instant.
#[derive(Debug)]
pub(crate) struct DelayedJob {
    pub(crate) entry: JobEntry,
    pub(crate) until: DelayUntil,
    pub(crate) standing: JobCountState,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum DelayUntil {
    Instant(Nanos),
    Civil(WallTime),
}

/// How a job that is not over is counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum JobCountState {
    InLine,
    Delayed,
    PutOff,
    InFlight,
}

/// The end of one job.
#[derive(Debug)]
pub(crate) struct JobEnding {
    pub(crate) seq: u64,
    pub(crate) entry: JobEntry,
    pub(crate) from: JobCountState,
    pub(crate) ended: JobStatus,
    pub(crate) at: WallTime,
    pub(crate) took: Duration,
    pub(crate) kept: Option<StoredResult>,
}

impl StoreState {
    /// Puts a job into its line. It was counted already.
    pub(crate) fn stand(&mut self, seq: u64, entry: JobEntry) {
        let place = entry.place;
        self.rings = true;
        if let Some(seat) = self.lane_tenant_mut(place.lane, place.tenant) {
            seat.insert(seq, entry);
        }
        self.update_lane_tenant(place.lane, place.tenant);
    }

    /// Lets a job wait for an instant. It was counted already.
    pub(crate) fn wait(&mut self, seq: u64, waiting: DelayedJob) {
        match waiting.until {
            DelayUntil::Instant(at) => self.due.insert((at, seq)),
            DelayUntil::Civil(at) => self.starts.insert((at, seq)),
        };
        self.waiting.insert(seq, waiting);
    }

    /// Takes a job out of those that wait for an instant.
    pub(crate) fn wake(&mut self, seq: u64) -> Option<DelayedJob> {
        let waiting = self.waiting.remove(&seq)?;
        match waiting.until {
            DelayUntil::Instant(at) => self.due.remove(&(at, seq)),
            DelayUntil::Civil(at) => self.starts.remove(&(at, seq)),
        };
        Some(waiting)
    }

    /// Lets everything happen whose time has come: leases end, and jobs that waited stand in line.
    pub(crate) fn catch_up(&mut self, moment: ClockPair) {
        self.claims.lapse(moment.now);
        while let Some((at, seq)) = self.due.first().copied()
            && at <= moment.now
        {
            self.line_up(seq);
        }
        while let Some((at, seq)) = self.starts.first().copied()
            && at <= moment.wall
        {
            self.line_up(seq);
        }
    }

    /// A job that waited stands in line.
    pub(crate) fn line_up(&mut self, seq: u64) {
        let Some(DelayedJob {
            entry, standing, ..
        }) = self.wake(seq)
        else {
            return;
        };
        self.count(entry.place, entry.action, |tally| {
            uncount_wait(tally, standing);
        });
        self.stand(seq, entry);
    }

    /// Counts what happened to a job, for all, for its tenant and for its action.
    pub(crate) fn count(
        &mut self,
        place: JobPosition,
        action: Option<u32>,
        change: impl Fn(&mut JobCounts),
    ) {
        change(&mut self.total);
        if let Some(tenant) = self.tenants.get_mut(&place.tenant) {
            let before = tenant.tally;
            change(&mut tenant.tally);
            match (before.open() > 0, tenant.tally.open() > 0) {
                (false, true) => {
                    self.active += 1;
                    tenant.idle_since = None;
                }
                (true, false) => self.active -= 1,
                _ => {}
            }
            let bounded = tenant.rule.in_flight.is_some();
            if bounded && before.in_flight != tenant.tally.in_flight {
                self.arrange(place.tenant);
            }
        }
        if let Some(action) = action.and_then(|id| self.actions.get_mut(&id)) {
            change(&mut action.tally);
        }
    }

    /// A job of this place begins or stops waiting.
    pub(crate) fn count_lane_tenant(&mut self, place: JobPosition, change: impl Fn(&mut u64)) {
        if let Some(seat) = self.lane_tenant_mut(place.lane, place.tenant) {
            change(&mut seat.queued);
        }
    }

    /// Ends a job that is in no line, waits for nothing and is not claimed any more.
    pub(crate) fn end(&mut self, ending: JobEnding) {
        let JobEnding {
            seq, entry, from, ..
        } = ending;
        let (ended, took) = (ending.ended, ending.took);
        self.count(entry.place, entry.action, |tally| {
            uncount(tally, from);
            match ended {
                JobStatus::Done => {
                    tally.done += 1;
                    tally.busy = tally.busy.saturating_add(took);
                }
                JobStatus::Failed => tally.dead += 1,
                JobStatus::Expired | JobStatus::Cancelled => tally.cancelled += 1,
            }
        });
        if from != JobCountState::InFlight {
            self.count_lane_tenant(entry.place, |queued| *queued = queued.saturating_sub(1));
        }
        self.forget(seq, entry.place);
        let tenant = self.tenants.get(&entry.place.tenant);
        let Some(tenant) = tenant.map(|tenant| tenant.name.clone()) else {
            return;
        };
        let over = JobOver {
            seq,
            place: entry.place,
            tenant,
            action: entry.action,
            ended,
            tries: entry.tries,
            at: ending.at,
            took,
            kept: ending.kept,
        };
        self.record(WriteOp::Over(Box::new(over)));
        self.close_action(entry.action, ending.at);
    }

    /// A job's row goes.
    fn forget(&mut self, seq: u64, place: JobPosition) {
        if let Some(line) = self.line_mut(place) {
            line.live = line.live.saturating_sub(1);
        }
        if let Some(lane) = self.lanes.get_mut(&place.lane) {
            lane.open = lane.open.saturating_sub(1);
        }
        if let Some(run) = self.runs.ended(seq) {
            self.record(WriteOp::RunOver(run));
        }
    }
}

/// A job that is not over is counted so.
pub(crate) const fn count_as(tally: &mut JobCounts, standing: JobCountState) {
    match standing {
        JobCountState::InLine => tally.queued += 1,
        JobCountState::Delayed => {
            tally.queued += 1;
            tally.delayed += 1;
        }
        JobCountState::PutOff => {
            tally.queued += 1;
            tally.non_ready += 1;
        }
        JobCountState::InFlight => tally.in_flight += 1,
    }
}

/// And no longer.
pub(crate) const fn uncount(tally: &mut JobCounts, standing: JobCountState) {
    match standing {
        JobCountState::InLine => tally.queued -= 1,
        JobCountState::Delayed | JobCountState::PutOff => {
            tally.queued -= 1;
            uncount_wait(tally, standing);
        }
        JobCountState::InFlight => tally.in_flight -= 1,
    }
}

/// It waits no longer for an instant, but for its turn.
const fn uncount_wait(tally: &mut JobCounts, standing: JobCountState) {
    match standing {
        JobCountState::Delayed => tally.delayed -= 1,
        JobCountState::PutOff => tally.non_ready -= 1,
        JobCountState::InLine | JobCountState::InFlight => {}
    }
}
