//! Everything at once: states, cooldowns, operators, late timers, classes, bodies. What holds whatever
//! happens is checked after every step, and in the end everybody has been answered.

use std::time::Duration;

use http::HeaderMap;
use outflow::core::{
    Accounting, AdaptiveMode, Cost, Fault, HealthOverride, HealthState, Limit, Nanos, Priority,
};
use outflow::{AttemptResult, Group, HealthScope, PendingBody, Permit, Rules, WhenAsleep};
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

use crate::support::oracle::{Counted, Everything};
use crate::support::{CallRequest, Caller, World, health, ms, parsed, rules, secs};

#[derive(Debug, Clone)]
enum Step {
    Join {
        group: usize,
        class: Priority,
        cost: u64,
        ready: u64,
    },
    Pass(u64),
    Lag(u64),
    Resume(usize),
    Leave(usize),
    Refund(usize),
    Settle {
        nth: usize,
        status: u16,
        asks: Option<u64>,
    },
    Answer(usize),
    End {
        nth: usize,
        way: u8,
    },
    Force {
        group: Option<usize>,
        hold: HealthOverride,
    },
    Release(Option<usize>),
    Tidy,
}

#[derive(Debug, Clone)]
struct Shape {
    accounting: Accounting,
    scope: HealthScope,
    asleep: WhenAsleep,
    own: [u64; 2],
    shared: u64,
    concurrency: u32,
}

fn shapes() -> impl Strategy<Value = Shape> {
    let accounting = prop_oneof![Just(Accounting::Send), Just(Accounting::Safe)];
    let scope = prop_oneof![Just(HealthScope::Api), Just(HealthScope::Group)];
    let asleep = prop_oneof![Just(WhenAsleep::Refuse), Just(WhenAsleep::Wait)];
    let limits = (
        prop::array::uniform2(1..8_u64),
        2..10_u64,
        prop_oneof![Just(1_000), 1..4_u32],
    );
    (accounting, scope, asleep, limits).prop_map(|(accounting, scope, asleep, limits)| Shape {
        accounting,
        scope,
        asleep,
        own: limits.0,
        shared: limits.1,
        concurrency: limits.2,
    })
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let class = prop::sample::select(vec![Priority::High, Priority::Normal, Priority::Low]);
    let join = (
        0..2_usize,
        class,
        0..8_u64,
        prop_oneof![Just(30_000), 0..4_000_u64],
    );
    let status = prop::sample::select(vec![200_u16, 200, 200, 404, 429, 429, 500, 503, 418]);
    let asks = prop::option::weighted(0.2, prop::sample::select(vec![1_u64, 2, 7]));
    let hold = prop::sample::select(vec![
        HealthOverride::Normal,
        HealthOverride::Throttle,
        HealthOverride::Sleep,
        HealthOverride::CacheOnly,
    ]);
    let group = || prop::option::of(0..2_usize);
    let step = prop_oneof![
        14 => join.prop_map(|(group, class, cost, ready)| Step::Join { group, class, cost, ready }),
        10 => (0..900_u64).prop_map(Step::Pass),
        1 => (0..3_000_u64).prop_map(Step::Lag),
        1 => (2_000..20_000_u64).prop_map(Step::Pass),
        12 => (0..9_usize).prop_map(Step::Resume),
        2 => (0..9_usize).prop_map(Step::Leave),
        1 => (0..9_usize).prop_map(Step::Refund),
        8 => (0..9_usize, status, asks).prop_map(|(nth, status, asks)| Step::Settle { nth, status, asks }),
        2 => (0..9_usize).prop_map(Step::Answer),
        3 => (0..9_usize, 0..4_u8).prop_map(|(nth, way)| Step::End { nth, way }),
        1 => (group(), hold).prop_map(|(group, hold)| Step::Force { group, hold }),
        2 => group().prop_map(Step::Release),
        1 => Just(Step::Tidy),
    ];
    prop::collection::vec(step, 1..100)
}

struct Waiting {
    group: usize,
    class: Priority,
    cost: u64,
    caller: Caller,
    /// It was late to resume and went back to its place.
    late: bool,
}

struct Going {
    group: usize,
    cost: u64,
    resumed: Nanos,
    permit: Permit,
}

struct Chaos {
    shape: Shape,
    world: World,
    waiting: Vec<Waiting>,
    going: Vec<Going>,
    tails: Vec<PendingBody>,
    landed: Vec<(usize, Nanos, Nanos, u64)>,
}

