//! Stale responses: revalidated, served when the server fails, and served while the client is
//! offline.

use std::time::Duration;

use outflow::cache::{BypassReason, Cache, CacheLookup, Freshness};
use outflow::core::WallTime;
use outflow::{CacheMode, StaleOffline};

use super::support::{TestRequest, at, fresh, headers_from, lookup, memory, offer, response, stale};

#[test]
fn a_stale_response_is_revalidated_with_its_validators() {
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
        let (cache, request) = (memory(), TestRequest::page());
        offer(&cache, &request, &format!("cache-control: max-age=60\n{lines}"), "body");
        let (stored, revalidate, _) = stale(&cache, &request, 60).expect("stale");
        assert_eq!(revalidate, headers_from(conditions), "{lines}");
        assert!(stored.is_stale(), "a stale answer says so");
    }
}

#[test]
fn a_304_makes_the_response_fresh_with_its_new_headers() {
    let (cache, request) = (memory(), TestRequest::page());
    let old = "cache-control: max-age=60\netag: \"1\"\nx-old: 1\nx-both: 1\nx-both: 2\ncontent-length: 4";
    offer(&cache, &request, old, "body");
    let (stored, ..) = stale(&cache, &request, 100).expect("stale");
    let new = headers_from("cache-control: max-age=30\netag: \"1\"\nx-both: 3\nx-new: 4\ncontent-length: 0");
    let renewed = cache.revalidate(&request.query(), &stored, &response(304, &new, ""), at(100));
    let renewed = renewed.expect("the same answer");
    assert_eq!((renewed.status.as_u16(), &renewed.body[..]), (200, &b"body"[..]));
    assert_eq!(renewed.freshness, Freshness::For(Duration::from_secs(30)));
    let shown = |name: &str| {
        let values = renewed.headers.get_all(name).iter();
        values
            .map(|value| value.to_str().expect("text"))
            .collect::<Vec<_>>()
            .join(",")
    };
    let all = ["x-old", "x-both", "x-new", "content-length", "age"].map(shown);
    assert_eq!(all, ["1", "3", "4", "4", "0"]);
    assert_eq!(
        (lookup(&cache, &request, 129), lookup(&cache, &request, 130)),
        ("fresh", "stale")
    );
}

// A server that adds headers with every 304 would let the stored head grow without bound.
#[test]
fn a_304_that_makes_the_head_too_large_renews_nothing() {
    let many = (0..300)
        .map(|number| format!("\nx-{number}: 1"))
        .collect::<Vec<_>>()
        .concat();
    let long = format!("\nx-long: {}", "a".repeat(70_000));
    for more in [many, long] {
        let (cache, request) = (memory(), TestRequest::page());
        offer(&cache, &request, "cache-control: max-age=60\netag: \"1\"", "body");
        let (stored, ..) = stale(&cache, &request, 100).expect("stale");
        let new = headers_from(&format!("cache-control: max-age=30\netag: \"1\"{more}"));
        let renewed = cache.revalidate(&request.query(), &stored, &response(304, &new, ""), at(100));
        assert!(renewed.is_none());
    }
}

// RFC 9111, 4.3.4: a 304 with another validator is about another response.
#[test]
fn a_304_with_another_validator_renews_nothing() {
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
    ] {
        let (cache, request) = (memory(), TestRequest::page());
        offer(&cache, &request, &format!("cache-control: max-age=60\n{had}"), "body");
        let (stored, ..) = stale(&cache, &request, 60).expect("stale");
        let got = headers_from(got);
        let renewed = cache.revalidate(&request.query(), &stored, &response(304, &got, ""), at(60));
        assert_eq!(renewed.is_some(), same, "{had} and {got:?}");
        let expected = if same { "fresh" } else { "missing" };
        assert_eq!(lookup(&cache, &request, 60), expected, "{had} and {got:?}");
    }
}

