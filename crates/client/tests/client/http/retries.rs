//! Retries: their conditions, number, delays and costs.

use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use outflow::core::{Backoff, HealthOverride, Nanos, RetryBudgetSettings, Share};
use outflow::event::{EventKind, FailureLabel};
use outflow::{Connecting, IoStream, Outflow, Rules, WaitMode};
use outflow_mock::{
    Content, Fault, Latency, MockApi, MockResponse, Quota, Received, Script, ScriptMatch, ThrottleResponse,
};
use outflow_testkit::{EventRecorder, VirtualTime};

use super::support::{cautious, eager, one_at_a_time, over_pipes, over_sockets, scripted};

// The body arrived completely before the reset: the server may have executed the order.
#[tokio::test]
async fn a_post_whose_body_left_is_never_sent_twice() {
    for fault in [
        Fault::ResetBeforeHead,
        Fault::ResetUnread,
        Fault::CloseBeforeHead,
        Fault::CutBody,
    ] {
        let mock = scripted(Script::new().rule(ScriptMatch::always(), fault.clone()));
        let server = mock.listen().await.expect("a port");
        let client = over_sockets(&server, |_| {});
        let error = client.post("strict", "/order").body("buy").send().await;
        assert_eq!(error.expect_err("none came").attempts(), 1, "{fault:?}");
        assert_eq!(mock.audit().count(), 1, "{fault:?}");
    }
}

#[tokio::test]
async fn a_post_with_an_idempotency_key_is_retried() {
    let mock = scripted(Script::new().rule(ScriptMatch::always().first(2), Fault::ResetBeforeHead));
    let server = mock.listen().await.expect("a port");
    let client = over_sockets(&server, |_| {});
    let call = client.post("strict", "/order").body("buy");
    let response = call.idempotency_key("order-17").send().await.expect("third");
    assert_eq!(response.attempts(), 3);
    let keys: Vec<_> = mock
        .audit()
        .arrivals()
        .iter()
        .map(|one| one.idempotency_key.clone())
        .collect();
    assert_eq!(keys, vec![Some("order-17".parse().expect("valid")); 3]);
}

#[tokio::test]
async fn a_caller_may_declare_a_post_idempotent() {
    let mock = scripted(Script::new().rule(ScriptMatch::always().first(1), MockResponse::status(503)));
    let server = mock.listen().await.expect("a port");
    let client = over_sockets(&server, |_| {});
    let response = client
        .post("strict", "/search")
        .idempotent()
        .send()
        .await
        .expect("second");
    assert_eq!((response.attempts(), response.status().as_u16()), (2, 200));
}

// No server listens on the port, so that not even a POST can have arrived: three attempts.
#[tokio::test]
async fn an_unsent_post_is_retried() {
    let mock = scripted(Script::new());
    let server = mock.listen().await.expect("a port");
    let client = over_sockets(&server, |_| {});
    drop(server);
    let error = client.post("strict", "/order").body("buy").send().await;
    let error = error.expect_err("no server listens");
    assert!(error.is_connect() && !error.is_timeout(), "{error:?}");
    assert_eq!(error.attempts(), 3);
}

#[tokio::test]
async fn a_streamed_body_is_sent_once() {
    let mock = scripted(Script::new().rule(ScriptMatch::always(), MockResponse::status(503)));
    let server = mock.listen().await.expect("a port");
    let client = over_sockets(&server, |_| {});
    let body = Full::new(Bytes::from_static(b"as it goes"));
    let response = client
        .put("strict", "/upload")
        .stream(body)
        .send()
        .await
        .expect("a response");
    assert_eq!((response.attempts(), mock.audit().count()), (1, 1));
}

// Three attempts against a limit of one a second cannot end before the third second begins.
#[tokio::test(start_paused = true)]
async fn every_attempt_takes_its_own_permit() {
    let limit = Quota::sliding("1/s".parse().expect("valid"));
    let mock = MockApi::builder()
        .limit(limit)
        .script(Script::new().rule(ScriptMatch::always().first(2), MockResponse::status(500)))
        .build()
        .expect("valid");
    let client = over_pipes(&mock, |api| {
        api.rules = Rules::with_limit("1/s".parse().expect("valid"));
    });
    let response = client.get("strict", "/").send().await.expect("third");
    assert_eq!(response.attempts(), 3);
    assert!(
        response.waited() >= Duration::from_millis(1_990),
        "{:?}",
        response.waited()
    );
    let audit = mock.audit();
    assert_eq!((audit.count(), audit.refused()), (3, 0));
    assert_eq!(audit.most_in_any_window(Duration::from_secs(1)), 1);
}

