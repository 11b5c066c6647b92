//! Leases in virtual time.

use std::sync::Arc;
use std::time::Duration;

use outflow::{Events, Rules, Tasks, Upstream};
use outflow_core::{Clock, HealthConfig, HealthSettings};
use outflow_testkit::VirtualTime;

use super::*;

const LEASE: Duration = Duration::from_mins(1);

/// Upstream with a very high limit, and its leased permits.
struct Fixture {
    time: VirtualTime,
    upstream: Upstream,
    permits: Arc<LeasedPermits>,
}

impl Fixture {
    fn new() -> Self {
        let time = VirtualTime::new();
        let rules = Rules::with_limit("1000000/s".parse().expect("valid"));
        let upstream = Upstream::new("stock", rules, Arc::new(time.clone()), Events::new());
        Self {
            time,
            upstream: upstream.expect("valid"),
            permits: Arc::default(),
        }
    }

    fn permit(&self) -> Permit {
        let target = self.upstream.route(&http::Method::GET, "/");
        self.upstream.try_acquire(target).expect("free quota")
    }

    fn lease(&self, lease: Duration) -> PermitNumber {
        let until = self.time.now().saturating_add(lease);
        let leased = self.permits.lease(self.permit(), until);
        leased.expect("a free lease")
    }

    fn in_flight(&self) -> u32 {
        self.upstream.report().health[0].in_flight
    }

    fn used(&self) -> u64 {
        self.upstream.report().limits[0].usage.weight
    }
}

// One nanosecond before its end a lease holds; at its end it has expired, even without the background task.
#[tokio::test(start_paused = true)]
async fn a_permit_can_be_settled_until_its_lease_expires() {
    let fixture = Fixture::new();
    let (kept, lost) = (fixture.lease(LEASE), fixture.lease(LEASE));
    let end = fixture.time.now().saturating_add(LEASE);
    let taken = fixture.permits.take(kept, end.saturating_sub(Duration::from_nanos(1)));
    taken.expect("a nanosecond is left").refund();
    assert!(fixture.permits.take(lost, end).is_none());
    assert_eq!(
        (fixture.in_flight(), fixture.used()),
        (0, 1),
        "the expired one counts as sent"
    );
    assert!(fixture.permits.take(kept, end).is_none() && fixture.permits.take(lost, end).is_none());
}

// Three leases that do not begin in the order of their ends; the background task sleeps until each end.
#[tokio::test(start_paused = true)]
async fn leases_expire_at_their_instant_without_a_request() {
    let fixture = Fixture::new();
    let tasks = Tasks::new("test", Events::new(), Arc::new(fixture.time.clone()));
    let (permits, time) = (Arc::clone(&fixture.permits), fixture.time.clone());
    let watched = tasks.spawn("permits", move |stop| {
        let (permits, time) = (Arc::clone(&permits), time.clone());
        async move { permits.expire_leases(&time, stop).await }
    });
    watched.expect("a runtime");
    let start = fixture.time.now();
    for secs in [30, 10, 20] {
        fixture.lease(Duration::from_secs(secs));
        tokio::task::yield_now().await;
    }
    for (secs, left) in [(9, 3), (11, 2), (21, 1), (31, 0)] {
        fixture
            .time
            .reaches(start.saturating_add(Duration::from_secs(secs)))
            .await;
        assert_eq!(fixture.permits.count(), left, "after {secs} s");
    }
    assert_eq!((fixture.in_flight(), fixture.used()), (0, 1), "the last counts");
    // It expired at 30 s, may arrive until its timeout of 10 s, and counts for one window after that.
    let forgotten = start.saturating_add(Duration::from_secs(42));
    fixture.time.reaches(forgotten).await;
    assert_eq!(fixture.used(), 0);
}

// One more than the maximum: the lease is refused, and its permit is refunded.
#[tokio::test(start_paused = true)]
async fn a_permit_that_cannot_be_leased_is_refunded() {
    let mut rules = Rules::with_limit("1000000/s".parse().expect("valid"));
    let settings = HealthSettings {
        concurrency: Some(100_000),
        ..HealthSettings::default()
    };
    rules.health = HealthConfig::new(settings).expect("valid");
    let mut fixture = Fixture::new();
    let timer = Arc::new(fixture.time.clone());
    fixture.upstream = Upstream::new("stock", rules, timer, Events::new()).expect("valid");
    for _ in 0..MAX_LEASES {
        fixture.lease(LEASE);
    }
    let until = fixture.time.now().saturating_add(LEASE);
    assert_eq!(fixture.permits.check_capacity(), Err(LeaseError::TooMany));
    let refused = fixture.permits.lease(fixture.permit(), until);
    assert_eq!(refused, Err(LeaseError::TooMany));
    let leased = u64::try_from(MAX_LEASES).expect("few");
    assert_eq!(fixture.used(), leased, "the refused one does not count");
    fixture.permits.close();
    assert_eq!(fixture.in_flight(), 0, "all leases end with the program");
    let refused = fixture.permits.lease(fixture.permit(), until);
    assert_eq!(refused, Err(LeaseError::Stopping));
    assert_eq!((fixture.in_flight(), fixture.used()), (0, leased));
}

#[test]
fn a_number_parses_as_it_is_displayed() {
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
