//! When a call is repeated, how often, how soon, and what that costs.

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
    Content, Fault, Latency, MockApi, MockResponse, Quota, Received, Script, ScriptMatch,
    ThrottleResponse,
};
use outflow_testkit::{EventRecorder, VirtualTime};

use super::support::{eager, one_at_a_time, over_pipes, over_sockets, scripted};

// The body arrived whole and then the connection was reset: the order may have been taken.
#[tokio::test]
async fn a_post_whose_body_left_is_never_sent_twice() {
    for fault in [
        Fault::ResetBeforeHead,
        Fault::ResetUnread,
        Fault::CloseBeforeHead,
        Fault::CutBody,
    ] {
        let strict = scripted(Script::new().rule(ScriptMatch::always(), fault.clone()));
        let server = strict.listen().await.expect("a port");
        let client = over_sockets(&server, |_| {});
        let error = client.post("strict", "/order").body("buy").send().await;
        assert_eq!(error.expect_err("none came").attempts(), 1, "{fault:?}");
        assert_eq!(strict.audit().count(), 1, "{fault:?}");
    }
}

#[tokio::test]
async fn a_post_is_repeated_when_the_server_knows_it_again() {
    let strict =
        scripted(Script::new().rule(ScriptMatch::always().first(2), Fault::ResetBeforeHead));
    let server = strict.listen().await.expect("a port");
    let client = over_sockets(&server, |_| {});
    let call = client.post("strict", "/order").body("buy");
    let answer = call
        .idempotency_key("order-17")
        .send()
        .await
        .expect("third");
    assert_eq!(answer.attempts(), 3);
    let keys: Vec<_> = strict
        .audit()
        .arrivals()
        .iter()
        .map(|one| one.idempotency_key.clone())
        .collect();
    assert_eq!(keys, vec![Some("order-17".parse().expect("valid")); 3]);
}

#[tokio::test]
async fn the_caller_may_say_that_twice_is_once() {
    let strict =
        scripted(Script::new().rule(ScriptMatch::always().first(1), MockResponse::status(503)));
    let server = strict.listen().await.expect("a port");
    let client = over_sockets(&server, |_| {});
    let answer = client
        .post("strict", "/search")
        .idempotent()
        .send()
        .await
        .expect("second");
    assert_eq!((answer.attempts(), answer.status().as_u16()), (2, 200));
}

// Nobody listens on the port any more, so not even a POST can have arrived: three attempts.
#[tokio::test]
async fn a_post_that_never_left_is_repeated() {
    let strict = scripted(Script::new());
    let server = strict.listen().await.expect("a port");
    let client = over_sockets(&server, |_| {});
    drop(server);
    let error = client.post("strict", "/order").body("buy").send().await;
    let error = error.expect_err("nobody listens");
    assert!(error.is_connect() && !error.is_timeout(), "{error:?}");
    assert_eq!(error.attempts(), 3);
}

#[tokio::test]
async fn a_streamed_body_goes_once() {
    let strict = scripted(Script::new().rule(ScriptMatch::always(), MockResponse::status(503)));
    let server = strict.listen().await.expect("a port");
    let client = over_sockets(&server, |_| {});
    let body = Full::new(Bytes::from_static(b"as it goes"));
    let answer = client
        .put("strict", "/upload")
        .stream(body)
        .send()
        .await
        .expect("an answer");
    assert_eq!((answer.attempts(), strict.audit().count()), (1, 1));
}

// Three attempts against a limit of one a second cannot end before the third second begins.
#[tokio::test(start_paused = true)]
async fn every_attempt_takes_a_permit_of_its_own() {
    let limit = Quota::sliding("1/s".parse().expect("valid"));
    let strict = MockApi::builder()
        .limit(limit)
        .script(Script::new().rule(ScriptMatch::always().first(2), MockResponse::status(500)))
        .build()
        .expect("valid");
    let client = over_pipes(&strict, |api| {
        api.rules = Rules::with_limit("1/s".parse().expect("valid"));
    });
    let answer = client.get("strict", "/").send().await.expect("third");
    assert_eq!(answer.attempts(), 3);
    assert!(
        answer.waited() >= Duration::from_millis(1_990),
        "{:?}",
        answer.waited()
    );
    let audit = strict.audit();
    assert_eq!((audit.count(), audit.refused()), (3, 0));
    assert_eq!(audit.most_in_any_window(Duration::from_secs(1)), 1);
}

