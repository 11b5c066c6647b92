//! Laws of the virtual time: clock, alarms and the runtime's timers are one.

use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use outflow_core::{Clock, Nanos, Timer, TimerCallback, WallTime};
use outflow_testkit::VirtualTime;
use tokio::time::sleep;

/// Writes down when it was rung, and asks again if it is told to.
struct Bell {
    time: VirtualTime,
    rung: Mutex<Vec<Nanos>>,
}

impl Bell {
    fn new(time: &VirtualTime) -> Arc<Self> {
        Arc::new(Self {
            time: time.clone(),
            rung: Mutex::default(),
        })
    }

    fn rung(&self) -> Vec<Nanos> {
        self.rung.lock().expect("no bell panics").clone()
    }
}

impl TimerCallback for Bell {
    fn fire(&self) {
        let now = self.time.now();
        self.rung.lock().expect("no bell panics").push(now);
    }
}

fn weak<A: TimerCallback + 'static>(alarm: &Arc<A>) -> Weak<dyn TimerCallback> {
    let weak: Weak<A> = Arc::downgrade(alarm);
    weak
}

// Thirty days in one step: the runtime has nothing else to do.
#[tokio::test(start_paused = true)]
async fn the_clock_and_the_runtimes_timers_agree() {
    let time = VirtualTime::new();
    assert_eq!(time.now(), Nanos::ZERO);
    sleep(Duration::from_hours(720)).await;
    assert_eq!(time.now(), Nanos::from_secs(720 * 3_600));
    assert_eq!(
        time.clone()
            .wall()
            .since(WallTime::from_unix_secs(1_700_000_000)),
        Duration::from_hours(720)
    );
}

#[tokio::test(start_paused = true)]
async fn a_callback_fires_at_its_instant_and_not_before() {
    let time = VirtualTime::new();
    let bell = Bell::new(&time);
    time.ring_at(Nanos::from_secs(7), weak(&bell));
    sleep(Duration::from_millis(999)).await;
    time.ring_at(Nanos::from_secs(3), weak(&bell));
    sleep(Duration::from_secs(2)).await;
    assert_eq!(bell.rung(), []);
    sleep(Duration::from_secs(10)).await;
    assert_eq!(bell.rung(), [Nanos::from_secs(3), Nanos::from_secs(7)]);
    assert_eq!(time.pending(), 0);
}

// Half a millisecond is less than the runtime can tell, so the whole one is waited for.
#[tokio::test(start_paused = true)]
async fn an_instant_between_two_ticks_fires_at_the_later_one() {
    let time = VirtualTime::new();
    let bell = Bell::new(&time);
    time.ring_at(Nanos::from_nanos(2_500_000), weak(&bell));
    sleep(Duration::from_secs(1)).await;
    assert_eq!(bell.rung(), [Nanos::from_millis(3)]);
}

// The lock is the bell's own: a ring inside `ring_at` would never come back from it.
#[tokio::test(start_paused = true)]
async fn a_past_callback_fires_at_once_but_not_inside_the_call() {
    let time = VirtualTime::new();
    let bell = Bell::new(&time);
    sleep(Duration::from_secs(5)).await;
    {
        let held = bell.rung.lock().unwrap();
        time.ring_at(Nanos::from_secs(1), weak(&bell));
        assert!(held.is_empty());
    }
    sleep(Duration::from_millis(1)).await;
    assert_eq!(bell.rung(), [Nanos::from_secs(5)]);
}

// A second's worth of milliseconds and a million calls: a thousand rings, not a million.
#[tokio::test(start_paused = true)]
async fn repeated_registration_does_not_accumulate() {
    let time = VirtualTime::new();
    let bell = Bell::new(&time);
    for call in 0..1_000_000_u64 {
        time.ring_at(Nanos::from_nanos(1 + call * 1_000), weak(&bell));
    }
    assert_eq!(time.pending(), 1_000);
    sleep(Duration::from_secs(2)).await;
    assert_eq!(bell.rung().len(), 1_000);
}

// A hundred thousand waiters that each asked and gave up.
#[tokio::test(start_paused = true)]
async fn dropped_callbacks_never_fire() {
    let time = VirtualTime::new();
    for call in 0..100_000 {
        let bell = Bell::new(&time);
        time.ring_at(Nanos::from_secs(call), weak(&bell));
    }
    assert!(time.pending() < 5_000, "{}", time.pending());
}

#[tokio::test(start_paused = true)]
async fn all_callbacks_of_one_instant_fire() {
    let time = VirtualTime::new();
    let bells: Vec<_> = (0..10_000).map(|_| Bell::new(&time)).collect();
    for bell in &bells {
        time.ring_at(Nanos::from_secs(1), weak(bell));
    }
    sleep(Duration::from_secs(1)).await;
    sleep(Duration::from_millis(1)).await;
    assert!(
        bells
            .iter()
            .all(|bell| bell.rung() == [Nanos::from_secs(1)])
    );
}

/// Asks to be rung again each time it is, every ten milliseconds.
struct Ticker(VirtualTime, Mutex<u32>, Weak<Ticker>);

impl TimerCallback for Ticker {
    fn fire(&self) {
        *self.1.lock().expect("no ticker panics") += 1;
        let next = self.0.now().saturating_add(Duration::from_millis(10));
        self.0.ring_at(next, self.2.clone());
    }
}

#[tokio::test(start_paused = true)]
async fn a_callback_may_register_again_while_it_fires() {
    let time = VirtualTime::new();
    let ticker = Arc::new_cyclic(|me| Ticker(time.clone(), Mutex::default(), me.clone()));
    time.ring_at(Nanos::ZERO, weak(&ticker));
    sleep(Duration::from_millis(1_005)).await;
    assert_eq!(*ticker.1.lock().unwrap(), 101, "at 0, 10 … 1000 ms");
}

#[tokio::test(start_paused = true)]
async fn civil_time_steps_alone_and_continues() {
    let time = VirtualTime::new();
    sleep(Duration::from_secs(10)).await;
    time.set_wall(WallTime::from_unix_secs(50));
    sleep(Duration::from_secs(4)).await;
    assert_eq!(time.wall(), WallTime::from_unix_secs(54));
    assert_eq!(time.now(), Nanos::from_secs(14));
}

// A thread that does not belong to the runtime would read the machine's clock.
#[tokio::test(start_paused = true)]
async fn threads_outside_the_runtime_see_virtual_time_and_may_register() {
    let time = VirtualTime::new();
    let bell = Bell::new(&time);
    sleep(Duration::from_secs(9)).await;
    let seen = std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            time.ring_at(Nanos::from_secs(12), weak(&bell));
            time.now()
        });
        thread.join().unwrap()
    });
    assert_eq!(seen, Nanos::from_secs(9));
    time.reaches(Nanos::from_secs(20)).await;
    assert_eq!(bell.rung(), [Nanos::from_secs(12)]);
    assert_eq!(time.now(), Nanos::from_secs(20));
}

#[tokio::test(start_paused = true)]
async fn a_callback_at_the_end_of_the_timeline_is_accepted() {
    let time = VirtualTime::new();
    let bell = Bell::new(&time);
    time.ring_at(Nanos::MAX, weak(&bell));
    sleep(Duration::from_secs(1)).await;
    assert_eq!((bell.rung().len(), time.pending()), (0, 1));
}
