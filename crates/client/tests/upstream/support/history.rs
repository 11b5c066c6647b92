//! Histories of an upstream: everything callers can do, run against a model that stores
//! everything.
//!
//! All steps happen at whole ticks and each deadline has its own instant between two. Nothing is
//! due at the instant of a deadline, so that the model needs no rule for ties.

use std::time::Duration;

use outflow::core::{Accounting, Cost, CountBy, Limit, Nanos, Rate};
use outflow::{AttemptResult, Group, Permit, Rules};
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

use super::oracle::{CountedSpan, CountedSpans};
use super::{CallRequest, TestBed, TestCaller, rules};

pub(crate) const TICK: Duration = Duration::from_millis(10);

/// One step of a caller.
#[derive(Debug, Clone)]
pub(crate) enum CallerStep {
    /// A call of this group and cost, with this wait limit in ticks.
    Join { group: usize, cost: u64, ready: u64 },
    /// This many ticks pass.
    Pass(u64),
    /// This many ticks pass, and the timer is late.
    Lag(u64),
    /// The n-th woken call is polled.
    Resume(usize),
    /// The n-th waiting call is polled without a wake-up.
    Glance(usize),
    /// The n-th waiting call, dispatched or not, is dropped.
    Leave(usize),
    /// The n-th permit is refunded unsent.
    Refund(usize),
    /// The n-th permit is settled with a response.
    Settle(usize),
    /// The n-th permit is dropped after sending.
    Abandon(usize),
}

/// A limit: units of this kind per this many ticks.
pub(crate) type LimitUnits = (u64, u64, CountBy);

/// An API: the limit of each group and of all together.
#[derive(Debug, Clone)]
pub(crate) struct ApiShape {
    pub(crate) accounting: Accounting,
    pub(crate) groups: Vec<Option<LimitUnits>>,
    pub(crate) shared: Option<LimitUnits>,
    pub(crate) concurrency: u32,
}

pub(crate) fn shapes(accounting: Accounting) -> impl Strategy<Value = ApiShape> {
    let measure = || prop_oneof![3 => Just(CountBy::Cost), 1 => Just(CountBy::Calls)];
    let limit = move || prop::option::of((1..5_u64, 1..8_u64, measure()));
    let groups = prop::collection::vec(limit(), 1..4);
    (groups, limit(), prop_oneof![Just(1_000_000), 1..4_u32]).prop_map(move |(groups, shared, concurrency)| ApiShape {
        accounting,
        groups,
        shared,
        concurrency,
    })
}

pub(crate) fn steps() -> impl Strategy<Value = Vec<CallerStep>> {
    let nth = || 0..6_usize;
    let join = (0..3_usize, 0..6_u64, prop_oneof![Just(3_000), 0..20_u64]);
    let step = prop_oneof![
        12 => join.prop_map(|(group, cost, ready)| CallerStep::Join { group, cost, ready }),
        8 => (0..5_u64).prop_map(CallerStep::Pass),
        1 => (0..9_u64).prop_map(CallerStep::Lag),
        9 => nth().prop_map(CallerStep::Resume),
        1 => nth().prop_map(CallerStep::Glance),
        2 => nth().prop_map(CallerStep::Leave),
        2 => nth().prop_map(CallerStep::Refund),
        5 => nth().prop_map(CallerStep::Settle),
        1 => nth().prop_map(CallerStep::Abandon),
    ];
    prop::collection::vec(step, 1..80)
}

impl ApiShape {
    fn rules(&self) -> Rules {
        let limit = |(units, ticks, measure): &LimitUnits| {
            let rate = Rate::new(*units, TICK * u32::try_from(*ticks).expect("few")).expect("some");
            Limit::sliding(rate)
                .counted(self.accounting)
                .measured_in(*measure)
                .guarded(Duration::ZERO)
        };
        let groups = self.groups.iter().enumerate();
        Rules {
            groups: groups
                .map(|(n, own)| Group::new(&n.to_string(), own.iter().map(limit).collect()))
                .collect(),
            health: super::health(|settings| settings.concurrency = Some(self.concurrency)),
            timeout: TIMEOUT,
            ..rules(self.shared.iter().map(limit).collect())
        }
    }