// Two seconds are short enough to be waited for without a state change.
#[tokio::test(start_paused = true)]
async fn no_retry_starts_before_the_servers_retry_after() {
    let busy = ThrottleResponse::new(429, Duration::from_secs(2));
    let mock = scripted(Script::new().rule(ScriptMatch::always().first(1), busy));
    let latency = Latency::Fixed(Duration::from_millis(5));
    mock.delay(latency, latency);
    let client = over_pipes(&mock, |_| {});
    let (first, second) = tokio::join!(client.get("strict", "/a").send(), async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        client.get("strict", "/b").send().await
    });
    assert_eq!(first.expect("in the end").attempts(), 2);
    assert_eq!(second.expect("in the end").attempts(), 1);
    let early = mock.audit().sent_before_retry_after();
    assert!(early.is_empty(), "{early:?}");
    assert_eq!(mock.audit().count(), 3);
}

// An hour exceeds the longest wait: the throttle response is the result.
#[tokio::test(start_paused = true)]
async fn a_long_retry_after_is_returned_to_the_caller() {
    let busy = ThrottleResponse::new(429, Duration::from_hours(1));
    let mock = scripted(Script::new().rule(ScriptMatch::always(), busy));
    let client = over_pipes(&mock, |_| {});
    let began = tokio::time::Instant::now();
    let response = client.get("strict", "/").send().await.expect("a refusal is an answer");
    assert_eq!(response.status(), 429);
    let reported = response.retry_after().expect("a wait");
    assert!(reported >= Duration::from_hours(1), "{reported:?}");
    let error = response.error_for_status().expect_err("counts as one");
    assert!(error.is_rate_limited() && error.is_status());
    assert_eq!(error.retry_after(), Some(reported));
    let next = client.get("strict", "/").send().await.expect_err("asleep");
    assert!(next.is_circuit_open() && next.is_refused(), "{next:?}");
    assert!(next.retry_after().is_some());
    assert!(began.elapsed() < Duration::from_secs(1), "no call slept");
    assert_eq!(mock.audit().count(), 1);
}

// 200 failing calls with two retries each: the budget allows a fifth and ten a second.
#[tokio::test(start_paused = true)]
async fn retries_never_multiply_an_outage() {
    let mock = scripted(Script::new().rule(ScriptMatch::always(), MockResponse::status(500)));
    let client = over_pipes(&mock, |api| {
        // Only the budget bounds the attempts: health does not stop the calls before it.
        cautious(api);
        api.retry.budget = RetryBudgetSettings {
            share: Share::percent(20),
            per_second: 10,
            ..RetryBudgetSettings::default()
        };
    });
    for _ in 0..200 {
        let response = client.get("strict", "/").send().await.expect("500 is an answer");
        assert_eq!(response.status(), 500);
    }
    let seconds = usize::try_from(mock.now().as_nanos() / 1_000_000_000).expect("small");
    let most = 200 + 200 / 5 + 10 * (seconds + 1);
    let reached = mock.audit().count();
    assert!((200 + 40..=most).contains(&reached), "{reached} of {most}");
}

// Each call that starts earns a fifth of a retry. The first two have earned none; the fifty calls
// between them were refused.
#[tokio::test(start_paused = true)]
async fn a_refused_call_earns_no_retry() {
    let mock = scripted(Script::new().rule(ScriptMatch::always(), MockResponse::status(500)));
    let client = over_pipes(&mock, |api| {
        api.rules = Rules::with_limit("1/s".parse().expect("valid"));
        api.retry.budget = RetryBudgetSettings {
            share: Share::percent(20),
            per_second: 0,
            ..RetryBudgetSettings::default()
        };
    });
    let first = client.get("strict", "/").send().await.expect("a 500");
    assert_eq!(first.attempts(), 1);
    for _ in 0..50 {
        let refused = client.get("strict", "/").mode(WaitMode::Reject).send().await;
        assert!(refused.expect_err("the second is used up").is_refused());
    }
    let second = client.get("strict", "/").send().await.expect("a 500");
    assert_eq!((second.attempts(), mock.audit().count()), (1, 2));
}

