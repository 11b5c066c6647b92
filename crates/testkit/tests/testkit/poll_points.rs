//! Laws of dropping a future at every poll point.

use std::cell::Cell;
use std::future::pending;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;

use outflow_testkit::{PollPoint, PollPoints, Run, WakeCount};
use tokio::sync::Semaphore;
use tokio::task::yield_now;
use tokio::time::sleep;

// Three yields are four polls, and so four points to be dropped at before the one that finishes.
#[tokio::test]
async fn every_poll_point_is_visited_once_in_order() {
    let mut points = PollPoints::new();
    let mut places = Vec::new();
    while let Some(point) = points.next_point() {
        let reached = Cell::new(0);
        let run = point
            .drive(async {
                for _ in 0..3 {
                    yield_now().await;
                    reached.set(reached.get() + 1);
                }
                "done"
            })
            .await;
        points.record(&run);
        places.push((reached.get(), run));
    }
    let dropped = |polls| Run::Dropped { polls };
    let finished = Run::Finished {
        output: "done",
        polls: 4,
    };
    let expected = [
        (0, dropped(0)),
        (0, dropped(1)),
        (1, dropped(2)),
        (2, dropped(3)),
        (3, finished),
    ];
    assert_eq!(places, expected);
    assert_eq!(points.polls_to_finish(), Some(4));
}

// The permit is held across the sleep: each drop must release it.
#[tokio::test(start_paused = true)]
async fn a_dropped_future_releases_its_state_before_the_report() {
    let permits = Semaphore::new(1);
    let mut points = PollPoints::new();
    while let Some(point) = points.next_point() {
        let run = point
            .drive(async {
                let _permit = permits.acquire().await.unwrap();
                sleep(Duration::from_secs(1)).await;
            })
            .await;
        points.record(&run);
        assert_eq!(permits.available_permits(), 1, "after {} polls", point.polls());
    }
    assert_eq!(points.polls_to_finish(), Some(2));
}

#[test]
fn without_a_runtime_a_self_waking_future_is_polled_again() {
    let run = PollPoint::after(10).drive_here(async {
        yield_once().await;
        yield_once().await;
        7
    });
    assert_eq!(run, Run::Finished { output: 7, polls: 3 });
    assert_eq!(run.output(), Some(7));
}

#[test]
fn without_a_runtime_an_unwoken_future_is_dropped() {
    let run = PollPoint::after(10).drive_here(async {
        yield_once().await;
        pending::<()>().await;
    });
    assert_eq!(run, Run::Dropped { polls: 2 });
    let never = PollPoint::after(0).drive_here(async { panic!("polled") });
    assert_eq!(never.output(), None::<()>);
}

#[test]
fn wakes_are_counted() {
    let wake_count = Arc::new(WakeCount::default());
    let waker = Waker::from(wake_count.clone());
    Context::from_waker(&waker).waker().wake_by_ref();
    waker.wake();
    assert_eq!(wake_count.wakes(), 2);
}

#[test]
#[should_panic(expected = "not finished")]
fn a_future_that_never_finishes_is_detected() {
    let mut points = PollPoints::new();
    while let Some(point) = points.next_point() {
        let run = PollPoint::after(point.polls().min(1)).drive_here(pending::<()>());
        points.record(&run);
    }
}

/// Yields without any runtime.
fn yield_once() -> impl Future<Output = ()> {
    let mut yielded = false;
    std::future::poll_fn(move |context| {
        if yielded {
            return std::task::Poll::Ready(());
        }
        yielded = true;
        context.waker().wake_by_ref();
        std::task::Poll::Pending
    })
}
