//! Reproductions: what the cache does on the way of a call and should not.
#![allow(dead_code, clippy::all, clippy::pedantic, clippy::disallowed_methods)]

#[path = "http/support.rs"]
mod support;

use std::time::Duration;

use http::HeaderName;
use outflow::cache::{Cache, CacheSettings};
use outflow::core::Hold;
use outflow::event::Lookup;
use outflow::{Api, CacheMode, CacheUse, Credential, Outflow, Place};
use outflow_upstream::{Answer, Fault, Latency, Script, Server, StrictApi, When};
use support::{Heard, eager, over_pipes, over_sockets, scripted};

const MINUTE: Duration = Duration::from_secs(60);
const SECOND: Duration = Duration::from_secs(1);

fn keeping(api: &mut Api) {
    api.cache = CacheMode::Standard;
}

fn lasting(extra: &str) -> StrictApi {
    let strict = scripted(Script::new());
    let control = format!("max-age=60{extra}");
    strict.answer(
        "/**",
        Answer::ok("\"kept\"").header("cache-control", &control),
    );
    strict
}

async fn noting() -> (StrictApi, Server) {
    let mut builder = StrictApi::builder();
    for name in ["authorization", "cookie", "x-api-key", "if-none-match"] {
        builder = builder.noting(HeaderName::from_static(name));
    }
    let strict = builder.build().expect("valid");
    let server = strict.listen().await.expect("a port");
    (strict, server)
}

/// Every request for a path, with the names of its noted headers.
fn seen(strict: &StrictApi, path: &str) -> Vec<Vec<String>> {
    let audit = strict.audit();
    let all = audit
        .arrivals()
        .iter()
        .filter(|one| one.path.starts_with(path));
    all.map(|one| {
        one.headers
            .iter()
            .map(|(name, _)| name.to_string())
            .collect()
    })
    .collect()
}

// A stale answer is asked about; the API redirects to another origin, whose 304 is about something
// else, so the request is made again: with the key that had been left behind.
#[tokio::test]
async fn rev2_no_key_follows_to_another_origin_after_a_strange_304() {
    for place in [
        Place::Bearer,
        Place::Header(HeaderName::from_static("x-api-key")),
    ] {
        let (strict, server) = noting().await;
        let (other, elsewhere) = noting().await;
        let tagged = Answer::ok("\"kept\"")
            .header("cache-control", "max-age=0")
            .header("etag", "\"1\"");
        strict.answer("/a", tagged);
        other.answer("/there", Answer::status(304).header("etag", "\"other\""));
        let client = over_sockets(&server, |api| {
            keeping(api);
            api.credential = Some(Credential {
                secret: "CANARY-7f3a".to_owned().into(),
                place,
            });
        });
        let call = || client.get("strict", "/a").header("cookie", "CANARY-cookie");
        call().send().await.expect("kept");
        strict.answer(
            "/a",
            Answer::redirect(302, &format!("{}/there", elsewhere.url())),
        );
        let _ended = call().send().await;
        for headers in seen(&other, "/there") {
            let leaked = headers.iter().any(|name| name != "if-none-match");
            assert!(!leaked, "another origin was told {headers:?}");
        }
    }
}

// The other origin says "not modified" of its own resource; ours is then good for a year.
#[tokio::test]
async fn rev2_another_origin_confirms_nothing_of_ours() {
    let (strict, server) = noting().await;
    let (other, elsewhere) = noting().await;
    let tagged = Answer::ok("\"kept\"")
        .header("cache-control", "max-age=0")
        .header("etag", "\"1\"");
    strict.answer("/a", tagged);
    other.answer(
        "/there",
        Answer::status(304).header("cache-control", "max-age=31536000"),
    );
    let client = over_sockets(&server, keeping);
    client.get("strict", "/a").send().await.expect("kept");
    strict.answer(
        "/a",
        Answer::redirect(302, &format!("{}/there", elsewhere.url())),
    );
    let _ended = client.get("strict", "/a").send().await;
    let third = client.get("strict", "/a").send().await;
    let from = third.ok().and_then(|answer| answer.from_cache());
    assert_ne!(
        from,
        Some(Lookup::Hit),
        "pinned for a year by another origin"
    );
}

