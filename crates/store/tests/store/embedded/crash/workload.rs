//! Workload of two thousand jobs with every operation, which reports each result.

use std::path::Path;
use std::time::Duration;

use outflow_core::{Clock as _, WallTime};
use outflow_store::{
    ActionSpec, ActionStore, AllowAll, BatchPosition, ClaimedJob, ControlScope, CooldownScope,
    DeadLetterFilter, DeadLetterStore, Defer, EmbeddedStore, FinishedQuery, JobEnd, JobQueue,
    NewJob, SettleResult, Settlement, StoreControl, StoreError, StoredResult, SubmitBatch,
    SubmitReceipt,
};

use tokio::runtime::Builder;

use super::strace::TOLD;
use crate::contract::{ask, claim, job, name};
use crate::support::store_dir::{Room, clock, within};

/// A hundred batches of twenty, of four actions.
pub(crate) const BATCHES: u32 = 100;
pub(crate) const BATCH: u32 = 20;
const BATCHES_OF_ACTION: u32 = 25;

/// Runs the workload in a directory that does not exist yet.
pub(crate) fn live(dir: &Path) {
    within(dir, clock(), async |room| {
        for action in actions() {
            let spec = ActionSpec {
                timeout: Duration::from_hours(999),
                ..ActionSpec::new(name(&action))
            };
            room.store.open(spec).await.expect("opened");
        }
        for round in 0..BATCHES {
            submit(&room.store, round).await;
            work(room, 15).await;
            operate(&room.store, round).await;
            room.clock.advance(Duration::from_secs(3));
        }
        while work_to_the_end(room, tell).await > 0 {
            room.clock.advance(Duration::from_mins(1));
        }
        forget(room).await;
    });
}

/// Returns the names of all actions.
pub(crate) fn actions() -> Vec<String> {
    let count = BATCHES / BATCHES_OF_ACTION;
    (0..count).map(|number| format!("act{number}")).collect()
}

/// Makes the jobs of one batch: of five tenants, one in twenty delayed, and one in four so large
/// that the run needs several checkpoints.
pub(crate) fn batch(round: u32) -> SubmitBatch {
    let of = |number: u32| NewJob {
        not_before: (number == 19).then(start),
        payload: vec![b'x'; if number % 4 == 3 { 40_000 } else { 105 }].into(),
        ..job(&format!("t{}", number % 5), &format!("b{round}-{number}"))
    };
    SubmitBatch {
        action: Some(ActionSpec::new(name(&format!(
            "act{}",
            round / BATCHES_OF_ACTION
        )))),
        rest: match round % BATCHES_OF_ACTION {
            24 => BatchPosition::Last,
            _ => BatchPosition::More,
        },
        ..SubmitBatch::from_jobs((0..BATCH).map(of).collect())
    }
}

/// Start of delayed jobs: a minute after the run begins.
fn start() -> WallTime {
    WallTime::from_unix_secs(1_700_000_060)
}

/// Round in which the jobs of `t4` are cancelled.
pub(crate) const CANCELLED_AT: u32 = 40;

fn tell(words: &str) {
    println!("\n{TOLD}{words}");
}

async fn submit(store: &EmbeddedStore, round: u32) {
    store.submit(batch(round)).await.expect("submitted");
    tell(&format!("batch {round}"));
}

/// Claims some jobs and ends them in every way.
async fn work(room: &Room, most: usize) {
    let jobs = claim(&room.store, most).await;
    let ends: Vec<JobEnd> = (0..jobs.len()).map(end).collect();
    settle(&room.store, &jobs, ends, tell).await;
}

fn end(number: usize) -> JobEnd {
    let (after, words) = (Duration::from_secs(5), || "no".to_owned());
    match number % 12 {
        0 => JobEnd::Retry {
            after,
            words: words(),
            result: None,
        },
        1 => JobEnd::Failed {
            words: words(),
            result: None,
        },
        2 => JobEnd::Throttled {
            after: Duration::ZERO,
            park: CooldownScope::Tenant,
        },
        3 => JobEnd::Returned,
        4 => JobEnd::PutOff(Defer::Fixed(after)),
        5 => done(Some(StoredResult {
            status: 200,
            body: vec![b'y'; 300].into(),
            keep: Duration::from_hours(1),
        })),
        _ => done(None),
    }
}

fn done(result: Option<StoredResult>) -> JobEnd {
    JobEnd::Done {
        took: Duration::from_millis(1),
        result,
    }
}

