//! Who may go, decided under one lock.
//!
//! One gate per API holds its health, its limits, those who wait and those in flight. A single lock
//! rather than one for each: every decision needs all of them at once, holds the lock for well under
//! a microsecond and never waits inside. What must happen outside, waking tasks, telling events and
//! arming the timer, is gathered here and done by the door once the lock is free.
//!
//! Nobody who waits is woken to try: the gate takes the permit for whoever's turn it is and wakes that
//! one. The obvious other way, waking the first to take its permit, would let one future that is not
//! polled hold up everybody behind it.

mod cancel;
mod collect;
mod complete;
mod dispatch;
mod enqueue;
mod estimate;
mod learning;
mod reconfigure;
mod take;
mod timer;
mod transitions;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::task::Waker;
use std::time::Duration;

use outflow_core::{
    Accounting, ClockPair, Cost, HealthTicket, Limit, MinRtt, Nanos, ReceiptSet, UsageMark,
};
use slab::Slab;

pub(super) use complete::ResponseInProgress;
pub(super) use enqueue::{
    AcquireRequest, AcquireResult, CountsFrom, PermitParts, QueueStanding, WaitDeadline,
};

use super::circuit::{BlockReason, Circuit};
use super::fleet_share::ShareEstimate;
use super::group::{self, GroupState};
use super::limits::{LimitTerms, Overdraft, ScopeLimits};
use super::priority_aging::PriorityAging;
use super::report::Alerted;
use super::wait_queue::{PriorityClass, Waiter, WaiterState};
use crate::event::EventKind;
use crate::refusal::{Refusal, RefusalReason};
use crate::rules::{AlertThresholds, Group, HealthScope, Rules, WhenAsleep};
use timer::ArmedTimer;

/// All that is decided together about one API.
#[derive(Debug)]
pub(super) struct AdmissionState {
    wards: Vec<Circuit>,
    shared: ScopeLimits,
    lanes: Vec<GroupState>,
    waiters: Slab<Waiter>,
    /// Lanes in which somebody waits.
    busy: Vec<u32>,
    patience: PriorityAging,
    /// Those who were called and are not to go before an instant.
    paced: Vec<usize>,
    /// Nobody in line can go before this instant, whatever ends or is sent until then.
    held_until: Nanos,
    /// Whether time alone makes room in all limits.
    freed: FreedBy,
    flights: Slab<InFlightAttempt>,
    trips: MinRtt,
    rules: AdmissionSettings,
    /// Whether the meters take more memory than is thought good.
    swollen: Alerted,
    next_permit: u64,
    next_number: u64,
    /// The number of the next who comes back, lower than that of any newcomer.
    next_return: u64,
    /// The highest number of all wards below which permits were called off, for those who ask often.
    called_off: Arc<AtomicU64>,
    entry: Lifecycle,
    /// Whether answers of this API speak of limits.
    hints: Hinting,
    /// What of the calls that use these limits is seen here.
    seen: ShareEstimate,
    /// The civil time of the last answer, and when its clock was last read.
    wall_seen: ClockPair,
    wall_read: Nanos,
    random: fastrand::Rng,
    alarm: ArmedTimer,
    after: PendingEffects,
}

/// What the gate needs of the rules on its way.
#[derive(Debug)]
struct AdmissionSettings {
    queue: usize,
    timeout: Duration,
    when_asleep: WhenAsleep,
    scope: HealthScope,
    policy: outflow_core::Policy,
    dialects: outflow_core::Dialects,
    adaptive: outflow_core::AdaptiveMode,
    thresholds: AlertThresholds,
}

/// What makes room in limits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum FreedBy {
    /// Time alone: all count from the sending.
    ByTime,
    /// Arrivals too.
    ByAnything,
}

impl FreedBy {
    fn by(shared: &[Limit], groups: &[Group]) -> Self {
        let own = groups.iter().flat_map(|group| &*group.limits);
        let mut all = shared.iter().chain(own);
        if all.all(|limit| limit.accounting() == Accounting::Send) {
            return Self::ByTime;
        }
        Self::ByAnything
    }
}

/// Whether anybody is let in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Lifecycle {
    Open,
    /// The client is shutting down.
    Closed,
    /// The configuration no longer knows the API.
    Removed,
}