    fn max_cost(&self, group: usize) -> u64 {
        let all = [self.groups[group], self.shared];
        all.iter()
            .flatten()
            .filter(|(_, _, measure)| *measure == CountBy::Cost)
            .map(|(units, ..)| *units)
            .min()
            .unwrap_or(9)
    }

    fn windows(&self, group: usize) -> impl Iterator<Item = Duration> {
        let all = [self.groups[group], self.shared];
        let ticks = all.into_iter().flatten().map(|(_, ticks, _)| ticks);
        ticks.map(|ticks| TICK * u32::try_from(ticks).expect("few"))
    }
}

struct WaitingCall {
    group: usize,
    cost: u64,
    deadline: Nanos,
    caller: TestCaller,
    glances: u32,
}

struct GrantedCall {
    group: usize,
    cost: u64,
    resumed: Nanos,
    permit: Permit,
}

/// A running history. `waiting` is in order of arrival.
pub(crate) struct CallHistory {
    shape: ApiShape,
    bed: TestBed,
    waiting: Vec<WaitingCall>,
    going: Vec<GrantedCall>,
    /// By group: start, landing, cost.
    landed: Vec<(usize, Nanos, Nanos, u64)>,
    lagging: bool,
    joined: u32,
    pub(crate) failed_wakes: u32,
}

type CheckResult = Result<(), TestCaseError>;

impl CallHistory {
    pub(crate) fn new(shape: ApiShape) -> Self {
        Self {
            bed: TestBed::silent(shape.rules()),
            shape,
            waiting: Vec::new(),
            going: Vec::new(),
            landed: Vec::new(),
            lagging: false,
            joined: 0,
            failed_wakes: 0,
        }
    }

    /// Runs all steps; after each, no call waits that could go.
    pub(crate) fn play(&mut self, steps: &[CallerStep]) -> CheckResult {
        for step in steps {
            self.step(step)?;
            self.check_no_needless_wait()?;
            self.check_concurrency()?;
        }
        self.check_limits()
    }

    /// Lets every call finish or leave: nothing is left behind, and all quota returns.
    pub(crate) fn end(mut self) -> CheckResult {
        for (n, waiting) in std::mem::take(&mut self.waiting).into_iter().enumerate() {
            if n % 2 == 0 {
                drop(waiting);
            } else {
                self.resume(waiting)?;
            }
        }
        self.waiting.clear();
        for one in self.going.drain(..) {
            one.permit.refund();
        }
        prop_assert!(self.bed.is_at_rest(), "{:?}", self.bed.upstream.report());
        self.bed.pass(TIMEOUT + TICK * 10);
        for limit in self.limits() {
            prop_assert_eq!(limit, 0, "something still counts");
        }
        Ok(())
    }

    fn limits(&self) -> Vec<u64> {
        let report = self.bed.upstream.report();
        let own = report.groups.iter().flat_map(|group| &group.limits);
        own.chain(&report.limits).map(|limit| limit.usage.weight).collect()
    }

