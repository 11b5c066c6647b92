//! A caller's deadline covers everything, and only the server's own slowness is held against it.

use std::time::Duration;

use outflow::core::{Backoff, OutcomeClass};
use outflow::event::EventKind;
use outflow::{Rules, WaitMode};
use outflow_mock::{
    Content, Fault, MockResponse, Script, ScriptMatch, ScriptedFault, ThrottleResponse,
};
use outflow_testkit::EventRecorder;
use tokio::time::Instant;

use super::support::{over_pipes, scripted};

const SECOND: Duration = Duration::from_secs(1);

// The server would answer in 5 s, an attempt may take 10, and the caller has one.
#[tokio::test(start_paused = true)]
async fn a_deadline_ends_an_attempt_and_blames_nobody() {
    let strict =
        scripted(Script::new().rule(ScriptMatch::always(), ScriptedFault::Late(5 * SECOND)));
    let client = over_pipes(&strict, |_| {});
    let heard = EventRecorder::subscribed_to(client.events());
    let began = Instant::now();
    let ended = client.get("strict", "/").timeout(SECOND).send().await;
    let error = ended.expect_err("too late");
    assert!(error.is_timeout() && !error.is_connect(), "{error:?}");
    assert_eq!((began.elapsed(), error.attempts()), (SECOND, 1));
    let effects: Vec<_> = heard
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
async fn an_attempt_that_runs_into_its_own_timeout_is_the_servers_fault() {
    let strict = scripted(Script::new().rule(ScriptMatch::always(), Fault::Hang));
    let client = over_pipes(&strict, |api| {
        api.timeouts.attempt = 2 * SECOND;
        api.retry.count = 0;
    });
    let heard = EventRecorder::subscribed_to(client.events());
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
    assert!(heard.all().iter().any(|event| failed(&event.what)));
}

// The API's own timeouts are ten seconds, of the whole and of silence: the caller grants 25, and the answer
// comes after 20.
#[tokio::test(start_paused = true)]
async fn a_caller_who_grants_more_time_has_the_answer() {
    let strict =
        scripted(Script::new().rule(ScriptMatch::always(), ScriptedFault::Late(20 * SECOND)));
    let client = over_pipes(&strict, |api| api.retry.count = 0);
    let began = Instant::now();
    let call = client.get("strict", "/").timeout(25 * SECOND);
    call.attempt_timeout(25 * SECOND)
        .send()
        .await
        .expect("answered");
    assert_eq!(began.elapsed(), 20 * SECOND);
    let short = client
        .get("strict", "/")
        .attempt_timeout(SECOND)
        .send()
        .await;
    assert!(short.expect_err("late").is_timeout());
    assert_eq!(began.elapsed(), 30 * SECOND, "the API's own ten hold");
}

// Longer than any call of this API may take: the server is to blame, although its caller's time is up.
#[tokio::test(start_paused = true)]
async fn silence_beyond_the_usual_time_is_the_servers_fault() {
    let strict = scripted(Script::new().rule(ScriptMatch::always(), Fault::Hang));
    let client = over_pipes(&strict, |api| api.retry.count = 0);
    let heard = EventRecorder::subscribed_to(client.events());
    let began = Instant::now();
    let call = client.get("strict", "/").timeout(25 * SECOND);
    let ended = call.attempt_timeout(25 * SECOND).send().await;
    assert!(ended.expect_err("silence").is_timeout());
    assert_eq!(began.elapsed(), 25 * SECOND);
    let failed = heard.all().into_iter().any(|event| {
        let effect = OutcomeClass::NetworkFailed;
        matches!(event.what, EventKind::Settled { effect: told, .. } if told == effect)
    });
    assert!(failed, "it counts against the server");
}

// The backoff is four seconds and three are left: the failure itself is told, at once.
#[tokio::test(start_paused = true)]
async fn no_caller_waits_for_a_repetition_that_comes_too_late() {
    let strict = scripted(Script::new().rule(ScriptMatch::always(), MockResponse::status(503)));
    let client = over_pipes(&strict, |api| {
        let four = 4 * SECOND;
        api.retry.backoff = Backoff::added_jitter(four, Duration::ZERO, four).expect("valid");
    });
    let began = Instant::now();
    let answer = client
        .get("strict", "/")
        .timeout(3 * SECOND)
        .send()
        .await
        .expect("503");
    assert_eq!((answer.status().as_u16(), answer.attempts()), (503, 1));
    assert_eq!(began.elapsed(), Duration::ZERO);
}

// Ten calls at one a second: the last turn would come in nine seconds.
#[tokio::test(start_paused = true)]
async fn a_turn_that_comes_too_late_is_refused_at_once() {
    let strict = scripted(Script::new());
    let client = over_pipes(&strict, |api| {
        api.rules = Rules::with_limit("1/s".parse().expect("valid"));
    });
    client.get("strict", "/").send().await.expect("the first");
    let began = Instant::now();
    for call in [
        client.get("strict", "/").timeout(SECOND / 2),
        client.get("strict", "/").max_wait(SECOND / 2),
        client.get("strict", "/").mode(WaitMode::Reject),
    ] {
        let error = call.send().await.expect_err("its turn is a second away");
        assert!(error.is_rate_limited() && error.is_refused(), "{error:?}");
        assert!(
            error.retry_after().is_some_and(|wait| wait > SECOND / 2),
            "{error:?}"
        );
        assert_eq!(error.attempts(), 0);
    }
    assert_eq!(began.elapsed(), Duration::ZERO);
    assert_eq!(strict.audit().count(), 1);
}

// Ten bytes at a byte every 300 ms: three seconds in all and never silent for one.
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
    let answer = over_pipes(&slow, adapt)
        .get("strict", "/")
        .send()
        .await
        .expect("all of it");
    assert_eq!(answer.bytes().await.expect("here"), "0123456789");
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

// A stream lasts as long as it flows, beyond any attempt, unless its reader said otherwise.
#[tokio::test(start_paused = true)]
async fn a_stream_outlives_its_attempt_but_not_its_readers_deadline() {
    let bytes = "0123456789".into();
    let drip = MockResponse::ok("").content(Content::Drip {
        bytes,
        every: SECOND,
    });
    let strict = scripted(Script::new().rule(ScriptMatch::always(), drip));
    let client = over_pipes(&strict, |api| api.timeouts.attempt = 3 * SECOND);
    let answer = client
        .get("strict", "/")
        .send_streaming()
        .await
        .expect("a head");
    assert_eq!(answer.bytes().await.expect("all of it"), "0123456789");
    let hasty = client
        .get("strict", "/")
        .timeout(4 * SECOND)
        .send_streaming()
        .await;
    let error = hasty
        .expect("a head")
        .bytes()
        .await
        .expect_err("no more time");
    assert!(error.is_timeout(), "{error:?}");
    assert!(client.upstream("strict").expect("there").is_idle());
}

/// An answer of so many bytes, one a second.
fn dripping(bytes: &'static str) -> MockResponse {
    MockResponse::ok("").content(Content::Drip {
        bytes: bytes.into(),
        every: SECOND,
    })
}

// Ten bytes in ten seconds, and a reader who has two and a half.
#[tokio::test(start_paused = true)]
async fn a_readers_deadline_in_a_stream_blames_nobody() {
    let strict = scripted(Script::new().rule(ScriptMatch::always(), dripping("0123456789")));
    let client = over_pipes(&strict, |_| {});
    let call = client.get("strict", "/").timeout(SECOND * 5 / 2);
    let head = call.send_streaming().await.expect("a head");
    let error = head.bytes().await.expect_err("no more time");
    assert!(error.is_timeout() && !error.is_body(), "{error:?}");
    let report = client.upstream("strict").expect("there").report();
    let counts = report.health[0].snapshot.counts;
    assert_eq!(counts.network, 0, "{counts:?}");
}

// "No timeout" is usually written as the longest span there is.
#[tokio::test(start_paused = true)]
async fn the_longest_spans_are_no_limits() {
    let strict = scripted(Script::new().rule(ScriptMatch::always(), dripping("01")));
    let client = over_pipes(&strict, |api| {
        api.timeouts.attempt = Duration::MAX;
        api.timeouts.read = Duration::MAX;
        api.timeouts.connect = Duration::MAX;
    });
    let call = client.get("strict", "/").send().await;
    let whole = call.expect("an answer").bytes().await;
    assert_eq!(whole.expect("all of it"), "01");
    let call = client.get("strict", "/").timeout(Duration::MAX);
    let head = call.max_wait(Duration::MAX).send_streaming().await;
    let flowed = head.expect("a head").bytes().await;
    assert_eq!(flowed.expect("all of it"), "01");
}

// A 503 asks for 2 s each time and the caller has 3: one repetition fits, the second does not.
#[tokio::test(start_paused = true)]
async fn all_waits_together_keep_to_the_deadline() {
    let busy = ThrottleResponse::new(503, 2 * SECOND);
    let strict = scripted(Script::new().rule(ScriptMatch::always(), busy));
    let client = over_pipes(&strict, |api| api.retry.count = 5);
    let began = Instant::now();
    let answer = client.get("strict", "/").timeout(3 * SECOND).send().await;
    assert_eq!(answer.expect("the 503").status(), 503);
    assert!(began.elapsed() <= 3 * SECOND, "{:?}", began.elapsed());
}
