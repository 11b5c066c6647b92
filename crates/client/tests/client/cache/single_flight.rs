//! Single flight: the laws of following an equal request in flight.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use outflow::cache::{FlightBounds, FlightKey, FlightRole, FollowFuture, FollowResult, LeadGuard, SingleFlight};
use proptest::prelude::*;

use super::support::{TestRequest, memory};

fn keys() -> [FlightKey; 2] {
    let cache = memory();
    let key = |uri| cache.flight_key(&TestRequest::get(uri).query()).expect("shareable");
    [key("https://api.example.com/a"), key("https://api.example.com/b")]
}

fn lead<T>(flight: FlightRole<T>) -> LeadGuard<T> {
    let guard = match flight {
        FlightRole::Lead(guard) => Some(guard),
        _ => None,
    };
    guard.expect("the lead")
}

/// True if its task was woken since the last poll.
#[derive(Default)]
struct WakeFlag(AtomicBool);

impl Wake for WakeFlag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// A follower as a runtime runs it: polled once at first, then only after a wake-up.
struct FollowerTask {
    future: FollowFuture<u32>,
    woken: Arc<WakeFlag>,
}

impl FollowerTask {
    fn follow(flight: FlightRole<u32>) -> Self {
        let future = match flight {
            FlightRole::Follow(future) => Some(future),
            _ => None,
        };
        Self {
            future: future.expect("a follower"),
            woken: Arc::new(WakeFlag(AtomicBool::new(true))),
        }
    }

    fn run(&mut self) -> Option<FollowResult<u32>> {
        if !self.woken.0.swap(false, Ordering::SeqCst) {
            return None;
        }
        let waker = Waker::from(Arc::clone(&self.woken));
        match Pin::new(&mut self.future).poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(followed) => Some(followed),
            Poll::Pending => None,
        }
    }
}

#[test]
fn followers_get_the_leaders_response() {
    let (flights, [key, other]) = (SingleFlight::new(), keys());
    let leader = lead(flights.join(key));
    let mut early = FollowerTask::follow(flights.join(key));
    let mut late = FollowerTask::follow(flights.join(key));
    assert!(early.run().is_none());
    let apart = lead(flights.join(other));
    leader.share(7);
    assert!(matches!(early.run(), Some(FollowResult::Shared(7))));
    assert!(
        matches!(late.run(), Some(FollowResult::Shared(7))),
        "first polled after the end"
    );
    assert_eq!(flights.len(), 1, "the other request is in flight");
    drop(apart);
    assert!(flights.is_empty());
}

#[test]
fn a_stored_response_releases_every_follower() {
    let (flights, [key, _]) = (SingleFlight::new(), keys());
    let leader = lead(flights.join(key));
    let mut followers = [(); 3].map(|()| FollowerTask::follow(flights.join(key)));
    leader.withhold();
    for follower in &mut followers {
        assert!(matches!(follower.run(), Some(FollowResult::Alone)));
    }
    let _next = lead(flights.join(key));
}

// Before any follower was polled, after the first, after all: one leads, and the others wait for
// it.
#[test]
fn a_leader_dropped_at_any_point_passes_the_lead_to_one_follower() {
    for polled in 0..=3 {
        let (flights, [key, _]) = (SingleFlight::new(), keys());
        let leader = lead(flights.join(key));
        let mut tasks = [(); 3].map(|()| FollowerTask::follow(flights.join(key)));
        for task in tasks.iter_mut().take(polled) {
            assert!(task.run().is_none());
        }
        drop(leader);
        let results = tasks.each_mut().map(FollowerTask::run);
        let mut leads = results.into_iter().flatten();
        let Some(FollowResult::Lead(next)) = leads.next() else {
            panic!("no leader, {polled} polled");
        };
        assert!(leads.next().is_none(), "two lead, {polled} polled");
        next.share(1);
        let shared = tasks.iter_mut().filter_map(FollowerTask::run);
        assert_eq!(shared.filter(|got| matches!(got, FollowResult::Shared(1))).count(), 2);
    }
}

// The woken follower is dropped before its poll: the next one must be woken in its place.
#[test]
fn a_dropped_follower_passes_an_offered_lead_on() {
    let (flights, [key, _]) = (SingleFlight::new(), keys());
    let leader = lead(flights.join(key));
    let mut first = FollowerTask::follow(flights.join(key));
    let mut second = FollowerTask::follow(flights.join(key));
    assert!(first.run().is_none() && second.run().is_none());
    drop(leader);
    drop(first);
    assert!(matches!(second.run(), Some(FollowResult::Lead(_))));
    drop(second);
    assert!(flights.is_empty(), "the last to leave takes the flight along");
}