type Checked = Result<(), TestCaseError>;

impl Chaos {
    fn new(shape: Shape) -> Self {
        let limit =
            |units: u64| Limit::sliding(parsed(&format!("{units}/s"))).counted(shape.accounting);
        let groups = shape.own.iter().enumerate();
        let rules = Rules {
            groups: groups
                .map(|(n, own)| Group::new(&n.to_string(), vec![limit(*own)]))
                .collect(),
            health: health(|settings| settings.concurrency = shape.concurrency),
            health_scope: shape.scope,
            when_asleep: shape.asleep,
            adaptive: AdaptiveMode::Guard,
            timeout: secs(1),
            ..rules(vec![limit(shape.shared)])
        };
        Self {
            world: World::silent(rules),
            shape,
            waiting: Vec::new(),
            going: Vec::new(),
            tails: Vec::new(),
            landed: Vec::new(),
        }
    }

    fn play(&mut self, steps: &[Step]) -> Checked {
        for step in steps {
            self.step(step)?;
            self.check()?;
        }
        Ok(())
    }

    fn step(&mut self, step: &Step) -> Checked {
        let world = &self.world;
        let target = |group: &usize| world.group(&group.to_string());
        match step {
            Step::Join {
                group,
                class,
                cost,
                ready,
            } => return self.join(*group, *class, *cost, ms(*ready)),
            Step::Pass(span) => world.pass(ms(*span)),
            Step::Lag(span) => world.timer.lag(ms(*span)),
            Step::Resume(nth) => {
                let woken = (0..self.waiting.len()).filter(|n| self.waiting[*n].caller.is_woken());
                if let Some(at) = woken.cycle().take(nth + 1).last() {
                    return self.resume(at);
                }
            }
            Step::Leave(nth) => drop(nth_of(&mut self.waiting, *nth)),
            Step::Refund(nth) => drop(nth_of(&mut self.going, *nth)),
            Step::Settle { nth, status, asks } => self.settle(*nth, *status, *asks),
            Step::Answer(nth) => {
                if let Some(mut one) = nth_of(&mut self.going, *nth) {
                    one.permit.sending();
                    self.landed
                        .push((one.group, one.resumed, self.world.now(), one.cost));
                    self.tails
                        .push(one.permit.settle_head(AttemptResult::status(200)).1);
                }
            }
            Step::End { nth, way } => {
                if let Some(mut tail) = nth_of(&mut self.tails, *nth) {
                    match way {
                        0 => tail.finished(),
                        1 => drop(tail.fail(Fault::TruncatedBody)),
                        2 => tail.mark_alive(),
                        _ => drop(tail),
                    }
                }
            }
            Step::Force { group, hold } => {
                world.door.force_health(group.as_ref().map(target), *hold)
            }
            Step::Release(group) => world.door.release_health(group.as_ref().map(target)),
            Step::Tidy => world.door.prune(),
        }
        Ok(())
    }

    fn join(&mut self, group: usize, class: Priority, cost: u64, ready: Duration) -> Checked {
        let cost = cost.min(self.shape.own[group]).min(self.shape.shared);
        let target = self
            .world
            .group(&group.to_string())
            .with_cost(Cost::new(cost));
        let deadline = self.world.now().saturating_add(ready);
        let mut caller = self
            .world
            .caller(CallRequest::new(target).priority(class).deadline(deadline));
        match caller.poll() {
            Some(Ok(permit)) => return self.goes(group, cost, permit),
            Some(Err(_)) => {}
            None => self.waiting.push(Waiting {
                group,
                class,
                cost,
                caller,
                late: false,
            }),
        }
        Ok(())
    }

    fn resume(&mut self, at: usize) -> Checked {
        let woken = self.waiting[at].caller.is_woken();
        match self.waiting[at].caller.poll() {
            Some(Ok(permit)) => {
                self.check_order(at)?;
                let one = self.waiting.remove(at);
                return self.goes(one.group, one.cost, permit);
            }
            Some(Err(_)) => drop(self.waiting.remove(at)),
            None => self.waiting[at].late |= woken,
        }
        Ok(())
    }

