//! Freshness lifetimes, and the responses that the cache stores at all.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Method, StatusCode};
use outflow::CacheMode;
use outflow::cache::{BypassReason, CacheLookup, CacheableResponse, Freshness, NotStored, StoreDecision};
use outflow::core::WallTime;

use super::support::{TestRequest, at, fresh, headers_from, lookup, memory, offer, response, stale};

/// Offered at second 0 by a caller with a key; the last second of freshness, if any.
const LIFETIMES: [(&str, Option<u64>); 31] = [
    ("cache-control: max-age=60", Some(59)),
    ("Cache-Control: MAX-AGE=\"60\"", Some(59)),
    ("cache-control: max-age=0", None),
    ("cache-control: max-age=-1", None),
    ("cache-control: max-age=60, max-age=90", Some(59)),
    // 40 of the 60 seconds passed elsewhere.
    ("cache-control: max-age=60\nage: 40", Some(19)),
    ("cache-control: max-age=60\nage: 60", None),
    // The first of several ages counts, in one line or two; what is no number of seconds does not.
    ("cache-control: max-age=60\nage: 40, 0", Some(19)),
    ("cache-control: max-age=60\nage: 0, 60", Some(59)),
    ("cache-control: max-age=60\nage: 40\nage: 0", Some(19)),
    ("cache-control: max-age=60\nage: 0\nage: 60", Some(59)),
    ("cache-control: max-age=60\nage: 60.5", Some(59)),
    ("cache-control: max-age=60\nage: -60", Some(59)),
    // More than 64 bits: too old for any lifetime.
    ("cache-control: max-age=60\nage: 99999999999999999999", None),
    // By its date it is 10 seconds old.
    (
        "cache-control: max-age=60\ndate: Tue, 14 Nov 2023 22:13:10 GMT",
        Some(49),
    ),
    (
        "date: Tue, 14 Nov 2023 22:13:20 GMT\nexpires: Tue, 14 Nov 2023 22:14:20 GMT",
        Some(59),
    ),
    // The other two date formats.
    (
        "date: Tuesday, 14-Nov-23 22:13:20 GMT\nexpires: Tue Nov 14 22:14:20 2023",
        Some(59),
    ),
    ("expires: Tue, 14 Nov 2023 22:14:20 GMT", Some(59)),
    ("expires: 0", None),
    ("expires: tue, 14 nov 2023 22:14:20 gmt", Some(59)),
    // Nearly dates, which a lenient reader accepts.
    ("expires: Tue, 14 Nov 2023 22:14:20 UTC", None),
    ("expires: Tue, 14 Nov 2023 22:14:20 +0000", None),
    ("expires: Tue,  14 Nov  2023 22:14:20 GMT", None),
    // An invalid date does not make the end of the lifetime invalid.
    ("date: yesterday\nexpires: Tue, 14 Nov 2023 22:14:20 GMT", Some(59)),
    // `max-age` outweighs `Expires`, either way.
    ("expires: 0\ncache-control: max-age=60", Some(59)),
    // A tenth of 1000 seconds without change.
    ("last-modified: Tue, 14 Nov 2023 21:56:40 GMT", Some(99)),
    // A tenth of years would be months: a heuristic lifetime ends after a day.
    ("last-modified: Tue, 14 Nov 2000 22:13:20 GMT", Some(86_399)),
    ("etag: \"1\"", None),
    ("cache-control: max-age=60, no-cache", None),
    ("pragma: no-cache\nexpires: Tue, 14 Nov 2023 22:14:20 GMT", None),
    // A caller's own cache is not a shared one.
    ("cache-control: s-maxage=5, max-age=60", Some(59)),
];

#[test]
fn a_response_is_fresh_exactly_as_long_as_it_declares() {
    for (lines, last) in LIFETIMES {
        let (cache, request) = (memory(), TestRequest::page());
        assert_eq!(offer(&cache, &request, lines, "body"), StoreDecision::Stored, "{lines}");
        let end = last.map_or(0, |last| last + 1);
        if let Some(last) = last {
            assert_eq!(lookup(&cache, &request, last), "fresh", "{lines} at {last}");
        }
        assert_eq!(lookup(&cache, &request, end), "stale", "{lines} at {end}");
    }
}

