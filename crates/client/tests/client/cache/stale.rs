//! Answers past their time: asked about, given when the server fails, and given when nothing is sent.

use std::time::Duration;

use outflow::CacheMode;
use outflow::cache::{BypassReason, Cache, CacheLookup, Freshness};
use outflow::core::WallTime;

use super::support::{Ask, answer, at, fresh, memory, offer, said, stale, word};

#[test]
fn a_stale_answer_is_asked_about_with_its_validators() {
    let cases = [
        ("etag: \"1\"", "if-none-match: \"1\""),
        ("etag: W/\"1\"", "if-none-match: W/\"1\""),
        (
            "last-modified: Tue, 14 Nov 2023 22:13:20 GMT",
            "if-modified-since: Tue, 14 Nov 2023 22:13:20 GMT",
        ),
        (
            "etag: \"1\"\nlast-modified: Tue, 14 Nov 2023 22:13:20 GMT",
            "if-none-match: \"1\"\nif-modified-since: Tue, 14 Nov 2023 22:13:20 GMT",
        ),
        ("x-none: 1", ""),
    ];
    for (lines, conditions) in cases {
        let (cache, ask) = (memory(), Ask::page());
        offer(
            &cache,
            &ask,
            &format!("cache-control: max-age=60\n{lines}"),
            "body",
        );
        let (stored, revalidate, _) = stale(&cache, &ask, 60).expect("stale");
        assert_eq!(revalidate, said(conditions), "{lines}");
        assert!(stored.is_stale(), "a stale answer says so");
    }
}

#[test]
fn a_304_makes_it_fresh_again_with_its_new_headers() {
    let (cache, ask) = (memory(), Ask::page());
    let old =
        "cache-control: max-age=60\netag: \"1\"\nx-old: 1\nx-both: 1\nx-both: 2\ncontent-length: 4";
    offer(&cache, &ask, old, "body");
    let (stored, ..) = stale(&cache, &ask, 100).expect("stale");
    let new =
        said("cache-control: max-age=30\netag: \"1\"\nx-both: 3\nx-new: 4\ncontent-length: 0");
    let renewed = cache.revalidate(&ask.query(), &stored, &answer(304, &new, ""), at(100));
    let renewed = renewed.expect("the same answer");
    assert_eq!(
        (renewed.status.as_u16(), &renewed.body[..]),
        (200, &b"body"[..])
    );
    assert_eq!(renewed.freshness, Freshness::For(Duration::from_secs(30)));
    let told = |name: &str| {
        let values = renewed.headers.get_all(name).iter();
        values
            .map(|value| value.to_str().expect("text"))
            .collect::<Vec<_>>()
            .join(",")
    };
    let all = ["x-old", "x-both", "x-new", "content-length", "age"].map(told);
    assert_eq!(all, ["1", "3", "4", "4", "0"]);
    assert_eq!(
        (word(&cache, &ask, 129), word(&cache, &ask, 130)),
        ("fresh", "stale")
    );
}

// RFC 9111, 4.3.4: a 304 with another validator is about another answer.
#[test]
fn a_304_about_another_answer_renews_nothing() {
    for (had, got, same) in [
        ("etag: \"1\"", "etag: \"2\"", false),
        ("etag: \"1\"", "etag: W/\"1\"", true),
        ("x-none: 1", "etag: \"2\"", false),
        ("etag: \"1\"", "", true),
        (
            "last-modified: Tue, 14 Nov 2023 22:13:20 GMT",
            "last-modified: Tue, 14 Nov 2023 22:13:21 GMT",
            false,
        ),
        ("etag: \"1\"", "etag: \"1\"\nset-cookie: a=b", false),
    ] {
        let (cache, ask) = (memory(), Ask::page());
        offer(
            &cache,
            &ask,
            &format!("cache-control: max-age=60\n{had}"),
            "body",
        );
        let (stored, ..) = stale(&cache, &ask, 60).expect("stale");
        let got = said(got);
        let renewed = cache.revalidate(&ask.query(), &stored, &answer(304, &got, ""), at(60));
        assert_eq!(renewed.is_some(), same, "{had} and {got:?}");
        let expected = if same { "fresh" } else { "missing" };
        assert_eq!(word(&cache, &ask, 60), expected, "{had} and {got:?}");
    }
}

#[test]
fn a_304_that_forbids_keeping_ends_it() {
    let (cache, ask) = (memory(), Ask::page());
    offer(
        &cache,
        &ask,
        "cache-control: max-age=60\netag: \"1\"",
        "body",
    );
    let (stored, ..) = stale(&cache, &ask, 60).expect("stale");
    let got = said("cache-control: no-store");
    let renewed = cache.revalidate(&ask.query(), &stored, &answer(304, &got, ""), at(60));
    assert!(renewed.is_some(), "this caller may have it");
    assert_eq!(word(&cache, &ask, 60), "missing");
}

/// A cache that gives stale answers for 20 seconds on its own account.
fn lenient() -> Cache {
    memory().stale_if_error(Duration::from_secs(20))
}

/// An answer's word; the last second at which it may be given on an error, without and with a usual
/// window of 20 seconds. All are stale from second 60.
const WINDOWS: [(&str, Option<u64>, Option<u64>); 8] = [
    ("max-age=60", None, Some(80)),
    ("max-age=60, stale-if-error=10", Some(70), Some(80)),
    ("max-age=60, stale-if-error=30", Some(90), Some(90)),
    ("max-age=60, stale-if-error=0", None, Some(80)),
    ("max-age=60, stale-if-error=x", None, Some(80)),
    ("max-age=60, stale-if-error=30, must-revalidate", None, None),
    ("max-age=60, stale-if-error=30, no-cache", None, None),
    (
        "max-age=60, Stale-If-Error=10, proxy-revalidate",
        Some(70),
        Some(80),
    ),
];

