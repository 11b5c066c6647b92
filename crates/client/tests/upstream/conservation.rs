//! Nothing is lost: places, permits, probes and memory, whoever leaves whenever.

use std::future::Future;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use outflow::core::{Accounting, Cost, Fault, Limit, Pacing};
use outflow::{AttemptResult, Events, Group, HealthScope, Rules, SystemClock, Upstream};
use proptest::prelude::*;

use crate::support::{
    CallRequest, Caller, INSTANT, World, by_arrival, by_sending, health, ms, parsed, rules, secs,
};

// Before the first poll, in line, called and not resumed, paced: at each of these points a call can be
// dropped, and everybody else goes as if it had never been.
#[test]
fn a_call_can_be_dropped_at_every_point_of_its_wait() {
    for limit in [
        by_sending("2/s"),
        by_arrival("2/s"),
        by_sending("2/s").paced(Pacing::SOFT),
    ] {
        for point in 0..4 {
            let world = World::new(rules(vec![limit]));
            world.caller(world.ask()).waits_on();
            world.pass(ms(500));
            world.caller(world.ask()).waits_on();
            let mut one = world.caller(world.ask());
            if point > 0 {
                drop(one.poll());
            }
            let after = world.waiting(world.ask());
            world.pass(ms([0, 200, 500, 900][point]));
            drop(one);
            world.pass(secs(2));
            assert!(after.is_woken(), "{limit:?}, point {point}");
            drop(after);
            assert!(world.is_at_rest(), "{limit:?}, point {point}");
            world.pass(secs(2));
            assert_eq!(
                world.door.report().limits[0].usage.weight,
                0,
                "{limit:?}, point {point}"
            );
        }
    }
}

// Unsent it takes nothing; sent and dropped it may arrive until its timeout of 10 s has passed, and
// counts one window more.
#[test]
fn a_dropped_permit_counts_only_if_it_was_sent() {
    let world = World::new(rules(vec![by_arrival("1/s")]));
    drop(world.caller(world.ask()).admitted());
    world.caller(world.ask()).admitted().refund();
    let unsent = world.caller(world.ask()).admitted();
    unsent.settle(AttemptResult::fault(Fault::Dns).unsent());
    let mut sent = world.caller(world.ask()).admitted();
    sent.sending();
    world.pass(secs(1));
    drop(sent);
    assert!(world.is_at_rest());
    let waits = world.waiting(world.ask());
    world.pass_all_but_an_instant_of(secs(10));
    assert!(!waits.is_woken());
    world.pass(INSTANT);
    assert!(waits.is_woken());
}

// Tight: the first fifty count as if they had arrived with their answer. From then on an entry counts
// from the latest moment at which it can have arrived, which with a round trip that never changes is
// its sending, and 2 ms more.
#[test]
fn tight_counts_from_the_latest_arrival_that_is_possible() {
    let limit = Limit::sliding(parsed("1/s")).counted(Accounting::Tight);
    let world = World::new(rules(vec![limit]));
    let mut gaps = Vec::new();
    for _ in 0..60 {
        let mut caller = world.caller(world.ask());
        let began = world.now();
        let mut answer = caller.poll();
        while answer.is_none() {
            let next = world.timer.next_at().expect("it waits");
            world.pass(next.since(world.now()));
            answer = caller.poll();
        }
        let mut permit = answer.expect("it was told").expect("it may go");
        gaps.push(world.now().since(began));
        permit.sending();
        world.pass(ms(100));
        permit.settle(AttemptResult::status(200));
    }
    assert_eq!(gaps[10], ms(1_002), "a window from the answer");
    assert_eq!(gaps[58], ms(902), "a window from the sending");
}

// The place in flight is free when the body is over, not when the answer begins.
#[test]
fn a_tail_holds_its_place_until_the_body_is_over() {
    let world = World::new(Rules {
        health: health(|settings| settings.concurrency = 1),
        ..rules(Vec::new())
    });
    for way in 0..3 {
        let mut permit = world.caller(world.ask()).admitted();
        permit.sending();
        let (_, tail) = permit.settle_head(AttemptResult::status(200));
        let mut next = world.waiting(world.ask());
        match way {
            0 => tail.finished(),
            1 => drop(tail),
            _ => drop(tail.fail(Fault::TruncatedBody)),
        }
        assert!(next.is_woken(), "way {way}");
        next.goes();
    }
    assert!(world.is_at_rest());
}