/// Offered with a key and without: the expected store decisions.
const KEPT: [(&str, bool, bool); 10] = [
    ("cache-control: max-age=60", true, true),
    ("cache-control: no-store, max-age=60", false, false),
    ("cache-control: No-Store", false, false),
    ("cache-control: max-age=60\ncache-control: no-store", false, false),
    // A private response is stored only for a named caller.
    ("cache-control: private, max-age=60", true, false),
    ("cache-control: Private=\"x-a, x-b\", max-age=60", true, false),
    ("cache-control: max-age=60\nset-cookie: a=b", false, false),
    ("cache-control: public, max-age=60\nset-cookie: a=b", false, false),
    ("cache-control: max-age=60\nvary: *", false, false),
    ("cache-control: max-age=60\nvary: accept, *", false, false),
];

#[test]
fn the_cache_stores_no_forbidden_response() {
    for (lines, own, shared) in KEPT {
        for (credential, kept) in [(Some(&b"the-key-of-alice"[..]), own), (None, shared)] {
            let (cache, request) = (memory(), TestRequest::page().with_credential(credential));
            let stored = offer(&cache, &request, lines, "body") == StoreDecision::Stored;
            assert_eq!(stored, kept, "{lines}, key {}", credential.is_some());
            assert_eq!(lookup(&cache, &request, 0) == "missing", !kept, "{lines}");
        }
    }
}

// A byte that is no text follows `max-age`: the rest of the directive is unknown.
#[test]
fn a_response_with_unreadable_directives_is_not_stored() {
    let (cache, request) = (memory(), TestRequest::page());
    let mut lines = headers_from("");
    let orders = HeaderValue::from_bytes(b"max-age=60, x=\xff").expect("a value");
    lines.insert("cache-control", orders);
    let kept = cache.offer(&request.query(), response(200, &lines, "body"), at(0));
    assert_eq!(kept, StoreDecision::Not(NotStored::Forbidden));
}

// RFC 9111, 3.5: with `Authorization`, and a cache for one caller alone, the response may be
// stored.
#[test]
fn an_authorized_response_is_stored_for_that_authorization_only() {
    let cache = memory();
    let anonymous = TestRequest::page().with_credential(None);
    let alice = anonymous.clone().with("authorization", "Bearer alice-alice");
    assert_eq!(
        offer(&cache, &alice, "cache-control: max-age=60", "hers"),
        StoreDecision::Stored
    );
    assert_eq!(fresh(&cache, &alice, 1).as_deref(), Some(&b"hers"[..]));
    let bob = anonymous.clone().with("authorization", "Bearer bob-bob-bob");
    assert_eq!(lookup(&cache, &bob, 1), "missing");
    assert_eq!(lookup(&cache, &anonymous, 1), "missing");
}

// Without a credential the cache is shared, and `s-maxage` applies to shared caches.
#[test]
fn a_cache_without_an_owner_follows_the_rules_for_shared_caches() {
    let (cache, request) = (memory(), TestRequest::page().with_credential(None));
    offer(&cache, &request, "cache-control: s-maxage=5, max-age=60", "body");
    assert_eq!(
        (lookup(&cache, &request, 4), lookup(&cache, &request, 5)),
        ("fresh", "stale")
    );
}

#[test]
fn the_cache_stores_only_complete_responses_about_the_resource() {
    let lines = headers_from("cache-control: max-age=60");
    let kept = [200, 203, 300, 301, 308, 404, 410];
    for status in (100..600).filter(|status| *status != 200) {
        let (cache, request) = (memory(), TestRequest::page());
        let stored = cache.offer(&request.query(), response(status, &lines, "body"), at(0));
        assert_eq!(
            stored == StoreDecision::Stored,
            kept.contains(&status),
            "{status}: {stored:?}"
        );
    }
    let (cache, request) = (memory(), TestRequest::page());
    for cut in ["content-length: 5", "content-length: x", "content-range: bytes 0-3/9"] {
        let lines = format!("cache-control: max-age=60\n{cut}");
        let refused = StoreDecision::Not(NotStored::Incomplete);
        assert_eq!(offer(&cache, &request, &lines, "body"), refused, "{cut}");
    }
    let whole = "cache-control: max-age=60\ncontent-length: 4";
    assert_eq!(offer(&cache, &request, whole, "body"), StoreDecision::Stored);
}