#[test]
fn a_304_with_no_store_removes_the_response() {
    let (cache, request) = (memory(), TestRequest::page());
    offer(&cache, &request, "cache-control: max-age=60\netag: \"1\"", "body");
    let (stored, ..) = stale(&cache, &request, 60).expect("stale");
    let got = headers_from("cache-control: no-store");
    let renewed = cache.revalidate(&request.query(), &stored, &response(304, &got, ""), at(60));
    assert!(renewed.is_some(), "this caller may have it");
    assert_eq!(lookup(&cache, &request, 60), "missing");
}

/// Opens a cache that serves stale responses for 20 seconds by configuration.
fn stale_cache() -> Cache {
    memory().stale_if_error(Duration::from_secs(20))
}

/// A directive; the last second at which the response may serve an error, without and with a
/// default window of 20 seconds. All are stale from second 60.
const WINDOWS: [(&str, Option<u64>, Option<u64>); 8] = [
    ("max-age=60", None, Some(80)),
    ("max-age=60, stale-if-error=10", Some(70), Some(80)),
    ("max-age=60, stale-if-error=30", Some(90), Some(90)),
    ("max-age=60, stale-if-error=0", None, Some(80)),
    ("max-age=60, stale-if-error=x", None, Some(80)),
    ("max-age=60, stale-if-error=30, must-revalidate", None, None),
    ("max-age=60, stale-if-error=30, no-cache", None, None),
    ("max-age=60, Stale-If-Error=10, proxy-revalidate", Some(70), Some(80)),
];

#[test]
fn a_stale_response_serves_errors_only_within_its_window() {
    for (order, strict, usual) in WINDOWS {
        for (cache, last) in [(memory(), strict), (stale_cache(), usual)] {
            let request = TestRequest::page();
            offer(&cache, &request, &format!("cache-control: {order}"), "body");
            let usable = |secs| stale(&cache, &request, secs).is_some_and(|(.., usable)| usable);
            if let Some(last) = last {
                assert!(usable(60) && usable(last), "{order} at {last}");
            }
            assert!(!usable(last.map_or(60, |last| last + 1)), "{order} after {last:?}");
        }
    }
}

// Both directives address shared caches, and only the cache without a credential is shared.
#[test]
fn a_shared_response_that_requires_validation_serves_no_errors() {
    for order in ["max-age=60, proxy-revalidate", "s-maxage=60"] {
        let (cache, request) = (stale_cache(), TestRequest::page().with_credential(None));
        offer(&cache, &request, &format!("cache-control: {order}"), "body");
        assert!(!stale(&cache, &request, 61).expect("stale").2, "{order}");
    }
}

#[test]
fn a_request_may_widen_or_refuse_the_stale_window() {
    let cache = memory();
    offer(&cache, &TestRequest::page(), "cache-control: max-age=60", "body");
    let usable = |directive: &str| {
        let request = TestRequest::page().with("cache-control", directive);
        stale(&cache, &request, 65).expect("stale").2
    };
    assert!(usable("stale-if-error=10") && !usable("stale-if-error=4"));
    assert!(!usable("stale-if-error=10, no-cache"));
}

#[test]
fn offline_mode_serves_any_response_and_marks_it() {
    let (cache, request) = (memory(), TestRequest::page());
    assert!(cache.lookup_any(&request.query(), at(0)).is_none(), "a miss is a miss");
    offer(&cache, &request, "cache-control: max-age=60", "body");
    let stored = cache.lookup_any(&request.query(), at(1_000)).expect("kept");
    assert_eq!(&stored.body[..], b"body");
    assert_eq!(stored.freshness, Freshness::StaleFor(Duration::from_secs(940)));
    assert_eq!(stored.cache_status().to_string(), "outflow; hit; ttl=-940");
    assert_eq!(stored.into_response().headers()["age"], "1000");
    // Even to a request that asks for validation.
    for request in [
        request.clone().with("cache-control", "no-cache"),
        request.clone().with("range", "bytes=0-1"),
    ] {
        assert!(cache.lookup_any(&request.query(), at(1_000)).is_some());
    }
}

