//! A caller's deadline covers everything; health counts only the server's own slowness.

use std::time::Duration;

use outflow::core::{Backoff, OutcomeClass};
use outflow::event::EventKind;
use outflow::{Rules, WaitMode};
use outflow_mock::{Content, Fault, MockResponse, Script, ScriptMatch, ScriptedFault, ThrottleResponse};
use outflow_testkit::EventRecorder;
use tokio::time::Instant;

use super::support::{over_pipes, scripted};

const SECOND: Duration = Duration::from_secs(1);

// The server would respond in 5 s, an attempt may take 10, and the caller has one.
#[tokio::test(start_paused = true)]
async fn a_deadline_ends_an_attempt_without_a_health_failure() {
    let mock = scripted(Script::new().rule(ScriptMatch::always(), ScriptedFault::Late(5 * SECOND)));
    let client = over_pipes(&mock, |_| {});
    let recorder = EventRecorder::subscribed_to(client.events());
    let began = Instant::now();
    let ended = client.get("strict", "/").timeout(SECOND).send().await;
    let error = ended.expect_err("too late");
    assert!(error.is_timeout() && !error.is_connect(), "{error:?}");
    assert_eq!((began.elapsed(), error.attempts()), (SECOND, 1));
    let effects: Vec<_> = recorder
        .all()
        .into_iter()
        .filter_map(|event| match event.what {
            EventKind::Settled { effect, .. } => Some(effect),
            _ => None,
        })
        .collect();
    assert_eq!(effects, [OutcomeClass::Cancelled]);
}

#[tokio::test(start_paused = true)]
async fn an_attempt_timeout_counts_against_the_server() {
    let mock = scripted(Script::new().rule(ScriptMatch::always(), Fault::Hang));
    let client = over_pipes(&mock, |api| {
        api.timeouts.attempt = 2 * SECOND;
        api.retry.count = 0;
    });
    let recorder = EventRecorder::subscribed_to(client.events());
    let began = Instant::now();
    let error = client
        .get("strict", "/")
        .timeout(60 * SECOND)
        .send()
        .await
        .expect_err("silence");
    assert!(error.is_timeout(), "{error:?}");
    assert_eq!(began.elapsed(), 2 * SECOND);
    let failed = |what: &EventKind| {
        matches!(
            what,
            EventKind::Settled {
                effect: OutcomeClass::NetworkFailed,
                ..
            }
        )
    };
    assert!(recorder.all().iter().any(|event| failed(&event.what)));
}

// The API's timeouts are ten seconds, in total and of silence: the caller sets 25, and the
// response takes 20.
#[tokio::test(start_paused = true)]
async fn a_longer_attempt_timeout_gets_the_response() {
    let mock = scripted(Script::new().rule(ScriptMatch::always(), ScriptedFault::Late(20 * SECOND)));
    let client = over_pipes(&mock, |api| api.retry.count = 0);
    let began = Instant::now();
    let call = client.get("strict", "/").timeout(25 * SECOND);
    call.attempt_timeout(25 * SECOND).send().await.expect("answered");
    assert_eq!(began.elapsed(), 20 * SECOND);
    let short = client.get("strict", "/").attempt_timeout(SECOND).send().await;
    assert!(short.expect_err("late").is_timeout());
    assert_eq!(began.elapsed(), 30 * SECOND, "the API's own ten hold");
}

// Longer than any call of this API may take: the failure is the server's, although the caller's
// deadline passed.
#[tokio::test(start_paused = true)]
async fn silence_beyond_the_default_timeout_counts_against_the_server() {
    let mock = scripted(Script::new().rule(ScriptMatch::always(), Fault::Hang));
    let client = over_pipes(&mock, |api| api.retry.count = 0);
    let recorder = EventRecorder::subscribed_to(client.events());
    let began = Instant::now();
    let call = client.get("strict", "/").timeout(25 * SECOND);
    let ended = call.attempt_timeout(25 * SECOND).send().await;
    assert!(ended.expect_err("silence").is_timeout());
    assert_eq!(began.elapsed(), 25 * SECOND);
    let failed = recorder.all().into_iter().any(|event| {
        let effect = OutcomeClass::NetworkFailed;
        matches!(event.what, EventKind::Settled { effect: reported, .. } if reported == effect)
    });
    assert!(failed, "it counts against the server");
}

// The backoff is four seconds and three are left: the client returns the failure at once.
#[tokio::test(start_paused = true)]
async fn no_caller_waits_for_a_retry_after_its_deadline() {
    let mock = scripted(Script::new().rule(ScriptMatch::always(), MockResponse::status(503)));
    let client = over_pipes(&mock, |api| {
        let four = 4 * SECOND;
        api.retry.backoff = Backoff::added_jitter(four, Duration::ZERO, four).expect("valid");
    });
    let began = Instant::now();
    let response = client.get("strict", "/").timeout(3 * SECOND).send().await.expect("503");
    assert_eq!((response.status().as_u16(), response.attempts()), (503, 1));
    assert_eq!(began.elapsed(), Duration::ZERO);
}