async fn settle(store: &EmbeddedStore, jobs: &[ClaimedJob], ends: Vec<JobEnd>, tell: fn(&str)) {
    let ends = jobs.iter().zip(ends);
    let ends = ends.map(|(job, end)| Settlement {
        token: job.token,
        end,
    });
    let settled = store.settle(&name("worker"), ends.collect()).await;
    for (job, settled) in jobs.iter().zip(settled.expect("settled")) {
        match settled {
            SettleResult::Done => tell(&format!("done {}", job.id)),
            SettleResult::Buried => tell(&format!("dead {}", job.id)),
            _ => {}
        }
    }
}

/// Runs operator commands in some rounds.
async fn operate(store: &EmbeddedStore, round: u32) {
    let cancel = |scope| async move {
        store.cancel(&scope).await.expect("cancelled");
    };
    match round {
        15 => {
            let scope = ControlScope::Tenant(name("t3"));
            store.pause(&scope).await.expect("paused");
            tell("paused t3");
        }
        30 => {
            tell("reviving all");
            store
                .requeue(&DeadLetterFilter::All)
                .await
                .expect("revived");
            tell("revived all");
        }
        CANCELLED_AT => {
            cancel(ControlScope::Tenant(name("t4"))).await;
            tell("cancelled t4");
        }
        74 => {
            cancel(ControlScope::Action(name("act2"))).await;
            tell("ended act2");
        }
        60 => {
            tell("resuming t3");
            let scope = ControlScope::Tenant(name("t3"));
            store.resume(&scope).await.expect("resumed");
        }
        _ => {}
    }
}

/// Works on all available jobs, and ends them as done.
pub(crate) async fn work_to_the_end(room: &Room, tell: fn(&str)) -> usize {
    let mut all = 0;
    loop {
        let jobs = claim(&room.store, 200).await;
        if jobs.is_empty() {
            return all;
        }
        all += jobs.len();
        let ends = jobs.iter().map(|_| done(None)).collect();
        settle(&room.store, &jobs, ends, tell).await;
    }
}

/// Notifies finished actions, and collects garbage two days later.
async fn forget(room: &Room) {
    for report in room
        .store
        .take_finished(FinishedQuery::peek(9))
        .await
        .expect("read")
    {
        room.store
            .mark_notified(&report.spec.id)
            .await
            .expect("told");
        tell(&format!("ended {}", report.spec.id));
    }
    room.clock.advance(Duration::from_hours(48));
    tell("forgetting all");
    while room
        .store
        .collect_garbage(room.clock.wall())
        .await
        .expect("tidied")
        > 0
    {}
    tell("forgotten all");
}

/// Submits, claims and settles, and repeats each call while it fails.
pub(crate) fn endure(dir: &Path) {
    let (store, writer) = loop {
        match EmbeddedStore::open(dir, clock()) {
            Ok(opened) => break opened,
            Err(error) => refused(&error),
        }
    };
    std::thread::scope(|threads| {
        threads.spawn(|| writer.run());
        let store = store;
        let runtime = Builder::new_current_thread().build().expect("a runtime");
        runtime.block_on(async {
            for round in 0..BATCHES {
                let jobs = patiently(async || store.submit(batch(round)).await).await;
                let whole = |first: &SubmitReceipt| {
                    let kind = std::mem::discriminant(first);
                    jobs.receipts
                        .iter()
                        .all(|of| std::mem::discriminant(of) == kind)
                };
                assert!(whole(&jobs.receipts[0]), "{jobs:?}");
                tell(&format!("batch {round}"));
                let claims = patiently(async || store.claim(ask(15), &mut AllowAll).await).await;
                let ends = |_| JobEnd::Done {
                    took: Duration::ZERO,
                    result: None,
                };
                let ends = claims.jobs.iter().map(|job| Settlement {
                    token: job.token,
                    end: ends(job),
                });
                let ends: Vec<Settlement> = ends.collect();
                let worker = name("worker");
                patiently(async || store.settle(&worker, ends.clone()).await).await;
                for job in claims.jobs {
                    tell(&format!("done {}", job.id));
                }
            }
            assert_eq!(store.audit().await.expect("counted"), 0);
        });
    });
}

/// Repeats a call until it succeeds.
async fn patiently<T>(ask: impl AsyncFn() -> Result<T, StoreError>) -> T {
    for _ in 0..99 {
        match ask().await {
            Ok(answer) => return answer,
            Err(error) => refused(&error),
        }
    }
    panic!("it is refused for ever");
}

fn refused(error: &StoreError) {
    assert!(error.is_passing() || error.is_doubtful(), "{error:?}");
    tell(&format!("refused: {error}"));
}