/// A task that is kept alive by its waker alone and holds another call.
struct Holding {
    _other: Mutex<Caller>,
}

impl Wake for Holding {
    fn wake(self: Arc<Self>) {}
}

// Some executors keep a task alive by its waker: with the last waker the task goes, and with the task
// whatever else it was waiting for at the same door.
#[test]
fn a_waker_may_drop_another_call_of_the_same_door() {
    let world = World::new(rules(vec![by_sending("1/s")]));
    world.caller(world.ask()).goes();
    let other = world.waiting(world.ask());
    let waker = Waker::from(Arc::new(Holding {
        _other: Mutex::new(other),
    }));
    let mut admit = Box::pin(world.acquire(world.ask()));
    let first = admit.as_mut().poll(&mut Context::from_waker(&waker));
    assert!(first.is_pending());
    drop(waker);
    let again = admit.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert!(again.is_pending());
    assert_eq!(world.door.report().waiting, 1);

    let waker = Waker::from(Arc::new(Holding {
        _other: Mutex::new(world.waiting(world.ask())),
    }));
    drop(admit.as_mut().poll(&mut Context::from_waker(&waker)));
    drop(waker);
    drop(admit);
    assert!(world.is_at_rest());
}

struct Panicking;

impl Wake for Panicking {
    fn wake(self: Arc<Self>) {
        panic!("a waker that should not");
    }
}

// The first of two is woken by a waker that panics; the second is woken all the same.
#[test]
fn a_waker_that_panics_takes_nobody_with_it() {
    let world = World::new(rules(vec![by_sending("2/s")]));
    world.sends(2, world.ask());
    let waker = Waker::from(Arc::new(Panicking));
    let mut admit = Box::pin(world.acquire(world.ask()));
    drop(admit.as_mut().poll(&mut Context::from_waker(&waker)));
    let mut second = world.waiting(world.ask());
    world.pass(secs(1));
    assert!(second.is_woken());
    second.goes();
    assert!(matches!(
        admit.as_mut().poll(&mut Context::from_waker(&waker)),
        Poll::Ready(Ok(_))
    ));
}

// The timer is dead: nothing goes too early, no limit is passed, and whoever asks in time goes.
#[test]
fn without_its_timer_the_door_is_late_and_never_early() {
    let world = World::new(rules(vec![by_sending("2/s")]));
    world.timer.break_down();
    world.sends(2, world.ask());
    let mut waits = world.waiting(world.ask());
    world.pass(ms(999));
    assert!(world.try_acquire(world.ask()).is_err() && waits.poll().is_none());
    world.pass(ms(1));
    let mut next = world.caller(world.ask());
    assert!(next.poll().is_some_and(|answer| answer.is_ok()));
    assert!(
        waits.is_woken(),
        "whoever asks sees to it that those before it are called"
    );
    waits.goes();
}

// A line that moves every ten seconds, and a thousand short deadlines before its next slot: the ring
// for that slot is still to come after each of them, and is not asked for again.
#[test]
fn rings_do_not_multiply() {
    let world = World::silent(Rules {
        groups: vec![
            Group::new("slow", vec![by_sending("1/10s")]),
            Group::new("full", Vec::new()),
        ],
        health: health(|settings| settings.concurrency = 1),
        health_scope: HealthScope::Group,
        max_wait: secs(1_000),
        ..rules(Vec::new())
    });
    let (slow, full) = (
        CallRequest::new(world.group("slow")),
        CallRequest::new(world.group("full")),
    );
    world.caller(slow).goes();
    let _held = world.caller(full).admitted();
    let mut line: Vec<Caller> = (0..11).map(|_| world.waiting(slow)).collect();
    let before = world.timer.asked();
    for _ in 0..1_000 {
        let _short = world.waiting(full.deadline(world.now().saturating_add(ms(50))));
        world.pass(ms(100));
        line.retain_mut(|caller| !caller.is_woken() || caller.waits_on());
    }
    assert_eq!(line.len(), 1, "ten slots in a hundred seconds");
    let asked = world.timer.asked() - before;
    assert!(asked <= 1_020, "{asked} rings were asked for");
    assert!(
        world.timer.pending() <= 3,
        "{} are to come",
        world.timer.pending()
    );
}

