//! What the embedded store knows without reading: whose turn it is, who works on what, and all counts.
//!
//! The order and the claims live here under one lock; the disk has the same in a form that is small to
//! write. Whatever changes here is told in [`Memory::pending`], in the same order, and nothing is told
//! that did not happen. Every job is counted three times, for all, for its tenant and for its action,
//! always by the same function.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::time::Duration;

use outflow_core::{FairOrder, Moment, Nanos, Priority, WallTime, Weight};
use rusqlite::Connection;
use tokio::sync::oneshot;

use super::action::Action;
use super::change::{Change, Over, Step};
use super::claims::Claims;
use super::entry::{Entry, Place, Run};
use super::line::{Line, Seat};
use crate::action::Tally;
use crate::error::StoreError;
use crate::name::Name;
use crate::settle::{Ended, Kept};
use crate::tenant::{Snapshot, TenantRule};

/// Everything, under one lock.
#[derive(Debug)]
pub(super) struct Memory {
    /// Reads what is not in memory. Others wait meanwhile, which is shorter than handing it over.
    pub(super) reader: Connection,
    pub(super) lanes: BTreeMap<u32, Lane>,
    pub(super) lane_ids: HashMap<Name, u32>,
    pub(super) tenants: HashMap<u32, TenantState>,
    pub(super) tenant_ids: BTreeMap<Name, u32>,
    pub(super) places: HashMap<u32, Place>,
    pub(super) actions: HashMap<u32, Action>,
    pub(super) action_ids: BTreeMap<Name, u32>,
    pub(super) claims: Claims,
    pub(super) waiting: HashMap<u64, Waiting>,
    /// Jobs that wait for a span to pass.
    pub(super) due: BTreeSet<(Nanos, u64)>,
    /// Jobs that wait for a civil time.
    pub(super) starts: BTreeSet<(WallTime, u64)>,
    pub(super) runs: OpenRuns,
    pub(super) total: Tally,
    /// How many tenants have work.
    pub(super) active: u64,
    /// Bytes of payloads that are here.
    pub(super) weight: usize,
    /// How often this store was opened.
    pub(super) epoch: u64,
    /// What the names begin with that nobody gave.
    pub(super) mint: String,
    /// The last job that memory heard of.
    pub(super) last_seq: u64,
    /// The last number that was given to a lane, tenant, line or action.
    pub(super) last_id: u32,
    pub(super) pending: Vec<Step>,
    pub(super) waiters: Vec<oneshot::Sender<Result<(), StoreError>>>,
    pub(super) recounts: Vec<oneshot::Sender<Result<u64, StoreError>>>,
    /// Whether anything pending must be on the disk before its answer.
    pub(super) urgent: bool,
    /// Whether a claim may find something that it did not find before.
    pub(super) rings: bool,
    pub(super) phase: Phase,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Phase {
    Open,
    /// The disk refused, and what is here may be ahead of it: it has to be read anew.
    Astray,
    Closed,
}

/// One lane: its tenants in fair order.
#[derive(Debug)]
pub(super) struct Lane {
    pub(super) name: Name,
    pub(super) order: FairOrder,
    pub(super) seats: HashMap<u32, Seat>,
    /// Whose place in the order a slot is.
    pub(super) slots: Vec<u32>,
    /// Nobody goes before.
    pub(super) shut_until: Nanos,
    /// Jobs that wait or are under way.
    pub(super) open: u64,
}

impl Lane {
    pub(super) fn new(name: Name) -> Self {
        Self {
            name,
            order: FairOrder::new(),
            seats: HashMap::new(),
            slots: Vec::new(),
            shut_until: Nanos::ZERO,
            open: 0,
        }
    }
}

#[derive(Debug)]
pub(super) struct TenantState {
    pub(super) name: Name,
    pub(super) rule: TenantRule,
    /// Whether somebody set the rule: such a tenant is not forgotten.
    pub(super) ruled: bool,
    pub(super) paused: bool,
    pub(super) tally: Tally,
    pub(super) last_backoff: Duration,
    pub(super) speed: u64,
    pub(super) last_update: Option<WallTime>,
    pub(super) history: VecDeque<Snapshot>,
    /// The lanes it has a seat in.
    pub(super) lanes: Vec<u32>,
    /// Jobs up to this number are being cancelled.
    pub(super) doomed_to: u64,
    /// Since when it is known to have no work.
    pub(super) idle_since: Option<Nanos>,
}

impl TenantState {
    pub(super) fn new(name: Name) -> Self {
        Self {
            name,
            rule: TenantRule::default(),
            ruled: false,
            paused: false,
            tally: Tally::default(),
            last_backoff: Duration::ZERO,
            speed: 0,
            last_update: None,
            history: VecDeque::new(),
            lanes: Vec::new(),
            doomed_to: 0,
            idle_since: None,
        }
    }

