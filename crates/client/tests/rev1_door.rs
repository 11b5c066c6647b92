//! Attempts to break the door. Each test states the law that it believes in; a red one is a defect.
#![allow(
    dead_code,
    unreachable_pub,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "reproductions"
)]

mod support;

use std::sync::Arc;
use std::time::Duration;

use outflow::core::{Accounting, Cost, Limit, Nanos, Pacing, Priority};
use outflow::{Answer, Ask, Group, Mode, Rules};
use support::{Caller, INSTANT, World, by_arrival, by_sending, ms, parsed, rules, secs};

fn group(name: &str, limits: Vec<Limit>) -> Group {
    Group::new(name, limits)
}

// Ten a second, paced, for a caller that does not wait but comes back when it is told to.
#[test]
fn rev1_who_comes_back_when_told_is_let_in() {
    let world = World::new(rules(vec![by_sending("10/s").paced(Pacing::SOFT)]));
    let ask = world.ask().mode(Mode::Reject);
    let mut went = 0;
    let end = world.now().saturating_add(secs(10));
    let mut refusals = 0;
    while world.now() < end {
        match world.door.try_admit(ask) {
            Ok(mut permit) => {
                permit.sending();
                permit.settle(Answer::status(200));
                went += 1;
            }
            Err(refusal) => {
                refusals += 1;
                assert!(refusals < 100_000, "spins");
                let wait = refusal.retry_after.expect("told");
                world.pass(wait.max(INSTANT));
            }
        }
    }
    assert!(
        went >= 80,
        "{went} of 100 went in ten seconds, {refusals} refusals"
    );
}

// A low one that its own group holds up for a day must not hold up the low one of another group.
#[test]
fn rev1_a_low_call_does_not_starve_behind_one_that_cannot_go() {
    let mut all = rules(vec![by_sending("1/s")]);
    all.groups = vec![
        group("daily", vec![by_sending("1/d")]),
        group("lowly", vec![]),
        group("busy", vec![]),
    ];
    all.max_wait = secs(1_000_000);
    let world = World::silent(all);
    world.caller(Ask::new(world.group("daily"))).goes();
    let _stuck = world.waiting(Ask::new(world.group("daily")).priority(Priority::Low));
    let mut low = world.waiting(Ask::new(world.group("lowly")).priority(Priority::Low));
    let high = || world.waiting(Ask::new(world.group("busy")).priority(Priority::High));
    let mut highs: Vec<Caller> = (0..20).map(|_| high()).collect();
    for turn in 0..200 {
        world.pass(secs(1));
        if low.is_woken() {
            println!("went in turn {turn}");
            low.goes();
            return;
        }
        if let Some(at) = highs.iter().position(Caller::is_woken) {
            highs.remove(at).goes();
            highs.push(high());
        }
    }
    panic!("a low call was passed over 200 times; nine would be fair");
}

// Two rings that are both overdue when the timer's thread comes to them: they must not breed.
#[test]
fn rev1_late_rings_do_not_multiply() {
    let world = World::silent(Rules {
        max_wait: secs(100_000),
        queue: 100_000,
        ..rules(vec![by_sending("1/s")])
    });
    world.caller(world.ask()).goes();
    let mut line: Vec<Caller> = (0..3_000).map(|_| world.waiting(world.ask())).collect();
    let mut asked = Vec::new();
    let mut go = |world: &World, line: &mut Vec<Caller>| {
        let ready = line.iter().position(Caller::is_woken);
        if let Some(at) = ready {
            line.remove(at).goes();
        }
    };
    for round in 0..50_u64 {
        // Somebody with a short patience, asked for before the next slot: a second ring.
        let short = world.caller(world.ask().by(world.now().saturating_add(ms(5_000_000))));
        drop(short);
        let brief = {
            let mut caller = world.caller(
                world
                    .ask()
                    .priority(Priority::High)
                    .by(world.now().saturating_add(ms(1_100))),
            );
            let _waits = caller.poll();
            caller
        };
        // The timer's thread is late by two seconds.
        world.timer.lag(secs(2));
        world.pass(Duration::ZERO);
        drop(brief);
        for _ in 0..5 {
            go(&world, &mut line);
        }
        let before = world.timer.asked();
        for _ in 0..10 {
            world.pass(secs(1));
            go(&world, &mut line);
        }
        asked.push(world.timer.asked() - before);
        let _ = round;
    }
    println!("{asked:?} pending {}", world.timer.pending());
    assert!(
        asked[49] <= asked[0] * 2 + 5,
        "rings per ten turns: {asked:?}"
    );
}

// By sending, 1/s: whoever has a permit and sends it a second later must not send with the next.
#[test]
fn rev1_sending_is_stamped_when_it_happens() {
    let world = World::new(rules(vec![by_sending("1/s")]));
    let mut first = world.caller(world.ask()).admitted();
    world.pass(ms(990));
    first.sending();
    let sent = world.now();
    let mut next = world.waiting(world.ask());
    world.pass(ms(10));
    if next.is_woken() {
        let mut permit = next.admitted();
        permit.sending();
        let gap = world.now().since(sent);
        assert!(gap >= secs(1), "two were sent within {gap:?}");
    }
}

