//! Everything at once: states, cooldowns, operators, late timers, classes, bodies. The run checks
//! the invariants after every step; at the end every call has a result.

use std::time::Duration;

use http::HeaderMap;
use outflow::core::{Accounting, AdaptiveMode, Cost, Fault, HealthOverride, HealthState, Limit, Nanos, Priority};
use outflow::{AttemptResult, Group, HealthScope, PendingBody, Permit, Rules, WhenAsleep};
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

use crate::support::oracle::{CountedSpan, CountedSpans};
use crate::support::{CallRequest, TestBed, TestCaller, health, ms, parsed, rules, secs};

#[derive(Debug, Clone)]
enum ChaosStep {
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
struct ApiShape {
    accounting: Accounting,
    scope: HealthScope,
    asleep: WhenAsleep,
    own: [u64; 2],
    shared: u64,
    concurrency: u32,
}

fn shapes() -> impl Strategy<Value = ApiShape> {
    let accounting = prop_oneof![Just(Accounting::Send), Just(Accounting::Safe)];
    let scope = prop_oneof![Just(HealthScope::Api), Just(HealthScope::Group)];
    let asleep = prop_oneof![Just(WhenAsleep::Refuse), Just(WhenAsleep::Wait)];
    let limits = (
        prop::array::uniform2(1..8_u64),
        2..10_u64,
        prop_oneof![Just(1_000), 1..4_u32],
    );
    (accounting, scope, asleep, limits).prop_map(|(accounting, scope, asleep, limits)| ApiShape {
        accounting,
        scope,
        asleep,
        own: limits.0,
        shared: limits.1,
        concurrency: limits.2,
    })
}

fn steps() -> impl Strategy<Value = Vec<ChaosStep>> {
    let class = prop::sample::select(vec![Priority::High, Priority::Normal, Priority::Low]);
    let join = (0..2_usize, class, 0..8_u64, prop_oneof![Just(30_000), 0..4_000_u64]);
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
        14 => join.prop_map(|(group, class, cost, ready)| ChaosStep::Join { group, class, cost, ready }),
        10 => (0..900_u64).prop_map(ChaosStep::Pass),
        1 => (0..3_000_u64).prop_map(ChaosStep::Lag),
        1 => (2_000..20_000_u64).prop_map(ChaosStep::Pass),
        12 => (0..9_usize).prop_map(ChaosStep::Resume),
        2 => (0..9_usize).prop_map(ChaosStep::Leave),
        1 => (0..9_usize).prop_map(ChaosStep::Refund),
        8 => (0..9_usize, status, asks).prop_map(|(nth, status, asks)| ChaosStep::Settle { nth, status, asks }),
        2 => (0..9_usize).prop_map(ChaosStep::Answer),
        3 => (0..9_usize, 0..4_u8).prop_map(|(nth, way)| ChaosStep::End { nth, way }),
        1 => (group(), hold).prop_map(|(group, hold)| ChaosStep::Force { group, hold }),
        2 => group().prop_map(ChaosStep::Release),
        1 => Just(ChaosStep::Tidy),
    ];
    prop::collection::vec(step, 1..100)
}

struct WaitingCall {
    group: usize,
    class: Priority,
    cost: u64,
    caller: TestCaller,
    /// It resumed late and returned to its queue position.
    late: bool,
}

struct GrantedCall {
    group: usize,
    cost: u64,
    resumed: Nanos,
    permit: Permit,
}

struct ChaosRun {
    shape: ApiShape,
    bed: TestBed,
    waiting: Vec<WaitingCall>,
    going: Vec<GrantedCall>,
    tails: Vec<PendingBody>,
    landed: Vec<(usize, Nanos, Nanos, u64)>,
}

type CheckResult = Result<(), TestCaseError>;

impl ChaosRun {
    fn new(shape: ApiShape) -> Self {
        let limit = |units: u64| Limit::sliding(parsed(&format!("{units}/s"))).counted(shape.accounting);
        let groups = shape.own.iter().enumerate();
        let rules = Rules {
            groups: groups
                .map(|(n, own)| Group::new(&n.to_string(), vec![limit(*own)]))
                .collect(),
            health: health(|settings| settings.concurrency = Some(shape.concurrency)),
            health_scope: shape.scope,
            when_asleep: shape.asleep,
            adaptive: AdaptiveMode::Guard,
            timeout: secs(1),
            ..rules(vec![limit(shape.shared)])
        };
        Self {
            bed: TestBed::silent(rules),
            shape,
            waiting: Vec::new(),
            going: Vec::new(),
            tails: Vec::new(),
            landed: Vec::new(),
        }
    }

    fn play(&mut self, steps: &[ChaosStep]) -> CheckResult {
        for step in steps {
            self.step(step)?;
            self.check()?;
        }
        Ok(())
    }

