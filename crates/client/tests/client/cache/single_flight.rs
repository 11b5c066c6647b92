//! Equal requests at the same time: the laws of following.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use outflow::cache::{
    FlightBounds, FlightKey, FlightRole, FollowFuture, FollowResult, LeadGuard, SingleFlight,
};
use proptest::prelude::*;

use super::support::{Ask, memory};

fn keys() -> [FlightKey; 2] {
    let cache = memory();
    let key = |uri| cache.flight_key(&Ask::get(uri).query()).expect("shareable");
    [
        key("https://api.example.com/a"),
        key("https://api.example.com/b"),
    ]
}

fn lead<T>(flight: FlightRole<T>) -> LeadGuard<T> {
    let guard = match flight {
        FlightRole::Lead(guard) => Some(guard),
        _ => None,
    };
    guard.expect("the lead")
}

/// Whether its task was woken since it was last polled.
#[derive(Default)]
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// A follower as a runtime has it: polled once at first, and then only when it was woken.
struct Task {
    future: FollowFuture<u32>,
    woken: Arc<Woken>,
}

impl Task {
    fn follow(flight: FlightRole<u32>) -> Self {
        let future = match flight {
            FlightRole::Follow(future) => Some(future),
            _ => None,
        };
        Self {
            future: future.expect("a follower's seat"),
            woken: Arc::new(Woken(AtomicBool::new(true))),
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
fn followers_get_the_leaders_answer() {
    let (flights, [key, other]) = (SingleFlight::new(), keys());
    let leader = lead(flights.join(key));
    let mut early = Task::follow(flights.join(key));
    let mut late = Task::follow(flights.join(key));
    assert!(early.run().is_none());
    let apart = lead(flights.join(other));
    leader.share(7);
    assert!(matches!(early.run(), Some(FollowResult::Shared(7))));
    assert!(
        matches!(late.run(), Some(FollowResult::Shared(7))),
        "first polled after the end"
    );
    assert_eq!(flights.len(), 1, "the other request is under way");
    drop(apart);
    assert!(flights.is_empty());
}

#[test]
fn an_answer_that_is_kept_sends_every_follower_on_its_own_way() {
    let (flights, [key, _]) = (SingleFlight::new(), keys());
    let leader = lead(flights.join(key));
    let mut followers = [(); 3].map(|()| Task::follow(flights.join(key)));
    leader.withhold();
    for follower in &mut followers {
        assert!(matches!(follower.run(), Some(FollowResult::Alone)));
    }
    let _next = lead(flights.join(key));
}

// Before any follower was polled, after the first, after all: one leads, and the others wait for it.
#[test]
fn a_leader_dropped_at_any_point_passes_the_lead_to_one() {
    for polled in 0..=3 {
        let (flights, [key, _]) = (SingleFlight::new(), keys());
        let leader = lead(flights.join(key));
        let mut tasks = [(); 3].map(|()| Task::follow(flights.join(key)));
        for task in tasks.iter_mut().take(polled) {
            assert!(task.run().is_none());
        }
        drop(leader);
        let results = tasks.each_mut().map(Task::run);
        let mut leads = results.into_iter().flatten();
        let Some(FollowResult::Lead(next)) = leads.next() else {
            panic!("nobody leads, {polled} polled");
        };
        assert!(leads.next().is_none(), "two lead, {polled} polled");
        next.share(1);
        let shared = tasks.iter_mut().filter_map(Task::run);
        assert_eq!(
            shared
                .filter(|got| matches!(got, FollowResult::Shared(1)))
                .count(),
            2
        );
    }
}

// It was woken to lead and is dropped before it looks: the next must be woken in its place.
#[test]
fn a_follower_that_dies_with_the_lead_in_reach_passes_it_on() {
    let (flights, [key, _]) = (SingleFlight::new(), keys());
    let leader = lead(flights.join(key));
    let mut first = Task::follow(flights.join(key));
    let mut second = Task::follow(flights.join(key));
    assert!(first.run().is_none() && second.run().is_none());
    drop(leader);
    drop(first);
    assert!(matches!(second.run(), Some(FollowResult::Lead(_))));
    drop(second);
    assert!(
        flights.is_empty(),
        "the last to leave takes the flight along"
    );
}

#[test]
fn a_newcomer_takes_a_vacant_lead_at_once() {
    let (flights, [key, _]) = (SingleFlight::new(), keys());
    let leader = lead(flights.join(key));
    let mut follower = Task::follow(flights.join(key));
    assert!(follower.run().is_none());
    drop(leader);
    let newcomer = lead(flights.join(key));
    assert!(follower.run().is_none(), "the lead is taken");
    newcomer.share(5);
    assert!(matches!(follower.run(), Some(FollowResult::Shared(5))));
}

// Two flights and two followers of each: whoever finds no seat goes alone, and blocks nobody.
#[test]
fn whoever_finds_no_seat_goes_alone() {
    let bounds = FlightBounds {
        flights: 1,
        followers: 2,
    };
    let (flights, [key, other]) = (SingleFlight::<u32>::with_bounds(bounds), keys());
    let leader = lead(flights.join(key));
    assert!(matches!(flights.join(other), FlightRole::Alone));
    let seats = [flights.join(key), flights.join(key)];
    assert!(matches!(flights.join(key), FlightRole::Alone));
    drop(seats);
    assert!(
        matches!(flights.join(key), FlightRole::Follow(_)),
        "a seat that was left is free"
    );
    drop(leader);
    assert!(flights.is_empty());
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Join,
    DropLeader,
    DropFollower(usize),
    Run(usize),
    Share,
    Keep,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => Just(Step::Join),
        2 => Just(Step::DropLeader),
        2 => (0..8_usize).prop_map(Step::DropFollower),
        4 => (0..8_usize).prop_map(Step::Run),
        1 => Just(Step::Share),
        1 => Just(Step::Keep),
    ]
}

/// What a runtime does with followers: those that are woken run, one may lead.
#[derive(Default)]
struct World {
    leader: Option<LeadGuard<u32>>,
    tasks: Vec<Task>,
    shared: usize,
    alone: usize,
}

impl World {
    fn join(&mut self, flight: FlightRole<u32>) {
        match flight {
            FlightRole::Lead(guard) => {
                assert!(self.leader.is_none(), "two lead");
                self.leader = Some(guard);
            }
            follow => self.tasks.push(Task::follow(follow)),
        }
    }

    fn run(&mut self, at: usize) {
        let Some(followed) = self.tasks.get_mut(at).and_then(Task::run) else {
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
    // Any order of coming, going, looking and ending. Afterwards whoever is woken runs: if anybody
    // still waits, somebody must lead, or the waiting would have no end.
    #[test]
    fn nobody_waits_without_a_leader(steps in proptest::collection::vec(step(), 0..60)) {
        let (flights, [key, _]) = (SingleFlight::new(), keys());
        let mut world = World::default();
        for step in steps {
            match step {
                Step::Join => world.join(flights.join(key)),
                Step::DropLeader => drop(world.leader.take()),
                Step::DropFollower(at) if at < world.tasks.len() => drop(world.tasks.remove(at)),
                Step::DropFollower(_) => {}
                Step::Run(at) => world.run(at),
                Step::Share => if let Some(leader) = world.leader.take() { leader.share(1) },
                Step::Keep => if let Some(leader) = world.leader.take() { leader.withhold() },
            }
        }
        world.run_all();
        world.run_all();
        prop_assert!(world.tasks.is_empty() || world.leader.is_some(), "{} wait for nobody", world.tasks.len());
        if let Some(leader) = world.leader.take() {
            let waiting = world.tasks.len();
            let before = world.shared;
            leader.share(2);
            world.run_all();
            prop_assert_eq!(world.shared - before, waiting, "everybody who waited was told");
        }
        prop_assert!(flights.is_empty(), "{} flights are left over", flights.len());
    }
}