    /// Whoever goes, goes in a state that lets it.
    fn goes(&mut self, group: usize, cost: u64, permit: Permit) -> Checked {
        let resumed = self.world.now();
        let ward = if self.shape.scope == HealthScope::Group {
            group
        } else {
            0
        };
        let health = &self.world.door.report().health[ward];
        let open = !matches!(
            health.snapshot.state,
            HealthState::Sleep | HealthState::CacheOnly
        );
        prop_assert!(open, "it went in {:?}", health.snapshot.state);
        let cooling = health.snapshot.cooling_until;
        prop_assert!(
            cooling.is_none_or(|until| until <= resumed),
            "it went before {cooling:?}"
        );
        self.going.push(Going {
            group,
            cost,
            resumed,
            permit,
        });
        Ok(())
    }

    fn settle(&mut self, nth: usize, status: u16, asks: Option<u64>) {
        let Some(mut one) = nth_of(&mut self.going, nth) else {
            return;
        };
        one.permit.sending();
        self.landed
            .push((one.group, one.resumed, self.world.now(), one.cost));
        let mut headers = HeaderMap::new();
        if let Some(asks) = asks {
            headers.insert("retry-after", asks.into());
        }
        one.permit.settle(AttemptResult::response(status, &headers));
    }

    fn check(&self) -> Checked {
        let report = self.world.door.report();
        let called = self
            .waiting
            .iter()
            .filter(|one| one.caller.is_woken())
            .count();
        let told: u32 = report.health.iter().map(|one| one.in_flight).sum();
        let out = called + self.going.len() + self.tails.len();
        prop_assert!(
            usize::try_from(told).is_ok_and(|told| told <= out),
            "{told} in flight of {out}"
        );
        for health in &report.health {
            prop_assert!(health.snapshot.probes_out <= 1);
        }
        Ok(())
    }

    /// Nobody goes while one who came before it in the same line has not been called.
    fn check_order(&self, at: usize) -> Checked {
        let one = &self.waiting[at];
        let overtaken = self.waiting[..at].iter().any(|other| {
            let same = other.group == one.group && other.class == one.class;
            same && !other.late && !other.caller.is_woken()
        });
        prop_assert!(
            !overtaken,
            "{:?} of group {} overtook another",
            one.class,
            one.group
        );
        Ok(())
    }

    /// The operator lets go, the API is well again: everybody is answered, and all room comes back.
    fn end(mut self) -> Checked {
        self.world.door.release_health(None);
        for _ in 0..900 {
            self.going.drain(..).for_each(|mut one| {
                one.permit.sending();
                self.landed
                    .push((one.group, one.resumed, self.world.now(), one.cost));
                one.permit.settle(AttemptResult::status(200));
            });
            self.tails.clear();
            self.world.pass(ms(100));
            while let Some(at) =
                (0..self.waiting.len()).find(|n| self.waiting[*n].caller.is_woken())
            {
                self.resume(at)?;
            }
        }
        prop_assert!(
            self.waiting.is_empty(),
            "{} were forgotten",
            self.waiting.len()
        );
        self.check_limits()?;
        self.going.clear();
        prop_assert!(self.world.is_at_rest());
        // A limit of one a second that was lowered again and again is one in many seconds.
        self.world.pass(secs(100_000));
        let report = self.world.door.report();
        let own = report.groups.iter().flat_map(|group| &group.limits);
        let left: u64 = own
            .chain(&report.limits)
            .map(|limit| limit.usage.weight)
            .sum();
        prop_assert_eq!(left, 0);
        Ok(())
    }

    fn check_limits(&self) -> Checked {
        for group in [Some(0), Some(1), None] {
            let most = group.map_or(self.shape.shared, |group| self.shape.own[group]);
            let mine = self
                .landed
                .iter()
                .filter(|(of, ..)| group.is_none_or(|group| group == *of));
            let all = mine.map(|(_, from, landed, cost)| {
                let begins = if self.shape.accounting == Accounting::Send {
                    from
                } else {
                    landed
                };
                Counted {
                    from: *from,
                    until: begins.saturating_add(secs(1)),
                    cost: *cost,
                }
            });
            let peak = Everything(all.collect()).peak();
            prop_assert!(peak <= most, "{group:?} had {peak} of {most}");
        }
        Ok(())
    }
}

fn nth_of<T>(all: &mut Vec<T>, nth: usize) -> Option<T> {
    (!all.is_empty()).then(|| {
        let len = all.len();
        all.remove(nth % len)
    })
}

outflow_testkit::laws! {
    #[test]
    fn whatever_happens_nobody_is_forgotten_and_no_limit_is_passed
    / fn stress_whatever_happens_nobody_is_forgotten((shapes(), steps())) = |(shape, steps)| {
        let mut chaos = Chaos::new(shape);
        chaos.play(&steps)?;
        chaos.end()
    };
}