// Ten calls at one a second: the last would start in nine seconds.
#[tokio::test(start_paused = true)]
async fn a_permit_after_the_deadline_is_refused_at_once() {
    let mock = scripted(Script::new());
    let client = over_pipes(&mock, |api| {
        api.rules = Rules::with_limit("1/s".parse().expect("valid"));
    });
    client.get("strict", "/").send().await.expect("the first");
    let began = Instant::now();
    for call in [
        client.get("strict", "/").timeout(SECOND / 2),
        client.get("strict", "/").max_wait(SECOND / 2),
        client.get("strict", "/").mode(WaitMode::Reject),
    ] {
        let error = call.send().await.expect_err("its permit is a second away");
        assert!(error.is_rate_limited() && error.is_refused(), "{error:?}");
        assert!(error.retry_after().is_some_and(|wait| wait > SECOND / 2), "{error:?}");
        assert_eq!(error.attempts(), 0);
    }
    assert_eq!(began.elapsed(), Duration::ZERO);
    assert_eq!(mock.audit().count(), 1);
}

// Ten bytes at one every 300 ms: three seconds in all and never silent for one.
#[tokio::test(start_paused = true)]
async fn silence_ends_a_body_and_slowness_does_not() {
    let drip = |every| {
        let bytes = "0123456789".into();
        MockResponse::ok("").content(Content::Drip { bytes, every })
    };
    let slow = scripted(Script::new().rule(ScriptMatch::always(), drip(3 * SECOND / 10)));
    let silent = scripted(Script::new().rule(ScriptMatch::always(), drip(2 * SECOND)));
    let adapt = |api: &mut outflow::Api| {
        api.timeouts.read = SECOND;
        api.timeouts.attempt = 60 * SECOND;
        api.retry.count = 0;
    };
    let began = Instant::now();
    let response = over_pipes(&slow, adapt)
        .get("strict", "/")
        .send()
        .await
        .expect("all of it");
    assert_eq!(response.bytes().await.expect("here"), "0123456789");
    assert!(began.elapsed() >= 3 * SECOND);
    let began = Instant::now();
    let error = over_pipes(&silent, adapt)
        .get("strict", "/")
        .send()
        .await
        .expect_err("silence");
    assert!(error.is_timeout(), "{error:?}");
    assert_eq!(began.elapsed(), SECOND);
}

// A stream outlasts the attempt's timeout while it flows, up to its reader's deadline.
#[tokio::test(start_paused = true)]
async fn a_stream_outlives_its_attempt_but_not_its_readers_deadline() {
    let bytes = "0123456789".into();
    let drip = MockResponse::ok("").content(Content::Drip { bytes, every: SECOND });
    let mock = scripted(Script::new().rule(ScriptMatch::always(), drip));
    let client = over_pipes(&mock, |api| api.timeouts.attempt = 3 * SECOND);
    let response = client.get("strict", "/").send_streaming().await.expect("a head");
    assert_eq!(response.bytes().await.expect("all of it"), "0123456789");
    let hasty = client.get("strict", "/").timeout(4 * SECOND).send_streaming().await;
    let error = hasty.expect("a head").bytes().await.expect_err("no more time");
    assert!(error.is_timeout(), "{error:?}");
    assert!(client.upstream("strict").expect("there").is_idle());
}

/// Builds a response of these bytes, one a second.
fn dripping(bytes: &'static str) -> MockResponse {
    MockResponse::ok("").content(Content::Drip {
        bytes: bytes.into(),
        every: SECOND,
    })
}

// Ten bytes in ten seconds, and a reader with two and a half.
#[tokio::test(start_paused = true)]
async fn a_readers_deadline_in_a_stream_is_no_health_failure() {
    let mock = scripted(Script::new().rule(ScriptMatch::always(), dripping("0123456789")));
    let client = over_pipes(&mock, |_| {});
    let call = client.get("strict", "/").timeout(SECOND * 5 / 2);
    let head = call.send_streaming().await.expect("a head");
    let error = head.bytes().await.expect_err("no more time");
    assert!(error.is_timeout() && !error.is_body(), "{error:?}");
    let report = client.upstream("strict").expect("there").report();
    let counts = report.health[0].snapshot.counts;
    assert_eq!(counts.network, 0, "{counts:?}");
}

// Callers often write "no timeout" as the longest duration.
#[tokio::test(start_paused = true)]
async fn the_longest_durations_are_no_limits() {
    let mock = scripted(Script::new().rule(ScriptMatch::always(), dripping("01")));
    let client = over_pipes(&mock, |api| {
        api.timeouts.attempt = Duration::MAX;
        api.timeouts.read = Duration::MAX;
        api.timeouts.connect = Duration::MAX;
    });
    let call = client.get("strict", "/").send().await;
    let whole = call.expect("a response").bytes().await;
    assert_eq!(whole.expect("all of it"), "01");
    let call = client.get("strict", "/").timeout(Duration::MAX);
    let head = call.max_wait(Duration::MAX).send_streaming().await;
    let flowed = head.expect("a head").bytes().await;
    assert_eq!(flowed.expect("all of it"), "01");
}

// A 503 asks for 2 s each time and the caller has 3: one retry fits, the second does not.
#[tokio::test(start_paused = true)]
async fn all_waits_together_keep_the_deadline() {
    let busy = ThrottleResponse::new(503, 2 * SECOND);
    let mock = scripted(Script::new().rule(ScriptMatch::always(), busy));
    let client = over_pipes(&mock, |api| api.retry.count = 5);
    let began = Instant::now();
    let response = client.get("strict", "/").timeout(3 * SECOND).send().await;
    assert_eq!(response.expect("the 503").status(), 503);
    assert!(began.elapsed() <= 3 * SECOND, "{:?}", began.elapsed());
}
