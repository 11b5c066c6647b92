//! Random histories of an embedded store against a naive one: all jobs in a list.

#![expect(
    dead_code,
    unused_macros,
    reason = "the words of the suite are used here without its laws"
)]

#[cfg(test)]
#[path = "contract/suite.rs"]
mod contract;
#[cfg(test)]
#[path = "support/room.rs"]
mod room;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use contract::{batch, claim, done, job, name, settle};
use outflow_store::{Claimed, DeadPick, End, JobStore, Park, PutOff, Scope, Settled};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use room::{Room, clock, within};

/// One thing that happens.
#[derive(Clone, Debug)]
enum Event {
    Submit { tenant: u8, count: u8, acts: bool },
    Claim(u8),
    Settle(u8),
    Pass(u8),
    Revive,
    Cancel(u8),
    Pause,
    Resume,
    Restart,
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => (0..3_u8, 1..90_u8, any::<bool>())
            .prop_map(|(tenant, count, acts)| Event::Submit { tenant, count, acts }),
        5 => (1..40_u8).prop_map(Event::Claim),
        5 => any::<u8>().prop_map(Event::Settle),
        2 => (1..30_u8).prop_map(Event::Pass),
        1 => Just(Event::Revive),
        1 => (0..3_u8).prop_map(Event::Cancel),
        1 => Just(Event::Pause),
        1 => Just(Event::Resume),
        1 => Just(Event::Restart),
    ]
}

/// Where a job is, in the naive store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Waits,
    /// Until this second.
    Delayed(u64),
    Claimed,
    Done,
    Dead,
    Cancelled,
}

/// All jobs in the order in which they came, by tenant.
#[derive(Default)]
struct Naive {
    jobs: BTreeMap<String, Vec<(String, bool, State)>>,
    taken: Vec<Claimed>,
    now: u64,
    next: u32,
    paused: bool,
}

impl Naive {
    fn set(&mut self, id: &str, to: State) {
        let all = self.jobs.values_mut().flatten();
        for job in all.filter(|job| job.0 == id) {
            job.2 = to;
        }
    }

    /// Lets those stand in line whose time has come.
    fn catch_up(&mut self) {
        let now = self.now;
        for job in self.jobs.values_mut().flatten() {
            if matches!(job.2, State::Delayed(until) if until <= now) {
                job.2 = State::Waits;
            }
        }
    }

    /// The job of a tenant that is next.
    fn first(&self, tenant: &str) -> Option<&str> {
        let paused = self.paused;
        let mut may = self
            .jobs
            .get(tenant)?
            .iter()
            .filter(|(_, acts, state)| *state == State::Waits && !(paused && *acts));
        may.next().map(|(id, ..)| id.as_str())
    }

    fn count(&self, of: impl Fn(State) -> bool) -> u64 {
        let all = self.jobs.values().flatten();
        u64::try_from(all.filter(|job| of(job.2)).count()).expect("a few")
    }
}

/// Lets events happen to both until a restart is asked for; answers what is left.
async fn happen(room: &Room, naive: &mut Naive, events: &[Event]) -> usize {
    let store = &room.store;
    for (index, event) in events.iter().enumerate() {
        match event {
            Event::Submit {
                tenant,
                count,
                acts,
            } => {
                let tenant = format!("t{tenant}");
                let mut jobs = Vec::new();
                for _ in 0..*count {
                    naive.next += 1;
                    let id = format!("j{}", naive.next);
                    jobs.push(job(&tenant, &id));
                    let line = naive.jobs.entry(tenant.clone()).or_default();
                    line.push((id, *acts, State::Waits));
                }
                let mut batch = batch("act", jobs);
                batch.action = batch.action.filter(|_| *acts);
                store.submit(batch).await.expect("submitted");
            }
            Event::Claim(most) => {
                for job in claim(store, usize::from(*most)).await {
                    let first = naive.first(job.tenant.as_str());
                    assert_eq!(first, Some(job.id.as_str()), "its tenant's first");
                    assert_eq!(job.payload, job.id.to_string());
                    naive.set(job.id.as_str(), State::Claimed);
                    naive.taken.push(job);
                }
            }
            Event::Settle(pick) => end(room, naive, usize::from(*pick)).await,
            Event::Pass(seconds) => {
                naive.now += u64::from(*seconds);
                room.clock.advance(Duration::from_secs(u64::from(*seconds)));
            }
            Event::Revive => {
                store.revive(&DeadPick::All).await.expect("revived");
                for job in naive.jobs.values_mut().flatten() {
                    if job.2 == State::Dead {
                        job.2 = State::Waits;
                    }
                }
            }
            Event::Cancel(tenant) => {
                let tenant = format!("t{tenant}");
                let scope = Scope::Tenant(name(&tenant));
                store.cancel(&scope).await.expect("cancelled");
                for job in naive.jobs.entry(tenant.clone()).or_default() {
                    if matches!(job.2, State::Waits | State::Delayed(_) | State::Claimed) {
                        job.2 = State::Cancelled;
                    }
                }
                for job in naive
                    .taken
                    .extract_if(.., |job| job.tenant == name(&tenant))
                {
                    let settled = settle(store, &job, done()).await;
                    assert_eq!(settled, Settled::Cancelled);
                }
            }
            Event::Pause | Event::Resume => {
                let act = Scope::Action(name("act"));
                let pauses = matches!(event, Event::Pause);
                let known = store.action(&name("act")).await.expect("read").is_some();
                if known && pauses {
                    store.pause(&act).await.expect("paused");
                } else if known {
                    store.resume(&act).await.expect("resumed");
                }
                naive.paused = known && pauses;
            }
            Event::Restart => return index + 1,
        }
        naive.catch_up();
        compare(room, naive).await;
    }
    events.len()
}