// Two seconds is short enough to be waited out without leaving the state.
#[tokio::test(start_paused = true)]
async fn nothing_is_sent_before_the_servers_time() {
    let busy = ThrottleResponse::new(429, Duration::from_secs(2));
    let strict = scripted(Script::new().rule(ScriptMatch::always().first(1), busy));
    let way = Latency::Fixed(Duration::from_millis(5));
    strict.delay(way, way);
    let client = over_pipes(&strict, |_| {});
    let (first, second) = tokio::join!(client.get("strict", "/a").send(), async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        client.get("strict", "/b").send().await
    });
    assert_eq!(first.expect("in the end").attempts(), 2);
    assert_eq!(second.expect("in the end").attempts(), 1);
    let early = strict.audit().sent_before_retry_after();
    assert!(early.is_empty(), "{early:?}");
    assert_eq!(strict.audit().count(), 3);
}

// An hour is longer than anyone is made to wait: the refusal itself is the answer.
#[tokio::test(start_paused = true)]
async fn a_long_wait_is_the_callers_to_decide() {
    let busy = ThrottleResponse::new(429, Duration::from_hours(1));
    let strict = scripted(Script::new().rule(ScriptMatch::always(), busy));
    let client = over_pipes(&strict, |_| {});
    let began = tokio::time::Instant::now();
    let answer = client
        .get("strict", "/")
        .send()
        .await
        .expect("a refusal is an answer");
    assert_eq!(answer.status(), 429);
    let told = answer.retry_after().expect("told");
    assert!(told >= Duration::from_hours(1), "{told:?}");
    let error = answer.error_for_status().expect_err("counts as one");
    assert!(error.is_rate_limited() && error.is_status());
    assert_eq!(error.retry_after(), Some(told));
    let next = client.get("strict", "/").send().await.expect_err("asleep");
    assert!(next.is_circuit_open() && next.is_refused(), "{next:?}");
    assert!(next.retry_after().is_some());
    assert!(began.elapsed() < Duration::from_secs(1), "nobody slept");
    assert_eq!(strict.audit().count(), 1);
}

// 200 calls, all failing, two retries each allowed: the budget lets a fifth and ten a second through.
#[tokio::test(start_paused = true)]
async fn retries_never_multiply_an_outage() {
    let strict = scripted(Script::new().rule(ScriptMatch::always(), MockResponse::status(500)));
    let client = over_pipes(&strict, |api| {
        api.retry.budget = RetryBudgetSettings {
            share: Share::percent(20),
            per_second: 10,
            ..RetryBudgetSettings::default()
        };
    });
    for _ in 0..200 {
        let answer = client
            .get("strict", "/")
            .send()
            .await
            .expect("500 is an answer");
        assert_eq!(answer.status(), 500);
    }
    let seconds = usize::try_from(strict.now().as_nanos() / 1_000_000_000).expect("small");
    let most = 200 + 200 / 5 + 10 * (seconds + 1);
    let reached = strict.audit().count();
    assert!((200 + 40..=most).contains(&reached), "{reached} of {most}");
}