    fn step(&mut self, step: &ChaosStep) -> CheckResult {
        let bed = &self.bed;
        let target = |group: &usize| bed.group(&group.to_string());
        match step {
            ChaosStep::Join {
                group,
                class,
                cost,
                ready,
            } => return self.join(*group, *class, *cost, ms(*ready)),
            ChaosStep::Pass(span) => bed.pass(ms(*span)),
            ChaosStep::Lag(span) => bed.timer.lag(ms(*span)),
            ChaosStep::Resume(nth) => {
                let woken = (0..self.waiting.len()).filter(|n| self.waiting[*n].caller.is_woken());
                if let Some(at) = woken.cycle().take(nth + 1).last() {
                    return self.resume(at);
                }
            }
            ChaosStep::Leave(nth) => drop(nth_of(&mut self.waiting, *nth)),
            ChaosStep::Refund(nth) => drop(nth_of(&mut self.going, *nth)),
            ChaosStep::Settle { nth, status, asks } => self.settle(*nth, *status, *asks),
            ChaosStep::Answer(nth) => {
                if let Some(mut one) = nth_of(&mut self.going, *nth) {
                    one.permit.sending();
                    self.landed.push((one.group, one.resumed, self.bed.now(), one.cost));
                    self.tails.push(one.permit.settle_head(AttemptResult::status(200)).1);
                }
            }
            ChaosStep::End { nth, way } => {
                if let Some(mut tail) = nth_of(&mut self.tails, *nth) {
                    match way {
                        0 => tail.finished(),
                        1 => drop(tail.fail(Fault::TruncatedBody)),
                        2 => tail.mark_alive(),
                        _ => drop(tail),
                    }
                }
            }
            ChaosStep::Force { group, hold } => bed.upstream.force_health(group.as_ref().map(target), *hold),
            ChaosStep::Release(group) => bed.upstream.release_health(group.as_ref().map(target)),
            ChaosStep::Tidy => bed.upstream.prune(),
        }
        Ok(())
    }

    fn join(&mut self, group: usize, class: Priority, cost: u64, ready: Duration) -> CheckResult {
        let cost = cost.min(self.shape.own[group]).min(self.shape.shared);
        let target = self.bed.group(&group.to_string()).with_cost(Cost::new(cost));
        let deadline = self.bed.now().saturating_add(ready);
        let mut caller = self
            .bed
            .caller(CallRequest::new(target).priority(class).deadline(deadline));
        match caller.poll() {
            Some(Ok(permit)) => return self.goes(group, cost, permit),
            Some(Err(_)) => {}
            None => self.waiting.push(WaitingCall {
                group,
                class,
                cost,
                caller,
                late: false,
            }),
        }
        Ok(())
    }

    fn resume(&mut self, at: usize) -> CheckResult {
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

    /// Checks that a granted call goes in a state that allows it.
    fn goes(&mut self, group: usize, cost: u64, permit: Permit) -> CheckResult {
        let resumed = self.bed.now();
        let circuit = if self.shape.scope == HealthScope::Group {
            group
        } else {
            0
        };
        let health = &self.bed.upstream.report().health[circuit];
        let open = !matches!(health.snapshot.state, HealthState::Sleep | HealthState::CacheOnly);
        prop_assert!(open, "it went in {:?}", health.snapshot.state);
        let cooling = health.snapshot.cooling_until;
        prop_assert!(
            cooling.is_none_or(|until| until <= resumed),
            "it went before {cooling:?}"
        );
        self.going.push(GrantedCall {
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
        self.landed.push((one.group, one.resumed, self.bed.now(), one.cost));
        let mut headers = HeaderMap::new();
        if let Some(asks) = asks {
            headers.insert("retry-after", asks.into());
        }
        one.permit.settle(AttemptResult::response(status, &headers));
    }

    fn check(&self) -> CheckResult {
        let report = self.bed.upstream.report();
        let called = self.waiting.iter().filter(|one| one.caller.is_woken()).count();
        let reported: u32 = report.health.iter().map(|one| one.in_flight).sum();
        let out = called + self.going.len() + self.tails.len();
        prop_assert!(
            usize::try_from(reported).is_ok_and(|reported| reported <= out),
            "{reported} in flight of {out}"
        );
        for health in &report.health {
            prop_assert!(health.snapshot.probes_out <= 2);
        }
        Ok(())
    }

    /// Checks that no call goes before an earlier one of its queue that was not dispatched.
    fn check_order(&self, at: usize) -> CheckResult {
        let one = &self.waiting[at];
        let overtaken = self.waiting[..at].iter().any(|other| {
            let same = other.group == one.group && other.class == one.class;
            same && !other.late && !other.caller.is_woken()
        });
        prop_assert!(!overtaken, "{:?} of group {} overtook another", one.class, one.group);
        Ok(())
    }

    /// Ends the operator's override and heals the API: every call gets a result, and all quota
    /// returns.
    fn end(mut self) -> CheckResult {
        self.bed.upstream.release_health(None);
        for _ in 0..900 {
            self.going.drain(..).for_each(|mut one| {
                one.permit.sending();
                self.landed.push((one.group, one.resumed, self.bed.now(), one.cost));
                one.permit.settle(AttemptResult::status(200));
            });
            self.tails.clear();
            self.bed.pass(ms(100));
            while let Some(at) = (0..self.waiting.len()).find(|n| self.waiting[*n].caller.is_woken()) {
                self.resume(at)?;
            }
        }
        prop_assert!(self.waiting.is_empty(), "{} were forgotten", self.waiting.len());
        self.check_limits()?;
        self.going.clear();
        prop_assert!(self.bed.is_at_rest());
        // A limit of one a second that was lowered repeatedly is one in many seconds.
        self.bed.pass(secs(100_000));
        let report = self.bed.upstream.report();
        let own = report.groups.iter().flat_map(|group| &group.limits);
        let left: u64 = own.chain(&report.limits).map(|limit| limit.usage.weight).sum();
        prop_assert_eq!(left, 0);
        Ok(())
    }

    fn check_limits(&self) -> CheckResult {
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
                CountedSpan {
                    from: *from,
                    until: begins.saturating_add(secs(1)),
                    cost: *cost,
                }
            });
            let peak = CountedSpans(all.collect()).peak();
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
    fn under_chaos_no_caller_is_forgotten_and_no_limit_is_exceeded
    / fn stress_under_chaos_no_caller_is_forgotten((shapes(), steps())) = |(shape, steps)| {
        let mut chaos = ChaosRun::new(shape);
        chaos.play(&steps)?;
        chaos.end()
    };
}
