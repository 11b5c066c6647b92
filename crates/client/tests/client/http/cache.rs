//! The cache in a call: the requests it saves, and its responses while nothing may be sent.

use std::time::Duration;

use outflow::core::HealthOverride;
use outflow::event::{CacheLabel, EventKind};
use outflow::{Api, CacheDirective, CacheMode, Response};
use outflow_mock::{Fault, Latency, MockApi, MockResponse, Script, ScriptMatch, ScriptedFault};
use outflow_testkit::EventRecorder;

use super::support::{over_pipes, scripted};

const MINUTE: Duration = Duration::from_mins(1);

fn with_cache(api: &mut Api) {
    api.cache = CacheMode::Standard;
}

/// Builds a server whose responses are fresh for a minute, with extra directives.
fn caching_server(extra: &str) -> MockApi {
    let mock = scripted(Script::new());
    let control = format!("max-age=60{extra}");
    mock.answer("/**", MockResponse::ok("\"kept\"").header("cache-control", &control));
    mock
}

fn status(response: &Response) -> &str {
    let value = response.headers().get("cache-status").expect("marked");
    value.to_str().expect("text")
}

#[tokio::test(start_paused = true)]
async fn a_fresh_response_costs_no_permit_and_no_packet() {
    let mock = caching_server("");
    let client = over_pipes(&mock, with_cache);
    let recorder = EventRecorder::subscribed_to(client.events());
    let first = client.get("strict", "/a").send().await.expect("from the server");
    assert_eq!((first.from_cache(), first.attempts()), (None, 1));
    assert_eq!(status(&first), "outflow; fwd=uri-miss; fwd-status=200; stored");
    tokio::time::sleep(MINUTE / 2).await;
    for call in [
        client.get("strict", "/a").send().await,
        client.get("strict", "/a").send_streaming().await,
    ] {
        let second = call.expect("from the cache");
        assert_eq!((second.from_cache(), second.attempts()), (Some(CacheLabel::Hit), 0));
        assert_eq!(status(&second), "outflow; hit; ttl=30");
        assert_eq!(second.headers()["age"], "30");
        assert_eq!(second.text().await.expect("text"), "\"kept\"");
    }
    assert_eq!(mock.audit().count(), 1);
    assert_eq!(recorder.finished().len(), 3, "every call is reported, cached or not");
    tokio::time::sleep(MINUTE).await;
    let later = client.get("strict", "/a").send().await.expect("from the server");
    assert_eq!(later.attempts(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_caller_may_bypass_the_cache() {
    let mock = caching_server("");
    let client = over_pipes(&mock, with_cache);
    for _ in 0..3 {
        let call = client.get("strict", "/a").cache(CacheDirective::Bypass);
        assert_eq!(call.send().await.expect("a response").attempts(), 1);
    }
    let call = client.get("strict", "/a").cache(CacheDirective::Only);
    assert!(call.send().await.expect_err("nothing was kept").is_cache_miss());
    assert_eq!(mock.audit().count(), 3);
}

// Both offline modes: forced CacheOnly, and offline.
#[tokio::test(start_paused = true)]
async fn offline_mode_serves_from_the_cache_and_marks_a_miss() {
    for hold in [HealthOverride::CacheOnly, HealthOverride::Sleep] {
        let mock = caching_server("");
        let client = over_pipes(&mock, with_cache);
        client.get("strict", "/a").send().await.expect("kept");
        tokio::time::sleep(10 * MINUTE).await;
        client.upstream("strict").expect("there").force_health(None, hold);
        let stale = client.get("strict", "/a").send().await.expect("stale, and marked so");
        assert_eq!(stale.from_cache(), Some(CacheLabel::Stale), "{hold:?}");
        assert_eq!(status(&stale), "outflow; hit; ttl=-540", "{hold:?}");
        let error = client.get("strict", "/b").send().await.expect_err("never kept");
        assert!(error.is_cache_miss(), "{hold:?}: {error:?}");
        assert_eq!(error.attempts(), 0);
        assert_eq!(mock.audit().count(), 1, "{hold:?}");
    }
}

// Ten equal calls while the first takes two seconds; two others are not equal.
#[tokio::test(start_paused = true)]
async fn concurrent_equal_calls_send_one_request() {
    let mock = caching_server("");
    let latency = Latency::Fixed(Duration::from_secs(1));
    mock.delay(latency, latency);
    let client = over_pipes(&mock, with_cache);
    let call = |path: &'static str| client.get("strict", path).send();
    let ended = tokio::join!(
        call("/a"),
        call("/a"),
        call("/a"),
        call("/a"),
        call("/b"),
        client.get("strict", "/a").header("authorization", "another").send(),
    );
    let all = [ended.0, ended.1, ended.2, ended.3, ended.4, ended.5];
    let from: Vec<_> = all
        .into_iter()
        .map(|one| one.expect("a response").from_cache())
        .collect();
    let joined = Some(CacheLabel::Coalesced);
    assert_eq!(from, [None, joined, joined, joined, None, None]);
    assert_eq!(mock.audit().count(), 3);
}

// The leader has a second, its follower ten: the follower takes over and both get their true
// results.
#[tokio::test(start_paused = true)]
async fn a_follower_outlives_its_leader() {
    let mock = caching_server("");
    let latency = Latency::Fixed(Duration::from_secs(1));
    mock.delay(latency, latency);
    let client = over_pipes(&mock, with_cache);
    let hasty = client.get("strict", "/a").timeout(Duration::from_secs(1));
    let (leader, follower) = tokio::join!(hasty.send(), client.get("strict", "/a").send());
    assert!(leader.expect_err("no more time").is_timeout());
    assert_eq!(follower.expect("its own").attempts(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_confirmed_response_is_not_sent_again() {
    let mock = scripted(Script::new().rule(
        ScriptMatch::always().numbers(1..2),
        MockResponse::status(304).header("etag", "\"1\""),
    ));
    mock.answer(
        "/**",
        MockResponse::ok("\"kept\"")
            .header("cache-control", "max-age=60")
            .header("etag", "\"1\""),
    );
    let client = over_pipes(&mock, with_cache);
    client.get("strict", "/a").send().await.expect("kept");
    tokio::time::sleep(2 * MINUTE).await;
    let again = client.get("strict", "/a").send().await.expect("confirmed");
    assert_eq!(
        (again.status().as_u16(), again.from_cache()),
        (200, Some(CacheLabel::Revalidated))
    );
    assert_eq!(again.text().await.expect("text"), "\"kept\"");
    assert_eq!(mock.audit().count(), 2);
}

/// Builds a server whose response needs revalidation after a minute, and that then responds 304 with these headers
/// to requests of these numbers.
fn revalidating_server(numbers: std::ops::Range<u64>, headers: &[(&str, &str)]) -> MockApi {
    let not_modified = MockResponse::status(304);
    let not_modified = headers
        .iter()
        .fold(not_modified, |all, (name, value)| all.header(name, value));
    let mock = scripted(Script::new().rule(ScriptMatch::always().numbers(numbers), not_modified));
    let kept = MockResponse::ok("\"kept\"").header("cache-control", "max-age=60");
    let kept = kept.header("etag", "\"1\"");
    mock.answer("/**", kept.header("last-modified", "Wed, 01 Jan 2020 00:00:00 GMT"));
    mock
}

// The same validator with a cookie, another validator, and a later date: the conditions are Outflow's, not the caller's.
#[tokio::test(start_paused = true)]
async fn a_caller_without_a_condition_gets_no_304() {
    let later = ("last-modified", "Wed, 01 Jan 2025 00:00:00 GMT");
    for (headers, attempts) in [
        (&[("etag", "\"1\""), ("set-cookie", "a=b")][..], 1),
        (&[("etag", "\"2\"")], 2),
        (&[later], 2),
    ] {
        let mock = revalidating_server(1..2, headers);
        let client = over_pipes(&mock, with_cache);
        client.get("strict", "/a").send().await.expect("kept");
        tokio::time::sleep(2 * MINUTE).await;
        let again = client.get("strict", "/a").send().await.expect("a response");
        assert_eq!(
            (again.status().as_u16(), again.attempts()),
            (200, attempts),
            "{headers:?}"
        );
        assert_eq!(again.text().await.expect("text"), "\"kept\"", "{headers:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_304_to_a_request_without_a_condition_is_refused() {
    let mock = revalidating_server(1..9, &[("etag", "\"2\"")]);
    let client = over_pipes(&mock, with_cache);
    client.get("strict", "/a").send().await.expect("kept");
    tokio::time::sleep(2 * MINUTE).await;
    let error = client.get("strict", "/a").send().await.expect_err("nothing to serve");
    assert!(error.to_string().contains("304"), "{error}");
    assert_eq!((error.attempts(), mock.audit().count()), (2, 3));
}

// Every call after the first gets a 503. The default profile sleeps after eight failures in a row: the third of the calls
// with two retries each is the first to see it, in its second attempt. It waits for no probe.
#[tokio::test(start_paused = true)]
async fn a_call_that_finds_the_api_asleep_gets_the_stored_response() {
    let mock = caching_server("");
    let client = over_pipes(&mock, with_cache);
    client.get("strict", "/a").send().await.expect("kept");
    mock.rewrite(Script::new().rule(ScriptMatch::always(), MockResponse::status(503)));
    tokio::time::sleep(2 * MINUTE).await;
    let mut stale = 0;
    for _ in 0..6 {
        let before = mock.audit().count();
        let response = client.get("strict", "/a").send().await.expect("a response");
        stale += u32::from(response.from_cache() == Some(CacheLabel::Stale));
        assert!(mock.audit().count() <= before + 3, "one attempt and two retries");
    }
    assert!(stale >= 3, "{stale} of 6 were served from the cache");
}

// The server fails in each way without a better response. The response or the settings may extend
// its use by ten minutes, unless it requires validation.
#[tokio::test(start_paused = true)]
async fn a_stale_response_serves_errors_where_allowed() {
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
            let mock = caching_server(extra);
            let client = over_pipes(&mock, |api| {
                with_cache(api);
                api.retry.count = 0;
                api.stale_if_error = configured;
            });
            client.get("strict", "/a").send().await.expect("kept");
            mock.rewrite(Script::new().rule(ScriptMatch::always(), act.clone()));
            tokio::time::sleep(2 * MINUTE).await;
            let ended = client.get("strict", "/a").send().await;
            let stale = ended.is_ok_and(|response| response.from_cache() == Some(CacheLabel::Stale));
            assert_eq!(stale, rescued, "{act:?}{extra} {configured:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_write_invalidates_the_stored_response() {
    let mock = caching_server("");
    let client = over_pipes(&mock, with_cache);
    client.get("strict", "/a").send().await.expect("kept");
    client.post("strict", "/a").body("new").send().await.expect("written");
    let after = client.get("strict", "/a").send().await.expect("asked again");
    assert_eq!((after.from_cache(), mock.audit().count()), (None, 3));
}

// The response of the new address does not apply to the old one.
#[tokio::test(start_paused = true)]
async fn a_redirected_response_is_not_stored() {
    let mock = caching_server("");
    mock.answer("/old", MockResponse::redirect(302, "/new"));
    let client = over_pipes(&mock, with_cache);
    for _ in 0..2 {
        let response = client.get("strict", "/old").send().await.expect("the new place");
        assert_eq!((response.from_cache(), response.attempts()), (None, 2));
    }
    assert_eq!(mock.audit().attempts("/old"), 2);
}

// Both offline modes, and a streaming caller.
#[tokio::test(start_paused = true)]
async fn offline_mode_serves_a_streaming_call_from_the_cache() {
    for hold in [HealthOverride::CacheOnly, HealthOverride::Sleep] {
        let mock = caching_server("");
        let client = over_pipes(&mock, with_cache);
        client.get("strict", "/a").send().await.expect("kept");
        tokio::time::sleep(10 * MINUTE).await;
        client.upstream("strict").expect("there").force_health(None, hold);
        let flow = |path: &str| client.get("strict", path).send_streaming();
        let stale = flow("/a").await.expect("the stored response");
        assert_eq!(stale.from_cache(), Some(CacheLabel::Stale), "{hold:?}");
        let missing = flow("/b").await.expect_err("never kept");
        assert!(missing.is_cache_miss(), "{hold:?}: {missing}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_streaming_call_gets_the_stale_response_that_a_plain_call_gets() {
    for act in [
        ScriptedFault::from(MockResponse::status(503)),
        Fault::CloseBeforeHead.into(),
    ] {
        let mock = caching_server(", stale-if-error=600");
        let client = over_pipes(&mock, |api| {
            with_cache(api);
            api.retry.count = 0;
        });
        client.get("strict", "/a").send().await.expect("kept");
        mock.rewrite(Script::new().rule(ScriptMatch::always(), act.clone()));
        tokio::time::sleep(2 * MINUTE).await;
        let flowing = client.get("strict", "/a").send_streaming().await;
        let from = flowing.expect("the stored response").from_cache();
        assert_eq!(from, Some(CacheLabel::Stale), "{act:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_streaming_miss_is_reported_and_marked() {
    let mock = caching_server("");
    let client = over_pipes(&mock, with_cache);
    let recorder = EventRecorder::subscribed_to(client.events());
    let call = client.get("strict", "/a").send_streaming();
    let response = call.await.expect("a response");
    let misses = recorder.all().into_iter().filter(|event| {
        let lookup = CacheLabel::Miss;
        matches!(event.what, EventKind::Cache { lookup: found } if found == lookup)
    });
    assert_eq!(misses.count(), 1);
    assert_eq!(status(&response), "outflow; fwd=uri-miss; fwd-status=200");
}

#[tokio::test(start_paused = true)]
async fn only_if_cached_sends_nothing() {
    let mock = caching_server("");
    let client = over_pipes(&mock, with_cache);
    let call = || {
        let call = client.get("strict", "/a");
        call.header("cache-control", "only-if-cached").send()
    };
    assert!(call().await.expect_err("never kept").is_cache_miss());
    assert_eq!(mock.audit().count(), 0);
    client.get("strict", "/a").send().await.expect("kept");
    let hit = call().await.expect("the stored response");
    assert_eq!(hit.from_cache(), Some(CacheLabel::Hit));
}