#[tokio::test(start_paused = true)]
async fn rev2_a_streaming_call_is_answered_from_the_cache_when_nothing_may_be_sent() {
    for hold in [Hold::CacheOnly, Hold::Sleep] {
        let strict = lasting("");
        let client = over_pipes(&strict, keeping);
        client.get("strict", "/a").send().await.expect("kept");
        tokio::time::sleep(10 * MINUTE).await;
        client.upstream("strict").expect("there").force(None, hold);
        let whole = client.get("strict", "/a").send().await;
        assert!(whole.is_ok());
        let missing = client
            .get("strict", "/b")
            .send_streaming()
            .await
            .expect_err("never kept");
        let flowing = client.get("strict", "/a").send_streaming().await;
        assert!(
            flowing.is_ok(),
            "{hold:?}: {:?}; a miss: {missing}",
            flowing.err()
        );
        assert!(missing.is_cache_miss(), "{hold:?}: {missing}");
    }
}

#[tokio::test(start_paused = true)]
async fn rev2_a_streaming_call_gets_the_stale_answer_that_a_whole_one_gets() {
    let strict = lasting(", stale-if-error=600");
    let client = over_pipes(&strict, |api| {
        keeping(api);
        api.retry.count = 0;
    });
    client.get("strict", "/a").send().await.expect("kept");
    strict.rewrite(Script::new().rule(When::always(), Fault::CloseBeforeHead));
    tokio::time::sleep(2 * MINUTE).await;
    let heard = Heard::on(client.events());
    let flowing = client.get("strict", "/a").send_streaming().await;
    assert!(flowing.is_ok(), "{:?}", flowing.err());
    drop(heard);
}

// Two equal calls, one answer that is stale: both must be told so.
#[tokio::test(start_paused = true)]
async fn rev2_a_stale_answer_is_marked_for_those_who_share_it() {
    let strict = lasting(", stale-if-error=600");
    let client = over_pipes(&strict, |api| {
        keeping(api);
        api.retry.count = 0;
    });
    client.get("strict", "/a").send().await.expect("kept");
    strict.rewrite(Script::new().rule(When::always(), Answer::status(503)));
    let way = Latency::Fixed(SECOND);
    strict.delay(way, way);
    tokio::time::sleep(2 * MINUTE).await;
    let call = || client.get("strict", "/a").send();
    let (one, two) = tokio::join!(call(), call());
    let (one, two) = (one.expect("stale"), two.expect("stale"));
    let status = |answer: &outflow::Response| {
        answer.headers()["cache-status"]
            .to_str()
            .unwrap()
            .to_owned()
    };
    println!(
        "{:?} {} / {:?} {}",
        one.from_cache(),
        status(&one),
        two.from_cache(),
        status(&two)
    );
    assert!(
        status(&two).contains("ttl=-"),
        "{} but {}",
        status(&one),
        status(&two)
    );
}

// Ten equal calls to a server that never answers; alone each would end after one second.
#[tokio::test(start_paused = true)]
async fn rev2_followers_do_not_wait_for_one_anothers_timeouts_in_turn() {
    let strict = scripted(Script::new().rule(When::always(), Fault::Hang));
    let client = over_pipes(&strict, |api| {
        keeping(api);
        api.retry.count = 0;
        api.timeouts.attempt = SECOND;
        api.timeouts.read = SECOND;
    });
    let begun = tokio::time::Instant::now();
    let calls = (0..10).map(|_| async {
        let ended = client.get("strict", "/a").send().await;
        (begun.elapsed(), ended.is_err())
    });
    let mut ended = Vec::new();
    let mut set: Vec<_> = calls.map(Box::pin).collect();
    std::future::poll_fn(|context| {
        set.retain_mut(|call| match call.as_mut().poll(context) {
            std::task::Poll::Ready(done) => {
                ended.push(done);
                false
            }
            std::task::Poll::Pending => true,
        });
        if set.is_empty() {
            std::task::Poll::Ready(())
        } else {
            std::task::Poll::Pending
        }
    })
    .await;
    let last = ended.iter().map(|(span, _)| *span).max().unwrap();
    assert!(last < 3 * SECOND, "the last of ten ended after {last:?}");
}