    /// Whether an operator or its own bound keeps it from being served.
    fn is_held(&self) -> bool {
        let most = self.rule.in_flight.map(u64::from);
        self.paused || most.is_some_and(|most| self.tally.in_flight >= most)
    }
}

/// A job that waits for an instant.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) entry: Entry,
    pub(super) until: Until,
    pub(super) standing: Standing,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Until {
    Instant(Nanos),
    Civil(WallTime),
}

/// How a job that is not over is counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Standing {
    InLine,
    Delayed,
    PutOff,
    InFlight,
}

/// Runs of which some job may still be alive, and were read.
#[derive(Debug, Default)]
pub(super) struct OpenRuns {
    read: BTreeMap<u64, (Run, u64)>,
    /// Jobs of runs that were not read which memory knows on their own: they are not read again.
    pub(super) apart: HashSet<u64>,
    /// And those of them that are over.
    pub(super) gone: HashSet<u64>,
}

impl OpenRuns {
    /// A run was read, and so many of its jobs live.
    pub(super) fn opened(&mut self, run: Run, left: u64) {
        self.read.insert(run.first, (run, left));
    }

    /// A job is over. Answers its run if it was the last.
    pub(super) fn ended(&mut self, seq: u64) -> Option<Run> {
        let Some((run, left)) = self.of(seq) else {
            self.gone.insert(seq);
            return None;
        };
        *left = left.saturating_sub(1);
        if *left > 0 {
            return None;
        }
        let run = *run;
        self.read.remove(&run.first);
        Some(run)
    }

    /// A job that was over is not.
    pub(super) fn revived(&mut self, seq: u64) {
        self.gone.remove(&seq);
        match self.of(seq) {
            Some((_, left)) => *left += 1,
            None => {
                self.apart.insert(seq);
            }
        }
    }

    /// Whether a job that memory does not know on its own is alive and was merely not read.
    pub(super) fn is_unread(&mut self, seq: u64) -> bool {
        !self.gone.contains(&seq) && !self.apart.contains(&seq) && self.of(seq).is_none()
    }

    fn of(&mut self, seq: u64) -> Option<(&mut Run, &mut u64)> {
        let (_, (run, left)) = self.read.range_mut(..=seq).next_back()?;
        (seq < run.end()).then_some((run, left))
    }
}

impl Memory {
    /// Whether there is nothing to write and nothing to count.
    pub(super) fn is_idle(&self) -> bool {
        self.pending.is_empty() && self.waiters.is_empty() && self.recounts.is_empty()
    }

    /// Tells what happened.
    pub(super) fn tell(&mut self, change: Change) {
        self.pending.push(Step::from(change));
    }

    /// Something that is to be on the disk before the answer.
    pub(super) fn tell_urgently(&mut self, change: Change) {
        self.urgent = true;
        self.tell(change);
    }

    /// A number for a lane, a tenant, a line or an action.
    pub(super) const fn fresh_id(&mut self) -> u32 {
        self.last_id += 1;
        self.last_id
    }

    pub(super) fn lane_of(&mut self, name: &Name) -> u32 {
        if let Some(id) = self.lane_ids.get(name) {
            return *id;
        }
        let id = self.fresh_id();
        self.lane_ids.insert(name.clone(), id);
        self.lanes.insert(id, Lane::new(name.clone()));
        self.tell(Change::Lane(id, name.clone()));
        id
    }

    pub(super) fn tenant_of(&mut self, name: &Name) -> u32 {
        if let Some(id) = self.tenant_ids.get(name) {
            return *id;
        }
        let id = self.fresh_id();
        self.tenant_ids.insert(name.clone(), id);
        self.tenants.insert(id, TenantState::new(name.clone()));
        self.tell(Change::Tenant(id, name.clone()));
        id
    }