// A fifth of a repetition for each call that goes: the first two have not earned one, whatever the fifty
// between them wanted, which the door did not let through.
#[tokio::test(start_paused = true)]
async fn whoever_was_turned_away_earns_no_repetition() {
    let strict = scripted(Script::new().rule(ScriptMatch::always(), MockResponse::status(500)));
    let client = over_pipes(&strict, |api| {
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
        let refused = client
            .get("strict", "/")
            .mode(WaitMode::Reject)
            .send()
            .await;
        assert!(refused.expect_err("the second is used up").is_refused());
    }
    let second = client.get("strict", "/").send().await.expect("a 500");
    assert_eq!((second.attempts(), strict.audit().count()), (1, 2));
}

// One place, and an answer whose body is on its way: the repetition needs the place, so whoever streams
// is given neither the head of what is repeated nor a wait for its own body.
#[tokio::test(start_paused = true)]
async fn a_stream_begins_with_the_answer_that_is_not_repeated() {
    let page = |status| MockResponse::status(status).content(Content::Zeros(100_000));
    for status in [429, 500, 502, 503, 504] {
        let strict = scripted(Script::new().rule(ScriptMatch::always().first(2), page(status)));
        let client = over_pipes(&strict, |api| {
            api.rules.health = one_at_a_time();
        });
        let answer = client.get("strict", "/").send_streaming().await;
        let answer = answer.expect("the third");
        assert_eq!((answer.status().as_u16(), answer.attempts()), (200, 3));
        assert_eq!(strict.audit().count(), 3, "{status}");
        let text = answer.text().await.expect("its body");
        assert_eq!(text, r#"{"ok":true}"#, "{status}");
        assert!(client.upstream("strict").expect("there").is_idle());
    }
}

// Between one and two seconds by the rule; the delay is told before it is waited for.
#[tokio::test(start_paused = true)]
async fn a_repetition_is_told_and_waits_as_its_rule_says() {
    let strict =
        scripted(Script::new().rule(ScriptMatch::always().first(1), MockResponse::status(502)));
    let client = over_pipes(&strict, |api| {
        let second = Duration::from_secs(1);
        api.retry.backoff = Backoff::added_jitter(second, second, second * 2).expect("valid");
    });
    let heard = EventRecorder::subscribed_to(client.events());
    client.get("strict", "/").send().await.expect("second");
    let told: Vec<_> = heard
        .all()
        .into_iter()
        .filter_map(|event| match event.what {
            EventKind::Retrying {
                attempt,
                delay,
                reason,
            } => Some((attempt, delay, reason)),
            _ => None,
        })
        .collect();
    let [(1, delay, FailureLabel::ServerError)] = told[..] else {
        panic!("{told:?}")
    };
    assert!((1_000..=2_000).contains(&delay.as_millis()), "{delay:?}");
    let at: Vec<Nanos> = strict.audit().arrivals().iter().map(|one| one.at).collect();
    assert!(at[1].since(at[0]) >= delay, "{at:?}");
    let finished = heard.finished();
    assert_eq!(finished.len(), 1);
    assert_eq!((finished[0].attempts, finished[0].code), (2, Some(200)));
}

// A keep-alive connection that the server closed while it was idle is not the caller's concern.
#[tokio::test]
async fn a_connection_that_was_closed_while_idle_costs_nothing() {
    let strict = scripted(Script::new().rule(ScriptMatch::path("/first"), Fault::ResetAfterBody));
    let server = strict.listen().await.expect("a port");
    let client = over_sockets(&server, |api| api.retry.count = 0);
    for _ in 0..20 {
        let first = client.get("strict", "/first").send().await;
        drop(first);
        let next = client
            .post("strict", "/next")
            .body("once")
            .send()
            .await
            .expect("fresh");
        assert_eq!((next.attempts(), next.status().as_u16()), (1, 200));
    }
    assert_eq!(strict.audit().attempts("/next"), 20);
}

#[tokio::test]
async fn one_connection_serves_many_calls() {
    let strict = scripted(Script::new());
    let server = strict.listen().await.expect("a port");
    let client: Outflow = over_sockets(&server, |_| {});
    for _ in 0..10 {
        client.get("strict", "/").send().await.expect("an answer");
    }
    let audit = strict.audit();
    let first = audit.arrivals()[0].connection;
    assert!(audit.arrivals().iter().all(|one| one.connection == first));
}

// The first connection is refused, so that nothing was produced; the second one takes all five bytes.
#[tokio::test(start_paused = true)]
async fn a_stream_that_never_began_is_tried_again() {
    let strict = scripted(Script::new());
    let server = Arc::new(strict.in_memory());
    let api = eager(&server.url());
    let nth = AtomicU32::new(0);
    let way = move |_: &str, _: u16| -> Connecting {
        if nth.fetch_add(1, Ordering::Relaxed) == 0 {
            return Box::pin(async { Err(ErrorKind::ConnectionRefused.into()) });
        }
        let pipe: Box<dyn IoStream> = Box::new(server.connect());
        Box::pin(async move { Ok(pipe) })
    };
    let client = Outflow::builder()
        .api(api)
        .timer(Arc::new(VirtualTime::new()))
        .connector(Arc::new(way))
        .build()
        .expect("valid");
    let body = Full::new(Bytes::from_static(b"hello"));
    let answer = client.post("strict", "/").stream(body).send().await;
    assert_eq!(answer.expect("it never began").attempts(), 2);
    assert_eq!(strict.audit().arrivals()[0].body, Received::Whole(5));
}

// Every attempt is told to the door and to whoever listens, and each one once.
#[tokio::test(start_paused = true)]
async fn each_attempt_is_settled_once() {
    let strict = scripted(Script::new().rule(ScriptMatch::always(), MockResponse::status(503)));
    let client = over_pipes(&strict, |api| api.retry.count = 2);
    let heard = EventRecorder::subscribed_to(client.events());
    let call = client.post("strict", "/").body("x").idempotency_key("k");
    let answer = call.send().await.expect("the 503");
    let settled = |event: &outflow::Event| matches!(event.what, EventKind::Settled { .. });
    let told = heard.all().iter().filter(|event| settled(event)).count();
    assert_eq!((answer.attempts(), told, strict.audit().count()), (3, 3, 3));
}

// A 503 would be repeated three times; who repeats by other rules gets to see the first.
#[tokio::test]
async fn who_tries_once_sees_the_first_answer_and_what_the_table_made_of_it() {
    let strict = scripted(Script::new().rule(ScriptMatch::always(), MockResponse::status(503)));
    let server = strict.listen().await.expect("a port");
    let client = over_sockets(&server, |_| {});
    let answer = client
        .get("strict", "/")
        .no_retry()
        .send()
        .await
        .expect("one");
    assert_eq!((answer.attempts(), strict.audit().count()), (1, 1));
    assert!(answer.verdict().expect("judged").is_worth_a_retry());
    drop(server);
    let error = client.get("strict", "/").no_retry().send().await;
    let error = error.expect_err("nobody is there");
    assert_eq!(error.attempts(), 1);
    assert!(error.verdict().expect("judged").is_worth_a_retry());
}

// One call an hour, and its permit is in hand: whoever has it goes, and nobody else does.
#[tokio::test]
async fn a_call_goes_with_the_permit_that_its_caller_has() {
    let strict = scripted(Script::new());
    let server = strict.listen().await.expect("a port");
    let client = over_sockets(&server, |api| {
        api.rules = Rules::with_limit("1/h".parse().expect("a rate"));
        api.rules.mode = WaitMode::Reject;
    });
    let door = client.upstream("strict").expect("known");
    let ask = door.route(&http::Method::GET, "/");
    let permit = door.try_acquire(ask).expect("the first");
    assert!(client.get("strict", "/").send().await.is_err());
    let answer = client.get("strict", "/").with_permit(permit).send().await;
    assert_eq!(answer.expect("let through").status(), 200);
    assert!(
        door.try_acquire(ask).is_err(),
        "it was used, not given back"
    );
}

// The API was put to sleep after the permit was given: nothing leaves, and the permit is given back.
#[tokio::test]
async fn a_permit_that_was_called_off_sends_nothing() {
    let strict = scripted(Script::new());
    let server = strict.listen().await.expect("a port");
    let client = over_sockets(&server, |_| {});
    let door = client.upstream("strict").expect("known");
    let permit = door.try_acquire(door.route(&http::Method::GET, "/"));
    door.force_health(None, HealthOverride::Sleep);
    let call = client.get("strict", "/").with_permit(permit.expect("well"));
    let error = call.send().await.expect_err("asleep");
    assert!(error.is_refused(), "{error}");
    assert_eq!(strict.audit().count(), 0);
    assert!(door.is_idle());
}
