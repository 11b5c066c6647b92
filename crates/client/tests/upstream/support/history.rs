//! Histories of a door: everything callers can do, played against a model that keeps everything.
//!
//! All happens at whole ticks and each deadline has an instant of its own between two, so that nothing
//! is ever due at the same instant as a deadline and the model needs no opinion on ties.

use std::time::Duration;

use outflow::core::{Accounting, Cost, CountBy, Limit, Nanos, Rate};
use outflow::{AttemptResult, Group, Permit, Rules};
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

use super::oracle::{Counted, Everything};
use super::{CallRequest, Caller, World, rules};

pub(crate) const TICK: Duration = Duration::from_millis(10);

/// What somebody does.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    /// A call of this group and cost asks, ready to wait so many ticks.
    Join { group: usize, cost: u64, ready: u64 },
    /// So many ticks pass.
    Pass(u64),
    /// The same, and the timer is late.
    Lag(u64),
    /// The n-th of those who were woken looks.
    Resume(usize),
    /// The n-th of those who wait looks without having been woken.
    Glance(usize),
    /// The n-th of those who wait, called or not, gives up.
    Leave(usize),
    /// The n-th permit is given back unsent.
    Refund(usize),
    /// The n-th permit is settled with an answer.
    Settle(usize),
    /// The n-th permit is dropped after it was sent.
    Abandon(usize),
}

/// A limit: so many units of this measure in so many ticks.
pub(crate) type Units = (u64, u64, CountBy);

/// An API: the limit of each of its groups and of all together.
#[derive(Debug, Clone)]
pub(crate) struct Shape {
    pub(crate) accounting: Accounting,
    pub(crate) groups: Vec<Option<Units>>,
    pub(crate) shared: Option<Units>,
    pub(crate) concurrency: u32,
}

pub(crate) fn shapes(accounting: Accounting) -> impl Strategy<Value = Shape> {
    let measure = || prop_oneof![3 => Just(CountBy::Cost), 1 => Just(CountBy::Calls)];
    let limit = move || prop::option::of((1..5_u64, 1..8_u64, measure()));
    let groups = prop::collection::vec(limit(), 1..4);
    (groups, limit(), prop_oneof![Just(1_000_000), 1..4_u32]).prop_map(
        move |(groups, shared, concurrency)| Shape {
            accounting,
            groups,
            shared,
            concurrency,
        },
    )
}

pub(crate) fn steps() -> impl Strategy<Value = Vec<Step>> {
    let nth = || 0..6_usize;
    let join = (0..3_usize, 0..6_u64, prop_oneof![Just(3_000), 0..20_u64]);
    let step = prop_oneof![
        12 => join.prop_map(|(group, cost, ready)| Step::Join { group, cost, ready }),
        8 => (0..5_u64).prop_map(Step::Pass),
        1 => (0..9_u64).prop_map(Step::Lag),
        9 => nth().prop_map(Step::Resume),
        1 => nth().prop_map(Step::Glance),
        2 => nth().prop_map(Step::Leave),
        2 => nth().prop_map(Step::Refund),
        5 => nth().prop_map(Step::Settle),
        1 => nth().prop_map(Step::Abandon),
    ];
    prop::collection::vec(step, 1..80)
}

impl Shape {
    fn rules(&self) -> Rules {
        let limit = |(units, ticks, measure): &Units| {
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
            health: super::health(|settings| settings.concurrency = self.concurrency),
            timeout: TIMEOUT,
            ..rules(self.shared.iter().map(limit).collect())
        }
    }

