//! Jobs that are on the disk become known to memory, and may be claimed from then on.

use outflow_core::{ClockPair, WallTime};

use super::submit::{AcceptedBatch, TakenJob};
use super::transitions::{DelayUntil, DelayedJob, JobCountState, count_as};
use crate::action::ActionStage;
use crate::embedded::disk::write_op::{ActionRow, WriteOp};
use crate::embedded::state::StoreState;
use crate::embedded::state::job_entry::{
    AttemptHistory, IdRun, JobBody, JobEntry, JobPosition, RUN_MOST,
};
use crate::job::{NewJob, SubmitReceipt, SubmitResult};

impl StoreState {
    /// Lets the jobs of a batch that is on the disk stand in line.
    pub(crate) fn publish(&mut self, taken: AcceptedBatch, moment: ClockPair) -> SubmitResult {
        let AcceptedBatch {
            mut receipts,
            jobs,
            runs,
            action,
            closes,
        } = taken;
        if let Some(action) = action.and_then(|id| self.actions.get_mut(&id)) {
            action.state.closed |= closes;
        }
        let mut jobs = jobs.into_iter().peekable();
        for (place, run) in runs {
            let near = self.is_near(place);
            if near {
                self.runs.opened(run, run.count);
            } else {
                self.push_run(place, run);
            }
            while let Some(job) = jobs.next_if(|job| job.seq < run.end()) {
                let receipt = receipts.get_mut(job.index);
                let place = self.admit(job, action, near, moment);
                if let Some(SubmitReceipt::Accepted { place: of, .. }) = receipt {
                    *of = place;
                }
            }
            self.update_lane_tenant(place.lane, place.tenant);
        }
        self.close_action(action, moment.wall);
        SubmitResult {
            receipts,
            queued: self.total.queued,
            active: self.active,
        }
    }

    /// Whether a new job of this line is so near the front that it can as well stay in memory.
    fn is_near(&mut self, place: JobPosition) -> bool {
        let room = self.weight < WEIGHT_MOST;
        let line = self.line_mut(place);
        line.is_some_and(|line| room && line.runs.is_empty() && line.front.len() < RUN_MOST)
    }

    fn push_run(&mut self, place: JobPosition, run: IdRun) {
        if let Some(seat) = self.lane_tenant_mut(place.lane, place.tenant) {
            if !seat.lines.get(place.class).waits() {
                seat.classes.arrive(place.class);
            }
            seat.lines.get_mut(place.class).runs.push_back(run);
        }
    }

    /// One job that is on the disk. Answers how many of its tenant wait in its lane.
    fn admit(
        &mut self,
        taken: TakenJob,
        action: Option<u32>,
        near: bool,
        moment: ClockPair,
    ) -> u64 {
        let TakenJob {
            seq, place, job, ..
        } = taken;
        let start = job.not_before.filter(|at| *at > moment.wall);
        let standing = match start {
            Some(_) => JobCountState::Delayed,
            None => JobCountState::InLine,
        };
        self.awake(place.tenant);
        self.count(place, action, |tally| count_as(tally, standing));
        if let Some(line) = self.line_mut(place) {
            line.live += 1;
        }
        if let Some(lane) = self.lanes.get_mut(&place.lane) {
            lane.open += 1;
        }
        self.count_lane_tenant(place, |queued| *queued += 1);
        let entry = entry_of(&job, place, action);
        match start {
            Some(at) => {
                if !near {
                    self.runs.apart.insert(seq);
                }
                let waiting = DelayedJob {
                    entry,
                    until: DelayUntil::Civil(at),
                    standing,
                };
                self.wait(seq, waiting);
            }
            None if near => {
                let body = JobBody {
                    name: job.id,
                    payload: job.payload,
                };
                self.weight += body.weight();
                let body = Some(body);
                if let Some(seat) = self.lane_tenant_mut(place.lane, place.tenant) {
                    seat.insert(seq, JobEntry { body, ..entry });
                }
            }
            None => {}
        }
        self.last_seq = self.last_seq.max(seq);
        self.lane_tenant_mut(place.lane, place.tenant)
            .map_or(0, |seat| seat.queued)
    }

    /// An action whose last job is over, and that gets no more, has ended.
    pub(crate) fn close_action(&mut self, action: Option<u32>, at: WallTime) {
        let Some((id, action)) = action.and_then(|id| Some((id, self.actions.get_mut(&id)?)))
        else {
            return;
        };
        if action.stage() == ActionStage::Aggregating && action.state.ended.is_none() {
            action.state.ended = Some(at);
            let state = action.state.clone();
            self.record(WriteOp::Action(Box::new(ActionRow { id, state })));
        }
    }
}

fn entry_of(job: &NewJob, place: JobPosition, action: Option<u32>) -> JobEntry {
    JobEntry {
        place,
        action,
        cost: job.cost,
        deadline: job.deadline,
        max_retries: job.max_retries,
        tries: AttemptHistory::default(),
        body: None,
    }
}

/// Payloads in memory: enough for the next seconds of every lane, and nothing beside the program's own
/// needs.
pub(crate) const WEIGHT_MOST: usize = 64 * 1_024 * 1_024;