/// Ends a claim in one of all ways.
async fn end(room: &Room, naive: &mut Naive, pick: usize) {
    if naive.taken.is_empty() {
        return;
    }
    let job = naive.taken.swap_remove(pick % naive.taken.len());
    let words = || "no".to_owned();
    let span = Duration::from_secs(7);
    let (end, state) = match pick % 7 {
        0 | 1 => (done(), State::Done),
        2 => (
            End::Retry {
                after: span,
                words: words(),
                result: None,
            },
            match job.retries {
                3 => State::Dead,
                _ => State::Delayed(naive.now + 7),
            },
        ),
        3 => (
            End::Failed {
                words: words(),
                result: None,
            },
            State::Dead,
        ),
        4 => (
            End::Throttled {
                after: Duration::ZERO,
                park: Park::Tenant,
            },
            State::Waits,
        ),
        5 => (End::Returned, State::Waits),
        _ => (
            End::PutOff(PutOff::Fixed(span)),
            State::Delayed(naive.now + 7),
        ),
    };
    settle(&room.store, &job, end).await;
    naive.set(job.id.as_str(), state);
}

async fn compare(room: &Room, naive: &Naive) {
    let tally = room.store.tally().await.expect("counted");
    let waits = |state| matches!(state, State::Waits | State::Delayed(_));
    let delayed = naive.count(|state| matches!(state, State::Delayed(_)));
    let seen = [
        tally.queued,
        tally.delayed + tally.non_ready,
        tally.in_flight,
        tally.done,
        tally.dead,
        tally.cancelled,
    ];
    let expected = [
        naive.count(waits),
        delayed,
        naive.count(|state| state == State::Claimed),
        naive.count(|state| state == State::Done),
        naive.count(|state| state == State::Dead),
        naive.count(|state| state == State::Cancelled),
    ];
    assert_eq!(seen, expected);
    assert_eq!(room.store.recount().await.expect("counted"), 0);
}

/// What a restart does to claims: they are taken back.
async fn take_back(room: &Room, naive: &mut Naive) {
    room.store.reap(9_999, 1_000).await.expect("reaped");
    for job in std::mem::take(&mut naive.taken) {
        naive.set(job.id.as_str(), State::Waits);
    }
}

// 48 histories of up to 60 events, with restarts: some hundred jobs and several pages each.
#[test]
fn a_store_is_a_list_that_is_slower_to_lose() {
    let config = Config {
        cases: 48,
        failure_persistence: None,
        ..Config::default()
    };
    let histories = proptest::collection::vec(event(), 1..60);
    let ran = TestRunner::new(config).run(&histories, |events| {
        let dir = tempfile::tempdir().expect("a directory");
        let (time, mut naive) = (clock(), Naive::default());
        let mut rest = events.as_slice();
        while !rest.is_empty() {
            let happened = within(dir.path(), Arc::clone(&time), async |room| {
                take_back(room, &mut naive).await;
                happen(room, &mut naive, rest).await
            });
            rest = &rest[happened..];
        }
        Ok(())
    });
    if let Err(error) = ran {
        panic!("{error}");
    }
}
