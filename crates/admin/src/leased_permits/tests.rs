//! Leases in virtual time.

use std::sync::Arc;
use std::time::Duration;

use outflow::{Events, Rules, Tasks, Upstream};
use outflow_core::{Clock, HealthConfig, HealthSettings};
use outflow_testkit::VirtualTime;

use super::*;

const LEASE: Duration = Duration::from_mins(1);

/// A door without limits, and permits of it.
struct Room {
    time: VirtualTime,
    door: Upstream,
    permits: Arc<LeasedPermits>,
}

impl Room {
    fn new() -> Self {
        let time = VirtualTime::new();
        let rules = Rules::with_limit("1000000/s".parse().expect("valid"));
        let door = Upstream::new("stock", rules, Arc::new(time.clone()), Events::new());
        Self {
            time,
            door: door.expect("valid"),
            permits: Arc::default(),
        }
    }

    fn permit(&self) -> Permit {
        let target = self.door.route(&http::Method::GET, "/");
        self.door.try_acquire(target).expect("there is room")
    }

    fn hand_out(&self, lease: Duration) -> PermitNumber {
        let until = self.time.now().saturating_add(lease);
        let handed = self.permits.hand_out(self.permit(), until);
        handed.expect("there is room")
    }

    fn in_flight(&self) -> u32 {
        self.door.report().health[0].in_flight
    }

    fn used(&self) -> u64 {
        self.door.report().limits[0].usage.weight
    }
}

// A nanosecond before its end a lease holds; at its end it is over, whether anybody looked or not.
#[tokio::test(start_paused = true)]
async fn a_permit_is_its_holders_until_the_lease_is_over() {
    let room = Room::new();
    let (kept, lost) = (room.hand_out(LEASE), room.hand_out(LEASE));
    let end = room.time.now().saturating_add(LEASE);
    let taken = room
        .permits
        .take(kept, end.saturating_sub(Duration::from_nanos(1)));
    taken.expect("a nanosecond is left").refund();
    assert!(room.permits.take(lost, end).is_none());
    assert_eq!(
        (room.in_flight(), room.used()),
        (0, 1),
        "the one that was lost counts as sent"
    );
    assert!(room.permits.take(kept, end).is_none() && room.permits.take(lost, end).is_none());
}

// Three leases in an order that is not that of their ends; the watch sleeps until each.
#[tokio::test(start_paused = true)]
async fn leases_end_at_their_instant_without_anybody_asking() {
    let room = Room::new();
    let tasks = Tasks::new("test", Events::new(), Arc::new(room.time.clone()));
    let (permits, time) = (Arc::clone(&room.permits), room.time.clone());
    let watched = tasks.spawn("permits", move |stop| {
        let (permits, time) = (Arc::clone(&permits), time.clone());
        async move { permits.watch(&time, stop).await }
    });
    watched.expect("a runtime");
    let start = room.time.now();
    for secs in [30, 10, 20] {
        room.hand_out(Duration::from_secs(secs));
        tokio::task::yield_now().await;
    }
    for (secs, left) in [(9, 3), (11, 2), (21, 1), (31, 0)] {
        room.time
            .reaches(start.saturating_add(Duration::from_secs(secs)))
            .await;
        assert_eq!(room.permits.count(), left, "after {secs} s");
    }
    assert_eq!((room.in_flight(), room.used()), (0, 1), "the last counts");
    // It was lost at 30 s, may have arrived until its timeout of 10 s, and counts a window from there.
    let forgotten = start.saturating_add(Duration::from_secs(42));
    room.time.reaches(forgotten).await;
    assert_eq!(room.used(), 0);
}

// One more than the most: it is refused, and its permit is given back as if it had not been asked for.
#[tokio::test(start_paused = true)]
async fn what_cannot_be_kept_is_given_back() {
    let mut rules = Rules::with_limit("1000000/s".parse().expect("valid"));
    let settings = HealthSettings {
        concurrency: 100_000,
        ..HealthSettings::default()
    };
    rules.health = HealthConfig::new(settings).expect("valid");
    let mut room = Room::new();
    let timer = Arc::new(room.time.clone());
    room.door = Upstream::new("stock", rules, timer, Events::new()).expect("valid");
    for _ in 0..MOST {
        room.hand_out(LEASE);
    }
    let until = room.time.now().saturating_add(LEASE);
    assert_eq!(room.permits.has_room(), Err(NotHandedOut::TooMany));
    let refused = room.permits.hand_out(room.permit(), until);
    assert_eq!(refused, Err(NotHandedOut::TooMany));
    let most = u64::try_from(MOST).expect("few");
    assert_eq!(room.used(), most, "what was refused does not count");
    room.permits.close();
    assert_eq!(
        room.in_flight(),
        0,
        "the end of the program is the end of all leases"
    );
    let refused = room.permits.hand_out(room.permit(), until);
    assert_eq!(refused, Err(NotHandedOut::Stopping));
    assert_eq!((room.in_flight(), room.used()), (0, most));
}

#[test]
fn a_number_is_read_as_it_is_written() {
    let number = PermitNumber::random().expect("randomness");
    assert_eq!(number.to_string().parse(), Ok(number));
    assert_eq!(PermitNumber(7).to_string().len(), 32);
    for wrong in [
        "",
        "7",
        "+000000000000000000000000000000f",
        &"g".repeat(32),
        &"0".repeat(33),
    ] {
        assert_eq!(wrong.parse::<PermitNumber>(), Err(()), "{wrong}");
    }
}
