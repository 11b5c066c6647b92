//! Claims end.

use std::time::Duration;

use outflow_core::{ClockPair, rate_limit_speed};

use super::transitions::{DelayUntil, DelayedJob, JobCountState, JobEnding, count_as};
use crate::claim::FencingToken;
use crate::embedded::disk::write_op::{JobMark, MarkState, WriteOp};
use crate::embedded::state::StoreState;
use crate::embedded::state::action::ActionEnd;
use crate::embedded::state::claims::ClaimState;
use crate::embedded::state::job_entry::AttemptHistory;
use crate::name::Name;
use crate::settle::{
    CooldownScope, Defer, JobEnd, JobStatus, SettleResult, Settlement, StoredResult,
};

impl StoreState {
    /// Ends one claim.
    pub(crate) fn settle(
        &mut self,
        session: &Name,
        settlement: Settlement,
        moment: ClockPair,
    ) -> SettleResult {
        let Settlement { token, end } = settlement;
        if !self.is_theirs(session, token) {
            return SettleResult::Fenced;
        }
        let Some(claim) = self.unclaim(token.job) else {
            return SettleResult::Fenced;
        };
        let first = self.pending.len();
        let undo = claim.copy();
        let settled = if claim.doomed && begins_again(&claim, &end) {
            self.finish(claim, JobStatus::Cancelled, moment)
        } else {
            self.apply(claim, end, moment)
        };
        if let Some(step) = self.pending.get_mut(first) {
            step.undo = Some(undo);
        }
        settled
    }

    fn is_theirs(&self, session: &Name, token: FencingToken) -> bool {
        let claim = self.claims.by_job.get(&token.job);
        claim.is_some_and(|claim| {
            claim.number == token.claim && claim.session.as_ref() == Some(session)
        })
    }

    fn apply(&mut self, mut claim: ClaimState, end: JobEnd, moment: ClockPair) -> SettleResult {
        match end {
            JobEnd::Done { took, result } => {
                self.over(claim, (JobStatus::Done, took, result), moment);
                SettleResult::Done
            }
            JobEnd::Retry {
                after,
                words,
                result,
            } => {
                self.mishap(claim.seq, words, moment);
                self.retry(claim, after, result, moment)
            }
            JobEnd::RetryPutOff { by, words, result } => {
                self.mishap(claim.seq, words, moment);
                self.retry_put_off(claim, by, result, moment)
            }
            JobEnd::Failed { words, result } => {
                self.mishap(claim.seq, words, moment);
                self.over(claim, (JobStatus::Failed, Duration::ZERO, result), moment);
                SettleResult::Buried
            }
            JobEnd::Throttled { after, park } => self.throttled(claim, (after, park), moment),
            JobEnd::Returned => {
                let tries = &mut claim.entry.tries;
                tries.attempts = tries.attempts.saturating_sub(1);
                self.bring_back(claim, moment)
            }
            JobEnd::Interrupted => self.bring_back(claim, moment),
            JobEnd::PutOff(put_off) => self.put_off(claim, put_off, moment),
        }
    }

    /// A job that was refused goes back, and whoever it concerns waits.
    fn throttled(
        &mut self,
        mut claim: ClaimState,
        (after, park): (Duration, CooldownScope),
        moment: ClockPair,
    ) -> SettleResult {
        let place = claim.entry.place;
        claim.entry.tries.survived();
        if !self.is_orphaned(&claim) {
            self.count_throttle(&mut claim);
        }
        let settled = self.bring_back(claim, moment);
        let until = moment.now.saturating_add(after);
        if let Some(lane) = self.lanes.get_mut(&place.lane) {
            match park {
                CooldownScope::Lane => lane.shut_until = lane.shut_until.max(until),
                CooldownScope::Tenant => {
                    if let Some(seat) = lane.seats.get(&place.tenant) {
                        lane.order.block_until(seat.handle, until);
                    }
                }
            }
        }
        settled
    }

