//! Calls that share an answer, and calls that a write stands between.

use std::time::Duration;

use outflow::event::CacheLabel;
use outflow::{Api, CacheDirective, CacheMode, Outflow, Response};
use outflow_mock::{Fault, Latency, MockApi, MockResponse, Script, ScriptMatch};

use super::support::{over_pipes, scripted};

const MINUTE: Duration = Duration::from_mins(1);
const SECOND: Duration = Duration::from_secs(1);

fn keeping(api: &mut Api) {
    api.cache = CacheMode::Standard;
    api.retry.count = 0;
}

/// A server whose answers are good for a minute, and ten more where it fails.
fn lasting() -> MockApi {
    let strict = scripted(Script::new());
    let control = "max-age=60, stale-if-error=600";
    strict.answer(
        "/**",
        MockResponse::ok("\"kept\"").header("cache-control", control),
    );
    strict
}

fn slow(strict: &MockApi, way: Duration) {
    strict.delay(Latency::Fixed(way), Latency::Fixed(way));
}

fn statuses(answer: &Response) -> Vec<&str> {
    let values = answer.headers().get_all("cache-status").iter();
    values.map(|value| value.to_str().expect("text")).collect()
}

/// A client that has kept an answer which is stale by a minute.
async fn outdated(strict: &MockApi) -> Outflow {
    let client = over_pipes(strict, keeping);
    client.get("strict", "/a").send().await.expect("kept");
    tokio::time::sleep(2 * MINUTE).await;
    client
}

#[tokio::test(start_paused = true)]
async fn a_stale_answer_is_marked_for_those_who_share_it() {
    let strict = lasting();
    let client = outdated(&strict).await;
    strict.rewrite(Script::new().rule(ScriptMatch::always(), MockResponse::status(503)));
    slow(&strict, SECOND);
    let call = || client.get("strict", "/a").send();
    let (one, two) = tokio::join!(call(), call());
    for answer in [one.expect("stale"), two.expect("stale")] {
        assert_eq!(answer.from_cache(), Some(CacheLabel::Stale));
        let marks = statuses(&answer);
        assert!(marks.iter().any(|mark| mark.contains("ttl=-")), "{marks:?}");
    }
    assert_eq!(strict.audit().count(), 2, "one to keep, one for both");
}

// Four equal calls to a server that never answers; alone each would end after one second.
#[tokio::test(start_paused = true)]
async fn followers_do_not_wait_for_one_anothers_timeouts_in_turn() {
    let strict = scripted(Script::new().rule(ScriptMatch::always(), Fault::Hang));
    let client = over_pipes(&strict, |api| {
        keeping(api);
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
    assert_eq!(strict.audit().count(), 1);
}

// The leader has all the time it wants, its follower a second.
#[tokio::test(start_paused = true)]
async fn a_follower_out_of_time_gets_the_stale_answer_too() {
    let strict = lasting();
    let client = outdated(&strict).await;
    strict.rewrite(Script::new().rule(ScriptMatch::always(), Fault::Hang));
    let (_, follower) = tokio::join!(
        client.get("strict", "/a").send(),
        client.get("strict", "/a").timeout(SECOND).send(),
    );
    let from = follower.expect("what was kept").from_cache();
    assert_eq!(from, Some(CacheLabel::Stale));
}

#[tokio::test(start_paused = true)]
async fn the_servers_own_cache_status_reaches_all_who_share_its_answer() {
    let strict = scripted(Script::new());
    let answer = MockResponse::ok("1").header("cache-control", "max-age=60");
    strict.answer("/**", answer.header("cache-status", "cdn; hit"));
    slow(&strict, SECOND);
    let client = over_pipes(&strict, keeping);
    let call = || client.get("strict", "/a").send();
    let (one, two) = tokio::join!(call(), call());
    let (one, two) = (one.expect("an answer"), two.expect("shared"));
    let own = "outflow; fwd=uri-miss; fwd-status=200; stored";
    assert_eq!(statuses(&one), ["cdn; hit", own]);
    let shared = "outflow; fwd=uri-miss; collapsed";
    assert_eq!(statuses(&two), ["cdn; hit", shared]);
}

#[tokio::test(start_paused = true)]
async fn a_write_around_the_cache_makes_what_was_kept_obsolete() {
    let strict = lasting();
    let client = over_pipes(&strict, keeping);
    client.get("strict", "/a").send().await.expect("kept");
    let write = client.post("strict", "/a").cache(CacheDirective::Bypass);
    write.body("new").send().await.expect("written");
    let after = client.get("strict", "/a").send().await.expect("an answer");
    assert_eq!(after.from_cache(), None);
}

// The read is on its way for at least four seconds, the write happens in the second one of them. What
// came before it neither answers a read after it nor stays in the cache.
#[tokio::test(start_paused = true)]
async fn a_read_from_before_a_write_answers_nobody_after_it() {
    let strict = lasting();
    slow(&strict, 4 * SECOND);
    let client = over_pipes(&strict, keeping);
    let read = || client.get("strict", "/a").send();
    let writer = async {
        tokio::time::sleep(SECOND).await;
        slow(&strict, Duration::ZERO);
        let write = client.post("strict", "/a").body("new");
        write.send().await.expect("written");
    };
    let (old, ()) = tokio::join!(read(), async {
        writer.await;
        let after = read().await.expect("an answer");
        assert_eq!(after.from_cache(), None, "it goes by itself");
        let write = client.post("strict", "/a").body("newer");
        write.send().await.expect("written");
    });
    old.expect("an answer");
    let later = read().await.expect("an answer");
    assert_eq!(later.from_cache(), None, "nothing from before was kept");
}