    /// The line of a class of a tenant in a lane.
    pub(super) fn place_of(&mut self, lane: u32, tenant: u32, class: Priority) -> Place {
        let known = self.line_mut(lane, tenant, class).map_or(0, |line| line.id);
        if known != 0 {
            return Place {
                line: known,
                lane,
                tenant,
                class,
            };
        }
        let place = Place {
            line: self.fresh_id(),
            lane,
            tenant,
            class,
        };
        self.add_place(place);
        self.tell(Change::Line(place));
        place
    }

    /// Makes room for a line, and for its tenant in its lane.
    pub(super) fn add_place(&mut self, place: Place) {
        self.places.insert(place.line, place);
        let (Some(lane), Some(tenant)) = (
            self.lanes.get_mut(&place.lane),
            self.tenants.get_mut(&place.tenant),
        ) else {
            return;
        };
        let seat = lane.seats.entry(place.tenant).or_insert_with(|| {
            let handle = lane.order.join(claim_of(&tenant.rule), Priority::Normal);
            let slot = usize::try_from(handle.slot()).unwrap_or(usize::MAX);
            if lane.slots.len() <= slot {
                lane.slots.resize(slot + 1, 0);
            }
            if let Some(of) = lane.slots.get_mut(slot) {
                *of = place.tenant;
            }
            tenant.lanes.push(place.lane);
            Seat::new(handle)
        });
        seat.lines.of_mut(place.class).id = place.line;
        self.arrange(place.tenant);
    }

    pub(super) fn seat_mut(&mut self, lane: u32, tenant: u32) -> Option<&mut Seat> {
        self.lanes.get_mut(&lane)?.seats.get_mut(&tenant)
    }

    pub(super) fn line_mut(
        &mut self,
        lane: u32,
        tenant: u32,
        class: Priority,
    ) -> Option<&mut Line> {
        Some(self.seat_mut(lane, tenant)?.lines.of_mut(class))
    }

    /// Stops or lets go a tenant in all lanes, by what holds it.
    pub(super) fn arrange(&mut self, tenant: u32) {
        let Some(state) = self.tenants.get(&tenant) else {
            return;
        };
        let held = state.is_held();
        for id in &state.lanes {
            let Some(lane) = self.lanes.get_mut(id) else {
                continue;
            };
            let Some(seat) = lane.seats.get(&tenant) else {
                continue;
            };
            if held {
                lane.order.pause(seat.handle);
            } else {
                lane.order.resume(seat.handle);
                self.rings = true;
            }
        }
    }

    /// Puts a tenant's seat in a lane in order after its lines changed: whether it has work, and with
    /// which claim.
    pub(super) fn settle_seat(&mut self, lane: u32, tenant: u32) {
        let Some(lane) = self.lanes.get_mut(&lane) else {
            return;
        };
        let Some(seat) = lane.seats.get_mut(&tenant) else {
            return;
        };
        match seat.best_waiting() {
            Some(best) => {
                if best != seat.best
                    && let Some(tenant) = self.tenants.get(&tenant)
                {
                    seat.best = best;
                    lane.order
                        .reweight(seat.handle, claim_of(&tenant.rule), best);
                }
                lane.order.enter(seat.handle);
            }
            None => lane.order.rest(seat.handle),
        }
    }

    /// Puts a job into its line. It was counted already.
    pub(super) fn stand(&mut self, seq: u64, entry: Entry) {
        let place = entry.place;
        self.rings = true;
        if let Some(seat) = self.seat_mut(place.lane, place.tenant) {
            seat.insert(seq, entry);
        }
        self.settle_seat(place.lane, place.tenant);
    }

    /// Lets a job wait for an instant. It was counted already.
    pub(super) fn wait(&mut self, seq: u64, waiting: Waiting) {
        match waiting.until {
            Until::Instant(at) => self.due.insert((at, seq)),
            Until::Civil(at) => self.starts.insert((at, seq)),
        };
        self.waiting.insert(seq, waiting);
    }

    /// Takes a job out of those that wait for an instant.
    pub(super) fn wake(&mut self, seq: u64) -> Option<Waiting> {
        let waiting = self.waiting.remove(&seq)?;
        match waiting.until {
            Until::Instant(at) => self.due.remove(&(at, seq)),
            Until::Civil(at) => self.starts.remove(&(at, seq)),
        };
        Some(waiting)
    }

