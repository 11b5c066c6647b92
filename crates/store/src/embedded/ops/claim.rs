//! Jobs go out, in fair order.

use std::time::Duration;

use outflow_core::{ClockPair, Nanos};

use super::poison_isolation::is_last_chance;
use super::submit::minted;
use crate::claim::{
    ClaimBatch, ClaimDecision, ClaimFilter, ClaimRequest, ClaimedJob, FencingToken, NextJob,
};
use crate::embedded::disk::write_op::{ActionRow, JobMark, MarkState, WriteOp};
use crate::embedded::state::StoreState;
use crate::embedded::state::claims::{ClaimState, SessionState};
use crate::embedded::state::job_entry::{JobBody, JobEntry, JobPosition};
use crate::error::StoreError;

impl StoreState {
    /// Gives out jobs of a lane, as many as are asked for and the gate lets go.
    pub(crate) fn claim(
        &mut self,
        ask: &ClaimRequest,
        gate: &mut dyn ClaimFilter,
        moment: ClockPair,
    ) -> Result<ClaimBatch, StoreError> {
        self.catch_up(moment);
        let mut claims = ClaimBatch::default();
        let Some(lane) = self.lane_ids.get(&ask.lane).copied() else {
            self.renew(ask, moment.now);
            return Ok(claims);
        };
        self.renew(ask, moment.now);
        if let Some(held) = self.held_up(lane, moment.now) {
            claims.next = held.left;
            return Ok(claims);
        }
        let given = self.give_out(lane, ask, gate, moment);
        self.let_others_go(lane);
        given
    }

    /// Gives out jobs of a lane that nobody holds up.
    fn give_out(
        &mut self,
        lane: u32,
        ask: &ClaimRequest,
        gate: &mut dyn ClaimFilter,
        moment: ClockPair,
    ) -> Result<ClaimBatch, StoreError> {
        let mut claims = ClaimBatch::default();
        let mut passed = 0;
        while claims.jobs.len() < ask.most && !self.claims.has_alone() {
            let turn = self.next_job(lane, (ask, gate), moment);
            let turn = match turn {
                Ok(JobCheck::Given(seq, place)) => Ok(self.give(seq, place, ask, moment)),
                other => other,
            };
            match turn {
                Ok(JobCheck::Gone(job)) => claims.jobs.push(*job),
                Ok(JobCheck::Given(..)) => {}
                Ok(JobCheck::Expired) => {
                    claims.expired += 1;
                    passed += 1;
                }
                Ok(JobCheck::Passed) => passed += 1,
                Err(error) if claims.jobs.is_empty() => return Err(error),
                Ok(JobCheck::Over) | Err(_) => break,
            }
            if passed > PASS_MOST {
                claims.next = Some(SOON);
                return Ok(claims);
            }
        }
        claims.next = self.next_wakeup(lane, moment);
        Ok(claims)
    }

    fn renew(&mut self, ask: &ClaimRequest, now: Nanos) {
        let until = now.saturating_add(ask.lease);
        let session = self.claims.sessions.entry(ask.session.clone());
        session
            .or_insert_with(|| SessionState {
                until,
                jobs: std::collections::BTreeSet::new(),
            })
            .until = until;
    }

    /// Looks at the job whose turn it is.
    fn next_job(
        &mut self,
        lane_id: u32,
        (ask, gate): (&ClaimRequest, &mut dyn ClaimFilter),
        moment: ClockPair,
    ) -> Result<JobCheck, StoreError> {
        let Some(lane) = self.lanes.get_mut(&lane_id) else {
            return Ok(JobCheck::Over);
        };
        if lane.shut_until > moment.now {
            return Ok(JobCheck::Over);
        }
        let Some(handle) = lane.order.next(moment.now) else {
            return Ok(JobCheck::Over);
        };
        let slot = usize::try_from(handle.slot()).unwrap_or(usize::MAX);
        let tenant = lane.slots.get(slot).copied().unwrap_or(0);
        let Some((seq, place)) = self.head(lane_id, tenant)? else {
            self.update_lane_tenant(lane_id, tenant);
            return Ok(JobCheck::Passed);
        };
        if let Some(turn) = self.divert(seq, place, moment)? {
            return Ok(turn);
        }
        let suspect = self.is_suspect(seq, place, ask.recoveries);
        if suspect && !self.claims.by_job.is_empty() {
            self.wait_alone(place, moment.now);
            return Ok(JobCheck::Over);
        }
        let turn = match self.decide_claim(gate, seq, place) {
            ClaimDecision::Take => JobCheck::Given(seq, place),
            ClaimDecision::Park(until) => {
                let soon = moment.now.saturating_add(Duration::from_nanos(1));
                let rest = self.in_vain(place, moment.now);
                self.park(place.lane, place.tenant, until.max(soon).max(rest));
                JobCheck::Passed
            }
            ClaimDecision::Stop if suspect => {
                self.wait_on(place, moment.now);
                JobCheck::Over
            }
            ClaimDecision::Stop => JobCheck::Over,
        };
        Ok(turn)
    }

    /// Asks whether a job may go.
    fn decide_claim(
        &self,
        gate: &mut dyn ClaimFilter,
        seq: u64,
        place: JobPosition,
    ) -> ClaimDecision {
        let tenant = self.tenants.get(&place.tenant);
        let first = self.line(place).and_then(|line| line.front.get(&seq));
        let (Some(tenant), Some(first)) = (tenant, first) else {
            return ClaimDecision::Stop;
        };
        gate.decide(&NextJob {
            tenant: &tenant.name,
            cost: first.cost,
            priority: place.class,
        })
    }