/// Whether it is worth remembering where things stood at each send.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Hinting {
    NotYet,
    Yes,
}

/// A call that has its permit and is not over.
#[derive(Debug)]
pub(super) struct InFlightAttempt {
    id: u64,
    lane: u32,
    /// The lane it left from, which may be gone.
    origin: u32,
    /// Whose health it is of, also after its group became part of another.
    ward: usize,
    cost: Cost,
    own: Option<ReceiptSet>,
    shared: Option<ReceiptSet>,
    ticket: HealthTicket,
    granted: Nanos,
    rest: ExcessCost,
    marks: Option<Box<LimitMarks>>,
}

/// What a call comes to beyond what it could take of lowered limits.
#[derive(Clone, Copy, Debug, Default)]
struct ExcessCost {
    own: Overdraft,
    shared: Overdraft,
}

/// Where the limits stood when a call was sent.
#[derive(Debug)]
struct LimitMarks {
    own: Vec<UsageMark>,
    shared: Vec<UsageMark>,
}

/// What is done once the lock is free.
#[derive(Debug, Default)]
pub(super) struct PendingEffects {
    pub(super) wakes: Vec<Waker>,
    /// Wakers that nobody needs any more.
    pub(super) retired: Vec<Waker>,
    pub(super) told: Vec<EventKind>,
    pub(super) ring_at: Option<Nanos>,
    /// Whether events are to be gathered at all.
    pub(super) heard: bool,
}

/// Why a call cannot go now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum BlockedBy {
    /// Its ward lets nobody go.
    Ward(BlockReason),
    /// A limit of its own group.
    Own(Nanos),
    /// A limit of the whole API.
    Shared(Nanos),
}

impl BlockedBy {
    /// When it is worth asking again, if nothing else happens before.
    pub(super) fn until(self) -> Nanos {
        match self {
            Self::Own(at) | Self::Shared(at) => at,
            Self::Ward(BlockReason::Cooling { until } | BlockReason::Full { until, .. }) => until,
            Self::Ward(BlockReason::Asleep { until, .. } | BlockReason::Probing { until }) => {
                until.unwrap_or(Nanos::MAX)
            }
            Self::Ward(BlockReason::Overdue) => Nanos::MAX,
        }
    }
}

impl AdmissionState {
    /// A gate for rules that fit together.
    pub(super) fn new(groups: &[Group], rules: &Rules, moment: ClockPair) -> Self {
        let per_group = rules.health_scope == HealthScope::Group;
        let wards = if per_group { groups.len() } else { 1 };
        let lanes = (0_u32..).zip(groups).map(|(number, group)| {
            let ward = if per_group { place(number) } else { 0 };
            GroupState::new(group, (number, ward))
        });
        Self {
            wards: (0..wards).map(|_| Circuit::new(rules, moment)).collect(),
            shared: ScopeLimits::new(&rules.limits, LimitTerms::from_rules(rules), moment),
            lanes: lanes.collect(),
            waiters: Slab::new(),
            busy: Vec::new(),
            patience: PriorityAging::default(),
            paced: Vec::new(),
            held_until: Nanos::ZERO,
            freed: FreedBy::by(&rules.limits, groups),
            flights: Slab::new(),
            trips: MinRtt::default(),
            rules: AdmissionSettings::from_rules(rules),
            swollen: Alerted::No,
            next_permit: 1,
            next_number: FIRST_NEWCOMER,
            next_return: 1,
            called_off: Arc::default(),
            entry: Lifecycle::Open,
            hints: Hinting::NotYet,
            seen: ShareEstimate::NOTHING,
            wall_seen: moment,
            wall_read: moment.now,
            random: fastrand::Rng::new(),
            alarm: ArmedTimer::new(),
            after: PendingEffects::default(),
        }
    }

