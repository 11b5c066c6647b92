//! The cache on the way of a call: what it spares, and what it answers when nothing may be sent.

use std::time::Duration;

use outflow::core::HealthOverride;
use outflow::event::{CacheLabel, EventKind};
use outflow::{Api, CacheDirective, CacheMode, Response};
use outflow_mock::{Fault, Latency, MockApi, MockResponse, Script, ScriptMatch, ScriptedFault};
use outflow_testkit::EventRecorder;

use super::support::{over_pipes, scripted};

const MINUTE: Duration = Duration::from_mins(1);

fn keeping(api: &mut Api) {
    api.cache = CacheMode::Standard;
}

/// A server whose answers are good for a minute, and whatever that adds to them.
fn lasting(extra: &str) -> MockApi {
    let strict = scripted(Script::new());
    let control = format!("max-age=60{extra}");
    strict.answer(
        "/**",
        MockResponse::ok("\"kept\"").header("cache-control", &control),
    );
    strict
}

fn status(answer: &Response) -> &str {
    let value = answer.headers().get("cache-status").expect("marked");
    value.to_str().expect("text")
}

#[tokio::test(start_paused = true)]
async fn what_is_fresh_costs_no_permit_and_no_packet() {
    let strict = lasting("");
    let client = over_pipes(&strict, keeping);
    let heard = EventRecorder::subscribed_to(client.events());
    let first = client
        .get("strict", "/a")
        .send()
        .await
        .expect("from the server");
    assert_eq!((first.from_cache(), first.attempts()), (None, 1));
    assert_eq!(
        status(&first),
        "outflow; fwd=uri-miss; fwd-status=200; stored"
    );
    tokio::time::sleep(MINUTE / 2).await;
    for call in [
        client.get("strict", "/a").send().await,
        client.get("strict", "/a").send_streaming().await,
    ] {
        let second = call.expect("from the cache");
        assert_eq!(
            (second.from_cache(), second.attempts()),
            (Some(CacheLabel::Hit), 0)
        );
        assert_eq!(status(&second), "outflow; hit; ttl=30");
        assert_eq!(second.headers()["age"], "30");
        assert_eq!(second.text().await.expect("text"), "\"kept\"");
    }
    assert_eq!(strict.audit().count(), 1);
    assert_eq!(
        heard.finished().len(),
        3,
        "a call is told wherever its answer came from"
    );
    tokio::time::sleep(MINUTE).await;
    let later = client
        .get("strict", "/a")
        .send()
        .await
        .expect("from the server");
    assert_eq!(later.attempts(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_caller_may_go_around_the_cache() {
    let strict = lasting("");
    let client = over_pipes(&strict, keeping);
    for _ in 0..3 {
        let call = client.get("strict", "/a").cache(CacheDirective::Bypass);
        assert_eq!(call.send().await.expect("an answer").attempts(), 1);
    }
    let call = client.get("strict", "/a").cache(CacheDirective::Only);
    assert!(
        call.send()
            .await
            .expect_err("nothing was kept")
            .is_cache_miss()
    );
    assert_eq!(strict.audit().count(), 3);
}

// Both ways in which nothing may be sent: held in CacheOnly, and offline.
#[tokio::test(start_paused = true)]
async fn with_nothing_sent_the_cache_answers_and_a_miss_is_clear() {
    for hold in [HealthOverride::CacheOnly, HealthOverride::Sleep] {
        let strict = lasting("");
        let client = over_pipes(&strict, keeping);
        client.get("strict", "/a").send().await.expect("kept");
        tokio::time::sleep(10 * MINUTE).await;
        client
            .upstream("strict")
            .expect("there")
            .force_health(None, hold);
        let stale = client
            .get("strict", "/a")
            .send()
            .await
            .expect("stale, and marked so");
        assert_eq!(stale.from_cache(), Some(CacheLabel::Stale), "{hold:?}");
        assert_eq!(status(&stale), "outflow; hit; ttl=-540", "{hold:?}");
        let error = client
            .get("strict", "/b")
            .send()
            .await
            .expect_err("never kept");
        assert!(error.is_cache_miss(), "{hold:?}: {error:?}");
        assert_eq!(error.attempts(), 0);
        assert_eq!(strict.audit().count(), 1, "{hold:?}");
    }
}

// Ten equal calls while the first is two seconds on its way; two others are not equal.
#[tokio::test(start_paused = true)]
async fn equal_calls_at_one_time_are_one_call() {
    let strict = lasting("");
    let way = Latency::Fixed(Duration::from_secs(1));
    strict.delay(way, way);
    let client = over_pipes(&strict, keeping);
    let call = |path: &'static str| client.get("strict", path).send();
    let ended = tokio::join!(
        call("/a"),
        call("/a"),
        call("/a"),
        call("/a"),
        call("/b"),
        client
            .get("strict", "/a")
            .header("authorization", "another")
            .send(),
    );
    let all = [ended.0, ended.1, ended.2, ended.3, ended.4, ended.5];
    let from: Vec<_> = all
        .into_iter()
        .map(|one| one.expect("an answer").from_cache())
        .collect();
    let joined = Some(CacheLabel::Coalesced);
    assert_eq!(from, [None, joined, joined, joined, None, None]);
    assert_eq!(strict.audit().count(), 3);
}

// The leader has a second, its follower ten: the follower takes over and both are told the truth.
#[tokio::test(start_paused = true)]
async fn a_follower_does_not_die_with_its_leader() {
    let strict = lasting("");
    let way = Latency::Fixed(Duration::from_secs(1));
    strict.delay(way, way);
    let client = over_pipes(&strict, keeping);
    let hasty = client.get("strict", "/a").timeout(Duration::from_secs(1));
    let (leader, follower) = tokio::join!(hasty.send(), client.get("strict", "/a").send());
    assert!(leader.expect_err("no more time").is_timeout());
    assert_eq!(follower.expect("its own").attempts(), 1);
}

#[tokio::test(start_paused = true)]
async fn what_is_confirmed_is_not_sent_again() {
    let strict = scripted(Script::new().rule(
        ScriptMatch::always().numbers(1..2),
        MockResponse::status(304).header("etag", "\"1\""),
    ));
    strict.answer(
        "/**",
        MockResponse::ok("\"kept\"")
            .header("cache-control", "max-age=60")
            .header("etag", "\"1\""),
    );
    let client = over_pipes(&strict, keeping);
    client.get("strict", "/a").send().await.expect("kept");
    tokio::time::sleep(2 * MINUTE).await;
    let again = client.get("strict", "/a").send().await.expect("confirmed");
    assert_eq!(
        (again.status().as_u16(), again.from_cache()),
        (200, Some(CacheLabel::Revalidated))
    );
    assert_eq!(again.text().await.expect("text"), "\"kept\"");
    assert_eq!(strict.audit().count(), 2);
}

// The server fails in each way that leaves no better answer. An answer or the API's settings may say that
// it is good for ten minutes more, and nothing can say so of one that must be confirmed.
#[tokio::test(start_paused = true)]
async fn a_stale_answer_is_better_than_none_where_it_says_so() {
    for act in [
        ScriptedFault::from(MockResponse::status(503)),
        Fault::CloseBeforeHead.into(),
        Fault::CutBody.into(),
    ] {
        for (extra, configured, rescued) in [
            (", stale-if-error=600", Duration::ZERO, true),
            ("", Duration::ZERO, false),
            ("", 10 * MINUTE, true),
            ("", MINUTE / 2, false),
            (", must-revalidate", 10 * MINUTE, false),
        ] {
            let strict = lasting(extra);
            let client = over_pipes(&strict, |api| {
                keeping(api);
                api.retry.count = 0;
                api.stale_if_error = configured;
            });
            client.get("strict", "/a").send().await.expect("kept");
            strict.rewrite(Script::new().rule(ScriptMatch::always(), act.clone()));
            tokio::time::sleep(2 * MINUTE).await;
            let ended = client.get("strict", "/a").send().await;
            let stale = ended.is_ok_and(|answer| answer.from_cache() == Some(CacheLabel::Stale));
            assert_eq!(stale, rescued, "{act:?}{extra} {configured:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_write_makes_what_was_kept_obsolete() {
    let strict = lasting("");
    let client = over_pipes(&strict, keeping);
    client.get("strict", "/a").send().await.expect("kept");
    client
        .post("strict", "/a")
        .body("new")
        .send()
        .await
        .expect("written");
    let after = client
        .get("strict", "/a")
        .send()
        .await
        .expect("asked again");
    assert_eq!((after.from_cache(), strict.audit().count()), (None, 3));
}

// What is at the new address was never said of the old one.
#[tokio::test(start_paused = true)]
async fn an_answer_from_elsewhere_is_not_kept() {
    let strict = lasting("");
    strict.answer("/old", MockResponse::redirect(302, "/new"));
    let client = over_pipes(&strict, keeping);
    for _ in 0..2 {
        let answer = client
            .get("strict", "/old")
            .send()
            .await
            .expect("the new place");
        assert_eq!((answer.from_cache(), answer.attempts()), (None, 2));
    }
    assert_eq!(strict.audit().attempts("/old"), 2);
}

// Both ways in which nothing may be sent, and a caller that reads as it comes.
#[tokio::test(start_paused = true)]
async fn with_nothing_sent_a_streaming_call_is_answered_from_the_cache_too() {
    for hold in [HealthOverride::CacheOnly, HealthOverride::Sleep] {
        let strict = lasting("");
        let client = over_pipes(&strict, keeping);
        client.get("strict", "/a").send().await.expect("kept");
        tokio::time::sleep(10 * MINUTE).await;
        client
            .upstream("strict")
            .expect("there")
            .force_health(None, hold);
        let flow = |path: &str| client.get("strict", path).send_streaming();
        let stale = flow("/a").await.expect("what was kept");
        assert_eq!(stale.from_cache(), Some(CacheLabel::Stale), "{hold:?}");
        let missing = flow("/b").await.expect_err("never kept");
        assert!(missing.is_cache_miss(), "{hold:?}: {missing}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_streaming_call_gets_the_stale_answer_that_a_whole_one_gets() {
    for act in [
        ScriptedFault::from(MockResponse::status(503)),
        Fault::CloseBeforeHead.into(),
    ] {
        let strict = lasting(", stale-if-error=600");
        let client = over_pipes(&strict, |api| {
            keeping(api);
            api.retry.count = 0;
        });
        client.get("strict", "/a").send().await.expect("kept");
        strict.rewrite(Script::new().rule(ScriptMatch::always(), act.clone()));
        tokio::time::sleep(2 * MINUTE).await;
        let flowing = client.get("strict", "/a").send_streaming().await;
        let from = flowing.expect("what was kept").from_cache();
        assert_eq!(from, Some(CacheLabel::Stale), "{act:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_streaming_miss_is_told_and_marked() {
    let strict = lasting("");
    let client = over_pipes(&strict, keeping);
    let heard = EventRecorder::subscribed_to(client.events());
    let call = client.get("strict", "/a").send_streaming();
    let answer = call.await.expect("an answer");
    let misses = heard.all().into_iter().filter(|event| {
        let lookup = CacheLabel::Miss;
        matches!(event.what, EventKind::Cache { lookup: told } if told == lookup)
    });
    assert_eq!(misses.count(), 1);
    assert_eq!(status(&answer), "outflow; fwd=uri-miss; fwd-status=200");
}

#[tokio::test(start_paused = true)]
async fn only_if_cached_sends_nothing() {
    let strict = lasting("");
    let client = over_pipes(&strict, keeping);
    let call = || {
        let call = client.get("strict", "/a");
        call.header("cache-control", "only-if-cached").send()
    };
    assert!(call().await.expect_err("never kept").is_cache_miss());
    assert_eq!(strict.audit().count(), 0);
    client.get("strict", "/a").send().await.expect("kept");
    let hit = call().await.expect("what was kept");
    assert_eq!(hit.from_cache(), Some(CacheLabel::Hit));
}
