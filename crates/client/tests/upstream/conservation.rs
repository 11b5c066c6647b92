//! Conservation: queue entries, permits, probes and memory survive any cancellation.

use std::future::Future;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use outflow::core::{Accounting, Cost, Fault, Limit, Pacing};
use outflow::{AttemptResult, Events, Group, HealthScope, Rules, SystemClock, Upstream};
use proptest::prelude::*;

use crate::support::{
    CallRequest, INSTANT, TestBed, TestCaller, by_arrival, by_sending, health, ms, parsed, rules, secs,
};

// A call can be dropped before the first poll, in the queue, after dispatch and while paced. All
// others go as if it had never been.
#[test]
fn a_call_can_be_dropped_at_every_point_of_its_wait() {
    for limit in [
        by_sending("2/s"),
        by_arrival("2/s"),
        by_sending("2/s").paced(Pacing::SOFT),
    ] {
        for point in 0..4 {
            let bed = TestBed::new(rules(vec![limit]));
            bed.caller(bed.options()).waits_on();
            bed.pass(ms(500));
            bed.caller(bed.options()).waits_on();
            let mut one = bed.caller(bed.options());
            if point > 0 {
                drop(one.poll());
            }
            let after = bed.waiting(bed.options());
            bed.pass(ms([0, 200, 500, 900][point]));
            drop(one);
            bed.pass(secs(2));
            assert!(after.is_woken(), "{limit:?}, point {point}");
            drop(after);
            assert!(bed.is_at_rest(), "{limit:?}, point {point}");
            bed.pass(secs(2));
            assert_eq!(
                bed.upstream.report().limits[0].usage.weight,
                0,
                "{limit:?}, point {point}"
            );
        }
    }
}

// Unsent it takes nothing. Sent and dropped it may arrive until its timeout of 10 s, and counts
// one window longer.
#[test]
fn a_dropped_permit_counts_only_if_it_was_sent() {
    let bed = TestBed::new(rules(vec![by_arrival("1/s")]));
    drop(bed.caller(bed.options()).admitted());
    bed.caller(bed.options()).admitted().refund();
    let unsent = bed.caller(bed.options()).admitted();
    unsent.settle(AttemptResult::fault(Fault::Dns).unsent());
    let mut sent = bed.caller(bed.options()).admitted();
    sent.sending();
    bed.pass(secs(1));
    drop(sent);
    assert!(bed.is_at_rest());
    let waits = bed.waiting(bed.options());
    bed.pass_until_just_before(secs(10));
    assert!(!waits.is_woken());
    bed.pass(INSTANT);
    assert!(waits.is_woken());
}

// Tight: the first fifty count as if they arrived with their responses. Later entries count from
// their latest possible arrival: with a constant round trip, 2 ms after sending.
#[test]
fn tight_accounting_counts_from_the_latest_possible_arrival() {
    let limit = Limit::sliding(parsed("1/s")).counted(Accounting::Tight);
    let bed = TestBed::new(rules(vec![limit]));
    let mut gaps = Vec::new();
    for _ in 0..60 {
        let mut caller = bed.caller(bed.options());
        let began = bed.now();
        let mut result = caller.poll();
        while result.is_none() {
            let next = bed.timer.next_at().expect("it waits");
            bed.pass(next.since(bed.now()));
            result = caller.poll();
        }
        let mut permit = result.expect("it has a result").expect("it may go");
        gaps.push(bed.now().since(began));
        permit.sending();
        bed.pass(ms(100));
        permit.settle(AttemptResult::status(200));
    }
    assert_eq!(gaps[10], ms(1_002), "a window from the answer");
    assert_eq!(gaps[58], ms(902), "a window from the sending");
}

// The concurrency slot is free when the body ends, not when the response begins.
#[test]
fn a_body_holds_its_concurrency_slot_until_it_ends() {
    let bed = TestBed::new(Rules {
        health: health(|settings| settings.concurrency = Some(1)),
        ..rules(Vec::new())
    });
    for way in 0..3 {
        let mut permit = bed.caller(bed.options()).admitted();
        permit.sending();
        let (_, tail) = permit.settle_head(AttemptResult::status(200));
        let mut next = bed.waiting(bed.options());
        match way {
            0 => tail.finished(),
            1 => drop(tail),
            _ => drop(tail.fail(Fault::TruncatedBody)),
        }
        assert!(next.is_woken(), "way {way}");
        next.goes();
    }
    assert!(bed.is_at_rest());
}