#[test]
fn a_special_request_bypasses_the_cache() {
    let special = [
        TestRequest::page().with("range", "bytes=0-1"),
        TestRequest::page().with("if-none-match", "\"1\""),
        TestRequest::page().with("if-modified-since", "Tue, 14 Nov 2023 22:13:20 GMT"),
        TestRequest::page().with("if-match", "\"1\""),
        TestRequest::page().with("cache-control", "No-Store"),
        TestRequest::page().with("content-length", "3"),
    ];
    let cache = memory();
    offer(&cache, &TestRequest::page(), "cache-control: max-age=60", "body");
    for request in special {
        assert_eq!(lookup(&cache, &request, 1), "not cacheable", "{:?}", request.headers);
        let refused = StoreDecision::Not(NotStored::Bypassed(BypassReason::Request));
        assert_eq!(offer(&cache, &request, "cache-control: max-age=60", "part"), refused);
    }
    for method in [Method::POST, Method::PUT, Method::DELETE, Method::OPTIONS] {
        assert_eq!(lookup(&cache, &TestRequest::page().method(method), 1), "not cacheable");
    }
    assert_eq!(
        lookup(&cache, &TestRequest::page().mode(CacheMode::Off), 1),
        "not cacheable"
    );
    assert_eq!(fresh(&cache, &TestRequest::page(), 1).as_deref(), Some(&b"body"[..]));
}

/// A response that is fresh for 60 seconds, looked up at second 30 and at 70 with request
/// directives.
const DIRECTIVES: [(&str, &str, &str); 8] = [
    ("no-cache", "stale", "stale"),
    ("NO-CACHE", "stale", "stale"),
    ("max-age=29", "stale", "stale"),
    ("max-age=31", "fresh", "stale"),
    ("min-fresh=31", "stale", "stale"),
    ("min-fresh=30", "fresh", "stale"),
    ("max-stale", "fresh", "fresh"),
    ("max-stale=10", "fresh", "stale"),
];

#[test]
fn a_request_may_tighten_or_relax_freshness() {
    for (directive, at_30, at_70) in DIRECTIVES {
        let cache = memory();
        offer(&cache, &TestRequest::page(), "cache-control: max-age=60", "body");
        let request = TestRequest::page().with("cache-control", directive);
        let found = (lookup(&cache, &request, 30), lookup(&cache, &request, 70));
        assert_eq!(found, (at_30, at_70), "{directive}");
    }
    let cache = memory();
    offer(&cache, &TestRequest::page(), "cache-control: max-age=60", "body");
    let request = TestRequest::page().with("pragma", "no-cache");
    assert_eq!(lookup(&cache, &request, 30), "stale");
}

// `max-stale` is the request's wish; these directives are the response's.
#[test]
fn no_request_overrides_a_response_that_requires_validation() {
    for order in ["max-age=60, must-revalidate", "no-cache", "max-age=60, no-cache=\"x\""] {
        let cache = memory();
        offer(&cache, &TestRequest::page(), &format!("cache-control: {order}"), "body");
        let request = TestRequest::page().with("cache-control", "max-stale");
        assert_eq!(lookup(&cache, &request, 70), "stale", "{order}");
    }
}

#[test]
fn variants_differ_by_the_headers_in_vary() {
    let cache = memory();
    let (english, korean) = (
        TestRequest::page().with("accept-language", "en"),
        TestRequest::page().with("accept-language", "ko"),
    );
    let lines = "cache-control: max-age=60\nvary: Accept-Language";
    offer(&cache, &english, lines, "hello");
    assert_eq!(lookup(&cache, &korean, 1), "missing");
    assert_eq!(
        lookup(&cache, &TestRequest::page(), 1),
        "missing",
        "no header is a value too"
    );
    offer(&cache, &korean, lines, "annyeong");
    assert_eq!(fresh(&cache, &english, 1).as_deref(), Some(&b"hello"[..]));
    assert_eq!(fresh(&cache, &korean, 1).as_deref(), Some(&b"annyeong"[..]));
    // A header outside `Vary` makes no difference.
    let traced = english.with("x-request-id", "7");
    assert_eq!(fresh(&cache, &traced, 1).as_deref(), Some(&b"hello"[..]));
}

// Two values of one header are not the first of them.
#[test]
fn all_values_of_a_header_select_the_variant() {
    let cache = memory();
    let one = TestRequest::page().with("accept", "text/plain");
    offer(&cache, &one, "cache-control: max-age=60\nvary: accept", "plain");
    let two = one.clone().with("accept", "text/html");
    assert_eq!((lookup(&cache, &one, 1), lookup(&cache, &two, 1)), ("fresh", "missing"));
}

