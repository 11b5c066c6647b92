//! Deadlines cover everything a call spends time on. Virtual time is counted in milliseconds, so
//! these tests are exact to one.

use std::time::Duration;

use outflow::core::Backoff;
use outflow::{Rules, WaitMode};
use outflow_mock::{Fault, Latency, MockApi, MockResponse, Script, ScriptMatch};
use tokio::time::Instant;

use super::support::{TestBed, in_flight, report};

const SECOND: Duration = Duration::from_secs(1);
const TICK: Duration = Duration::from_millis(1);

fn test_bed(script: Script) -> TestBed {
    TestBed::near(MockApi::builder().script(script))
}

fn within(took: Duration, expected: Duration) -> bool {
    (expected..=expected + 2 * TICK).contains(&took)
}

// Two seconds in the queue and a silent server: the caller's three seconds end in the attempt.
#[tokio::test(start_paused = true)]
async fn a_deadline_covers_the_wait_and_the_attempt() {
    let script = Script::new().rule(ScriptMatch::path("/slow"), Fault::Hang);
    let bed = test_bed(script);
    let client = bed.client(|api| {
        api.rules = Rules::with_limit("1/2s".parse().expect("valid"));
    });
    client.get("strict", "/").send().await.expect("the first");
    let began = Instant::now();
    let call = client.get("strict", "/slow").timeout(3 * SECOND);
    let error = call.send().await.expect_err("late");
    assert!(error.is_timeout(), "{error}");
    assert_eq!(error.attempts(), 1);
    assert!(within(began.elapsed(), 3 * SECOND), "{:?}", began.elapsed());
    assert_eq!((in_flight(&client), report(&client).waiting), (0, 0));
}

// Each attempt takes a second and fails, and each delay takes one: 2.75 s allow one retry, which
// is cut off on its way back.
#[tokio::test(start_paused = true)]
async fn a_deadline_covers_retries_and_their_delays() {
    let bed = test_bed(Script::new().rule(ScriptMatch::always(), MockResponse::status(503)));
    bed.mock.delay(Latency::Fixed(SECOND / 2), Latency::Fixed(SECOND / 2));
    let client = bed.client(|api| {
        api.retry.count = 10;
        api.retry.backoff = Backoff::added_jitter(SECOND, Duration::ZERO, SECOND).expect("valid");
    });
    let began = Instant::now();
    let call = client.get("strict", "/").timeout(SECOND * 11 / 4);
    let ended = call.send().await;
    let took = began.elapsed();
    assert!(took <= SECOND * 11 / 4 + 2 * TICK, "{took:?}");
    let error = ended.expect_err("cut in the second attempt");
    assert!(error.is_timeout(), "{error}");
    assert_eq!((error.attempts(), bed.mock.audit().count()), (2, 2));
    assert_eq!(in_flight(&client), 0);
}

// The client does not start a wait that would end after the deadline: it refuses at once.
#[tokio::test(start_paused = true)]
async fn a_deadline_that_cannot_be_met_is_refused_at_once() {
    let bed = test_bed(Script::new());
    let client = bed.client(|api| {
        api.rules = Rules::with_limit("1/min".parse().expect("valid"));
        // The deadlines of the calls end their waits, and not this.
        api.rules.max_wait = 2 * 60 * SECOND;
    });
    client.get("strict", "/").send().await.expect("the first");
    let began = Instant::now();
    let overall = client.get("strict", "/").timeout(30 * SECOND).send().await;
    let patience = client.get("strict", "/").max_wait(30 * SECOND).send().await;
    for ended in [overall, patience] {
        let error = ended.expect_err("too late");
        assert!(error.is_timeout() && error.is_rate_limited(), "{error}");
        let left = error.retry_after().expect("it is known");
        assert!((59 * SECOND..61 * SECOND).contains(&left), "{left:?}");
    }
    assert_eq!(began.elapsed(), Duration::ZERO);
    let patient = client.get("strict", "/").send().await.expect("in a minute");
    assert!(patient.waited() >= 59 * SECOND, "{patient:?}");
    assert_eq!(bed.mock.audit().count(), 2);
}

// `max_wait` ends a wait of unknown length: for a permit that is never returned.
#[tokio::test(start_paused = true)]
async fn the_longest_wait_ends_to_the_millisecond() {
    let bed = test_bed(Script::new().rule(ScriptMatch::path("/slow"), Fault::Hang));
    let client = bed.client(|api| {
        api.rules.health = super::support::health(|health| health.concurrency = Some(1));
        api.timeouts.attempt = 60 * SECOND;
        api.timeouts.read = 60 * SECOND;
        // The bound that is tested.
        api.rules.max_wait = 7 * SECOND;
    });
    let (slow, (error, took)) = tokio::join!(client.get("strict", "/slow").timeout(20 * SECOND).send(), async {
        tokio::time::sleep(TICK).await;
        let began = Instant::now();
        let ended = client.get("strict", "/").send().await;
        (ended.expect_err("no place"), began.elapsed())
    });
    assert!(slow.expect_err("hangs").is_timeout());
    assert!(error.is_timeout(), "{error}");
    assert!(within(took, 7 * SECOND), "{took:?}");
}

// Of ten calls at once two may go: eight are refused at once with a retry time, and then succeed.
#[tokio::test(start_paused = true)]
async fn a_call_that_does_not_wait_learns_when_to_retry() {
    let bed = test_bed(Script::new());
    let client = bed.client(|api| {
        api.rules = Rules::with_limit("2/s".parse().expect("valid"));
        api.rules.mode = WaitMode::Reject;
    });
    let mut refused = Vec::new();
    for _ in 0..10 {
        let began = Instant::now();
        if let Err(error) = client.get("strict", "/").send().await {
            assert!(error.is_refused() && error.is_rate_limited(), "{error}");
            assert_eq!(began.elapsed(), Duration::ZERO);
            refused.push(error.retry_after().expect("it is known"));
        }
    }
    assert_eq!(refused.len(), 8);
    tokio::time::sleep(refused[0] + TICK).await;
    client.get("strict", "/").send().await.expect("its time");
    let waiting = client.get("strict", "/").mode(WaitMode::Wait).send().await;
    assert_eq!(waiting.expect("waits").status(), 200);
    assert!(bed.mock.audit().most_in_any_window(SECOND) <= 2);
}
