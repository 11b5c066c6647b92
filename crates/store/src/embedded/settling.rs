//! Claims end.

use std::time::Duration;

use outflow_core::{Moment, rate_limit_speed};

use super::action::Fate;
use super::change::{Change, Mark, MarkState};
use super::claims::Claim;
use super::entry::Tries;
use super::memory::Memory;
use super::moving::{Ending, Standing, Until, Waiting, count_as};
use crate::claim::Token;
use crate::name::Name;
use crate::settle::{End, Ended, Kept, Park, PutOff, Settled, Settlement};

impl Memory {
    /// Ends one claim.
    pub(super) fn settle(
        &mut self,
        session: &Name,
        settlement: Settlement,
        moment: Moment,
    ) -> Settled {
        let Settlement { token, end } = settlement;
        if !self.is_theirs(session, token) {
            return Settled::Fenced;
        }
        let Some(claim) = self.unclaim(token.job) else {
            return Settled::Fenced;
        };
        let first = self.pending.len();
        let undo = claim.copy();
        let settled = if claim.doomed && begins_again(&claim, &end) {
            self.finish(claim, Ended::Cancelled, moment)
        } else {
            self.apply(claim, end, moment)
        };
        if let Some(step) = self.pending.get_mut(first) {
            step.undo = Some(undo);
        }
        settled
    }

    fn is_theirs(&self, session: &Name, token: Token) -> bool {
        let claim = self.claims.by_job.get(&token.job);
        claim.is_some_and(|claim| {
            claim.number == token.claim && claim.session.as_ref() == Some(session)
        })
    }

    fn apply(&mut self, mut claim: Claim, end: End, moment: Moment) -> Settled {
        match end {
            End::Done { took, result } => {
                self.over(claim, (Ended::Done, took, result), moment);
                Settled::Done
            }
            End::Retry {
                after,
                words,
                result,
            } => {
                self.mishap(claim.seq, words, moment);
                self.retry(claim, after, result, moment)
            }
            End::RetryPutOff { by, words, result } => {
                self.mishap(claim.seq, words, moment);
                self.retry_put_off(claim, by, result, moment)
            }
            End::Failed { words, result } => {
                self.mishap(claim.seq, words, moment);
                self.over(claim, (Ended::Failed, Duration::ZERO, result), moment);
                Settled::Buried
            }
            End::Throttled { after, park } => self.throttled(claim, (after, park), moment),
            End::Returned => {
                let tries = &mut claim.entry.tries;
                tries.attempts = tries.attempts.saturating_sub(1);
                self.bring_back(claim, moment)
            }
            End::Interrupted => self.bring_back(claim, moment),
            End::PutOff(put_off) => self.put_off(claim, put_off, moment),
        }
    }

    /// A job that was refused goes back, and whoever it concerns waits.
    fn throttled(
        &mut self,
        mut claim: Claim,
        (after, park): (Duration, Park),
        moment: Moment,
    ) -> Settled {
        let place = claim.entry.place;
        claim.entry.tries.survived();
        if !self.is_orphaned(&claim) {
            self.count_throttle(&mut claim);
        }
        let settled = self.bring_back(claim, moment);
        let until = moment.now.saturating_add(after);
        if let Some(lane) = self.lanes.get_mut(&place.lane) {
            match park {
                Park::Lane => lane.shut_until = lane.shut_until.max(until),
                Park::Tenant => {
                    if let Some(seat) = lane.seats.get(&place.tenant) {
                        lane.order.park(seat.handle, until);
                    }
                }
            }
        }
        settled
    }

    /// Counts a refusal when it happens, for the job and for whoever it belongs to.
    fn count_throttle(&mut self, claim: &mut Claim) {
        let entry = &mut claim.entry;
        entry.tries.throttles += 1;
        let (place, action) = (entry.place, entry.action);
        self.count(place, action, |tally| tally.throttles += 1);
        self.tell(Change::Throttled {
            tenant: place.tenant,
            action,
        });
    }

    fn retry(
        &mut self,
        mut claim: Claim,
        after: Duration,
        last: Option<Kept>,
        at: Moment,
    ) -> Settled {
        if claim.entry.tries.retries >= claim.entry.max_retries {
            self.over(claim, (Ended::Failed, Duration::ZERO, last), at);
            return Settled::Buried;
        }
        claim.entry.tries.retries += 1;
        claim.entry.tries.survived();
        if self.is_orphaned(&claim) {
            return self.finish(claim, Ended::Cancelled, at);
        }
        self.delay(&claim, (MarkState::Retry, after), at);
        Settled::Waits
    }

    fn retry_put_off(
        &mut self,
        mut claim: Claim,
        by: PutOff,
        last: Option<Kept>,
        at: Moment,
    ) -> Settled {
        if claim.entry.tries.retries >= claim.entry.max_retries {
            self.over(claim, (Ended::Failed, Duration::ZERO, last), at);
            return Settled::Buried;
        }
        claim.entry.tries.retries += 1;
        claim.entry.tries.survived();
        self.catch_up(at);
        if self.is_orphaned(&claim) {
            return self.finish(claim, Ended::Cancelled, at);
        }
        self.wait_off(claim, by, at)
    }

