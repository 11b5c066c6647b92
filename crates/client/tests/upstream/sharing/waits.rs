//! What the API said to one process holds for the others, and after a restart.

use outflow::core::{HealthState, Nanos};
use outflow::{AcquireOptions, CallDecision, LimitSharing, RefusalReason, Rules, WaitMode};

use super::Host;
use crate::support::{ms, secs};

// The processes know of it within 50 ms; what was in flight by then still arrives.
#[tokio::test(start_paused = true)]
async fn one_retry_after_stops_every_process() {
    let host = Host::new(&["50/s"]);
    let processes: Vec<_> = (0..3).map(|_| host.busy_process()).collect();
    tokio::time::sleep(secs(3)).await;
    *host.api.closed_until.lock() = host.now().saturating_add(secs(30));
    let is_asleep = |process: &super::Process| process.upstream.state(process.target()) == HealthState::Sleep;
    while !processes.iter().any(is_asleep) {
        tokio::time::sleep(ms(1)).await;
    }
    tokio::time::sleep(ms(50)).await;
    assert!(processes.iter().all(is_asleep), "all know within 50 ms");
    // A call takes at most 40 ms to the API.
    tokio::time::sleep(ms(40)).await;
    let begin = host.now();
    tokio::time::sleep(secs(29)).await;
    assert_eq!(host.arrivals_since(begin), 0);
    let states: Vec<_> = processes
        .iter()
        .map(|process| process.upstream.state(process.target()))
        .collect();
    assert_eq!(states, [HealthState::Sleep; 3]);
    tokio::time::sleep(secs(20)).await;
    assert!(host.arrivals_since(begin) > 100, "{}", host.arrivals_since(begin));
}

// A process that starts during the wait sends nothing before its end.
#[tokio::test(start_paused = true)]
async fn a_restart_remembers_a_retry_after() {
    let host = Host::new(&["50/s"]);
    let process = host.busy_process();
    tokio::time::sleep(secs(2)).await;
    *host.api.closed_until.lock() = host.now().saturating_add(secs(60));
    tokio::time::sleep(ms(500)).await;
    process.kill();
    let begin = host.now();
    let _next = host.busy_process();
    tokio::time::sleep(secs(58)).await;
    assert_eq!(host.arrivals_since(begin), 0);
    tokio::time::sleep(secs(30)).await;
    assert!(host.arrivals_since(begin) > 100);
}

// `reject` callers want an answer at once. The first needs one from the ledger, which takes two milliseconds.
#[tokio::test(start_paused = true)]
async fn a_call_that_does_not_wait_waits_for_the_ledger() {
    let host = Host::new(&["10/s"]);
    let rules = Rules {
        limits: host.limits.clone(),
        mode: WaitMode::Reject,
        ..Rules::unlimited()
    };
    let process = host.process_with(&rules);
    for _ in 0..10 {
        let begin = host.now();
        let permit = process.upstream.acquire(process.target()).await.expect("a permit");
        assert!(host.now().since(begin) <= ms(5));
        permit.count();
    }
    let begin = host.now();
    let refused = process
        .upstream
        .acquire(process.target())
        .await
        .expect_err("the limit is used up");
    assert!(host.now().since(begin) <= ms(5), "{:?}", host.now().since(begin));
    let wait = refused.retry_after.expect("an instant");
    assert!(wait > ms(900) && wait <= secs(1) + ms(20), "{wait:?}");
    // The reason is not a deadline, which the caller does not have: `explain` says the same.
    assert!(matches!(refused.reason, RefusalReason::Busy(_)), "{refused:?}");
    let said = process.upstream.decide(process.target(), AcquireOptions::new());
    assert_eq!(said, CallDecision::Refuse(refused));
    // Refused before, and allowed at the promised instant.
    tokio::time::sleep(wait).await;
    let permit = process.upstream.acquire(process.target()).await;
    drop(permit.expect("the promised permit"));
}

// A loaded host: the answer takes 20 ms, and a call that does not wait has five. It was refused for a deadline and for
// calls ahead, of which there were none.
#[tokio::test(start_paused = true)]
async fn a_call_that_does_not_wait_names_a_slow_ledger() {
    let host = Host::new(&["10/s"]);
    let rules = Rules {
        limits: host.limits.clone(),
        mode: WaitMode::Reject,
        ..Rules::unlimited()
    };
    let process = host.process_with(&rules);
    let slow = host.ledger.connect(ms(10));
    process.upstream.share(LimitSharing::new(slow, "slow".into()));
    let refused = process.upstream.acquire(process.target()).await;
    let RefusalReason::Busy(reason) = refused.expect_err("no answer yet").reason else {
        panic!("it has no deadline");
    };
    assert_eq!(reason.name(), "ledger");
}

#[tokio::test(start_paused = true)]
async fn try_acquire_names_the_ledger_and_succeeds_once_it_answered() {
    let host = Host::new(&["10/s"]);
    let process = host.process();
    let refused = process
        .upstream
        .try_acquire(process.target())
        .expect_err("nothing is known yet");
    let RefusalReason::Busy(reason) = refused.reason else {
        panic!("{refused:?}");
    };
    assert_eq!(reason.name(), "ledger");
    let _second = process.upstream.try_acquire(process.target());
    tokio::time::sleep(ms(10)).await;
    process
        .upstream
        .try_acquire(process.target())
        .expect("the ledger answered")
        .count();
}

// The wait that a caller is given is that of all processes, not of its own meters, which are empty.
#[tokio::test(start_paused = true)]
async fn a_newcomer_knows_what_others_used() {
    let host = Host::new(&["10/min"]);
    let first = host.process();
    for _ in 0..10 {
        assert!(super::call_once(&first.upstream, &host.api, &host.time).await);
    }
    tokio::time::sleep(secs(3)).await;
    let second = host.process();
    tokio::time::sleep(ms(10)).await;
    let options = AcquireOptions::new().with_deadline(host.now().saturating_add(secs(20)));
    let begin = host.now();
    let refused = second.upstream.acquire_with(second.target(), options).await;
    let refused = refused.expect_err("ten of ten are used");
    assert!(host.now().since(begin) <= ms(10), "{:?}", host.now().since(begin));
    let wait = refused.retry_after.expect("an instant");
    assert!(wait > secs(50) && wait < secs(60), "{wait:?}");
    let permit = second.upstream.acquire_with(
        second.target(),
        AcquireOptions::new().with_deadline(Nanos::from_secs(100)),
    );
    permit.await.expect("a permit").count();
    assert!(host.now() >= Nanos::from_secs(60), "{:?}", host.now());
}
