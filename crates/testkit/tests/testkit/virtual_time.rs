//! Laws of the virtual time: clock, callbacks and the runtime's timers agree.

use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use outflow_core::{Clock, Nanos, Timer, TimerCallback, WallTime};
use outflow_testkit::VirtualTime;
use tokio::time::sleep;

/// Records the times at which it fires, and registers again on demand.
struct RecordingCallback {
    time: VirtualTime,
    fired: Mutex<Vec<Nanos>>,
}

impl RecordingCallback {
    fn new(time: &VirtualTime) -> Arc<Self> {
        Arc::new(Self {
            time: time.clone(),
            fired: Mutex::default(),
        })
    }

    fn fired(&self) -> Vec<Nanos> {
        self.fired.lock().expect("no callback panics").clone()
    }
}

impl TimerCallback for RecordingCallback {
    fn fire(&self) {
        let now = self.time.now();
        self.fired.lock().expect("no callback panics").push(now);
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
        time.clone().wall().since(WallTime::from_unix_secs(1_700_000_000)),
        Duration::from_hours(720)
    );
}

#[tokio::test(start_paused = true)]
async fn a_callback_fires_at_its_instant_and_not_before() {
    let time = VirtualTime::new();
    let callback = RecordingCallback::new(&time);
    time.fire_at(Nanos::from_secs(7), weak(&callback));
    sleep(Duration::from_millis(999)).await;
    time.fire_at(Nanos::from_secs(3), weak(&callback));
    sleep(Duration::from_secs(2)).await;
    assert_eq!(callback.fired(), []);
    sleep(Duration::from_secs(10)).await;
    assert_eq!(callback.fired(), [Nanos::from_secs(3), Nanos::from_secs(7)]);
    assert_eq!(time.pending(), 0);
}

// Half a millisecond is less than the runtime's resolution, so it waits for the whole one.
#[tokio::test(start_paused = true)]
async fn an_instant_between_two_ticks_fires_at_the_later_one() {
    let time = VirtualTime::new();
    let callback = RecordingCallback::new(&time);
    time.fire_at(Nanos::from_nanos(2_500_000), weak(&callback));
    sleep(Duration::from_secs(1)).await;
    assert_eq!(callback.fired(), [Nanos::from_millis(3)]);
}

// The lock is the callback's own: firing inside `fire_at` would deadlock.
#[tokio::test(start_paused = true)]
async fn a_past_callback_fires_at_once_but_not_inside_the_call() {
    let time = VirtualTime::new();
    let callback = RecordingCallback::new(&time);
    sleep(Duration::from_secs(5)).await;
    {
        let held = callback.fired.lock().unwrap();
        time.fire_at(Nanos::from_secs(1), weak(&callback));
        assert!(held.is_empty());
    }
    sleep(Duration::from_millis(1)).await;
    assert_eq!(callback.fired(), [Nanos::from_secs(5)]);
}

// A second's worth of milliseconds and a million calls: a thousand entries, not a million.
#[tokio::test(start_paused = true)]
async fn repeated_registration_does_not_accumulate() {
    let time = VirtualTime::new();
    let callback = RecordingCallback::new(&time);
    for call in 0..1_000_000_u64 {
        time.fire_at(Nanos::from_nanos(1 + call * 1_000), weak(&callback));
    }
    assert_eq!(time.pending(), 1_000);
    sleep(Duration::from_secs(2)).await;
    assert_eq!(callback.fired().len(), 1_000);
}

// A hundred thousand waiters that each registered and were dropped.
#[tokio::test(start_paused = true)]
async fn dropped_callbacks_never_fire() {
    let time = VirtualTime::new();
    for call in 0..100_000 {
        let callback = RecordingCallback::new(&time);
        time.fire_at(Nanos::from_secs(call), weak(&callback));
    }
    assert!(time.pending() < 5_000, "{}", time.pending());
}

#[tokio::test(start_paused = true)]
async fn all_callbacks_of_one_instant_fire() {
    let time = VirtualTime::new();
    let callbacks: Vec<_> = (0..10_000).map(|_| RecordingCallback::new(&time)).collect();
    for callback in &callbacks {
        time.fire_at(Nanos::from_secs(1), weak(callback));
    }
    sleep(Duration::from_secs(1)).await;
    sleep(Duration::from_millis(1)).await;
    assert!(
        callbacks
            .iter()
            .all(|callback| callback.fired() == [Nanos::from_secs(1)])
    );
}

/// Registers again each time it fires, every ten milliseconds.
struct Ticker(VirtualTime, Mutex<u32>, Weak<Ticker>);

impl TimerCallback for Ticker {
    fn fire(&self) {
        *self.1.lock().expect("no ticker panics") += 1;
        let next = self.0.now().saturating_add(Duration::from_millis(10));
        self.0.fire_at(next, self.2.clone());
    }
}

#[tokio::test(start_paused = true)]
async fn a_callback_may_register_again_while_it_fires() {
    let time = VirtualTime::new();
    let ticker = Arc::new_cyclic(|me| Ticker(time.clone(), Mutex::default(), me.clone()));
    time.fire_at(Nanos::ZERO, weak(&ticker));
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

// A thread outside the runtime would read the machine's clock.
#[tokio::test(start_paused = true)]
async fn threads_outside_the_runtime_see_virtual_time_and_may_register() {
    let time = VirtualTime::new();
    let callback = RecordingCallback::new(&time);
    sleep(Duration::from_secs(9)).await;
    let seen = std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            time.fire_at(Nanos::from_secs(12), weak(&callback));
            time.now()
        });
        thread.join().unwrap()
    });
    assert_eq!(seen, Nanos::from_secs(9));
    time.reaches(Nanos::from_secs(20)).await;
    assert_eq!(callback.fired(), [Nanos::from_secs(12)]);
    assert_eq!(time.now(), Nanos::from_secs(20));
}

#[tokio::test(start_paused = true)]
async fn a_callback_at_the_end_of_the_timeline_is_accepted() {
    let time = VirtualTime::new();
    let callback = RecordingCallback::new(&time);
    time.fire_at(Nanos::MAX, weak(&callback));
    sleep(Duration::from_secs(1)).await;
    assert_eq!((callback.fired().len(), time.pending()), (0, 1));
}
