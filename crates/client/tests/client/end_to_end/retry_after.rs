//! A server that asks for a wait, and a client whose calls all respect it.

use std::time::Duration;

use outflow::core::{HealthState, Limit, Nanos};
use outflow::{Api, Group, Route};
use outflow_mock::{Audit, Fault, MockApi, MockResponse, Script, ScriptMatch, ThrottleResponse};
use outflow_testkit::Background;

use super::support::{CallLoad, EndedCall, TestBed, in_flight, report};

const SECOND: Duration = Duration::from_secs(1);

/// Configures three groups under one health, none near its limit.
fn with_groups(api: &mut Api) {
    api.retry.count = 0;
    for name in ["a", "b", "c"] {
        let rate = "1000/s".parse().expect("valid");
        let limits = vec![Limit::sliding(rate)];
        api.rules.groups.push(Group::new(name, limits));
        api.rules.routes.push(Route {
            methods: Vec::new(),
            pattern: format!("/{name}/**").parse().expect("valid"),
            group: name.into(),
            cost: None,
        });
    }
}

/// Starts a hundred callers at once, of which the first is throttled. Returns the test bed and the
/// results.
async fn hundred_callers(response: ThrottleResponse) -> (TestBed, Vec<EndedCall>) {
    let bed = TestBed::near(MockApi::builder());
    let first = Script::new().rule(ScriptMatch::always().first(1), response);
    bed.mock.rewrite(first);
    let client = bed.client(with_groups);
    let mut load = CallLoad::on(&client);
    for (number, group) in (0..100).zip(["a", "b", "c"].into_iter().cycle()) {
        load.start(&format!("/{group}/{number}"));
    }
    let ended = load.ended().await;
    assert_eq!((in_flight(&client), report(&client).waiting), (0, 0));
    (bed, ended)
}

/// Parses the number at the end of a path.
fn path_number(path: &str) -> u32 {
    let (_, number) = path.rsplit_once('/').expect("a path");
    number.parse().expect("a number")
}

/// Returns the instant that the server named, and the audit from then on.
fn audit_after_wait(audit: &Audit) -> (Nanos, Audit) {
    let until = audit.waits().first().expect("one was throttled").until;
    (until, audit.only(|arrival| arrival.at >= until))
}

// Four may be in flight, so three cross the first response, and 96 resume over a second.
#[tokio::test(start_paused = true)]
async fn after_a_short_wait_callers_resume_in_order_and_spread_out() {
    for status in [429, 503] {
        let (bed, ended) = hundred_callers(ThrottleResponse::new(status, 2 * SECOND)).await;
        let audit = bed.mock.audit();
        assert!(audit.sent_before_retry_after().is_empty(), "{status}");
        let throttled = &ended[0];
        let response = throttled.result.as_ref().expect("a response");
        assert_eq!(response.status().as_u16(), status);
        assert_eq!(response.retry_after(), Some(2 * SECOND));
        assert!(throttled.took() < SECOND / 10, "{:?}", throttled.took());
        assert!(ended[1..].iter().all(EndedCall::is_good), "{status}");

        let (until, later) = audit_after_wait(&audit);
        assert_eq!(later.count(), 96, "{status}");
        let arrivals = later.arrivals();
        let last = arrivals[95].at.since(until);
        assert!((SECOND / 2..SECOND * 3 / 2).contains(&last), "{last:?}");
        // An even spread puts 10 into any tenth of a second; a herd would put nearly all.
        let most = later.most_in_any_window(SECOND / 10);
        assert!(most <= 40, "{status}: {most} of 96 within 100 ms");
        for group in ["/a", "/b", "/c"] {
            let own = arrivals.iter().filter(|one| one.path.starts_with(group));
            let order: Vec<_> = own.map(|one| path_number(&one.path)).collect();
            assert!(order.is_sorted(), "{status} {group}: {order:?}");
        }
    }
}

// Thirty seconds exceed the longest wait: all waiters are refused at once with a retry time.
#[tokio::test(start_paused = true)]
async fn a_long_wait_refuses_all_waiters_with_a_retry_time() {
    for status in [429, 503, 418] {
        let (bed, ended) = hundred_callers(ThrottleResponse::new(status, 30 * SECOND)).await;
        let audit = bed.mock.audit();
        assert_eq!(audit.count(), 4, "{status}: the attempts in flight");
        assert!(audit.sent_before_retry_after().is_empty(), "{status}");
        let first = ended[0].result.as_ref().expect("a response");
        assert_eq!(first.status().as_u16(), status);
        for call in &ended {
            assert!(call.took() < SECOND / 10, "{status}: {:?}", call.took());
        }
        for call in &ended[4..] {
            let error = call.result.as_ref().expect_err("asleep");
            assert!(error.is_circuit_open(), "{status}: {error}");
            let wait = error.retry_after().expect("it is known");
            assert!((29 * SECOND..=31 * SECOND).contains(&wait), "{wait:?}");
        }
    }
}

