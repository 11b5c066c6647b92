//! Jobs go out, in fair order.

use std::time::Duration;

use outflow_core::{Moment, Nanos};

use super::alone::is_last_chance;
use super::change::{ActionRow, Change, Mark, MarkState};
use super::claims::{Claim, Session};
use super::entry::{Body, Entry, Place};
use super::memory::Memory;
use super::submit::minted;
use crate::claim::{Admission, ClaimAsk, Claimed, Claims, Gate, Head, Token};
use crate::error::StoreError;

impl Memory {
    /// Gives out jobs of a lane, as many as are asked for and the gate lets go.
    pub(super) fn claim(
        &mut self,
        ask: &ClaimAsk,
        gate: &mut dyn Gate,
        moment: Moment,
    ) -> Result<Claims, StoreError> {
        self.catch_up(moment);
        let mut claims = Claims::default();
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
        ask: &ClaimAsk,
        gate: &mut dyn Gate,
        moment: Moment,
    ) -> Result<Claims, StoreError> {
        let mut claims = Claims::default();
        let mut passed = 0;
        while claims.jobs.len() < ask.most && !self.claims.has_alone() {
            let turn = self.next_job(lane, (ask, gate), moment);
            let turn = match turn {
                Ok(Turn::Given(seq, place)) => Ok(self.give(seq, place, ask, moment)),
                other => other,
            };
            match turn {
                Ok(Turn::Gone(job)) => claims.jobs.push(*job),
                Ok(Turn::Given(..)) => {}
                Ok(Turn::Expired) => {
                    claims.expired += 1;
                    passed += 1;
                }
                Ok(Turn::Passed) => passed += 1,
                Err(error) if claims.jobs.is_empty() => return Err(error),
                Ok(Turn::Over) | Err(_) => break,
            }
            if passed > PASS_MOST {
                claims.next = Some(SOON);
                return Ok(claims);
            }
        }
        claims.next = self.next_wakeup(lane, moment);
        Ok(claims)
    }

    fn renew(&mut self, ask: &ClaimAsk, now: Nanos) {
        let until = now.saturating_add(ask.lease);
        let session = self.claims.sessions.entry(ask.session.clone());
        session
            .or_insert_with(|| Session {
                until,
                jobs: std::collections::BTreeSet::new(),
            })
            .until = until;
    }

    /// Looks at the job whose turn it is.
    fn next_job(
        &mut self,
        lane_id: u32,
        (ask, gate): (&ClaimAsk, &mut dyn Gate),
        moment: Moment,
    ) -> Result<Turn, StoreError> {
        let Some(lane) = self.lanes.get_mut(&lane_id) else {
            return Ok(Turn::Over);
        };
        if lane.shut_until > moment.now {
            return Ok(Turn::Over);
        }
        let Some(handle) = lane.order.next(moment.now) else {
            return Ok(Turn::Over);
        };
        let slot = usize::try_from(handle.slot()).unwrap_or(usize::MAX);
        let tenant = lane.slots.get(slot).copied().unwrap_or(0);
        let Some((seq, place)) = self.head(lane_id, tenant)? else {
            self.settle_seat(lane_id, tenant);
            return Ok(Turn::Passed);
        };
        if let Some(turn) = self.divert(seq, place, moment)? {
            return Ok(turn);
        }
        let suspect = self.is_suspect(seq, place, ask.recoveries);
        if suspect && !self.claims.by_job.is_empty() {
            self.wait_alone(place, moment.now);
            return Ok(Turn::Over);
        }
        let turn = match self.ask(gate, seq, place) {
            Admission::Take => Turn::Given(seq, place),
            Admission::Park(until) => {
                let soon = moment.now.saturating_add(Duration::from_nanos(1));
                let rest = self.in_vain(place, moment.now);
                self.park(place.lane, place.tenant, until.max(soon).max(rest));
                Turn::Passed
            }
            Admission::Stop if suspect => {
                self.wait_on(place, moment.now);
                Turn::Over
            }
            Admission::Stop => Turn::Over,
        };
        Ok(turn)
    }

    /// Asks whether a job may go.
    fn ask(&self, gate: &mut dyn Gate, seq: u64, place: Place) -> Admission {
        let tenant = self.tenants.get(&place.tenant);
        let first = self.line(place).and_then(|line| line.front.get(&seq));
        let (Some(tenant), Some(first)) = (tenant, first) else {
            return Admission::Stop;
        };
        gate.admit(&Head {
            tenant: &tenant.name,
            cost: first.cost,
            priority: place.class,
        })
    }

    /// The first job of a tenant in a lane, read from the disk if it is not here.
    fn head(&mut self, lane: u32, tenant: u32) -> Result<Option<(u64, Place)>, StoreError> {
        loop {
            let Some(seat) = self.seat_mut(lane, tenant) else {
                return Ok(None);
            };
            let Some(class) = seat.turn() else {
                return Ok(None);
            };
            let of_class = seat.lines.of_mut(class);
            let place = Place {
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
    pub(super) fn pull(&mut self, seq: u64, place: Place) -> Option<Entry> {
        let mut entry = self.line_mut(place)?.front.remove(&seq)?;
        if let Some(body) = entry.body.take() {
            self.weight = self.weight.saturating_sub(body.weight());
        }
        self.settle_seat(place.lane, place.tenant);
        Some(entry)
    }

    /// Gives a job out that the gate let go.
    fn give(&mut self, seq: u64, place: Place, ask: &ClaimAsk, moment: Moment) -> Turn {
        let first = self.line(place).and_then(|line| line.front.get(&seq));
        let Some(body) = first.and_then(|entry| entry.body.clone()) else {
            return Turn::Passed;
        };
        let tag = self.charge(seq, place);
        let Some(mut entry) = self.pull(seq, place) else {
            return Turn::Passed;
        };
        entry.tries.attempts += 1;
        let is_alone = is_last_chance(&entry, ask.recoveries);
        let number = self.claims.next_number(self.epoch);
        let token = Token {
            job: seq,
            claim: number,
        };
        let claimed = self.claimed(token, &entry, body);
        self.count_claim(seq, &entry, moment);
        self.claims.insert(Claim {
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
        claimed.map_or(Turn::Passed, |job| Turn::Gone(Box::new(job)))
    }

    /// Charges the tenant and the class for a turn.
    fn charge(&mut self, seq: u64, place: Place) -> Option<outflow_core::Tag> {
        let lane = self.lanes.get_mut(&place.lane)?;
        let seat = lane.seats.get_mut(&place.tenant)?;
        let cost = seat.lines.of(place.class).front.get(&seq)?.cost;
        seat.classes.charge(place.class, cost);
        lane.order.charge(seat.handle, cost)
    }

    fn claimed(&self, token: Token, entry: &Entry, body: Body) -> Option<Claimed> {
        let action = entry.action.and_then(|id| self.actions.get(&id));
        Some(Claimed {
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

    fn count_claim(&mut self, seq: u64, entry: &Entry, moment: Moment) {
        self.count(entry.place, entry.action, |tally| {
            tally.queued -= 1;
            tally.in_flight += 1;
        });
        self.count_seat(entry.place, |queued| *queued = queued.saturating_sub(1));
        self.tell(Change::Mark(Mark {
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
            self.tell(Change::Action(Box::new(ActionRow { id, state })));
        }
    }

    /// When a claim may find more, if nothing else happens.
    fn next_wakeup(&self, lane: u32, moment: Moment) -> Option<Duration> {
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
pub(super) enum Turn {
    /// It may go.
    Given(u64, Place),
    /// It went.
    Gone(Box<Claimed>),
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