    /// Counts a refusal when it happens, for the job and for whoever it belongs to.
    fn count_throttle(&mut self, claim: &mut ClaimState) {
        let entry = &mut claim.entry;
        entry.tries.throttles += 1;
        let (place, action) = (entry.place, entry.action);
        self.count(place, action, |tally| tally.throttles += 1);
        self.record(WriteOp::Throttled {
            tenant: place.tenant,
            action,
        });
    }

    fn retry(
        &mut self,
        mut claim: ClaimState,
        after: Duration,
        last: Option<StoredResult>,
        at: ClockPair,
    ) -> SettleResult {
        if claim.entry.tries.retries >= claim.entry.max_retries {
            self.over(claim, (JobStatus::Failed, Duration::ZERO, last), at);
            return SettleResult::Buried;
        }
        claim.entry.tries.retries += 1;
        claim.entry.tries.survived();
        if self.is_orphaned(&claim) {
            return self.finish(claim, JobStatus::Cancelled, at);
        }
        self.delay(&claim, (MarkState::Retry, after), at);
        SettleResult::Waits
    }

    fn retry_put_off(
        &mut self,
        mut claim: ClaimState,
        by: Defer,
        last: Option<StoredResult>,
        at: ClockPair,
    ) -> SettleResult {
        if claim.entry.tries.retries >= claim.entry.max_retries {
            self.over(claim, (JobStatus::Failed, Duration::ZERO, last), at);
            return SettleResult::Buried;
        }
        claim.entry.tries.retries += 1;
        claim.entry.tries.survived();
        self.catch_up(at);
        if self.is_orphaned(&claim) {
            return self.finish(claim, JobStatus::Cancelled, at);
        }
        self.wait_off(claim, by, at)
    }

    /// A job that found no room.
    fn put_off(
        &mut self,
        mut claim: ClaimState,
        put_off: Defer,
        moment: ClockPair,
    ) -> SettleResult {
        self.catch_up(moment);
        if self.is_orphaned(&claim) {
            return self.finish(claim, JobStatus::Cancelled, moment);
        }
        self.count_throttle(&mut claim);
        self.refund(&mut claim);
        self.wait_off(claim, put_off, moment)
    }

    /// Waits among those that found no room, for as long as the rule says.
    fn wait_off(&mut self, claim: ClaimState, put_off: Defer, moment: ClockPair) -> SettleResult {
        let tenant = claim.entry.place.tenant;
        let others = self.tenants.get(&tenant).map(|of| of.tally.non_ready);
        let non_ready = others.unwrap_or(0) + 1;
        let (backoff, speed) = match put_off {
            Defer::Fixed(span) => (span, 0),
            Defer::Formula { rule, global } => {
                let reading = rule.reading(non_ready, rate_limit_speed(global, self.active));
                (reading.backoff, reading.speed)
            }
        };
        self.delay(&claim, (MarkState::PutOff, backoff), moment);
        if let Some(tenant) = self.tenants.get_mut(&tenant) {
            (tenant.last_backoff, tenant.speed) = (backoff, speed);
            tenant.last_update = Some(moment.wall);
        }
        self.record(WriteOp::Congested {
            tenant,
            backoff,
            speed,
            at: moment.wall,
        });
        SettleResult::PutOff {
            backoff,
            non_ready,
            speed,
        }
    }

    /// Lets a job that was claimed wait for a span.
    fn delay(
        &mut self,
        claim: &ClaimState,
        (state, span): (MarkState, Duration),
        moment: ClockPair,
    ) {
        let entry = claim.entry.clone();
        let standing = match state {
            MarkState::PutOff => JobCountState::PutOff,
            _ => JobCountState::Delayed,
        };
        self.record(WriteOp::Mark(JobMark {
            seq: claim.seq,
            state,
            tries: entry.tries,
            due: Some(moment.wall.saturating_add(span)),
            span: Some(span),
        }));
        self.count_return(claim, standing);
        let until = DelayUntil::Instant(moment.now.saturating_add(span));
        self.wait(
            claim.seq,
            DelayedJob {
                entry,
                until,
                standing,
            },
        );
    }