#[test]
fn a_newcomer_takes_a_vacant_lead_at_once() {
    let (flights, [key, _]) = (SingleFlight::new(), keys());
    let leader = lead(flights.join(key));
    let mut follower = FollowerTask::follow(flights.join(key));
    assert!(follower.run().is_none());
    drop(leader);
    let newcomer = lead(flights.join(key));
    assert!(follower.run().is_none(), "the lead is taken");
    newcomer.share(5);
    assert!(matches!(follower.run(), Some(FollowResult::Shared(5))));
}

// Two flights with two followers each: a further request goes alone and blocks no other.
#[test]
fn a_request_without_a_follower_slot_goes_alone() {
    let bounds = FlightBounds {
        flights: 1,
        followers: 2,
    };
    let (flights, [key, other]) = (SingleFlight::<u32>::with_bounds(bounds), keys());
    let leader = lead(flights.join(key));
    assert!(matches!(flights.join(other), FlightRole::Alone));
    let joined = [flights.join(key), flights.join(key)];
    assert!(matches!(flights.join(key), FlightRole::Alone));
    drop(joined);
    assert!(
        matches!(flights.join(key), FlightRole::Follow(_)),
        "the slot is free again"
    );
    drop(leader);
    assert!(flights.is_empty());
}

#[derive(Clone, Copy, Debug)]
enum FlightStep {
    Join,
    DropLeader,
    DropFollower(usize),
    Run(usize),
    Share,
    Keep,
}

fn step() -> impl Strategy<Value = FlightStep> {
    prop_oneof![
        4 => Just(FlightStep::Join),
        2 => Just(FlightStep::DropLeader),
        2 => (0..8_usize).prop_map(FlightStep::DropFollower),
        4 => (0..8_usize).prop_map(FlightStep::Run),
        1 => Just(FlightStep::Share),
        1 => Just(FlightStep::Keep),
    ]
}

/// Runs followers as a runtime does: the woken ones run, and one may lead.
#[derive(Default)]
struct TestExecutor {
    leader: Option<LeadGuard<u32>>,
    tasks: Vec<FollowerTask>,
    shared: usize,
    alone: usize,
}

impl TestExecutor {
    fn join(&mut self, flight: FlightRole<u32>) {
        match flight {
            FlightRole::Lead(guard) => {
                assert!(self.leader.is_none(), "two lead");
                self.leader = Some(guard);
            }
            follow => self.tasks.push(FollowerTask::follow(follow)),
        }
    }

    fn run(&mut self, at: usize) {
        let Some(followed) = self.tasks.get_mut(at).and_then(FollowerTask::run) else {
            return;
        };
        self.tasks.remove(at);
        match followed {
            FollowResult::Lead(guard) => {
                assert!(self.leader.is_none(), "two lead");
                self.leader = Some(guard);
            }
            FollowResult::Shared(_) => self.shared += 1,
            FollowResult::Alone => self.alone += 1,
        }
    }

    fn run_all(&mut self) {
        for at in (0..self.tasks.len()).rev() {
            self.run(at);
        }
    }
}

proptest! {
    // Any order of joining, leaving, polling and finishing. Afterwards the woken tasks run: if one
    // still waits, another must lead.
    #[test]
    fn no_follower_waits_without_a_leader(steps in proptest::collection::vec(step(), 0..60)) {
        let (flights, [key, _]) = (SingleFlight::new(), keys());
        let mut executor = TestExecutor::default();
        for step in steps {
            match step {
                FlightStep::Join => executor.join(flights.join(key)),
                FlightStep::DropLeader => drop(executor.leader.take()),
                FlightStep::DropFollower(at) if at < executor.tasks.len() => drop(executor.tasks.remove(at)),
                FlightStep::DropFollower(_) => {}
                FlightStep::Run(at) => executor.run(at),
                FlightStep::Share => if let Some(leader) = executor.leader.take() { leader.share(1) },
                FlightStep::Keep => if let Some(leader) = executor.leader.take() { leader.withhold() },
            }
        }
        executor.run_all();
        executor.run_all();
        prop_assert!(executor.tasks.is_empty() || executor.leader.is_some(), "{} wait without a leader", executor.tasks.len());
        if let Some(leader) = executor.leader.take() {
            let waiting = executor.tasks.len();
            let before = executor.shared;
            leader.share(2);
            executor.run_all();
            prop_assert_eq!(executor.shared - before, waiting, "each waiting follower got the result");
        }
        prop_assert!(flights.is_empty(), "{} flights are left over", flights.len());
    }
}