// The leader is given what is stale; the follower, whose time runs out first, gets nothing.
#[tokio::test(start_paused = true)]
async fn rev2_a_follower_out_of_time_gets_the_stale_answer_too() {
    let strict = lasting(", stale-if-error=600");
    let client = over_pipes(&strict, |api| {
        keeping(api);
        api.retry.count = 0;
    });
    client.get("strict", "/a").send().await.expect("kept");
    strict.rewrite(Script::new().rule(When::always(), Fault::Hang));
    tokio::time::sleep(2 * MINUTE).await;
    let alone = client.get("strict", "/a").within(SECOND).send().await;
    assert_eq!(
        alone.expect("stale").from_cache(),
        Some(Lookup::Stale),
        "as a leader"
    );
    let (_, follower) = tokio::join!(
        client.get("strict", "/a").send(),
        client.get("strict", "/a").within(SECOND).send(),
    );
    assert!(follower.is_ok(), "as a follower: {:?}", follower.err());
}

#[tokio::test(start_paused = true)]
async fn rev2_a_write_around_the_cache_makes_what_was_kept_obsolete() {
    let strict = lasting("");
    let client = over_pipes(&strict, keeping);
    client.get("strict", "/a").send().await.expect("kept");
    client
        .post("strict", "/a")
        .cache(CacheUse::Bypass)
        .body("new")
        .send()
        .await
        .expect("written");
    let after = client.get("strict", "/a").send().await.expect("an answer");
    assert_eq!(after.from_cache(), None, "the old answer after a write");
}

#[tokio::test(start_paused = true)]
async fn rev2_only_if_cached_sends_nothing() {
    let strict = lasting("");
    let client = over_pipes(&strict, keeping);
    let ended = client
        .get("strict", "/a")
        .header("cache-control", "only-if-cached")
        .send()
        .await;
    println!("{:?}", ended.map(|answer| answer.status()));
    assert_eq!(strict.audit().count(), 0);
}

// Who is meant by a header whose name is on no list.
#[tokio::test(start_paused = true)]
async fn rev2_callers_told_apart_by_a_header_of_any_name_never_mix() {
    for name in [
        "x-client-id",
        "x-pass",
        "x-identity",
        "x-workspace",
        "x-shop",
        "x-customer",
        "x-bearer",
    ] {
        let strict = scripted(Script::new());
        strict.answer(
            "/**",
            Answer::ok("\"alice's\"").header("cache-control", "max-age=60"),
        );
        let client = over_pipes(&strict, keeping);
        client
            .get("strict", "/me")
            .header(name, "alice")
            .send()
            .await
            .expect("kept");
        let bob = client
            .get("strict", "/me")
            .header(name, "bob")
            .send()
            .await
            .expect("an answer");
        assert_eq!(bob.from_cache(), None, "{name}: bob got alice's answer");
    }
}

// A GET that was under way before a write must not answer a GET that came after it.
#[tokio::test(start_paused = true)]
async fn rev2_who_has_written_is_not_answered_by_an_older_flight() {
    let strict = scripted(Script::new());
    strict.answer(
        "/**",
        Answer::ok("\"old\"").header("cache-control", "max-age=60"),
    );
    let way = Latency::Fixed(5 * SECOND);
    strict.delay(way, way);
    let client = over_pipes(&strict, keeping);
    let old = client.get("strict", "/a").send();
    let writer = async {
        tokio::time::sleep(SECOND).await;
        strict.delay(
            Latency::Fixed(Duration::ZERO),
            Latency::Fixed(Duration::ZERO),
        );
        client
            .post("strict", "/a")
            .body("new")
            .send()
            .await
            .expect("written");
        client
            .get("strict", "/a")
            .send()
            .await
            .expect("an answer")
            .from_cache()
    };
    let (_, after) = tokio::join!(old, writer);
    assert_eq!(
        after, None,
        "a read after a write joined a flight from before it"
    );
}

/// What a directory holds, as text.
fn files(dir: &std::path::Path) -> String {
    let mut all = String::new();
    for file in std::fs::read_dir(dir).unwrap().flatten() {
        all += &file.file_name().to_string_lossy();
        all += &String::from_utf8_lossy(&std::fs::read(file.path()).unwrap_or_default());
    }
    all
}