    /// A job that found no room.
    fn put_off(&mut self, mut claim: Claim, put_off: PutOff, moment: Moment) -> Settled {
        self.catch_up(moment);
        if self.is_orphaned(&claim) {
            return self.finish(claim, Ended::Cancelled, moment);
        }
        self.count_throttle(&mut claim);
        self.refund(&mut claim);
        self.wait_off(claim, put_off, moment)
    }

    /// Waits among those that found no room, for as long as the rule says.
    fn wait_off(&mut self, claim: Claim, put_off: PutOff, moment: Moment) -> Settled {
        let tenant = claim.entry.place.tenant;
        let others = self.tenants.get(&tenant).map(|of| of.tally.non_ready);
        let non_ready = others.unwrap_or(0) + 1;
        let (backoff, speed) = match put_off {
            PutOff::Fixed(span) => (span, 0),
            PutOff::Formula { rule, global } => {
                let reading = rule.reading(non_ready, rate_limit_speed(global, self.active));
                (reading.backoff, reading.speed)
            }
        };
        self.delay(&claim, (MarkState::PutOff, backoff), moment);
        if let Some(tenant) = self.tenants.get_mut(&tenant) {
            (tenant.last_backoff, tenant.speed) = (backoff, speed);
            tenant.last_update = Some(moment.wall);
        }
        self.tell(Change::Congested {
            tenant,
            backoff,
            speed,
            at: moment.wall,
        });
        Settled::PutOff {
            backoff,
            non_ready,
            speed,
        }
    }

    /// Lets a job that was claimed wait for a span.
    fn delay(&mut self, claim: &Claim, (state, span): (MarkState, Duration), moment: Moment) {
        let entry = claim.entry.clone();
        let standing = match state {
            MarkState::PutOff => Standing::PutOff,
            _ => Standing::Delayed,
        };
        self.tell(Change::Mark(Mark {
            seq: claim.seq,
            state,
            tries: entry.tries,
            due: Some(moment.wall.saturating_add(span)),
            span: Some(span),
        }));
        self.count_return(claim, standing);
        let until = Until::Instant(moment.now.saturating_add(span));
        self.wait(
            claim.seq,
            Waiting {
                entry,
                until,
                standing,
            },
        );
    }

    /// Puts a job back to the head of its line, with its turn given back.
    pub(super) fn bring_back(&mut self, mut claim: Claim, moment: Moment) -> Settled {
        if self.is_orphaned(&claim) {
            return self.finish(claim, Ended::Cancelled, moment);
        }
        let (seq, entry) = (claim.seq, claim.entry.clone());
        let change = if entry.tries == Tries::default() && !self.runs.apart.contains(&seq) {
            Change::Unmark(seq)
        } else {
            Change::Mark(Mark {
                seq,
                state: MarkState::Back,
                tries: entry.tries,
                due: None,
                span: None,
            })
        };
        self.tell(change);
        self.count_return(&claim, Standing::InLine);
        self.stand(seq, entry);
        self.refund(&mut claim);
        Settled::Waits
    }

    fn count_return(&mut self, claim: &Claim, standing: Standing) {
        let entry = &claim.entry;
        self.count(entry.place, entry.action, |tally| {
            tally.in_flight -= 1;
            count_as(tally, standing);
        });
        self.count_seat(entry.place, |queued| *queued += 1);
    }

    /// Gives a turn back.
    fn refund(&mut self, claim: &mut Claim) {
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
    fn is_orphaned(&self, claim: &Claim) -> bool {
        claim.entry.action.is_some_and(|id| {
            let action = self.actions.get(&id);
            action.is_none_or(|action| action.state.fate != Fate::Open)
        })
    }

    pub(super) fn mishap(&mut self, seq: u64, words: String, moment: Moment) {
        self.tell(Change::Mishap {
            seq,
            at: moment.wall,
            words,
        });
    }

    pub(super) fn finish(&mut self, claim: Claim, ended: Ended, moment: Moment) -> Settled {
        self.over(claim, (ended, Duration::ZERO, None), moment);
        match ended {
            Ended::Done => Settled::Done,
            Ended::Failed => Settled::Buried,
            Ended::Expired | Ended::Cancelled => Settled::Cancelled,
        }
    }

    fn over(
        &mut self,
        claim: Claim,
        (ended, took, kept): (Ended, Duration, Option<Kept>),
        moment: Moment,
    ) {
        self.end(Ending {
            seq: claim.seq,
            entry: claim.entry,
            from: Standing::InFlight,
            ended,
            at: moment.wall,
            took,
            kept,
        });
    }
}

/// Whether an end has its job begin again, which a cancelled one does not. Of one that does not, what came of
/// it counts: the call was made.
const fn begins_again(claim: &Claim, end: &End) -> bool {
    match end {
        End::Done { .. } | End::Failed { .. } => false,
        End::Retry { .. } | End::RetryPutOff { .. } => {
            claim.entry.tries.retries < claim.entry.max_retries
        }
        End::Throttled { .. } | End::Returned | End::Interrupted | End::PutOff(_) => true,
    }
}