    fn step(&mut self, step: &CallerStep) -> CheckResult {
        match *step {
            CallerStep::Join { group, cost, ready } => self.join(group, cost, ready)?,
            CallerStep::Pass(ticks) => {
                self.bed.pass(TICK * u32::try_from(ticks).expect("few"));
                self.lagging = false;
            }
            CallerStep::Lag(ticks) => {
                self.bed.timer.lag(TICK * u32::try_from(ticks).expect("few"));
                self.lagging = true;
            }
            CallerStep::Resume(nth) => {
                let woken = (0..self.waiting.len()).filter(|n| self.waiting[*n].caller.is_woken());
                if let Some(at) = woken.cycle().take(nth + 1).last() {
                    let one = self.waiting.remove(at);
                    self.resume(one)?;
                }
            }
            CallerStep::Glance(nth) => {
                let len = self.waiting.len().max(1);
                if let Some(one) = self.waiting.get_mut(nth % len).filter(|w| !w.caller.is_woken()) {
                    one.glances += 1;
                    let seen = one.caller.poll();
                    prop_assert!(
                        seen.is_none() || one.deadline < self.bed.now() || self.lagging,
                        "{seen:?}"
                    );
                    if seen.is_some() {
                        self.waiting.remove(nth % len);
                    }
                }
            }
            CallerStep::Leave(nth) => drop(nth_of(&mut self.waiting, nth)),
            CallerStep::Refund(nth) => {
                if let Some(one) = nth_of(&mut self.going, nth) {
                    one.permit.refund();
                }
            }
            CallerStep::Settle(nth) => {
                if let Some(one) = nth_of(&mut self.going, nth) {
                    let now = self.bed.now();
                    self.landed.push((one.group, one.resumed, now, one.cost));
                    one.permit.settle(AttemptResult::status(200));
                }
            }
            CallerStep::Abandon(nth) => {
                if let Some(one) = nth_of(&mut self.going, nth) {
                    let lost = one.resumed.saturating_add(TIMEOUT);
                    let lost = lost.max(self.bed.now());
                    self.landed.push((one.group, one.resumed, lost, one.cost));
                }
            }
        }
        Ok(())
    }

    fn join(&mut self, group: usize, cost: u64, ready: u64) -> CheckResult {
        let group = group % self.shape.groups.len();
        let cost = cost.min(self.shape.max_cost(group));
        self.joined += 1;
        let ready = TICK * u32::try_from(ready).expect("few") + TICK / 2 + APART * self.joined;
        let deadline = self.bed.now().saturating_add(ready);
        let target = self.bed.group(&group.to_string()).with_cost(Cost::new(cost));
        let mut caller = self.bed.caller(CallRequest::new(target).deadline(deadline));
        let now = self.bed.now();
        match caller.poll() {
            Some(Ok(mut permit)) => {
                permit.sending();
                self.going.push(GrantedCall {
                    group,
                    cost,
                    resumed: now,
                    permit,
                });
            }
            Some(Err(refusal)) => {
                let early = refusal.retry_after.is_some_and(|wait| wait <= ready);
                prop_assert!(!early, "it could go in time: {refusal:?}");
            }
            None => self.waiting.push(WaitingCall {
                group,
                cost,
                deadline,
                caller,
                glances: 0,
            }),
        }
        Ok(())
    }

    fn resume(&mut self, mut one: WaitingCall) -> CheckResult {
        let (now, woken_at, woken) = (self.bed.now(), one.caller.woken_at(), one.caller.is_woken());
        let late = woken && woken_at > one.deadline;
        match one.caller.poll() {
            Some(Ok(mut permit)) => {
                permit.sending();
                prop_assert!(!late, "let go after its deadline");
                let fair = one.caller.polls <= 2 + one.glances + self.failed_wakes;
                prop_assert!(fair, "{} polls for one grant", one.caller.polls);
                self.going.push(GrantedCall {
                    group: one.group,
                    cost: one.cost,
                    resumed: now,
                    permit,
                });
            }
            Some(Err(refusal)) => {
                let expired = one.deadline < now;
                prop_assert!(expired, "refused before its deadline: {refusal:?}");
            }
            None => {
                let expired = self.shape.windows(one.group).any(|w| now >= woken_at.saturating_add(w));
                prop_assert!(expired || !woken, "woken for nothing");
                self.failed_wakes += u32::from(woken);
                let place = self
                    .waiting
                    .partition_point(|other| other.caller_number() < one.caller_number());
                self.waiting.insert(place, one);
            }
        }
        Ok(())
    }