// Nine variants of one page: the cache evicts the first and keeps the last eight.
#[test]
fn a_page_with_many_variants_keeps_the_latest() {
    let cache = memory();
    let lines = "cache-control: max-age=60\nvary: accept";
    let asks: Vec<_> = (0..9)
        .map(|n| TestRequest::page().with("accept", &format!("text/{n}")))
        .collect();
    for request in &asks {
        offer(&cache, request, lines, "body");
    }
    let words: Vec<_> = asks.iter().map(|request| lookup(&cache, request, 1)).collect();
    assert_eq!(words[0], "missing");
    assert_eq!(words[1..], ["fresh"; 8]);
}

#[test]
fn a_cached_response_reports_its_age_and_keeps_its_headers() {
    let (cache, request) = (memory(), TestRequest::page());
    let lines = "cache-control: max-age=60\nage: 5\nlink: <a>\nlink: <b>\nconnection: x-hop\nx-hop: 1
        keep-alive: 5\ndate: Tue, 14 Nov 2023 22:13:20 GMT";
    offer(&cache, &request, lines, "body");
    let CacheLookup::Fresh(stored) = cache.lookup(&request.query(), at(20)) else {
        panic!("35 s are left");
    };
    assert_eq!(stored.age, Duration::from_secs(25));
    assert_eq!(stored.freshness, Freshness::For(Duration::from_secs(35)));
    assert_eq!(stored.headers["age"], "25");
    assert_eq!(stored.headers["date"], "Tue, 14 Nov 2023 22:13:20 GMT");
    assert_eq!(stored.headers.get_all("link").iter().count(), 2);
    for hop in ["connection", "x-hop", "keep-alive"] {
        assert!(!stored.headers.contains_key(hop), "{hop}");
    }
    assert_eq!(stored.cache_status().to_string(), "outflow; hit; ttl=35");
}

// The server may have made the response right after the request left, 8 seconds before it arrived.
#[test]
fn the_request_delay_counts_towards_the_age() {
    let (cache, request) = (memory(), TestRequest::page());
    let lines = headers_from("cache-control: max-age=60\nage: 2");
    let mut slow = response(200, &lines, "body");
    slow.delay = Duration::from_secs(8);
    cache.offer(&request.query(), slow, at(0));
    assert_eq!(
        (lookup(&cache, &request, 49), lookup(&cache, &request, 50)),
        ("fresh", "stale")
    );
}

#[test]
fn a_clock_that_steps_back_makes_nothing_fresh() {
    let (cache, request) = (memory(), TestRequest::page());
    let lines = headers_from("cache-control: max-age=60");
    cache.offer(&request.query(), response(200, &lines, "body"), at(1000));
    assert_eq!(lookup(&cache, &request, 1000), "fresh");
    assert_eq!(lookup(&cache, &request, 999), "stale");
}

// Times at both ends of the scale, and ages that overflow when they are added to.
#[test]
fn extreme_times_and_numbers_do_not_overflow() {
    let request = TestRequest::page();
    let texts = [
        "0",
        "1",
        "2147483648",
        "18446744073709551615",
        "99999999999999999999",
        "-1",
    ];
    // The third is in the year 14645, which no HTTP date can express.
    let times = [
        WallTime::EPOCH,
        at(0),
        WallTime::from_unix_secs(400_000_000_000),
        WallTime::since_epoch(Duration::MAX),
    ];
    for text in texts {
        let lines = headers_from(&format!(
            "cache-control: max-age={text}, stale-if-error={text}, s-maxage={text}
             age: {text}\nexpires: Fri, 31 Dec 9999 23:59:59 GMT"
        ));
        for (stored, asked) in times.iter().flat_map(|one| times.map(|other| (*one, other))) {
            let cache = memory();
            cache.offer(&request.query(), response(200, &lines, "body"), stored);
            let found = cache.lookup(&request.query(), asked);
            assert!(!matches!(found, CacheLookup::Missing), "{text}");
            assert!(cache.lookup_any(&request.query(), asked).is_some(), "{text}");
        }
    }
}