    /// Lets everything happen whose time has come: leases end, and jobs that waited stand in line.
    pub(super) fn catch_up(&mut self, moment: Moment) {
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
    pub(super) fn line_up(&mut self, seq: u64) {
        let Some(Waiting {
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
    pub(super) fn count(&mut self, place: Place, action: Option<u32>, change: impl Fn(&mut Tally)) {
        change(&mut self.total);
        if let Some(tenant) = self.tenants.get_mut(&place.tenant) {
            let before = tenant.tally;
            change(&mut tenant.tally);
            match (before.open() > 0, tenant.tally.open() > 0) {
                (false, true) => self.active += 1,
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
    pub(super) fn count_seat(&mut self, place: Place, change: impl Fn(&mut u64)) {
        if let Some(seat) = self.seat_mut(place.lane, place.tenant) {
            change(&mut seat.queued);
        }
    }

    /// Ends a job that is in no line, waits for nothing and is not claimed any more.
    pub(super) fn end(&mut self, ending: Ending) {
        let Ending {
            seq, entry, from, ..
        } = ending;
        let throttles = u64::from(entry.tries.throttles);
        let (ended, took) = (ending.ended, ending.took);
        self.count(entry.place, entry.action, |tally| {
            uncount(tally, from);
            match ended {
                Ended::Done => {
                    tally.done += 1;
                    tally.throttles += throttles;
                    tally.busy = tally.busy.saturating_add(took);
                }
                Ended::Failed => {
                    tally.dead += 1;
                    tally.throttles += throttles;
                }
                Ended::Expired | Ended::Cancelled => tally.cancelled += 1,
            }
        });
        if from != Standing::InFlight {
            self.count_seat(entry.place, |queued| *queued = queued.saturating_sub(1));
        }
        self.forget(seq, entry.place);
        let tenant = self.tenants.get(&entry.place.tenant);
        let Some(tenant) = tenant.map(|tenant| tenant.name.clone()) else {
            return;
        };
        let over = Over {
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
        self.tell(Change::Over(Box::new(over)));
        self.close_action(entry.action, ending.at);
    }

    /// A job's row goes.
    fn forget(&mut self, seq: u64, place: Place) {
        if let Some(line) = self.line_mut(place.lane, place.tenant, place.class) {
            line.live = line.live.saturating_sub(1);
        }
        if let Some(lane) = self.lanes.get_mut(&place.lane) {
            lane.open = lane.open.saturating_sub(1);
        }
        if let Some(run) = self.runs.ended(seq) {
            self.tell(Change::RunOver(run));
        }
    }
}

/// The end of one job.
#[derive(Debug)]
pub(super) struct Ending {
    pub(super) seq: u64,
    pub(super) entry: Entry,
    pub(super) from: Standing,
    pub(super) ended: Ended,
    pub(super) at: WallTime,
    pub(super) took: Duration,
    pub(super) kept: Option<Kept>,
}

/// A tenant's weight times its priority; the class of its best job multiplies it once more, by the order
/// itself.
pub(super) fn claim_of(rule: &TenantRule) -> Weight {
    let factor = match rule.priority {
        Priority::Low => 1,
        Priority::Normal => 4,
        Priority::High => 16,
    };
    Weight::new(rule.weight.as_u32().saturating_mul(factor)).unwrap_or(Weight::ONE)
}

/// A job that is not over is counted so.
pub(super) const fn count_as(tally: &mut Tally, standing: Standing) {
    match standing {
        Standing::InLine => tally.queued += 1,
        Standing::Delayed => {
            tally.queued += 1;
            tally.delayed += 1;
        }
        Standing::PutOff => {
            tally.queued += 1;
            tally.non_ready += 1;
        }
        Standing::InFlight => tally.in_flight += 1,
    }
}

/// And no longer.
pub(super) const fn uncount(tally: &mut Tally, standing: Standing) {
    match standing {
        Standing::InLine => tally.queued -= 1,
        Standing::Delayed | Standing::PutOff => {
            tally.queued -= 1;
            uncount_wait(tally, standing);
        }
        Standing::InFlight => tally.in_flight -= 1,
    }
}

/// It waits no longer for an instant, but for its turn.
const fn uncount_wait(tally: &mut Tally, standing: Standing) {
    match standing {
        Standing::Delayed => tally.delayed -= 1,
        Standing::PutOff => tally.non_ready -= 1,
        Standing::InLine | Standing::InFlight => {}
    }
}