    /// Returns the spans that count against a group's own limit, or against all.
    fn counted(&self, group: Option<usize>) -> CountedSpans {
        let limit = match group {
            Some(group) => self.shape.groups[group],
            None => self.shape.shared,
        };
        let (_, ticks, measure) = limit.unwrap_or((0, 0, CountBy::Cost));
        let window = TICK * u32::try_from(ticks).expect("few");
        let mut all = Vec::new();
        let by_sending = self.shape.accounting == Accounting::Send;
        let mut add = |of: usize, from: Nanos, landed: Option<Nanos>, cost: u64| {
            let begins = if by_sending { Some(from) } else { landed };
            let until = begins.map_or(Nanos::MAX, |at| at.saturating_add(window));
            let cost = weight(measure, cost);
            if group.is_none_or(|group| group == of) {
                all.push(CountedSpan { from, until, cost });
            }
        };
        for (of, from, landed, cost) in &self.landed {
            add(*of, *from, Some(*landed), *cost);
        }
        for going in &self.going {
            add(going.group, going.resumed, None, going.cost);
        }
        for called in self.called() {
            add(called.group, called.caller.woken_at(), None, called.cost);
        }
        CountedSpans(all)
    }

    fn called(&self) -> impl Iterator<Item = &WaitingCall> {
        self.waiting.iter().filter(|one| one.is_called())
    }

    fn check_limits(&self) -> CheckResult {
        for (group, own) in self.shape.groups.iter().enumerate() {
            if let Some((units, ..)) = own {
                let peak = self.counted(Some(group)).peak();
                prop_assert!(peak <= *units, "group {group} had {peak} of {units}");
            }
        }
        if let Some((units, ..)) = self.shape.shared {
            let peak = self.counted(None).peak();
            prop_assert!(peak <= units, "all had {peak} of {units}");
        }
        Ok(())
    }

    fn check_concurrency(&self) -> CheckResult {
        let out = self.called().count() + self.going.len();
        let reported = usize::try_from(self.bed.in_flight()).expect("few");
        prop_assert_eq!(out, reported, "in flight");
        prop_assert!(out <= usize::try_from(self.shape.concurrency).expect("few"));
        Ok(())
    }

    /// Checks that no call waits behind a later one, and that the next call with quota was
    /// dispatched.
    fn check_no_needless_wait(&self) -> CheckResult {
        if self.lagging {
            return Ok(());
        }
        let now = self.bed.now();
        let mut blocked = vec![false; self.shape.groups.len()];
        if self.called().count() + self.going.len() >= usize::try_from(self.shape.concurrency).expect("few") {
            return Ok(());
        }
        for one in self.waiting.iter().filter(|one| !one.caller.is_woken()) {
            prop_assert!(one.deadline >= now, "the upstream missed its deadline");
            if blocked[one.group] {
                continue;
            }
            let has_room = |limit: Option<LimitUnits>, group| {
                limit.is_none_or(|(units, _, measure)| {
                    let more = weight(measure, one.cost);
                    more == 0 || self.counted(group).at(now) + more <= units
                })
            };
            if has_room(self.shape.groups[one.group], Some(one.group)) {
                let free = has_room(self.shape.shared, None);
                prop_assert!(!free, "one of group {} and cost {} could go", one.group, one.cost);
                return Ok(());
            }
            blocked[one.group] = true;
        }
        Ok(())
    }
}

/// Returns the weight of a call in this unit.
fn weight(measure: CountBy, cost: u64) -> u64 {
    match measure {
        CountBy::Cost => cost,
        _ => 1,
    }
}

impl WaitingCall {
    fn is_called(&self) -> bool {
        self.caller.is_woken() && self.caller.woken_at() < self.deadline
    }

    fn caller_number(&self) -> u64 {
        self.caller.number
    }
}

fn nth_of<T>(all: &mut Vec<T>, nth: usize) -> Option<T> {
    (!all.is_empty()).then(|| {
        let len = all.len();
        all.remove(nth % len)
    })
}

/// More than the upstream's timer granularity, and so little that eighty fit into half a tick.
const APART: Duration = Duration::from_micros(60);

const TIMEOUT: Duration = Duration::from_millis(50);