#[test]
fn a_stale_answer_serves_errors_within_its_window_and_not_beyond() {
    for (order, strict, usual) in WINDOWS {
        for (cache, last) in [(memory(), strict), (lenient(), usual)] {
            let ask = Ask::page();
            offer(&cache, &ask, &format!("cache-control: {order}"), "body");
            let usable = |secs| stale(&cache, &ask, secs).is_some_and(|(.., usable)| usable);
            if let Some(last) = last {
                assert!(usable(60) && usable(last), "{order} at {last}");
            }
            assert!(
                !usable(last.map_or(60, |last| last + 1)),
                "{order} after {last:?}"
            );
        }
    }
}

// Both are orders to shared caches, which only the cache of those without a name is.
#[test]
fn a_shared_answer_that_must_be_confirmed_serves_no_errors() {
    for order in ["max-age=60, proxy-revalidate", "s-maxage=60"] {
        let (cache, ask) = (lenient(), Ask::page().by(None));
        offer(&cache, &ask, &format!("cache-control: {order}"), "body");
        assert!(!stale(&cache, &ask, 61).expect("stale").2, "{order}");
    }
}

#[test]
fn a_request_may_widen_the_window_and_may_refuse_it() {
    let cache = memory();
    offer(&cache, &Ask::page(), "cache-control: max-age=60", "body");
    let usable = |directive: &str| {
        let ask = Ask::page().with("cache-control", directive);
        stale(&cache, &ask, 65).expect("stale").2
    };
    assert!(usable("stale-if-error=10") && !usable("stale-if-error=4"));
    assert!(!usable("stale-if-error=10, no-cache"));
}

#[test]
fn when_nothing_may_be_sent_any_answer_is_given_and_marked() {
    let (cache, ask) = (memory(), Ask::page());
    assert!(
        cache.lookup_any(&ask.query(), at(0)).is_none(),
        "a miss is a miss"
    );
    offer(
        &cache,
        &ask,
        "cache-control: max-age=60, must-revalidate",
        "body",
    );
    let stored = cache.lookup_any(&ask.query(), at(1_000)).expect("kept");
    assert_eq!(&stored.body[..], b"body");
    assert_eq!(
        stored.freshness,
        Freshness::StaleFor(Duration::from_secs(940))
    );
    assert_eq!(stored.cache_status().to_string(), "outflow; hit; ttl=-940");
    assert_eq!(stored.into_response().headers()["age"], "1000");
    // Even to a request that would rather have asked the server.
    for ask in [
        ask.clone().with("cache-control", "no-cache"),
        ask.clone().with("range", "bytes=0-1"),
    ] {
        assert!(cache.lookup_any(&ask.query(), at(1_000)).is_some());
    }
}

#[test]
fn when_nothing_may_be_sent_nobody_gets_what_is_anothers() {
    let (cache, ask) = (memory(), Ask::page());
    offer(&cache, &ask, "cache-control: private, max-age=60", "hers");
    assert!(
        cache
            .lookup_any(&ask.clone().by(Some(b"the-key-of-bob")).query(), at(1))
            .is_none()
    );
    assert!(
        cache
            .lookup_any(&ask.clone().by(None).query(), at(1))
            .is_none()
    );
    assert!(
        cache
            .lookup_any(&ask.mode(CacheMode::Off).query(), at(1))
            .is_none()
    );
}

#[test]
fn what_was_found_says_what_the_cache_did() {
    let (cache, ask) = (memory(), Ask::page());
    let told =
        |ask: &Ask, now: WallTime| cache.lookup(&ask.query(), now).cache_status().to_string();
    assert_eq!(told(&ask, at(0)), "outflow; fwd=uri-miss");
    offer(&cache, &ask, "cache-control: max-age=60", "body");
    assert_eq!(told(&ask, at(10)), "outflow; hit; ttl=50");
    assert_eq!(told(&ask, at(60)), "outflow; fwd=stale");
    assert_eq!(
        told(&ask.clone().mode(CacheMode::Off), at(0)),
        "outflow; fwd=bypass"
    );
    assert_eq!(
        told(&ask.clone().with("range", "bytes=0-1"), at(0)),
        "outflow; fwd=request"
    );
    assert_eq!(
        told(&ask.method(http::Method::POST), at(0)),
        "outflow; fwd=method"
    );
    let off = CacheLookup::NotCacheable(BypassReason::Off);
    assert_eq!(off.cache_status().header_value(), "outflow; fwd=bypass");
}

// The force is ours: within the configured window it outweighs what the answer says.
#[test]
fn a_forced_answer_serves_errors_whatever_it_says() {
    let (cache, ask) = (
        lenient(),
        Ask::page().mode(CacheMode::Force(Duration::from_mins(1))),
    );
    offer(
        &cache,
        &ask,
        "cache-control: no-cache, must-revalidate",
        "body",
    );
    assert!(fresh(&cache, &ask, 59).is_some());
    assert!(stale(&cache, &ask, 80).expect("stale").2);
    assert!(!stale(&cache, &ask, 81).expect("stale").2);
}