    /// The first job of a tenant in a lane, read from the disk if it is not here.
    fn head(&mut self, lane: u32, tenant: u32) -> Result<Option<(u64, JobPosition)>, StoreError> {
        loop {
            let Some(seat) = self.lane_tenant_mut(lane, tenant) else {
                return Ok(None);
            };
            let Some(class) = seat.turn() else {
                return Ok(None);
            };
            let of_class = seat.lines.get_mut(class);
            let place = JobPosition {
                line: of_class.id,
                lane,
                tenant,
                class,
            };
            let Some(run) = of_class.run_to_read() else {
                let first = of_class.front.first_key_value();
                return Ok(first.map(|(seq, _)| (*seq, place)));
            };
            self.read_run(place, run)?;
        }
    }

    /// Takes a job out of its line, without its payload.
    pub(crate) fn pull(&mut self, seq: u64, place: JobPosition) -> Option<JobEntry> {
        let mut entry = self.line_mut(place)?.front.remove(&seq)?;
        if let Some(body) = entry.body.take() {
            self.weight = self.weight.saturating_sub(body.weight());
        }
        self.update_lane_tenant(place.lane, place.tenant);
        Some(entry)
    }

    /// Gives a job out that the gate let go.
    fn give(
        &mut self,
        seq: u64,
        place: JobPosition,
        ask: &ClaimRequest,
        moment: ClockPair,
    ) -> JobCheck {
        let first = self.line(place).and_then(|line| line.front.get(&seq));
        let Some(body) = first.and_then(|entry| entry.body.clone()) else {
            return JobCheck::Passed;
        };
        let tag = self.charge(seq, place);
        let Some(mut entry) = self.pull(seq, place) else {
            return JobCheck::Passed;
        };
        entry.tries.attempts += 1;
        let is_alone = is_last_chance(&entry, ask.recoveries);
        let number = self.claims.next_number(self.epoch);
        let token = FencingToken {
            job: seq,
            claim: number,
        };
        let claimed = self.claimed(token, &entry, body);
        self.count_claim(seq, &entry, moment);
        self.claims.insert(ClaimState {
            seq,
            number,
            session: Some(ask.session.clone()),
            entry,
            tag,
            doomed: false,
        });
        if is_alone {
            self.goes_alone(seq);
        }
        claimed.map_or(JobCheck::Passed, |job| JobCheck::Gone(Box::new(job)))
    }

    /// Charges the tenant and the class for a turn.
    fn charge(&mut self, seq: u64, place: JobPosition) -> Option<outflow_core::FairCharge> {
        let lane = self.lanes.get_mut(&place.lane)?;
        let seat = lane.seats.get_mut(&place.tenant)?;
        let cost = seat.lines.get(place.class).front.get(&seq)?.cost;
        seat.classes.charge(place.class, cost);
        lane.order.charge(seat.handle, cost)
    }

    fn claimed(&self, token: FencingToken, entry: &JobEntry, body: JobBody) -> Option<ClaimedJob> {
        let action = entry.action.and_then(|id| self.actions.get(&id));
        Some(ClaimedJob {
            token,
            id: body.name.or_else(|| minted(&self.mint, token.job))?,
            tenant: self.tenants.get(&entry.place.tenant)?.name.clone(),
            action: action.map(|action| action.state.spec.id.clone()),
            cost: entry.cost,
            priority: entry.place.class,
            deadline: entry.deadline,
            attempt: entry.tries.attempts,
            retries: entry.tries.retries,
            throttles: entry.tries.throttles,
            recoveries: entry.tries.recoveries,
            starts_in: Duration::ZERO,
            payload: body.payload,
        })
    }

    fn count_claim(&mut self, seq: u64, entry: &JobEntry, moment: ClockPair) {
        self.count(entry.place, entry.action, |tally| {
            tally.queued -= 1;
            tally.in_flight += 1;
        });
        self.count_lane_tenant(entry.place, |queued| *queued = queued.saturating_sub(1));
        self.record(WriteOp::Mark(JobMark {
            seq,
            state: MarkState::Claimed,
            tries: entry.tries,
            due: None,
            span: None,
        }));
        let Some((id, action)) = entry
            .action
            .and_then(|id| Some((id, self.actions.get_mut(&id)?)))
        else {
            return;
        };
        if action.state.started.is_none() {
            action.state.started = Some(moment.wall);
            let state = action.state.clone();
            self.record(WriteOp::Action(Box::new(ActionRow { id, state })));
        }
    }

    /// When a claim may find more, if nothing else happens.
    fn next_wakeup(&self, lane: u32, moment: ClockPair) -> Option<Duration> {
        let lane = self.lanes.get(&lane)?;
        let shut = Some(lane.shut_until).filter(|until| *until > moment.now);
        let due = self.due.first().map(|(at, _)| *at);
        let instants = [shut, due, lane.order.next_wakeup()];
        let start = self.starts.first().map(|(at, _)| at.since(moment.wall));
        instants
            .into_iter()
            .flatten()
            .map(|at| at.since(moment.now))
            .chain(start)
            .min()
            .map(|wait| wait.max(SOON))
    }
}

/// What came of looking at a job.
pub(crate) enum JobCheck {
    /// It may go.
    Given(u64, JobPosition),
    /// It went.
    Gone(Box<ClaimedJob>),
    /// It was too late.
    Expired,
    /// It was put aside, or its tenant was: the next one.
    Passed,
    /// Nobody may go.
    Over,
}

/// So many jobs are passed over by one claim at most, a few milliseconds' work with the store locked.
const PASS_MOST: u32 = 4_096;

/// What is known to be possible soon is not asked for at once again.
const SOON: Duration = Duration::from_millis(1);