// Extremes.
#[test]
fn rev1_extremes_do_not_panic_or_stick() {
    for limits in [
        vec![],
        vec![by_arrival("1/d")],
        vec![Limit::sliding(
            outflow::core::Rate::new(1, INSTANT).unwrap(),
        )],
        vec![Limit::sliding(
            outflow::core::Rate::new(u64::MAX, secs(1)).unwrap(),
        )],
        vec![Limit::bucket(parsed("1/s"), u64::MAX).unwrap()],
        vec![Limit::fixed(parsed("1/d")).counted(Accounting::Tight)],
    ] {
        for cost in [0, 1, 2, u64::MAX - 1, u64::MAX] {
            let world = World::new(Rules {
                max_wait: Duration::MAX,
                ..rules(limits.clone())
            });
            let target = world.group("default").costing(Cost::new(cost));
            for deadline in [Nanos::ZERO, Nanos::from_nanos(1), world.now(), Nanos::MAX] {
                let ask = Ask::new(target).by(deadline);
                let mut callers: Vec<Caller> = (0..3).map(|_| world.caller(ask)).collect();
                for caller in &mut callers {
                    let _held = caller.poll();
                }
                let _ = world.door.check(ask);
                let _ = world.door.report();
                world.pass(secs(1));
                for caller in &callers {
                    let _ = caller.explain();
                }
            }
            world.door.tidy();
            assert!(world.is_at_rest(), "cost {cost}");
        }
    }
}

// A permit and a tail held while the door is closed and dropped.
#[test]
fn rev1_a_tail_outlives_its_door() {
    let world = World::new(rules(vec![by_sending("1/s")]));
    let mut permit = world.caller(world.ask()).admitted();
    permit.sending();
    let door = world.door.clone();
    world.door.close();
    let (_, tail) = permit.answered(Answer::status(200));
    assert!(!door.is_idle());
    drop(world);
    tail.finished();
    assert!(door.is_idle());
}

// One who was called, whose task moved to another waker before it was polled, and a recall between.
#[test]
fn rev1_many_doors_on_the_system_clock_ring() {
    let clock = Arc::new(outflow::SystemClock::new());
    let doors: Vec<_> = (0..200)
        .map(|_| {
            outflow::Upstream::new(
                "api",
                Rules::limited_to(parsed("100/s")),
                Arc::<outflow::SystemClock>::clone(&clock),
                outflow::Events::new(),
            )
            .unwrap()
        })
        .collect();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        for (n, door) in doors.into_iter().enumerate() {
            let target = door.route(&http::Method::GET, "/");
            let wait = async {
                for _ in 0..2 {
                    let mut permit = door.admit(Ask::new(target)).await.unwrap();
                    permit.sending();
                    permit.settle(Answer::status(200));
                }
            };
            tokio::time::timeout(secs(5), wait)
                .await
                .unwrap_or_else(|_| panic!("door {n} is stuck"));
        }
    });
}

// An observer of one API that is slow when its timer rings must not make another API late.
struct Slow;
impl outflow::Observer for Slow {
    fn observe(&self, event: &outflow::Event) {
        if matches!(event.what, outflow::event::What::Refused { .. }) {
            std::thread::park_timeout(ms(500));
        }
    }
}

#[test]
fn rev1_a_slow_observer_of_one_api_does_not_make_another_late() {
    let clock = Arc::new(outflow::SystemClock::new());
    let events = outflow::Events::new();
    events.subscribe(Arc::new(Slow));
    let shared = || Arc::<outflow::SystemClock>::clone(&clock);
    let slow = outflow::Upstream::new("slow", rules(vec![]), shared(), events).unwrap();
    let mut one = rules(vec![by_sending("1/100ms")]);
    one.health = support::health(|settings| settings.concurrency = 1);
    let slow_rules = Rules {
        health: support::health(|s| s.concurrency = 1),
        ..rules(vec![])
    };
    let events = slow.events().clone();
    let slow = outflow::Upstream::new("slow", slow_rules, shared(), events).unwrap();
    let quick = outflow::Upstream::new(
        "quick",
        rules(vec![by_sending("1/100ms")]),
        shared(),
        outflow::Events::new(),
    )
    .unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let target = slow.route(&http::Method::GET, "/");
        let _held = slow.admit(Ask::new(target)).await.unwrap();
        let soon = slow.now().saturating_add(ms(50));
        let late = slow.admit(Ask::new(target).by(soon));
        let target = quick.route(&http::Method::GET, "/");
        let began = quick.now();
        let second = async {
            quick.admit(Ask::new(target)).await.unwrap().sending();
            let permit = quick.admit(Ask::new(target)).await.unwrap();
            permit.waited()
        };
        let (_, waited) = tokio::join!(late, second);
        let _ = began;
        assert!(
            waited < ms(300),
            "the quick API waited {waited:?} for its 100 ms"
        );
    });
}