#[test]
fn a_forced_response_is_stored_as_long_as_configured() {
    let request = TestRequest::page().mode(CacheMode::Force(Duration::from_secs(30)));
    for lines in [
        "",
        "cache-control: no-cache",
        "cache-control: max-age=0",
        "expires: 0",
        "age: 99",
    ] {
        let cache = memory();
        assert_eq!(offer(&cache, &request, lines, "body"), StoreDecision::Stored, "{lines}");
        let found = (lookup(&cache, &request, 29), lookup(&cache, &request, 30));
        assert_eq!(found, ("fresh", "stale"), "{lines}");
    }
    // Forcing does not apply to private or `no-store` responses.
    for lines in ["cache-control: no-store", "set-cookie: a=b", "vary: *"] {
        assert_ne!(
            offer(&memory(), &request, lines, "body"),
            StoreDecision::Stored,
            "{lines}"
        );
    }
    let anonymous = request.clone().with_credential(None);
    assert_ne!(
        offer(&memory(), &anonymous, "cache-control: private", "body"),
        StoreDecision::Stored
    );
    // Only successful responses are forced: a 404 follows its own directives.
    let cache = memory();
    cache.offer(
        &request.query(),
        response(404, &headers_from("cache-control: max-age=5"), ""),
        at(0),
    );
    assert_eq!(
        (lookup(&cache, &request, 4), lookup(&cache, &request, 5)),
        ("fresh", "stale")
    );
}

#[test]
fn a_successful_response_that_is_not_storable_evicts_the_old_one() {
    let (cache, request) = (memory(), TestRequest::page());
    offer(&cache, &request, "cache-control: max-age=60", "old");
    // A failure says nothing about the resource.
    cache.offer(&request.query(), response(503, &headers_from(""), "busy"), at(1));
    assert_eq!(lookup(&cache, &request, 1), "fresh");
    offer(&cache, &request, "cache-control: no-store", "new");
    assert_eq!(lookup(&cache, &request, 1), "missing");
}

#[test]
fn head_and_get_are_stored_separately() {
    let (cache, head) = (memory(), TestRequest::page().method(Method::HEAD));
    let lines = "cache-control: max-age=60\ncontent-length: 4";
    assert_eq!(offer(&cache, &head, lines, ""), StoreDecision::Stored);
    assert_eq!(
        lookup(&cache, &TestRequest::page(), 1),
        "missing",
        "its body is not known"
    );
    assert!(stale(&cache, &head, 61).is_some());
}

// A lenient reader sees one unknown directive, or none that forbids. With the key of one caller and for all.
#[test]
fn a_response_whose_directives_cannot_be_read_is_not_stored() {
    for order in [
        "private;max-age=60",
        "max-age=60; no-store",
        "max-age=60 no-store",
        "max-age=\"60",
    ] {
        for credential in [None, Some(&b"the-key-of-alice"[..])] {
            let (cache, request) = (memory(), TestRequest::page().with_credential(credential));
            offer(&cache, &request, &format!("cache-control: {order}"), "body");
            assert_eq!(lookup(&cache, &request, 1), "missing", "{order}");
        }
    }
}

#[test]
fn a_response_that_sets_a_cookie_of_the_old_form_is_not_stored() {
    let (cache, request) = (memory(), TestRequest::page());
    let lines = "cache-control: max-age=60\nset-cookie2: session=1";
    offer(&cache, &request, lines, "body");
    assert_eq!(lookup(&cache, &request, 1), "missing");
}

/// Stores a page, confirms it after its lifetime of a minute with a 304 of these headers, and returns the lookups
/// of this request and of one in another language.
fn lookups_after_304(lines: &str) -> (&'static str, &'static str) {
    let (cache, request) = (memory(), TestRequest::page().with("accept-language", "en"));
    offer(&cache, &request, "cache-control: max-age=60\netag: \"1\"", "body");
    let CacheLookup::Stale { stored, .. } = cache.lookup(&request.query(), at(100)) else {
        unreachable!("stale after a minute");
    };
    let headers = headers_from(lines);
    let confirmed = CacheableResponse {
        status: StatusCode::NOT_MODIFIED,
        headers: &headers,
        body: Bytes::new(),
        delay: Duration::ZERO,
    };
    let served = cache.revalidate(&request.query(), &stored, &confirmed, at(100));
    assert!(served.is_some(), "the 304 confirms it for its own request");
    let other = TestRequest::page().with("accept-language", "ko");
    (lookup(&cache, &request, 101), lookup(&cache, &other, 101))
}

#[test]
fn a_304_decides_for_which_requests_its_response_is_kept() {
    for (lines, kept) in [
        ("etag: \"1\"", ("fresh", "fresh")),
        ("etag: \"1\"\nvary: *", ("missing", "missing")),
        ("etag: \"1\"\nset-cookie: a=b", ("missing", "missing")),
        ("etag: \"1\"\nvary: accept-language", ("fresh", "missing")),
        (
            "etag: \"1\"\ncache-control: max-age=60; no-store",
            ("missing", "missing"),
        ),
    ] {
        assert_eq!(lookups_after_304(lines), kept, "{lines:?}");
    }
}
