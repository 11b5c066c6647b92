//! A server that asks everybody to wait, and a client of which everybody does.

use std::time::Duration;

use outflow::core::{HealthState, Limit, Nanos};
use outflow::{Api, Group, Route};
use outflow_mock::{Audit, Fault, MockApi, MockResponse, Script, ScriptMatch, ThrottleResponse};
use outflow_testkit::Background;

use super::support::{Ended, Load, World, in_flight, report};

const SECOND: Duration = Duration::from_secs(1);

/// Three groups under one health, none of them near its limit.
fn grouped(api: &mut Api) {
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

/// A hundred callers at once, of whom the first is told to wait: a world, and what became of them.
async fn crowd(answer: ThrottleResponse) -> (World, Vec<Ended>) {
    let world = World::near(MockApi::builder());
    let first = Script::new().rule(ScriptMatch::always().first(1), answer);
    world.strict.rewrite(first);
    let client = world.client(grouped);
    let mut load = Load::on(&client);
    for (number, group) in (0..100).zip(["a", "b", "c"].into_iter().cycle()) {
        load.start(&format!("/{group}/{number}"));
    }
    let ended = load.ended().await;
    assert_eq!((in_flight(&client), report(&client).waiting), (0, 0));
    (world, ended)
}

/// The number that a path ends in.
fn number(path: &str) -> u32 {
    let (_, number) = path.rsplit_once('/').expect("a path");
    number.parse().expect("a number")
}

/// The instant that the server told, and what it saw from then on.
fn afterwards(audit: &Audit) -> (Nanos, Audit) {
    let until = audit.waits().first().expect("one was told").until;
    (until, audit.only(|arrival| arrival.at >= until))
}

// Four may be in flight, so three cross the answer of the first, and 96 are let back over a second.
#[tokio::test(start_paused = true)]
async fn after_a_short_wait_a_crowd_is_let_back_in_order_and_spread_out() {
    for status in [429, 503] {
        let (world, ended) = crowd(ThrottleResponse::new(status, 2 * SECOND)).await;
        let audit = world.strict.audit();
        assert!(audit.sent_before_retry_after().is_empty(), "{status}");
        let told = &ended[0];
        let answer = told.result.as_ref().expect("an answer");
        assert_eq!(answer.status().as_u16(), status);
        assert_eq!(answer.retry_after(), Some(2 * SECOND));
        assert!(told.took() < SECOND / 10, "{:?}", told.took());
        assert!(ended[1..].iter().all(Ended::is_good), "{status}");

        let (until, later) = afterwards(&audit);
        assert_eq!(later.count(), 96, "{status}");
        let arrivals = later.arrivals();
        let last = arrivals[95].at.since(until);
        assert!((SECOND / 2..SECOND * 3 / 2).contains(&last), "{last:?}");
        // An even spread puts 10 into any tenth of a second; a herd would put nearly all.
        let most = later.most_in_any_window(SECOND / 10);
        assert!(most <= 40, "{status}: {most} of 96 within 100 ms");
        for group in ["/a", "/b", "/c"] {
            let own = arrivals.iter().filter(|one| one.path.starts_with(group));
            let order: Vec<_> = own.map(|one| number(&one.path)).collect();
            assert!(order.is_sorted(), "{status} {group}: {order:?}");
        }
    }
}

// Thirty seconds are longer than is waited out: all who wait are told at once, and when.
#[tokio::test(start_paused = true)]
async fn a_long_wait_turns_everybody_away_with_the_time_to_come_back() {
    for status in [429, 503, 418] {
        let (world, ended) = crowd(ThrottleResponse::new(status, 30 * SECOND)).await;
        let audit = world.strict.audit();
        assert_eq!(audit.count(), 4, "{status}: what was in flight already");
        assert!(audit.sent_before_retry_after().is_empty(), "{status}");
        let first = ended[0].result.as_ref().expect("an answer");
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

// Asked every second for a minute: nothing is sent for thirty seconds, every error tells how many of
// them are left, and then probes go by themselves.
#[tokio::test(start_paused = true)]
async fn a_sleeping_api_tells_how_long_and_wakes_at_its_time() {
    for status in [429, 503, 418] {
        let world = World::near(MockApi::builder());
        let answer = ThrottleResponse::new(status, 30 * SECOND);
        world
            .strict
            .rewrite(Script::new().rule(ScriptMatch::always().first(1), answer));
        let client = world.client(|api| api.retry.count = 0);
        let mut load = Load::on(&client);
        load.run(1, 60 * SECOND).await;
        let ended = load.ended().await;
        let audit = world.strict.audit();
        assert!(audit.sent_before_retry_after().is_empty(), "{status}");
        for call in &ended[1..30] {
            let error = call.result.as_ref().expect_err("asleep");
            let left = error.retry_after().expect("it is known");
            let back = (call.began + left).as_secs_f64();
            assert!(
                (30.0..31.1).contains(&back),
                "{status}: {back} after {:?}",
                call.began
            );
        }
        assert!(
            ended[33..].iter().all(Ended::is_good),
            "{status}: {:?}",
            ended[33..].iter().find(|one| !one.is_good())
        );
        let upstream = client.upstream("strict").expect("there");
        let target = upstream.group("default").expect("there");
        assert_eq!(upstream.state(target), HealthState::Normal, "{status}");
    }
}

// The second call has its permit and waits 400 ms for a connection when the first is told to wait.
#[tokio::test(start_paused = true)]
async fn a_call_that_still_connects_waits_too() {
    for (wait, passes) in [(2 * SECOND, true), (30 * SECOND, false)] {
        let world = World::new(MockApi::builder().build().expect("valid"), SECOND / 5);
        world.strict.answer("/", MockResponse::ok("{}"));
        let client = world.client(|api| api.retry.count = 0);
        client
            .get("strict", "/warm")
            .send()
            .await
            .expect("connects");
        let refusal = ThrottleResponse::new(429, wait);
        world
            .strict
            .rewrite(Script::new().rule(ScriptMatch::path("/told"), refusal));
        let (told, late) = tokio::join!(client.get("strict", "/told").send(), async {
            tokio::time::sleep(SECOND / 5).await;
            client.get("strict", "/late").send().await
        });
        assert_eq!(told.expect("an answer").status(), 429);
        let audit = world.strict.audit();
        let early = audit.sent_before_retry_after();
        assert!(early.is_empty(), "{wait:?}: {early:?}");
        match late {
            Ok(answer) => assert!(passes && answer.attempts() == 1, "{wait:?}"),
            Err(error) => assert!(!passes && error.is_circuit_open(), "{wait:?}: {error}"),
        }
        assert_eq!(audit.attempts("/late"), usize::from(passes));
        assert_eq!((in_flight(&client), report(&client).waiting), (0, 0));
    }
}

// A stream that was handed over cannot come back into the line: its call is refused and nothing of it
// is sent.
#[tokio::test(start_paused = true)]
async fn a_stream_that_still_connects_is_refused_unsent() {
    let world = World::new(MockApi::builder().build().expect("valid"), SECOND / 5);
    let client = world.client(|api| api.retry.count = 0);
    client
        .get("strict", "/warm")
        .send()
        .await
        .expect("connects");
    let refusal = ThrottleResponse::new(429, 2 * SECOND);
    world
        .strict
        .rewrite(Script::new().rule(ScriptMatch::path("/told"), refusal));
    let (_, late) = tokio::join!(client.get("strict", "/told").send(), async {
        tokio::time::sleep(SECOND / 5).await;
        let body = http_body_util::Full::new("once".into());
        client.post("strict", "/late").stream(body).send().await
    });
    let error = late.expect_err("refused");
    assert!(error.is_refused(), "{error}");
    let left = error.retry_after().expect("it is known");
    assert!((SECOND..=3 * SECOND).contains(&left), "{left:?}");
    assert_eq!(world.strict.audit().attempts("/late"), 0);
    assert_eq!(in_flight(&client), 0);
}

// One who has been told, repeats by itself after the time, and another who came later: both wait.
#[tokio::test(start_paused = true)]
async fn a_repetition_waits_for_the_same_instant_as_everybody() {
    let world = World::near(MockApi::builder());
    let script = Script::new()
        .rule(
            ScriptMatch::always().first(1),
            ThrottleResponse::new(429, 2 * SECOND),
        )
        .rule(ScriptMatch::always().first(1), Fault::ResetBeforeHead);
    world.strict.rewrite(script);
    let client = world.client(|_| {});
    let other = client.clone();
    let later = Background::start(async move {
        tokio::time::sleep(SECOND).await;
        other.get("strict", "/later").send().await
    });
    let answer = client.get("strict", "/first").send().await;
    assert_eq!(answer.expect("in the end").status(), 200);
    assert_eq!(later.join().await.expect("an answer").status(), 200);
    let audit = world.strict.audit();
    assert!(audit.sent_before_retry_after().is_empty());
    assert_eq!(audit.count(), 4);
}
