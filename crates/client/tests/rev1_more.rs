//! More attempts to break the door.
#![allow(dead_code, unreachable_pub, clippy::panic, clippy::indexing_slicing, clippy::unwrap_used, clippy::disallowed_methods, reason = "reproductions")]

mod support;

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use http::{HeaderMap, HeaderName, HeaderValue};
use outflow::core::State;
use outflow::{Answer, Ask, Events, Rules, SystemClock, Upstream};
use support::{World, by_sending, ms, rules, secs};

fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
    let pair = |(name, value): &(&'static str, &str)| (HeaderName::from_static(name), HeaderValue::from_str(value).unwrap());
    pairs.iter().map(pair).collect()
}

// GitHub's primary limit: 403, nothing left, a reset, and no Retry-After. These are signs of a limit.
#[test]
fn rev1_a_403_with_nothing_left_is_a_ban() {
    let world = World::new(rules(vec![by_sending("5000/h")]));
    let reset = (1_699_999_980_u64 + 1_800).to_string();
    for _ in 0..2 {
        let mut permit = world.caller(world.ask()).admitted();
        permit.sending();
        let headers = headers(&[("x-ratelimit-limit", "5000"), ("x-ratelimit-remaining", "0"), ("x-ratelimit-used", "5000"), ("x-ratelimit-reset", &reset)]);
        let verdict = permit.settle(Answer::response(403, &headers));
        println!("{verdict:?} {:?}", world.door.state(world.group("default")));
        if world.door.state(world.group("default")) == State::Sleep {
            return;
        }
    }
    let next = world.door.try_admit(world.ask());
    assert!(next.is_err(), "the server said that nothing is left until the reset");
}

// The last of a door ends in the timer's thread, and an observer's own end is a panic: the timer of
// all other doors must live on.
struct Fragile {
    inside: Arc<AtomicBool>,
    let_go: Arc<AtomicBool>,
}

impl outflow::Observer for Fragile {
    fn observe(&self, event: &outflow::Event) {
        if matches!(event.what, outflow::event::What::Refused { .. }) {
            self.inside.store(true, Ordering::SeqCst);
            while !self.let_go.load(Ordering::SeqCst) {
                std::thread::yield_now();
            }
        }
    }
}

impl Drop for Fragile {
    fn drop(&mut self) {
        panic!("an observer that ends badly");
    }
}

#[test]
fn rev1_the_timer_survives_the_end_of_an_observer() {
    let clock = || Arc::new(SystemClock::new());
    let (inside, let_go) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let one = Rules { health: support::health(|s| s.concurrency = 1), ..rules(vec![]) };
    {
        let events = Events::new();
        events.subscribe(Arc::new(Fragile { inside: Arc::clone(&inside), let_go: Arc::clone(&let_go) }));
        let door = Upstream::new("fragile", one, clock(), events).unwrap();
        let target = door.route(&http::Method::GET, "/");
        let held = door.try_admit(Ask::new(target)).unwrap();
        let mut late = Box::pin(door.admit(Ask::new(target).by(door.now().saturating_add(ms(20)))));
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(late.as_mut().poll(&mut context).is_pending());
        while !inside.load(Ordering::SeqCst) {
            std::thread::yield_now();
        }
        drop(held);
        drop(late);
        drop(door);
    }
    let_go.store(true, Ordering::SeqCst);
    std::thread::sleep(ms(100));
    let door = Upstream::new("other", rules(vec![by_sending("1/50ms")]), clock(), Events::new()).unwrap();
    let target = door.route(&http::Method::GET, "/");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        door.admit(Ask::new(target)).await.unwrap().sending();
        let second = tokio::time::timeout(secs(2), door.admit(Ask::new(target))).await;
        assert!(second.is_ok(), "the timer of the whole process is dead");
    });
}