// Each response but the first two is fresh for a minute. The columns: served fresh, served stale to a caller with a
// credential, and without one, where the directives of shared caches apply, too.
#[test]
fn offline_mode_serves_nothing_stale_that_requires_validation() {
    let (private, shared) = (TestRequest::page(), TestRequest::page().with_credential(None));
    for (order, fresh, stale_private, stale_shared) in [
        ("no-cache", false, false, false),
        ("no-cache, max-age=60", false, false, false),
        ("max-age=60, must-revalidate", true, false, false),
        ("max-age=60, Must-Revalidate", true, false, false),
        ("max-age=60, proxy-revalidate", true, true, false),
        ("max-age=60, s-maxage=60", true, true, false),
        ("max-age=60", true, true, true),
    ] {
        for (request, stale) in [(&private, stale_private), (&shared, stale_shared)] {
            let cache = memory();
            offer(&cache, request, &format!("cache-control: {order}"), "body");
            let serves = |cache: &Cache, secs| cache.lookup_any(&request.query(), at(secs)).is_some();
            assert_eq!((serves(&cache, 59), serves(&cache, 60)), (fresh, stale), "{order}");
            assert!(serves(&cache.stale_offline(StaleOffline::Any), 1_000), "{order}");
        }
    }
}

// RFC 9111, 5.2.2: a request cannot override what a response forbids.
#[test]
fn a_request_accepts_no_stale_response_against_its_directives() {
    for (order, accepted) in [
        ("max-age=60", true),
        ("max-age=60, must-revalidate", false),
        ("max-age=60, proxy-revalidate", false),
        ("s-maxage=60", false),
        ("no-cache, max-age=60", false),
    ] {
        let cache = memory();
        let request = TestRequest::page().with_credential(None);
        offer(&cache, &request, &format!("cache-control: {order}"), "body");
        let lenient = request.with("cache-control", "max-stale=100");
        assert_eq!(fresh(&cache, &lenient, 61).is_some(), accepted, "{order}");
    }
}

#[test]
fn offline_mode_serves_no_caller_another_callers_response() {
    let (cache, request) = (memory(), TestRequest::page());
    offer(&cache, &request, "cache-control: private, max-age=60", "hers");
    assert!(
        cache
            .lookup_any(&request.clone().with_credential(Some(b"the-key-of-bob")).query(), at(1))
            .is_none()
    );
    assert!(
        cache
            .lookup_any(&request.clone().with_credential(None).query(), at(1))
            .is_none()
    );
    assert!(cache.lookup_any(&request.mode(CacheMode::Off).query(), at(1)).is_none());
}

#[test]
fn cache_status_reports_the_lookup_result() {
    let (cache, request) = (memory(), TestRequest::page());
    let shown = |request: &TestRequest, now: WallTime| cache.lookup(&request.query(), now).cache_status().to_string();
    assert_eq!(shown(&request, at(0)), "outflow; fwd=uri-miss");
    offer(&cache, &request, "cache-control: max-age=60", "body");
    assert_eq!(shown(&request, at(10)), "outflow; hit; ttl=50");
    assert_eq!(shown(&request, at(60)), "outflow; fwd=stale");
    assert_eq!(
        shown(&request.clone().mode(CacheMode::Off), at(0)),
        "outflow; fwd=bypass"
    );
    assert_eq!(
        shown(&request.clone().with("range", "bytes=0-1"), at(0)),
        "outflow; fwd=request"
    );
    assert_eq!(shown(&request.method(http::Method::POST), at(0)), "outflow; fwd=method");
    let off = CacheLookup::NotCacheable(BypassReason::Off);
    assert_eq!(off.cache_status().header_value(), "outflow; fwd=bypass");
}

// The configured window outweighs the response's directives.
#[test]
fn a_forced_response_serves_errors_against_its_directives() {
    let (cache, request) = (
        stale_cache(),
        TestRequest::page().mode(CacheMode::Force(Duration::from_mins(1))),
    );
    offer(&cache, &request, "cache-control: no-cache, must-revalidate", "body");
    assert!(fresh(&cache, &request, 59).is_some());
    assert!(stale(&cache, &request, 80).expect("stale").2);
    assert!(!stale(&cache, &request, 81).expect("stale").2);
}