async fn cached_on_disk(
    adapt: impl FnOnce(&mut Api),
    path: &str,
    header: Option<(&str, &str)>,
    echo: &str,
) -> String {
    let dir = tempfile::tempdir().unwrap();
    let cache = Cache::open(CacheSettings {
        dir: Some(dir.path().join("c")),
        ..CacheSettings::default()
    })
    .unwrap();
    let strict = scripted(Script::new());
    strict.answer(
        "/**",
        Answer::ok(echo.to_owned())
            .header("cache-control", "max-age=60")
            .header("link", echo),
    );
    let server = strict.listen().await.unwrap();
    let mut api = eager(&server.url());
    keeping(&mut api);
    adapt(&mut api);
    let client = Outflow::builder()
        .api(api)
        .cache(cache.clone())
        .build()
        .unwrap();
    let mut call = client.get("strict", path);
    if let Some((name, value)) = header {
        call = call.header(name, value);
    }
    call.send().await.unwrap();
    cache.flush();
    files(&dir.path().join("c"))
}

#[tokio::test]
async fn rev2_a_key_echoed_as_a_url_carries_it_is_in_no_file() {
    let text = cached_on_disk(
        |api| {
            api.credential = Some(Credential {
                secret: "CANARY/7f3a+x9".to_owned().into(),
                place: Place::Query("key".into()),
            });
        },
        "/a",
        None,
        "</a?key=CANARY%2F7f3a%2Bx9&page=2>; rel=next",
    )
    .await;
    assert!(
        !text.contains("CANARY"),
        "the key, percent-encoded, is on disk"
    );
}

#[tokio::test]
async fn rev2_a_password_echoed_in_plain_is_in_no_file() {
    // user:CANARY-7f3a
    let text = cached_on_disk(
        |_| {},
        "/a",
        Some(("authorization", "Basic dXNlcjpDQU5BUlktN2YzYQ==")),
        "hello user:CANARY-7f3a",
    )
    .await;
    assert!(!text.contains("CANARY"), "the password is on disk");
}

// The name under which a large weather service takes its keys.
#[tokio::test]
async fn rev2_a_key_under_an_unlisted_parameter_is_in_no_file() {
    for path in [
        "/a?appid=CANARY-7f3a",
        "/a?pwd=CANARY-7f3a",
        "/a?code=CANARY-7f3a",
    ] {
        let text = cached_on_disk(
            |_| {},
            path,
            None,
            "</a?appid=CANARY-7f3a&page=2>; rel=next",
        )
        .await;
        assert!(!text.contains("CANARY"), "{path}: the key is on disk");
    }
}

#[tokio::test]
async fn rev2_a_secret_in_any_header_is_in_no_file() {
    let text = cached_on_disk(
        |_| {},
        "/a",
        Some(("x-other", "CANARY-7f3a")),
        "you said CANARY-7f3a",
    )
    .await;
    assert!(!text.contains("CANARY"), "a header's value is on disk");
}

// Streaming reads ask the cache and are not counted among its misses.
#[tokio::test(start_paused = true)]
async fn rev2_a_streaming_miss_is_told_and_marked() {
    let strict = lasting("");
    let client = over_pipes(&strict, keeping);
    let heard = Heard::on(client.events());
    let answer = client
        .get("strict", "/a")
        .send_streaming()
        .await
        .expect("an answer");
    let told = heard
        .all()
        .iter()
        .any(|event| matches!(event.what, outflow::event::What::Cache { .. }));
    assert!(
        told && answer.headers().contains_key("cache-status"),
        "told {told}, marked {:?}",
        answer.headers().get("cache-status")
    );
}

// The server's own Cache-Status is part of its answer, for followers as well as for the leader.
#[tokio::test(start_paused = true)]
async fn rev2_the_servers_own_cache_status_reaches_all_who_share_its_answer() {
    let strict = scripted(Script::new());
    strict.answer(
        "/**",
        Answer::ok("1")
            .header("cache-control", "max-age=60")
            .header("cache-status", "cdn; hit"),
    );
    let way = Latency::Fixed(SECOND);
    strict.delay(way, way);
    let client = over_pipes(&strict, keeping);
    let call = || client.get("strict", "/a").send();
    let (one, two) = tokio::join!(call(), call());
    let all = |answer: outflow::Response| {
        answer
            .headers()
            .get_all("cache-status")
            .iter()
            .map(|v| v.to_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    let (one, two) = (all(one.unwrap()), all(two.unwrap()));
    assert!(
        two.iter().any(|v| v.starts_with("cdn")),
        "{one:?} / {two:?}"
    );
}
