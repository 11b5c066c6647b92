//! What is taken, what is not, and what is said about it.

use outflow::core::Cost;
use outflow_bulk::{Destination, HttpCall, Order, Submission};
use outflow_store::Rest;
use outflow_upstream::Script;

use super::support::{Plan, get, gets, name};

fn alone(orders: Vec<Order>) -> Submission {
    Submission {
        action: None,
        rest: Rest::More,
        orders,
    }
}

// Three mistakes among five orders: all are told, with their numbers, and nothing is taken.
#[tokio::test(start_paused = true)]
async fn every_mistake_is_told_at_once_and_nothing_is_taken() {
    let world = Plan::limited("10/s").start().await;
    let mut dear = get("t", 2);
    dear.cost = Some(Cost::new(11));
    let elsewhere = HttpCall::new("strict", http::Method::GET, "//evil.example/x");
    let orders = vec![
        get("t", 1),
        dear,
        Order::call(name("t"), elsewhere),
        Order::call(name("t"), HttpCall::new("other", http::Method::GET, "/")),
        Order::task(name("t"), "nobody", bytes::Bytes::new()),
    ];
    let error = world.engine.submit(alone(orders)).await.expect_err("wrong");
    assert!(error.is_invalid());
    let words = error.to_string();
    for part in [
        "job 2: it costs 11",
        "job 3: path",
        "job 4: no API",
        "job 5: no handler",
    ] {
        assert!(words.contains(part), "{part}: {words}");
    }
    assert!(!words.contains("job 1"), "{words}");
    assert_eq!(world.tally().await.submitted(), 0);
}

// A rate of 10 for one tenant: ten are ready, five wait, and the last two find the queue full.
#[tokio::test(start_paused = true)]
async fn a_job_is_told_where_it_went_and_why() {
    let world = Plan::scripted(Script::new())
        .with(|settings| {
            settings.global_rate = 10;
            settings.queue_max = 15;
        })
        .start()
        .await;
    let placed = world
        .engine
        .submit(alone(gets("t", 17)))
        .await
        .expect("told");
    let ready = |one: &outflow_bulk::Placed| one.destination == Destination::Ready;
    let refused = placed.iter().filter(|one| one.id.is_none()).count();
    assert_eq!(refused, 2);
    let Destination::Rejected { reason } = &placed[16].destination else {
        panic!("{:?}", placed[16]);
    };
    assert_eq!(reason, "queue at capacity");
    let Destination::NonReady { reason, .. } = &placed[14].destination else {
        panic!("{:?}", placed[14]);
    };
    assert_eq!(
        reason,
        "rate limited (global 15/10, group 15/10, congestion LOW)"
    );
    assert!(
        !placed.iter().any(ready),
        "15 wait, and ten is the rate of all"
    );
}

#[tokio::test(start_paused = true)]
async fn the_same_job_is_taken_once() {
    let world = Plan::limited("10/s").start().await;
    let mut order = get("t", 1);
    order.id = Some(name("order-17"));
    for expected in [Destination::Ready, Destination::Duplicate] {
        let placed = world.engine.submit(alone(vec![order.clone()])).await;
        assert_eq!(placed.expect("told")[0].destination, expected);
    }
    assert_eq!(world.tally().await.submitted(), 1);
}