    /// Puts a job back to the head of its line, with its turn given back.
    pub(crate) fn bring_back(&mut self, mut claim: ClaimState, moment: ClockPair) -> SettleResult {
        if self.is_orphaned(&claim) {
            return self.finish(claim, JobStatus::Cancelled, moment);
        }
        let (seq, entry) = (claim.seq, claim.entry.clone());
        let change = if entry.tries == AttemptHistory::default() && !self.runs.apart.contains(&seq)
        {
            WriteOp::Unmark(seq)
        } else {
            WriteOp::Mark(JobMark {
                seq,
                state: MarkState::Back,
                tries: entry.tries,
                due: None,
                span: None,
            })
        };
        self.record(change);
        self.count_return(&claim, JobCountState::InLine);
        self.stand(seq, entry);
        self.refund(&mut claim);
        SettleResult::Waits
    }

    fn count_return(&mut self, claim: &ClaimState, standing: JobCountState) {
        let entry = &claim.entry;
        self.count(entry.place, entry.action, |tally| {
            tally.in_flight -= 1;
            count_as(tally, standing);
        });
        self.count_lane_tenant(entry.place, |queued| *queued += 1);
    }

    /// Gives a turn back.
    fn refund(&mut self, claim: &mut ClaimState) {
        let Some(tag) = claim.tag.take() else {
            return;
        };
        let place = claim.entry.place;
        let Some(lane) = self.lanes.get_mut(&place.lane) else {
            return;
        };
        if let Some(seat) = lane.seats.get_mut(&place.tenant) {
            seat.classes.refund(place.class, claim.entry.cost);
        }
        lane.order.refund(tag);
    }

    /// Whether the action of a job went on without it: then it does not stand in line again.
    fn is_orphaned(&self, claim: &ClaimState) -> bool {
        claim.entry.action.is_some_and(|id| {
            let action = self.actions.get(&id);
            action.is_none_or(|action| action.state.fate != ActionEnd::Open)
        })
    }

    pub(crate) fn mishap(&mut self, seq: u64, words: String, moment: ClockPair) {
        self.record(WriteOp::Mishap {
            seq,
            at: moment.wall,
            words,
        });
    }

    pub(crate) fn finish(
        &mut self,
        claim: ClaimState,
        ended: JobStatus,
        moment: ClockPair,
    ) -> SettleResult {
        self.over(claim, (ended, Duration::ZERO, None), moment);
        match ended {
            JobStatus::Done => SettleResult::Done,
            JobStatus::Failed => SettleResult::Buried,
            JobStatus::Expired | JobStatus::Cancelled => SettleResult::Cancelled,
        }
    }

    fn over(
        &mut self,
        claim: ClaimState,
        (ended, took, kept): (JobStatus, Duration, Option<StoredResult>),
        moment: ClockPair,
    ) {
        self.end(JobEnding {
            seq: claim.seq,
            entry: claim.entry,
            from: JobCountState::InFlight,
            ended,
            at: moment.wall,
            took,
            kept,
        });
    }
}

/// Whether an end has its job begin again, which a cancelled one does not. Of one that does not, what came of
/// it counts: the call was made.
const fn begins_again(claim: &ClaimState, end: &JobEnd) -> bool {
    match end {
        JobEnd::Done { .. } | JobEnd::Failed { .. } => false,
        JobEnd::Retry { .. } | JobEnd::RetryPutOff { .. } => {
            claim.entry.tries.retries < claim.entry.max_retries
        }
        JobEnd::Throttled { .. } | JobEnd::Returned | JobEnd::Interrupted | JobEnd::PutOff(_) => {
            true
        }
    }
}