/// A task that only its waker keeps alive and that holds another call.
struct HoldingWaker {
    _other: Mutex<TestCaller>,
}

impl Wake for HoldingWaker {
    fn wake(self: Arc<Self>) {}
}

// Some executors keep a task alive by its waker: dropping the last waker drops the task, and with
// it other calls of the upstream.
#[test]
fn a_waker_may_drop_another_call_of_its_upstream() {
    let bed = TestBed::new(rules(vec![by_sending("1/s")]));
    bed.caller(bed.options()).goes();
    let other = bed.waiting(bed.options());
    let waker = Waker::from(Arc::new(HoldingWaker {
        _other: Mutex::new(other),
    }));
    let mut acquire = Box::pin(bed.acquire(bed.options()));
    let first = acquire.as_mut().poll(&mut Context::from_waker(&waker));
    assert!(first.is_pending());
    drop(waker);
    let again = acquire.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert!(again.is_pending());
    assert_eq!(bed.upstream.report().waiting, 1);

    let waker = Waker::from(Arc::new(HoldingWaker {
        _other: Mutex::new(bed.waiting(bed.options())),
    }));
    drop(acquire.as_mut().poll(&mut Context::from_waker(&waker)));
    drop(waker);
    drop(acquire);
    assert!(bed.is_at_rest());
}

struct PanickingWaker;

impl Wake for PanickingWaker {
    fn wake(self: Arc<Self>) {
        panic!("a waker that should not");
    }
}

// The waker of the first of two calls panics; the second is woken anyway.
#[test]
fn a_panicking_waker_affects_no_other_call() {
    let bed = TestBed::new(rules(vec![by_sending("2/s")]));
    bed.sends(2, bed.options());
    let waker = Waker::from(Arc::new(PanickingWaker));
    let mut acquire = Box::pin(bed.acquire(bed.options()));
    drop(acquire.as_mut().poll(&mut Context::from_waker(&waker)));
    let mut second = bed.waiting(bed.options());
    bed.pass(secs(1));
    assert!(second.is_woken());
    second.goes();
    assert!(matches!(
        acquire.as_mut().poll(&mut Context::from_waker(&waker)),
        Poll::Ready(Ok(_))
    ));
}

// The timer is dead: nothing goes early, no limit is exceeded, and a later acquire dispatches the
// waiters.
#[test]
fn without_its_timer_the_upstream_is_late_and_never_early() {
    let bed = TestBed::new(rules(vec![by_sending("2/s")]));
    bed.timer.stop_firing();
    bed.sends(2, bed.options());
    let mut waits = bed.waiting(bed.options());
    bed.pass(ms(999));
    assert!(bed.try_acquire(bed.options()).is_err() && waits.poll().is_none());
    bed.pass(ms(1));
    let mut next = bed.caller(bed.options());
    assert!(next.poll().is_some_and(|result| result.is_ok()));
    assert!(waits.is_woken(), "an acquire dispatches the waiters before it");
    waits.goes();
}

// A queue that moves every ten seconds, and a thousand short deadlines before its next start. The
// timer for that start stays armed and is not requested again.
#[test]
fn timers_do_not_multiply() {
    let bed = TestBed::silent(Rules {
        groups: vec![
            Group::new("slow", vec![by_sending("1/10s")]),
            Group::new("full", Vec::new()),
        ],
        health: health(|settings| settings.concurrency = Some(1)),
        health_scope: HealthScope::Group,
        max_wait: secs(1_000),
        ..rules(Vec::new())
    });
    let (slow, full) = (CallRequest::new(bed.group("slow")), CallRequest::new(bed.group("full")));
    bed.caller(slow).goes();
    let _held = bed.caller(full).admitted();
    let mut waiters: Vec<TestCaller> = (0..11).map(|_| bed.waiting(slow)).collect();
    let before = bed.timer.requested();
    for _ in 0..1_000 {
        let _short = bed.waiting(full.deadline(bed.now().saturating_add(ms(50))));
        bed.pass(ms(100));
        waiters.retain_mut(|caller| !caller.is_woken() || caller.waits_on());
    }
    assert_eq!(waiters.len(), 1, "ten slots in a hundred seconds");
    let asked = bed.timer.requested() - before;
    assert!(asked <= 1_020, "{asked} rings were asked for");
    assert!(bed.timer.pending() <= 3, "{} are to come", bed.timer.pending());
}