    fn most(&self, group: usize) -> u64 {
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

struct Waiting {
    group: usize,
    cost: u64,
    deadline: Nanos,
    caller: Caller,
    glances: u32,
}

struct Going {
    group: usize,
    cost: u64,
    resumed: Nanos,
    permit: Permit,
}

/// A history under way. `waiting` is in order of arrival.
pub(crate) struct History {
    shape: Shape,
    world: World,
    waiting: Vec<Waiting>,
    going: Vec<Going>,
    /// By group: from, when it landed, cost.
    landed: Vec<(usize, Nanos, Nanos, u64)>,
    lagging: bool,
    joined: u32,
    pub(crate) failed_wakes: u32,
}

type Checked = Result<(), TestCaseError>;

impl History {
    pub(crate) fn new(shape: Shape) -> Self {
        Self {
            world: World::silent(shape.rules()),
            shape,
            waiting: Vec::new(),
            going: Vec::new(),
            landed: Vec::new(),
            lagging: false,
            joined: 0,
            failed_wakes: 0,
        }
    }

    /// Plays all of it; after each step nobody waits who could go.
    pub(crate) fn play(&mut self, steps: &[Step]) -> Checked {
        for step in steps {
            self.step(step)?;
            self.check_nobody_waits_in_vain()?;
            self.check_concurrency()?;
        }
        self.check_limits()
    }

    /// Lets everybody finish or leave: nothing is left behind, and all room comes back.
    pub(crate) fn end(mut self) -> Checked {
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
        prop_assert!(self.world.is_at_rest(), "{:?}", self.world.door.report());
        self.world.pass(TIMEOUT + TICK * 10);
        for limit in self.limits() {
            prop_assert_eq!(limit, 0, "something still counts");
        }
        Ok(())
    }

    fn limits(&self) -> Vec<u64> {
        let report = self.world.door.report();
        let own = report.groups.iter().flat_map(|group| &group.limits);
        own.chain(&report.limits)
            .map(|limit| limit.usage.weight)
            .collect()
    }

    fn step(&mut self, step: &Step) -> Checked {
        match *step {
            Step::Join { group, cost, ready } => self.join(group, cost, ready)?,
            Step::Pass(ticks) => {
                self.world.pass(TICK * u32::try_from(ticks).expect("few"));
                self.lagging = false;
            }
            Step::Lag(ticks) => {
                self.world
                    .timer
                    .lag(TICK * u32::try_from(ticks).expect("few"));
                self.lagging = true;
            }
            Step::Resume(nth) => {
                let woken = (0..self.waiting.len()).filter(|n| self.waiting[*n].caller.is_woken());
                if let Some(at) = woken.cycle().take(nth + 1).last() {
                    let one = self.waiting.remove(at);
                    self.resume(one)?;
                }
            }
            Step::Glance(nth) => {
                let len = self.waiting.len().max(1);
                if let Some(one) = self
                    .waiting
                    .get_mut(nth % len)
                    .filter(|w| !w.caller.is_woken())
                {
                    one.glances += 1;
                    let seen = one.caller.poll();
                    prop_assert!(
                        seen.is_none() || one.deadline < self.world.now() || self.lagging,
                        "{seen:?}"
                    );
                    if seen.is_some() {
                        self.waiting.remove(nth % len);
                    }
                }
            }
            Step::Leave(nth) => drop(nth_of(&mut self.waiting, nth)),
            Step::Refund(nth) => {
                if let Some(one) = nth_of(&mut self.going, nth) {
                    one.permit.refund();
                }
            }
            Step::Settle(nth) => {
                if let Some(one) = nth_of(&mut self.going, nth) {
                    let now = self.world.now();
                    self.landed.push((one.group, one.resumed, now, one.cost));
                    one.permit.settle(AttemptResult::status(200));
                }
            }
            Step::Abandon(nth) => {
                if let Some(one) = nth_of(&mut self.going, nth) {
                    let lost = one.resumed.saturating_add(TIMEOUT);
                    let lost = lost.max(self.world.now());
                    self.landed.push((one.group, one.resumed, lost, one.cost));
                }
            }
        }
        Ok(())
    }

    fn join(&mut self, group: usize, cost: u64, ready: u64) -> Checked {
        let group = group % self.shape.groups.len();
        let cost = cost.min(self.shape.most(group));
        self.joined += 1;
        let ready = TICK * u32::try_from(ready).expect("few") + TICK / 2 + APART * self.joined;
        let deadline = self.world.now().saturating_add(ready);
        let target = self
            .world
            .group(&group.to_string())
            .with_cost(Cost::new(cost));
        let mut caller = self
            .world
            .caller(CallRequest::new(target).deadline(deadline));
        let now = self.world.now();
        match caller.poll() {
            Some(Ok(mut permit)) => {
                permit.sending();
                self.going.push(Going {
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
            None => self.waiting.push(Waiting {
                group,
                cost,
                deadline,
                caller,
                glances: 0,
            }),
        }
        Ok(())
    }

    fn resume(&mut self, mut one: Waiting) -> Checked {
        let (now, woken_at, woken) = (
            self.world.now(),
            one.caller.woken_at(),
            one.caller.is_woken(),
        );
        let late = woken && woken_at > one.deadline;
        match one.caller.poll() {
            Some(Ok(mut permit)) => {
                permit.sending();
                prop_assert!(!late, "let go after its deadline");
                let fair = one.caller.polls <= 2 + one.glances + self.failed_wakes;
                prop_assert!(fair, "{} polls for one grant", one.caller.polls);
                self.going.push(Going {
                    group: one.group,
                    cost: one.cost,
                    resumed: now,
                    permit,
                });
            }
            Some(Err(refusal)) => {
                let told = one.deadline < now;
                prop_assert!(told, "refused before its deadline: {refusal:?}");
            }
            None => {
                let expired = self
                    .shape
                    .windows(one.group)
                    .any(|w| now >= woken_at.saturating_add(w));
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

    /// What counts against a group's own limit, or against all, at this instant.
    fn counted(&self, group: Option<usize>) -> Everything {
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
                all.push(Counted { from, until, cost });
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
        Everything(all)
    }

    fn called(&self) -> impl Iterator<Item = &Waiting> {
        self.waiting.iter().filter(|one| one.is_called())
    }

    fn check_limits(&self) -> Checked {
        for (group, own) in self.shape.groups.iter().enumerate() {
            if let Some((most, ..)) = own {
                let peak = self.counted(Some(group)).peak();
                prop_assert!(peak <= *most, "group {group} had {peak} of {most}");
            }
        }
        if let Some((most, ..)) = self.shape.shared {
            let peak = self.counted(None).peak();
            prop_assert!(peak <= most, "all had {peak} of {most}");
        }
        Ok(())
    }

    fn check_concurrency(&self) -> Checked {
        let out = self.called().count() + self.going.len();
        let told = usize::try_from(self.world.in_flight()).expect("few");
        prop_assert_eq!(out, told, "in flight");
        prop_assert!(out <= usize::try_from(self.shape.concurrency).expect("few"));
        Ok(())
    }

    /// Nobody stands behind one who came later, and whoever is next and has room was called.
    fn check_nobody_waits_in_vain(&self) -> Checked {
        if self.lagging {
            return Ok(());
        }
        let now = self.world.now();
        let mut blocked = vec![false; self.shape.groups.len()];
        if self.called().count() + self.going.len()
            >= usize::try_from(self.shape.concurrency).expect("few")
        {
            return Ok(());
        }
        for one in self.waiting.iter().filter(|one| !one.caller.is_woken()) {
            prop_assert!(
                one.deadline >= now,
                "nobody told it that its deadline has passed"
            );
            if blocked[one.group] {
                continue;
            }
            let has_room = |limit: Option<Units>, group| {
                limit.is_none_or(|(most, _, measure)| {
                    let more = weight(measure, one.cost);
                    more == 0 || self.counted(group).at(now) + more <= most
                })
            };
            if has_room(self.shape.groups[one.group], Some(one.group)) {
                let free = has_room(self.shape.shared, None);
                prop_assert!(
                    !free,
                    "one of group {} and cost {} could go",
                    one.group,
                    one.cost
                );
                return Ok(());
            }
            blocked[one.group] = true;
        }
        Ok(())
    }
}

/// What a call comes to where this is counted.
fn weight(measure: CountBy, cost: u64) -> u64 {
    match measure {
        CountBy::Cost => cost,
        _ => 1,
    }
}

impl Waiting {
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

/// More than the door leaves between two rings, and so little that eighty fit into half a tick.
const APART: Duration = Duration::from_micros(60);

const TIMEOUT: Duration = Duration::from_millis(50);