// One call every second for a minute: nothing is sent for thirty seconds, every error names the
// rest, and then probes start by themselves.
#[tokio::test(start_paused = true)]
async fn a_sleeping_api_reports_the_remaining_time_and_wakes_on_time() {
    for status in [429, 503, 418] {
        let bed = TestBed::near(MockApi::builder());
        let response = ThrottleResponse::new(status, 30 * SECOND);
        bed.mock
            .rewrite(Script::new().rule(ScriptMatch::always().first(1), response));
        let client = bed.client(|api| {
            api.retry.count = 0;
            // With the default, callers wait for the end of the sleep.
            api.rules.max_wait = SECOND / 2;
        });
        let mut load = CallLoad::on(&client);
        load.run(1, 60 * SECOND).await;
        let ended = load.ended().await;
        let audit = bed.mock.audit();
        assert!(audit.sent_before_retry_after().is_empty(), "{status}");
        for call in &ended[1..29] {
            let error = call.result.as_ref().expect_err("asleep");
            let left = error.retry_after().expect("it is known");
            let back = (call.began + left).as_secs_f64();
            assert!((30.0..31.1).contains(&back), "{status}: {back} after {:?}", call.began);
        }
        assert!(
            ended[33..].iter().all(EndedCall::is_good),
            "{status}: {:?}",
            ended[33..].iter().find(|one| !one.is_good())
        );
        let upstream = client.upstream("strict").expect("there");
        let target = upstream.group("default").expect("there");
        assert_eq!(upstream.state(target), HealthState::Normal, "{status}");
    }
}

// The second call has its permit and waits 400 ms for a connection when the first is throttled.
#[tokio::test(start_paused = true)]
async fn a_call_that_still_connects_waits_too() {
    for (wait, passes) in [(2 * SECOND, true), (30 * SECOND, false)] {
        let bed = TestBed::new(MockApi::builder().build().expect("valid"), SECOND / 5);
        bed.mock.answer("/", MockResponse::ok("{}"));
        let client = bed.client(|api| api.retry.count = 0);
        client.get("strict", "/warm").send().await.expect("connects");
        let refusal = ThrottleResponse::new(429, wait);
        bed.mock
            .rewrite(Script::new().rule(ScriptMatch::path("/throttled"), refusal));
        let (throttled, late) = tokio::join!(client.get("strict", "/throttled").send(), async {
            tokio::time::sleep(SECOND / 5).await;
            client.get("strict", "/late").send().await
        });
        assert_eq!(throttled.expect("a response").status(), 429);
        let audit = bed.mock.audit();
        let early = audit.sent_before_retry_after();
        assert!(early.is_empty(), "{wait:?}: {early:?}");
        match late {
            Ok(response) => assert!(passes && response.attempts() == 1, "{wait:?}"),
            Err(error) => assert!(!passes && error.is_circuit_open(), "{wait:?}: {error}"),
        }
        assert_eq!(audit.attempts("/late"), usize::from(passes));
        assert_eq!((in_flight(&client), report(&client).waiting), (0, 0));
    }
}

// A streamed body cannot return to the queue: its call is refused and nothing of it is sent.
#[tokio::test(start_paused = true)]
async fn a_stream_that_still_connects_is_refused_unsent() {
    let bed = TestBed::new(MockApi::builder().build().expect("valid"), SECOND / 5);
    let client = bed.client(|api| api.retry.count = 0);
    client.get("strict", "/warm").send().await.expect("connects");
    let refusal = ThrottleResponse::new(429, 2 * SECOND);
    bed.mock
        .rewrite(Script::new().rule(ScriptMatch::path("/throttled"), refusal));
    let (_, late) = tokio::join!(client.get("strict", "/throttled").send(), async {
        tokio::time::sleep(SECOND / 5).await;
        let body = http_body_util::Full::new("once".into());
        client.post("strict", "/late").stream(body).send().await
    });
    let error = late.expect_err("refused");
    assert!(error.is_refused(), "{error}");
    let left = error.retry_after().expect("it is known");
    assert!((SECOND..=3 * SECOND).contains(&left), "{left:?}");
    assert_eq!(bed.mock.audit().attempts("/late"), 0);
    assert_eq!(in_flight(&client), 0);
}

// A throttled call retries by itself after the wait, and another call came later: both wait.
#[tokio::test(start_paused = true)]
async fn a_retry_waits_for_the_same_instant_as_every_other_call() {
    let bed = TestBed::near(MockApi::builder());
    let script = Script::new()
        .rule(ScriptMatch::always().first(1), ThrottleResponse::new(429, 2 * SECOND))
        .rule(ScriptMatch::always().first(1), Fault::ResetBeforeHead);
    bed.mock.rewrite(script);
    let client = bed.client(|_| {});
    let other = client.clone();
    let later = Background::start(async move {
        tokio::time::sleep(SECOND).await;
        other.get("strict", "/later").send().await
    });
    let response = client.get("strict", "/first").send().await;
    assert_eq!(response.expect("in the end").status(), 200);
    assert_eq!(later.join().await.expect("a response").status(), 200);
    let audit = bed.mock.audit();
    assert!(audit.sent_before_retry_after().is_empty());
    assert_eq!(audit.count(), 4);
}
