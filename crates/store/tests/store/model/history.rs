//! Random history, and a naive store to compare with a real one: all jobs in a list.

use std::collections::BTreeMap;
use std::time::Duration;

use outflow_store::{
    ActionStore, ClaimedJob, ControlScope, CooldownScope, DeadLetterFilter, DeadLetterStore, Defer, JobEnd, JobQueue,
    SettleResult, StoreControl,
};
use proptest::prelude::*;

use crate::contract::{StoreWorld, batch, claim, done, job, name, settle};

/// One event of a history.
#[derive(Clone, Debug)]
pub(crate) enum HistoryEvent {
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

pub(crate) fn event() -> impl Strategy<Value = HistoryEvent> {
    prop_oneof![
        4 => (0..3_u8, 1..90_u8, any::<bool>())
            .prop_map(|(tenant, count, acts)| HistoryEvent::Submit { tenant, count, acts }),
        5 => (1..40_u8).prop_map(HistoryEvent::Claim),
        5 => any::<u8>().prop_map(HistoryEvent::Settle),
        2 => (1..30_u8).prop_map(HistoryEvent::Pass),
        1 => Just(HistoryEvent::Revive),
        1 => (0..3_u8).prop_map(HistoryEvent::Cancel),
        1 => Just(HistoryEvent::Pause),
        1 => Just(HistoryEvent::Resume),
        1 => Just(HistoryEvent::Restart),
    ]
}

/// State of a job in the naive store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum JobState {
    Waits,
    /// Until this unit of time.
    Delayed(u64),
    Claimed,
    Done,
    Dead,
    Cancelled,
}

/// All jobs in the order of their submission, by tenant.
#[derive(Default)]
pub(crate) struct NaiveStore {
    jobs: BTreeMap<String, Vec<(String, bool, JobState)>>,
    pub(crate) taken: Vec<ClaimedJob>,
    now: u64,
    next: u32,
    paused: bool,
}

impl NaiveStore {
    /// Returns all claims, as a restart of a single-process store does.
    pub(crate) fn take_back(&mut self) {
        for job in std::mem::take(&mut self.taken) {
            self.set(job.id.as_str(), JobState::Waits);
        }
    }

    fn set(&mut self, id: &str, to: JobState) {
        let all = self.jobs.values_mut().flatten();
        for job in all.filter(|job| job.0 == id) {
            job.2 = to;
        }
    }

    /// Queues the jobs that are due.
    fn catch_up(&mut self) {
        let now = self.now;
        for job in self.jobs.values_mut().flatten() {
            if matches!(job.2, JobState::Delayed(until) if until <= now) {
                job.2 = JobState::Waits;
            }
        }
    }

    /// Returns the next job of a tenant.
    fn first(&self, tenant: &str) -> Option<&str> {
        let paused = self.paused;
        let mut may = self
            .jobs
            .get(tenant)?
            .iter()
            .filter(|(_, acts, state)| *state == JobState::Waits && !(paused && *acts));
        may.next().map(|(id, ..)| id.as_str())
    }

    fn count(&self, of: impl Fn(JobState) -> bool) -> u64 {
        let all = self.jobs.values().flatten();
        u64::try_from(all.filter(|job| of(job.2)).count()).expect("a few")
    }
}

