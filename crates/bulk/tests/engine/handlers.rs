//! Handlers that the user registers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use bytes::Bytes;
use outflow_bulk::{HandlerError, HandlerTask, JobSpec, SchedulerKind};
use outflow_mock::Script;

use super::support::{Plan, name, rate_rule};

fn task(payload: &'static str) -> JobSpec {
    JobSpec::task(name("t"), "echo", Bytes::from_static(payload.as_bytes()))
}

#[tokio::test(start_paused = true)]
async fn the_output_of_a_handler_is_stored() {
    let world = Plan::scripted(Script::new())
        .start_with(|builder| builder.handler("echo", |task: HandlerTask| async move { Ok(task.payload) }))
        .await;
    world.submit("a", vec![task("one"), task("two")]).await;
    assert_eq!(world.finished("a").await.counts.done, 2);
    let bodies = world
        .engine
        .fold_outcomes(&name("a"), Vec::new(), |mut all, one| {
            all.push(one.body.expect("kept"));
            all
        })
        .await;
    let mut bodies = bodies.expect("the store answers");
    bodies.sort();
    assert_eq!(bodies, ["one", "two"]);
}

// The first attempt panics, the second is slow, the third fails for now, the fourth succeeds.
#[tokio::test(start_paused = true)]
async fn a_task_survives_panic_timeout_and_failure_of_its_handler() {
    let tries = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&tries);
    let world = Plan::scripted(Script::new())
        .with(|settings| settings.timeout = Duration::from_secs(2))
        .start_with(|builder| {
            builder.handler("echo", move |task: HandlerTask| {
                let counted = Arc::clone(&counted);
                async move {
                    match counted.fetch_add(1, Ordering::Relaxed) {
                        0 => panic!("on purpose"),
                        1 => std::future::pending().await,
                        2 => Err(HandlerError::Passing("busy".to_owned())),
                        _ => Ok(task.payload),
                    }
                }
            })
        })
        .await;
    world.submit("a", vec![task("x")]).await;
    let report = world.finished("a").await;
    assert_eq!((report.counts.done, tries.load(Ordering::Relaxed)), (1, 4));
}

#[tokio::test(start_paused = true)]
async fn a_final_handler_error_ends_the_job() {
    let world = Plan::scripted(Script::new())
        .start_with(|builder| {
            builder.handler("echo", |_: HandlerTask| async {
                Err(HandlerError::Final("no such customer".to_owned()))
            })
        })
        .await;
    world.submit("a", vec![task("x")]).await;
    assert_eq!(world.finished("a").await.counts.dead, 1);
}

// Thirty at ten a second: the last may start in the third second after the first ten, under every scheduler.
// Only starts count, so the duration of a task does not delay the next.
#[tokio::test(start_paused = true)]
async fn a_tenants_limit_counts_the_starts_of_its_tasks() {
    for scheduler in [SchedulerKind::Permit, SchedulerKind::Fixed, SchedulerKind::Backoff] {
        let world = Plan::scripted(Script::new())
            .with(|settings| {
                settings.tenant = rate_rule("10/s");
                settings.scheduler = scheduler;
                settings.workers.min = Some(30);
                settings.workers.max = Some(30);
            })
            .start_with(|builder| {
                builder.handler("echo", |task: HandlerTask| async move {
                    tokio::time::sleep(Duration::from_secs(1)).await;
                    Ok(task.payload)
                })
            })
            .await;
        let begun = world.now();
        world.submit("a", vec![task("x"); 30]).await;
        world.finished("a").await;
        let took = world.now().since(begun);
        assert!(took >= Duration::from_secs(3), "{scheduler:?}: {took:?}");
        let max = match scheduler {
            SchedulerKind::Permit => Duration::from_secs(4),
            SchedulerKind::Fixed | SchedulerKind::Backoff => Duration::from_secs(10),
        };
        assert!(took <= max, "{scheduler:?}: {took:?}");
    }
}

// The task reports a hundred times that it is busy, with a wait of zero: each costs a hundredth of a second.
#[tokio::test(start_paused = true)]
async fn a_busy_task_with_zero_wait_does_not_spin() {
    let tries = Arc::new(AtomicU32::new(0));
    let world = Plan::scripted(Script::new())
        .start_with(|builder| {
            builder.handler("echo", move |task: HandlerTask| {
                let tries = Arc::clone(&tries);
                async move {
                    if tries.fetch_add(1, Ordering::Relaxed) < 100 {
                        return Err(HandlerError::Busy(Duration::ZERO));
                    }
                    Ok(task.payload)
                }
            })
        })
        .await;
    let begun = world.now();
    world.submit("a", vec![task("x")]).await;
    world.finished("a").await;
    assert!(world.now().since(begun) >= Duration::from_secs(1));
}