// A hundred thousand calls wait and leave from the middle; a million come and go with deadlines.
#[test]
fn memory_returns_when_the_waiters_have_left() {
    let bed = TestBed::silent(Rules {
        queue: 200_000,
        max_wait: secs(1_000_000),
        ..rules(vec![by_sending("1/s")])
    });
    bed.caller(bed.options()).goes();
    let mut waiters: Vec<TestCaller> = (0..100_000).map(|_| bed.waiting(bed.options())).collect();
    let full = bed.upstream.memory_bytes();
    while !waiters.is_empty() {
        let middle = waiters.len() / 2;
        waiters.swap_remove(middle);
    }
    bed.upstream.prune();
    let empty = bed.upstream.memory_bytes();
    assert!(full > 5_000_000 && empty < 50_000, "{full} full, {empty} empty");
    for _ in 0..1_000_000 {
        drop(bed.waiting(bed.options()));
    }
    assert!(bed.upstream.memory_bytes() < 50_000, "{}", bed.upstream.memory_bytes());
}

outflow_testkit::laws! {
    // One call at a time, dispatched and left alone for up to three windows. It goes by the limit
    // at its return, and its deadline is stored once.
    #[test]
    fn a_call_that_returns_to_its_queue_position_is_stored_once
    / fn stress_a_call_that_returns_to_its_queue_position(prop::collection::vec(0..30_u64, 1..40)) = |gaps| {
        let bed = TestBed::silent(Rules { max_wait: secs(1_000), ..rules(vec![by_sending("1/100ms")]) });
        bed.caller(bed.options()).goes();
        let mut late = bed.waiting(bed.options());
        for gap in gaps {
            bed.pass(ms(gap * 10));
            if late.is_woken() {
                bed.caller(bed.options().mode(outflow::WaitMode::Reject)).waits_on();
                if !late.waits_on() {
                    return Ok(());
                }
            }
        }
        prop_assert!(bed.upstream.memory_bytes() < 20_000);
        Ok(())
    };
}

/// A caller on its own thread, woken by unparking.
struct ThreadWaker(std::thread::Thread, AtomicU32);

impl Wake for ThreadWaker {
    fn wake(self: Arc<Self>) {
        self.1.store(1, Ordering::Release);
        self.0.unpark();
    }
}

fn block_on(upstream: &Upstream, options: CallRequest, give_up_after: u32) -> bool {
    let unpark = Arc::new(ThreadWaker(std::thread::current(), AtomicU32::new(0)));
    let waker = Waker::from(Arc::clone(&unpark));
    let mut acquire = Box::pin(upstream.acquire_with(options.target, options.options));
    for _ in 0..=give_up_after {
        if let Poll::Ready(result) = acquire.as_mut().poll(&mut Context::from_waker(&waker)) {
            let Ok(mut permit) = result else { return false };
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

// Four threads on the real clock, a thousand in 10 ms: every waiter gets its permit, and abandoned
// calls leave nothing behind.
#[test]
fn threads_on_the_real_clock_leave_nothing_behind() {
    let limits = vec![by_arrival("1000/10ms")];
    let upstream = Upstream::new("api", rules(limits), Arc::new(SystemClock::new()), Events::new());
    let upstream = upstream.expect("the rules fit together");
    let options = CallRequest::new(upstream.group("default").expect("there is one"));
    let went = AtomicU32::new(0);
    std::thread::scope(|scope| {
        for thread in 0..4_u32 {
            let (upstream, went) = (upstream.clone(), &went);
            scope.spawn(move || {
                for n in 0..5_000_u32 {
                    let patient = (n + thread) % 5 != 0;
                    if block_on(&upstream, options, u32::from(patient) * 10) {
                        went.fetch_add(1, Ordering::Relaxed);
                    } else {
                        assert!(!patient, "a waiting caller gets its permit");
                    }
                }
            });
        }
    });
    assert!(went.load(Ordering::Relaxed) >= 16_000);
    assert!(upstream.is_idle() && upstream.report().waiting == 0);
}

#[test]
fn a_cost_of_zero_takes_nothing() {
    let bed = TestBed::new(rules(vec![by_sending("1/s")]));
    let free = CallRequest::new(bed.group("default").with_cost(Cost::ZERO));
    bed.sends(100, free);
    bed.caller(bed.options()).goes();
}