// One permit, and a response whose body is still arriving: the retry needs the permit. A streaming
// caller gets neither the retried head nor a wait for its own body.
#[tokio::test(start_paused = true)]
async fn a_stream_begins_with_the_final_response() {
    let page = |status| MockResponse::status(status).content(Content::Zeros(100_000));
    for status in [429, 500, 502, 503, 504] {
        let mock = scripted(Script::new().rule(ScriptMatch::always().first(2), page(status)));
        let client = over_pipes(&mock, |api| {
            api.rules.health = one_at_a_time();
        });
        let response = client.get("strict", "/").send_streaming().await;
        let response = response.expect("the third");
        assert_eq!((response.status().as_u16(), response.attempts()), (200, 3));
        assert_eq!(mock.audit().count(), 3, "{status}");
        let text = response.text().await.expect("its body");
        assert_eq!(text, r#"{"ok":true}"#, "{status}");
        assert!(client.upstream("strict").expect("there").is_idle());
    }
}

// By the rule between one and two seconds; the event comes before the delay.
#[tokio::test(start_paused = true)]
async fn a_retry_is_reported_and_delayed_by_its_rule() {
    let mock = scripted(Script::new().rule(ScriptMatch::always().first(1), MockResponse::status(502)));
    let client = over_pipes(&mock, |api| {
        let second = Duration::from_secs(1);
        api.retry.backoff = Backoff::added_jitter(second, second, second * 2).expect("valid");
    });
    let recorder = EventRecorder::subscribed_to(client.events());
    client.get("strict", "/").send().await.expect("second");
    let reported: Vec<_> = recorder
        .all()
        .into_iter()
        .filter_map(|event| match event.what {
            EventKind::Retrying {
                attempt, delay, reason, ..
            } => Some((attempt, delay, reason)),
            _ => None,
        })
        .collect();
    let [(1, delay, FailureLabel::ServerError)] = reported[..] else {
        panic!("{reported:?}")
    };
    assert!((1_000..=2_000).contains(&delay.as_millis()), "{delay:?}");
    let at: Vec<Nanos> = mock.audit().arrivals().iter().map(|one| one.at).collect();
    assert!(at[1].since(at[0]) >= delay, "{at:?}");
    let finished = recorder.finished();
    assert_eq!(finished.len(), 1);
    assert_eq!((finished[0].attempts, finished[0].code), (2, Some(200)));
}

// The server asks for a second and the first starts after it are spread: a call that does not wait for its permit was
// refused when the second was over, and returned the 429. The mode is the subject.
#[tokio::test(start_paused = true)]
async fn a_retry_in_reject_mode_starts_when_it_can() {
    for seed in 0..20 {
        fastrand::seed(seed);
        let asks = ThrottleResponse::new(429, Duration::from_secs(1));
        let mock = scripted(Script::new().rule(ScriptMatch::always().first(1), asks));
        let client = over_pipes(&mock, |api| {
            api.rules = Rules::with_limit("10/s".parse().expect("valid"));
            api.rules.mode = WaitMode::Reject;
        });
        let recorder = EventRecorder::subscribed_to(client.events());
        let response = client.get("strict", "/").send().await.expect("a response");
        assert_eq!((response.status().as_u16(), response.attempts()), (200, 2), "{seed}");
        let asked = recorder.all().into_iter().find_map(|event| match event.what {
            EventKind::Retrying { retry_after, .. } => retry_after,
            _ => None,
        });
        assert_eq!(
            asked,
            Some(Duration::from_secs(1)),
            "the event says what the server asked for"
        );
    }
}

// A keep-alive connection that the server closed while idle does not concern the caller.
#[tokio::test]
async fn a_connection_closed_while_idle_costs_nothing() {
    let mock = scripted(Script::new().rule(ScriptMatch::path("/first"), Fault::ResetAfterBody));
    let server = mock.listen().await.expect("a port");
    let client = over_sockets(&server, |api| api.retry.count = 0);
    for _ in 0..20 {
        let first = client.get("strict", "/first").send().await;
        drop(first);
        let next = client.post("strict", "/next").body("once").send().await.expect("fresh");
        assert_eq!((next.attempts(), next.status().as_u16()), (1, 200));
    }
    assert_eq!(mock.audit().attempts("/next"), 20);
}

#[tokio::test]
async fn one_connection_serves_many_calls() {
    let mock = scripted(Script::new());
    let server = mock.listen().await.expect("a port");
    let client: Outflow = over_sockets(&server, |_| {});
    for _ in 0..10 {
        client.get("strict", "/").send().await.expect("a response");
    }
    let audit = mock.audit();
    let first = audit.arrivals()[0].connection;
    assert!(audit.arrivals().iter().all(|one| one.connection == first));
}

// The first connection is refused before the stream produced anything; the second takes all five
// bytes.
#[tokio::test(start_paused = true)]
async fn a_stream_that_never_began_is_retried() {
    let mock = scripted(Script::new());
    let server = Arc::new(mock.in_memory());
    let api = eager(&server.url());
    let nth = AtomicU32::new(0);
    let latency = move |_: &str, _: u16| -> Connecting {
        if nth.fetch_add(1, Ordering::Relaxed) == 0 {
            return Box::pin(async { Err(ErrorKind::ConnectionRefused.into()) });
        }
        let pipe: Box<dyn IoStream> = Box::new(server.connect());
        Box::pin(async move { Ok(pipe) })
    };
    let client = Outflow::builder()
        .api(api)
        .timer(Arc::new(VirtualTime::new()))
        .connector(Arc::new(latency))
        .build()
        .expect("valid");
    let body = Full::new(Bytes::from_static(b"hello"));
    let response = client.post("strict", "/").stream(body).send().await;
    assert_eq!(response.expect("it never began").attempts(), 2);
    assert_eq!(mock.audit().arrivals()[0].body, Received::Whole(5));
}

// Each attempt is settled at the upstream and reported to observers exactly once.
#[tokio::test(start_paused = true)]
async fn each_attempt_is_settled_once() {
    let mock = scripted(Script::new().rule(ScriptMatch::always(), MockResponse::status(503)));
    let client = over_pipes(&mock, |api| api.retry.count = 2);
    let recorder = EventRecorder::subscribed_to(client.events());
    let call = client.post("strict", "/").body("x").idempotency_key("k");
    let response = call.send().await.expect("the 503");
    let settled = |event: &outflow::Event| matches!(event.what, EventKind::Settled { .. });
    let reported = recorder.all().iter().filter(|event| settled(event)).count();
    assert_eq!((response.attempts(), reported, mock.audit().count()), (3, 3, 3));
}

// A 503 would be retried; with retries off, the caller sees the first response.
#[tokio::test]
async fn a_call_without_retries_returns_the_first_response_and_its_verdict() {
    let mock = scripted(Script::new().rule(ScriptMatch::always(), MockResponse::status(503)));
    let server = mock.listen().await.expect("a port");
    let client = over_sockets(&server, |_| {});
    let response = client.get("strict", "/").no_retry().send().await.expect("one");
    assert_eq!((response.attempts(), mock.audit().count()), (1, 1));
    assert!(response.verdict().expect("judged").is_worth_a_retry());
    drop(server);
    let error = client.get("strict", "/").no_retry().send().await;
    let error = error.expect_err("no server listens");
    assert_eq!(error.attempts(), 1);
    assert!(error.verdict().expect("judged").is_worth_a_retry());
}

// One call an hour, and the caller holds its permit: this call goes, and no other.
#[tokio::test]
async fn a_call_uses_the_permit_of_its_caller() {
    let mock = scripted(Script::new());
    let server = mock.listen().await.expect("a port");
    let client = over_sockets(&server, |api| {
        api.rules = Rules::with_limit("1/h".parse().expect("a rate"));
        api.rules.mode = WaitMode::Reject;
    });
    let upstream = client.upstream("strict").expect("known");
    let target = upstream.route(&http::Method::GET, "/");
    let permit = upstream.try_acquire(target).expect("the first");
    assert!(client.get("strict", "/").send().await.is_err());
    let response = client.get("strict", "/").with_permit(permit).send().await;
    assert_eq!(response.expect("let through").status(), 200);
    assert!(upstream.try_acquire(target).is_err(), "it was used, not given back");
}

// The API sleeps after the permit was granted: nothing is sent, and the permit is refunded.
#[tokio::test]
async fn a_revoked_permit_sends_nothing() {
    let mock = scripted(Script::new());
    let server = mock.listen().await.expect("a port");
    let client = over_sockets(&server, |_| {});
    let upstream = client.upstream("strict").expect("known");
    let permit = upstream.try_acquire(upstream.route(&http::Method::GET, "/"));
    upstream.force_health(None, HealthOverride::Sleep);
    let call = client.get("strict", "/").with_permit(permit.expect("well"));
    let error = call.send().await.expect_err("asleep");
    assert!(error.is_refused(), "{error}");
    assert_eq!(mock.audit().count(), 0);
    assert!(upstream.is_idle());
}