    /// The number below which permits may have been called off, as it changes.
    pub(super) fn called_off(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.called_off)
    }

    /// Begins a turn under the lock.
    #[inline]
    pub(super) fn begin(&mut self, heard: bool) {
        self.after.heard = heard;
    }

    /// Ends it: what is to be done outside, if anything.
    #[inline]
    pub(super) fn finish(&mut self) -> Option<PendingEffects> {
        let after = &self.after;
        let silent = after.told.is_empty() && after.ring_at.is_none();
        if silent && after.wakes.is_empty() && after.retired.is_empty() {
            return None;
        }
        Some(std::mem::take(&mut self.after))
    }

    /// Has the timer ring at this instant, if it would not ring before anyway.
    #[inline]
    fn consider(&mut self, at: Nanos) {
        if at < Nanos::MAX {
            self.alarm.consider(at, &mut self.after.ring_at);
        }
    }

    fn emit_meter_events(&mut self, lane: u32) {
        if !self.after.heard {
            return;
        }
        while let Some(event) = self.lane(lane).poll_event() {
            let group = Some(self.lane(lane).name.clone());
            self.emit(EventKind::Meter { group, event });
        }
        while let Some(event) = self.shared.poll_event() {
            self.emit(EventKind::Meter { group: None, event });
        }
    }

    #[inline]
    fn emit(&mut self, what: EventKind) {
        if self.after.heard {
            self.after.told.push(what);
        }
    }

    #[inline]
    #[expect(
        clippy::indexing_slicing,
        reason = "a lane's number was given by this gate"
    )]
    fn lane(&mut self, lane: u32) -> &mut GroupState {
        &mut self.lanes[place(lane)]
    }

    #[inline]
    #[expect(
        clippy::indexing_slicing,
        reason = "a lane's number was given by this gate"
    )]
    fn lane_ref(&self, lane: u32) -> &GroupState {
        &self.lanes[place(lane)]
    }

    /// The limits of a lane's own, made now if nobody needed them before.
    #[inline]
    #[expect(
        clippy::indexing_slicing,
        reason = "the numbers of a lane and its ward were given by this gate"
    )]
    fn own(&mut self, lane: u32, now: Nanos) -> &mut ScopeLimits {
        let lane = &mut self.lanes[place(lane)];
        let (wards, ward) = (&self.wards, lane.ward);
        let (rules, seen) = (&self.rules, &self.wall_seen);
        lane.limits(|limits| {
            group::begun(
                limits,
                rules.terms(),
                moment(*seen, now),
                &wards[ward].health,
            )
        })
    }

    #[inline]
    #[expect(
        clippy::indexing_slicing,
        reason = "a ward's number was given by this gate"
    )]
    fn circuit_mut(&mut self, ward: usize) -> &mut Circuit {
        &mut self.wards[ward]
    }

    #[inline]
    #[expect(
        clippy::indexing_slicing,
        reason = "a ward's number was given by this gate"
    )]
    fn ward_ref(&self, ward: usize) -> &Circuit {
        &self.wards[ward]
    }

    fn circuit_for(&mut self, lane: u32) -> &mut Circuit {
        let ward = self.lane(lane).ward;
        self.circuit_mut(ward)
    }

    /// The group that a ward is about, where each group has its own.
    fn ward_group(&self, ward: usize) -> Option<smol_str::SmolStr> {
        match self.rules.scope {
            HealthScope::Api => None,
            HealthScope::Group => self.lanes.get(ward).map(|lane| lane.name.clone()),
        }
    }
}

impl AdmissionSettings {
    fn from_rules(rules: &Rules) -> Self {
        Self {
            queue: rules.queue,
            timeout: rules.timeout,
            when_asleep: rules.when_asleep,
            scope: rules.health_scope,
            policy: rules.policy.clone(),
            dialects: rules.dialects,
            adaptive: rules.adaptive,
            thresholds: rules.thresholds,
        }
    }

    /// What limits know of the rules.
    const fn terms(&self) -> LimitTerms {
        LimitTerms {
            adaptive: self.adaptive,
            thresholds: self.thresholds,
        }
    }
}

/// An instant on both timelines, as far as the civil clock was not set since it was seen.
fn moment(seen: ClockPair, now: Nanos) -> ClockPair {
    ClockPair {
        now,
        wall: seen.wall.saturating_add(now.since(seen.now)),
    }
}

/// Half of all numbers are for those who come back, who stand before all others.
const FIRST_NEWCOMER: u64 = 1 << 63;

#[inline]
fn place(lane: u32) -> usize {
    usize::try_from(lane).unwrap_or(usize::MAX)
}
