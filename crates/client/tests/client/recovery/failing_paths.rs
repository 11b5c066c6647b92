//! Calls to a path that always fails beside calls that the API serves.

use std::sync::Arc;
use std::time::Duration;

use outflow::{Api, IoStream, Outflow, Rules};
use outflow_mock::{
    Latency, MockApi, MockResponse, Quota, RetryAfterForm, Script, ScriptMatch, ScriptedFault, ThrottleResponse,
};
use outflow_testkit::{Background, VirtualTime};
use tokio::time::Instant;

use super::SECOND;

/// An API with 35 calls a second and 100 ms of latency, whose paths below `/bad` always fail like this.
fn failing(fault: impl Into<ScriptedFault>) -> MockApi {
    let way = Latency::Fixed(Duration::from_millis(50));
    let rate = "35/s".parse().expect("valid");
    let mock = MockApi::builder().limit(Quota::sliding(rate)).delay(way, way).build();
    let mock = mock.expect("valid");
    mock.rewrite(Script::new().rule(ScriptMatch::path("/bad/*"), fault));
    mock
}

/// A client with this limit and no other setting.
fn user_client(mock: &MockApi) -> Outflow {
    let server = Arc::new(mock.in_memory());
    let mut api = Api::new("x", server.url().parse().expect("a URL"));
    api.rules = Rules::with_limit("35/s".parse().expect("valid"));
    Outflow::builder()
        .api(api)
        .timer(Arc::new(VirtualTime::new()))
        .connector(Arc::new(move |_: &str, _: u16| -> outflow::Connecting {
            let pipe: Box<dyn IoStream> = Box::new(server.connect());
            Box::pin(async move { Ok(pipe) })
        }))
        .build()
        .expect("valid")
}

/// Calls of one kind that have ended.
#[derive(Default, Debug)]
struct CallTimes {
    failed: usize,
    slowest: Duration,
}

type Running = Vec<Background<(bool, Duration)>>;

fn start(client: &Outflow, path: &str) -> Background<(bool, Duration)> {
    let call = client.get("x", path);
    Background::start(async move {
        let began = Instant::now();
        let well = call.send().await.is_ok_and(|response| response.status().is_success());
        (well, began.elapsed())
    })
}

async fn collect(running: Running) -> CallTimes {
    let mut times = CallTimes::default();
    for one in running {
        let (well, took) = one.join().await;
        times.failed += usize::from(!well);
        times.slowest = times.slowest.max(took);
    }
    times
}

/// Makes twenty calls a second that the API serves for a minute, and in each tick of 50 ms those of `bad`.
async fn beside(mock: &MockApi, bad: impl Fn(u32) -> Vec<String>) -> (CallTimes, CallTimes) {
    let client = user_client(mock);
    let (mut good, mut failing) = (Running::new(), Running::new());
    for tick in 0..20 * 60 {
        failing.extend(bad(tick).iter().map(|path| start(&client, path)));
        good.push(start(&client, "/items"));
        tokio::time::sleep(SECOND / 20).await;
    }
    (collect(good).await, collect(failing).await)
}

fn bare_429() -> ScriptedFault {
    ThrottleResponse::new(429, Duration::ZERO)
        .with_retry_after(RetryAfterForm::Nothing)
        .into()
}

// Twenty calls at once, after five seconds. Eight failures in a row put the API to sleep; a failing call was
// the probe each time, and for 30 s no other call was served. Each wave of retries of the 503s may put it to sleep
// once more, for a second: 9 s at most in fifty runs, since the backoff is random.
#[tokio::test(start_paused = true)]
async fn a_burst_of_failing_calls_does_not_keep_the_api_asleep() {
    for fault in [bare_429(), MockResponse::status(503).into()] {
        for is_one_path in [true, false] {
            let mock = failing(fault.clone());
            let path = |number| if is_one_path { 0 } else { number };
            let burst = |tick| match tick {
                100 => (0..20).map(|number| format!("/bad/{}", path(number))).collect(),
                _ => Vec::new(),
            };
            let (good, bad) = beside(&mock, burst).await;
            assert_eq!(good.failed, 0, "{fault:?}: {good:?}");
            assert!(good.slowest <= 15 * SECOND, "{fault:?}: {good:?}");
            assert_eq!(bad.failed, 20);
        }
    }
}

// Three calls a second beside twenty, under a limit of 35. The first 429 lowered the limit to 20, and up to
// eleven repetitions of each call used the rest of it: the others took 15 s each.
#[tokio::test(start_paused = true)]
async fn a_path_that_is_always_throttled_takes_little_from_the_others() {
    let mock = failing(bare_429());
    let bad = |tick: u32| match tick % 7 {
        0 => vec!["/bad/search".to_owned()],
        _ => Vec::new(),
    };
    let (good, bad) = beside(&mock, bad).await;
    assert_eq!(good.failed, 0, "{good:?}");
    assert!(good.slowest <= 3 * SECOND, "{good:?}");
    assert!(bad.slowest <= 31 * SECOND, "all waits together take max_wait: {bad:?}");
}