// A hundred thousand wait and leave from the middle; a million come and go with deadlines.
#[test]
fn memory_comes_back_when_a_crowd_has_left() {
    let world = World::silent(Rules {
        queue: 200_000,
        max_wait: secs(1_000_000),
        ..rules(vec![by_sending("1/s")])
    });
    world.caller(world.ask()).goes();
    let mut line: Vec<Caller> = (0..100_000).map(|_| world.waiting(world.ask())).collect();
    let full = world.door.memory_bytes();
    while !line.is_empty() {
        let middle = line.len() / 2;
        line.swap_remove(middle);
    }
    world.door.prune();
    let empty = world.door.memory_bytes();
    assert!(
        full > 5_000_000 && empty < 50_000,
        "{full} full, {empty} empty"
    );
    for _ in 0..1_000_000 {
        drop(world.waiting(world.ask()));
    }
    assert!(
        world.door.memory_bytes() < 50_000,
        "{}",
        world.door.memory_bytes()
    );
}

outflow_testkit::laws! {
    // One at a time, called and left alone for up to three windows: it goes by the limit it finds when
    // it comes, and its deadline is not kept twice.
    #[test]
    fn whoever_comes_back_to_its_place_again_and_again_is_kept_once
    / fn stress_whoever_comes_back_again_and_again(prop::collection::vec(0..30_u64, 1..40)) = |gaps| {
        let world = World::silent(Rules { max_wait: secs(1_000), ..rules(vec![by_sending("1/100ms")]) });
        world.caller(world.ask()).goes();
        let mut late = world.waiting(world.ask());
        for gap in gaps {
            world.pass(ms(gap * 10));
            if late.is_woken() {
                world.caller(world.ask().mode(outflow::WaitMode::Reject)).waits_on();
                if !late.waits_on() {
                    return Ok(());
                }
            }
        }
        prop_assert!(world.door.memory_bytes() < 20_000);
        Ok(())
    };
}

/// A caller on a thread of its own, woken by unparking.
struct Unpark(std::thread::Thread, AtomicU32);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.1.store(1, Ordering::Release);
        self.0.unpark();
    }
}

fn block_on(door: &Upstream, ask: CallRequest, give_up_after: u32) -> bool {
    let unpark = Arc::new(Unpark(std::thread::current(), AtomicU32::new(0)));
    let waker = Waker::from(Arc::clone(&unpark));
    let mut admit = Box::pin(door.acquire_with(ask.target, ask.options));
    for _ in 0..=give_up_after {
        if let Poll::Ready(answer) = admit.as_mut().poll(&mut Context::from_waker(&waker)) {
            let Ok(mut permit) = answer else { return false };
            permit.sending();
            permit.settle(AttemptResult::status(200));
            return true;
        }
        while unpark.1.swap(0, Ordering::Acquire) == 0 {
            if give_up_after == 0 {
                return false;
            }
            std::thread::park_timeout(Duration::from_millis(500));
        }
    }
    false
}

// Four threads on the real clock, a thousand in 10 ms: everybody who waits gets its turn, and nothing is
// left behind by those who give up.
#[test]
fn threads_on_the_real_clock_leave_nothing_behind() {
    let limits = vec![by_arrival("1000/10ms")];
    let door = Upstream::new(
        "api",
        rules(limits),
        Arc::new(SystemClock::new()),
        Events::new(),
    );
    let door = door.expect("the rules fit together");
    let ask = CallRequest::new(door.group("default").expect("there is one"));
    let went = AtomicU32::new(0);
    std::thread::scope(|scope| {
        for thread in 0..4_u32 {
            let (door, went) = (door.clone(), &went);
            scope.spawn(move || {
                for n in 0..5_000_u32 {
                    let patient = (n + thread) % 5 != 0;
                    if block_on(&door, ask, u32::from(patient) * 10) {
                        went.fetch_add(1, Ordering::Relaxed);
                    } else {
                        assert!(!patient, "nobody who waits is forgotten");
                    }
                }
            });
        }
    });
    assert!(went.load(Ordering::Relaxed) >= 16_000);
    assert!(door.is_idle() && door.report().waiting == 0);
}

#[test]
fn cost_zero_takes_nothing() {
    let world = World::new(rules(vec![by_sending("1/s")]));
    let free = CallRequest::new(world.group("default").with_cost(Cost::ZERO));
    world.sends(100, free);
    world.caller(world.ask()).goes();
}
