//! Workload of two thousand jobs with every operation, which reports each result.

use std::path::Path;
use std::time::Duration;

use outflow_core::{Clock as _, WallTime};
use outflow_store::{
    ActionSpec, ActionStore, AllowAll, BatchPosition, ClaimedJob, ControlScope, CooldownScope, DeadLetterFilter,
    DeadLetterStore, Defer, EmbeddedStore, FinishedQuery, JobEnd, JobQueue, NewJob, SettleResult, Settlement,
    StoreControl, StoreError, StoredResult, SubmitBatch, SubmitReceipt,
};

use tokio::runtime::Builder;

use super::strace::REPORTED;
use crate::contract::{claim, claim_request, job, name};
use crate::support::store_dir::{EmbeddedFixture, clock, within};

/// A hundred batches of twenty, of four actions.
pub(crate) const BATCHES: u32 = 100;
pub(crate) const BATCH: u32 = 20;
const BATCHES_OF_ACTION: u32 = 25;

/// Runs the workload in a directory that does not exist yet.
pub(crate) fn run_workload(dir: &Path) {
    within(dir, clock(), async |fixture| {
        for action in actions() {
            let spec = ActionSpec {
                timeout: Duration::from_hours(999),
                ..ActionSpec::new(name(&action))
            };
            fixture.store.open(spec).await.expect("opened");
        }
        for round in 0..BATCHES {
            submit(&fixture.store, round).await;
            work(fixture, 15).await;
            operate(&fixture.store, round).await;
            fixture.clock.advance(Duration::from_secs(3));
        }
        while work_to_the_end(fixture, print_result).await > 0 {
            fixture.clock.advance(Duration::from_mins(1));
        }
        notify_and_forget(fixture).await;
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
        action: Some(ActionSpec::new(name(&format!("act{}", round / BATCHES_OF_ACTION)))),
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

fn print_result(message: &str) {
    println!("\n{REPORTED}{message}");
}

async fn submit(store: &EmbeddedStore, round: u32) {
    store.submit(batch(round)).await.expect("submitted");
    print_result(&format!("batch {round}"));
}

/// Claims some jobs and ends them in every way.
async fn work(fixture: &EmbeddedFixture, max: usize) {
    let jobs = claim(&fixture.store, max).await;
    let ends: Vec<JobEnd> = (0..jobs.len()).map(end).collect();
    settle(&fixture.store, &jobs, ends, print_result).await;
}

fn end(number: usize) -> JobEnd {
    let (after, message) = (Duration::from_secs(5), || "no".to_owned());
    match number % 12 {
        0 => JobEnd::Retry {
            after,
            message: message(),
            result: None,
        },
        1 => JobEnd::Failed {
            message: message(),
            result: None,
        },
        2 => JobEnd::Throttled {
            after: Duration::ZERO,
            cooldown: CooldownScope::Tenant,
        },
        3 => JobEnd::Returned,
        4 => JobEnd::Deferred(Defer::Fixed(after)),
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

async fn settle(store: &EmbeddedStore, jobs: &[ClaimedJob], ends: Vec<JobEnd>, print_result: fn(&str)) {
    let ends = jobs.iter().zip(ends);
    let ends = ends.map(|(job, end)| Settlement {
        token: job.token,
        end,
        arrived: None,
    });
    let settled = store.settle(&name("worker"), ends.collect()).await;
    for (job, settled) in jobs.iter().zip(settled.expect("settled")) {
        match settled {
            SettleResult::Done => print_result(&format!("done {}", job.id)),
            SettleResult::DeadLettered => print_result(&format!("dead {}", job.id)),
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
            print_result("paused t3");
        }
        30 => {
            print_result("reviving all");
            store.requeue(&DeadLetterFilter::All).await.expect("revived");
            print_result("revived all");
        }
        CANCELLED_AT => {
            cancel(ControlScope::Tenant(name("t4"))).await;
            print_result("cancelled t4");
        }
        74 => {
            cancel(ControlScope::Action(name("act2"))).await;
            print_result("ended act2");
        }
        60 => {
            print_result("resuming t3");
            let scope = ControlScope::Tenant(name("t3"));
            store.resume(&scope).await.expect("resumed");
        }
        _ => {}
    }
}

/// Works on all available jobs, and ends them as done.
pub(crate) async fn work_to_the_end(fixture: &EmbeddedFixture, print_result: fn(&str)) -> usize {
    let mut all = 0;
    loop {
        let jobs = claim(&fixture.store, 200).await;
        if jobs.is_empty() {
            return all;
        }
        all += jobs.len();
        let ends = jobs.iter().map(|_| done(None)).collect();
        settle(&fixture.store, &jobs, ends, print_result).await;
    }
}

/// Notifies finished actions, and collects garbage two days later.
async fn notify_and_forget(fixture: &EmbeddedFixture) {
    for report in fixture.store.take_finished(FinishedQuery::peek(9)).await.expect("read") {
        fixture.store.mark_notified(&report.spec.id).await.expect("notified");
        print_result(&format!("ended {}", report.spec.id));
    }
    fixture.clock.advance(Duration::from_hours(48));
    print_result("forgetting all");
    while fixture
        .store
        .collect_garbage(fixture.clock.wall())
        .await
        .expect("tidied")
        > 0
    {}
    print_result("forgotten all");
}

/// Submits, claims and settles, and repeats each call while it fails.
pub(crate) fn run_endurance(dir: &Path) {
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
                let jobs = retry_until_ok(async || store.submit(batch(round)).await).await;
                let whole = |first: &SubmitReceipt| {
                    let kind = std::mem::discriminant(first);
                    jobs.receipts.iter().all(|of| std::mem::discriminant(of) == kind)
                };
                assert!(whole(&jobs.receipts[0]), "{jobs:?}");
                print_result(&format!("batch {round}"));
                let claims = retry_until_ok(async || store.claim(claim_request(15), &mut AllowAll).await).await;
                let ends = |_| JobEnd::Done {
                    took: Duration::ZERO,
                    result: None,
                };
                let ends = claims.jobs.iter().map(|job| Settlement {
                    token: job.token,
                    end: ends(job),
                    arrived: None,
                });
                let ends: Vec<Settlement> = ends.collect();
                let worker = name("worker");
                retry_until_ok(async || store.settle(&worker, ends.clone()).await).await;
                for job in claims.jobs {
                    print_result(&format!("done {}", job.id));
                }
            }
            assert_eq!(store.audit().await.expect("counted"), 0);
        });
    });
}

/// Repeats a call until it succeeds.
async fn retry_until_ok<T>(call: impl AsyncFn() -> Result<T, StoreError>) -> T {
    for _ in 0..99 {
        match call().await {
            Ok(answer) => return answer,
            Err(error) => refused(&error),
        }
    }
    panic!("it is refused for ever");
}

fn refused(error: &StoreError) {
    assert!(error.is_passing() || error.is_doubtful(), "{error:?}");
    print_result(&format!("refused: {error}"));
}