/// Applies events to both stores until a restart; returns the position.
pub(crate) async fn apply_events(world: &impl StoreWorld, naive: &mut NaiveStore, events: &[HistoryEvent]) -> usize {
    let store = world.store();
    for (index, event) in events.iter().enumerate() {
        match event {
            HistoryEvent::Submit { tenant, count, acts } => {
                let tenant = format!("t{tenant}");
                let mut jobs = Vec::new();
                for _ in 0..*count {
                    naive.next += 1;
                    let id = format!("j{}", naive.next);
                    jobs.push(job(&tenant, &id));
                    let line = naive.jobs.entry(tenant.clone()).or_default();
                    line.push((id, *acts, JobState::Waits));
                }
                let mut batch = batch("act", jobs);
                batch.action = batch.action.filter(|_| *acts);
                store.submit(batch).await.expect("submitted");
            }
            HistoryEvent::Claim(max) => {
                for job in claim(store, usize::from(*max)).await {
                    let first = naive.first(job.tenant.as_str());
                    assert_eq!(first, Some(job.id.as_str()), "its tenant's first");
                    assert_eq!(job.payload, job.id.to_string());
                    naive.set(job.id.as_str(), JobState::Claimed);
                    naive.taken.push(job);
                }
            }
            HistoryEvent::Settle(pick) => end(world, naive, usize::from(*pick)).await,
            HistoryEvent::Pass(units) => {
                naive.now += u64::from(*units);
                world.advance(world.unit() * u32::from(*units)).await;
            }
            HistoryEvent::Revive => {
                store.requeue(&DeadLetterFilter::All).await.expect("revived");
                for job in naive.jobs.values_mut().flatten() {
                    if job.2 == JobState::Dead {
                        job.2 = JobState::Waits;
                    }
                }
            }
            HistoryEvent::Cancel(tenant) => {
                let tenant = format!("t{tenant}");
                let scope = ControlScope::Tenant(name(&tenant));
                store.cancel(&scope).await.expect("cancelled");
                for job in naive.jobs.entry(tenant.clone()).or_default() {
                    if matches!(job.2, JobState::Waits | JobState::Delayed(_)) {
                        job.2 = JobState::Cancelled;
                    }
                }
                let theirs = |job: &mut ClaimedJob| job.tenant == name(&tenant);
                let in_flight: Vec<ClaimedJob> = naive.taken.extract_if(.., theirs).collect();
                // Every other one would start again, and the rest are done.
                for (number, job) in in_flight.iter().enumerate() {
                    let (end, settled, state) = match number % 2 {
                        0 => (JobEnd::Returned, SettleResult::Cancelled, JobState::Cancelled),
                        _ => (done(), SettleResult::Done, JobState::Done),
                    };
                    assert_eq!(settle(store, job, end).await, settled);
                    naive.set(job.id.as_str(), state);
                }
            }
            HistoryEvent::Pause | HistoryEvent::Resume => {
                let act = ControlScope::Action(name("act"));
                let pauses = matches!(event, HistoryEvent::Pause);
                let known = store.action(&name("act")).await.expect("read").is_some();
                if known && pauses {
                    store.pause(&act).await.expect("paused");
                } else if known {
                    store.resume(&act).await.expect("resumed");
                }
                naive.paused = known && pauses;
            }
            HistoryEvent::Restart => return index + 1,
        }
        naive.catch_up();
        compare(world, naive).await;
    }
    events.len()
}

/// Ends a claim in one of all ways.
async fn end(world: &impl StoreWorld, naive: &mut NaiveStore, pick: usize) {
    if naive.taken.is_empty() {
        return;
    }
    let job = naive.taken.swap_remove(pick % naive.taken.len());
    let message = || "no".to_owned();
    let span = world.unit() * 7;
    let (end, state) = match pick % 7 {
        0 | 1 => (done(), JobState::Done),
        2 => (
            JobEnd::Retry {
                after: span,
                message: message(),
                result: None,
            },
            match job.retries {
                3 => JobState::Dead,
                _ => JobState::Delayed(naive.now + 7),
            },
        ),
        3 => (
            JobEnd::Failed {
                message: message(),
                result: None,
            },
            JobState::Dead,
        ),
        4 => (
            JobEnd::Throttled {
                after: Duration::ZERO,
                cooldown: CooldownScope::Tenant,
            },
            JobState::Waits,
        ),
        5 => (JobEnd::Returned, JobState::Waits),
        _ => (JobEnd::Deferred(Defer::Fixed(span)), JobState::Delayed(naive.now + 7)),
    };
    settle(world.store(), &job, end).await;
    naive.set(job.id.as_str(), state);
}

async fn compare(world: &impl StoreWorld, naive: &NaiveStore) {
    let store = world.store();
    let counts = store.job_counts().await.expect("counted");
    let waits = |state| matches!(state, JobState::Waits | JobState::Delayed(_));
    let delayed = naive.count(|state| matches!(state, JobState::Delayed(_)));
    let seen = [
        counts.queued,
        counts.delayed + counts.non_ready,
        counts.in_flight,
        counts.done,
        counts.dead,
        counts.cancelled,
    ];
    let expected = [
        naive.count(waits),
        delayed,
        naive.count(|state| state == JobState::Claimed),
        naive.count(|state| state == JobState::Done),
        naive.count(|state| state == JobState::Dead),
        naive.count(|state| state == JobState::Cancelled),
    ];
    assert_eq!(seen, expected);
    assert_eq!(store.audit().await.expect("counted"), 0);
}
