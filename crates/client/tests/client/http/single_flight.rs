//! Calls that share a response, and calls separated by a write.

use std::time::Duration;

use outflow::event::CacheLabel;
use outflow::{Api, CacheDirective, CacheMode, Outflow, Response};
use outflow_mock::{Fault, Latency, MockApi, MockResponse, Script, ScriptMatch};

use super::support::{over_pipes, scripted};

const MINUTE: Duration = Duration::from_mins(1);
const SECOND: Duration = Duration::from_secs(1);

fn with_cache(api: &mut Api) {
    api.cache = CacheMode::Standard;
    api.retry.count = 0;
}

/// Builds a server whose responses are fresh for a minute, and usable for ten more on errors.
fn caching_server() -> MockApi {
    let mock = scripted(Script::new());
    let control = "max-age=60, stale-if-error=600";
    mock.answer("/**", MockResponse::ok("\"kept\"").header("cache-control", control));
    mock
}

fn slow(mock: &MockApi, latency: Duration) {
    mock.delay(Latency::Fixed(latency), Latency::Fixed(latency));
}

fn statuses(response: &Response) -> Vec<&str> {
    let values = response.headers().get_all("cache-status").iter();
    values.map(|value| value.to_str().expect("text")).collect()
}

/// Builds a client with a response that is stale by a minute.
async fn client_with_stale(mock: &MockApi) -> Outflow {
    let client = over_pipes(mock, with_cache);
    client.get("strict", "/a").send().await.expect("kept");
    tokio::time::sleep(2 * MINUTE).await;
    client
}

#[tokio::test(start_paused = true)]
async fn a_shared_stale_response_is_marked() {
    let mock = caching_server();
    let client = client_with_stale(&mock).await;
    mock.rewrite(Script::new().rule(ScriptMatch::always(), MockResponse::status(503)));
    slow(&mock, SECOND);
    let call = || client.get("strict", "/a").send();
    let (one, two) = tokio::join!(call(), call());
    for response in [one.expect("stale"), two.expect("stale")] {
        assert_eq!(response.from_cache(), Some(CacheLabel::Stale));
        let marks = statuses(&response);
        assert!(marks.iter().any(|mark| mark.contains("ttl=-")), "{marks:?}");
    }
    assert_eq!(mock.audit().count(), 2, "one to keep, one for both");
}

// Four equal calls to a silent server; alone each would end after one second.
#[tokio::test(start_paused = true)]
async fn followers_do_not_wait_for_successive_timeouts() {
    let mock = scripted(Script::new().rule(ScriptMatch::always(), Fault::Hang));
    let client = over_pipes(&mock, |api| {
        with_cache(api);
        api.timeouts.attempt = SECOND;
        api.timeouts.read = SECOND;
    });
    let begun = tokio::time::Instant::now();
    let call = || client.get("strict", "/a").send();
    let ended = tokio::join!(call(), call(), call(), call());
    for error in [ended.0, ended.1, ended.2, ended.3] {
        assert!(error.expect_err("no answer").is_timeout());
    }
    assert!(begun.elapsed() < 2 * SECOND, "{:?}", begun.elapsed());
    assert_eq!(mock.audit().count(), 1);
}

// The leader has unlimited time, its follower a second.
#[tokio::test(start_paused = true)]
async fn a_follower_out_of_time_gets_the_stale_response() {
    let mock = caching_server();
    let client = client_with_stale(&mock).await;
    mock.rewrite(Script::new().rule(ScriptMatch::always(), Fault::Hang));
    let (_, follower) = tokio::join!(
        client.get("strict", "/a").send(),
        client.get("strict", "/a").timeout(SECOND).send(),
    );
    let from = follower.expect("the stored response").from_cache();
    assert_eq!(from, Some(CacheLabel::Stale));
}

#[tokio::test(start_paused = true)]
async fn the_servers_cache_status_reaches_every_follower() {
    let mock = scripted(Script::new());
    let response = MockResponse::ok("1").header("cache-control", "max-age=60");
    mock.answer("/**", response.header("cache-status", "cdn; hit"));
    slow(&mock, SECOND);
    let client = over_pipes(&mock, with_cache);
    let call = || client.get("strict", "/a").send();
    let (one, two) = tokio::join!(call(), call());
    let (one, two) = (one.expect("a response"), two.expect("shared"));
    let own = "outflow; fwd=uri-miss; fwd-status=200; stored";
    assert_eq!(statuses(&one), ["cdn; hit", own]);
    let shared = "outflow; fwd=uri-miss; collapsed";
    assert_eq!(statuses(&two), ["cdn; hit", shared]);
}

#[tokio::test(start_paused = true)]
async fn a_write_that_bypasses_the_cache_invalidates_the_stored_response() {
    let mock = caching_server();
    let client = over_pipes(&mock, with_cache);
    client.get("strict", "/a").send().await.expect("kept");
    let write = client.post("strict", "/a").cache(CacheDirective::Bypass);
    write.body("new").send().await.expect("written");
    let after = client.get("strict", "/a").send().await.expect("a response");
    assert_eq!(after.from_cache(), None);
}

// The read takes four seconds, and the write happens in the second of them. The older response
// neither serves a later read nor stays in the cache.
#[tokio::test(start_paused = true)]
async fn a_read_before_a_write_serves_no_caller_after_it() {
    let mock = caching_server();
    slow(&mock, 4 * SECOND);
    let client = over_pipes(&mock, with_cache);
    let read = || client.get("strict", "/a").send();
    let writer = async {
        tokio::time::sleep(SECOND).await;
        slow(&mock, Duration::ZERO);
        let write = client.post("strict", "/a").body("new");
        write.send().await.expect("written");
    };
    let (old, ()) = tokio::join!(read(), async {
        writer.await;
        let after = read().await.expect("a response");
        assert_eq!(after.from_cache(), None, "it goes by itself");
        let write = client.post("strict", "/a").body("newer");
        write.send().await.expect("written");
    });
    old.expect("a response");
    let later = read().await.expect("a response");
    assert_eq!(later.from_cache(), None, "nothing from before was kept");
}
