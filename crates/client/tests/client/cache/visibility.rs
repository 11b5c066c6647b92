//! Visibility of stored responses between callers, and invalidation by writes.

use std::time::Duration;

use http::{HeaderMap, Method, StatusCode};
use outflow::CacheMode;
use outflow::cache::{Cache, CacheQuery};

use super::support::{TestRequest, at, fresh, headers_from, lookup, memory, offer};

const FRESH: &str = "cache-control: max-age=60";

// Each case differs in one part that identifies the caller or the address.
#[test]
fn requests_with_different_credentials_or_addresses_share_no_response() {
    let plain = TestRequest::page().with_credential(None);
    let asks = [
        plain.clone(),
        TestRequest::page(),
        plain.clone().with_credential(Some(b"the-key-of-bob")),
        plain.clone().with_credential(Some(b"")),
        plain.clone().with("authorization", "Bearer alice"),
        plain.clone().with("authorization", "Bearer bob"),
        plain.clone().with("cookie", "sid=alice"),
        plain.clone().with("cookie", "sid=bob"),
        plain.clone().with("x-api-key", "alice"),
        plain.clone().with("x-auth-token", "alice"),
        plain.clone().with("openai-organization", "alice"),
        plain.clone().with("host", "other.example.com"),
        plain.clone().with("x-forwarded-host", "evil.example.com"),
        plain.clone().with("x-original-url", "/admin"),
        plain.clone().with("x-http-method-override", "DELETE"),
        TestRequest::get("https://alice:pass@api.example.com/page").with_credential(None),
        TestRequest::get("http://api.example.com/page").with_credential(None),
        TestRequest::get("https://api.example.com:8443/page").with_credential(None),
        TestRequest::get("https://api2.example.com/page").with_credential(None),
        TestRequest::get("https://api.example.com/Page").with_credential(None),
        TestRequest::get("https://api.example.com/page?").with_credential(None),
        TestRequest::get("https://api.example.com/page?token=alice").with_credential(None),
    ];
    for (index, one) in asks.iter().enumerate() {
        let cache = memory();
        offer(&cache, one, FRESH, "mine");
        for (other_index, other) in asks.iter().enumerate() {
            let expected = if index == other_index { "fresh" } else { "missing" };
            assert_eq!(lookup(&cache, other, 1), expected, "{index} and {other_index}");
        }
    }
}

// A sensitive value identifies its caller, under any header name.
#[test]
fn a_header_marked_as_sensitive_is_part_of_the_key() {
    let cache = memory();
    let marked = |text: &str| {
        let mut request = TestRequest::page().with_credential(None).with("x-plain", text);
        let value = request.headers.get_mut("x-plain").expect("just put there");
        value.set_sensitive(true);
        request
    };
    offer(&cache, &marked("alice"), FRESH, "hers");
    assert_eq!(lookup(&cache, &marked("alice"), 1), "fresh");
    assert_eq!(lookup(&cache, &marked("bob"), 1), "missing");
}

#[test]
fn two_apis_share_nothing_even_at_one_address() {
    let (cache, request) = (memory(), TestRequest::page());
    offer(&cache, &request, FRESH, "body");
    let other = CacheQuery {
        api: "other",
        ..request.query()
    };
    let found = cache.lookup(&other, super::support::at(1));
    assert!(matches!(found, outflow::cache::CacheLookup::Missing));
}

fn write(cache: &Cache, method: Method, status: u16, lines: &str) {
    let request = TestRequest::page().method(method).mode(CacheMode::Standard);
    let status = StatusCode::from_u16(status).expect("a status");
    cache.invalidate(&request.query(), status, &headers_from(lines));
}

// Alice and Bob have read the page; Alice writes to it.
#[test]
fn a_write_invalidates_the_copies_of_all_callers() {
    let (alice, bob) = (
        TestRequest::page(),
        TestRequest::page().with_credential(Some(b"the-key-of-bob")),
    );
    for method in [Method::POST, Method::PUT, Method::PATCH, Method::DELETE] {
        let cache = memory();
        offer(&cache, &alice, FRESH, "a");
        offer(&cache, &bob, FRESH, "b");
        offer(&cache, &alice.clone().method(Method::HEAD), FRESH, "");
        let elsewhere = TestRequest::get("https://api.example.com/page2");
        offer(&cache, &elsewhere, FRESH, "c");
        write(&cache, method, 204, "");
        assert_eq!(lookup(&cache, &alice, 1), "missing");
        assert_eq!(lookup(&cache, &bob, 1), "missing");
        assert_eq!(lookup(&cache, &alice.clone().method(Method::HEAD), 1), "missing");
        assert_eq!(lookup(&cache, &elsewhere, 1), "fresh");
    }
}

#[test]
fn reads_and_failed_writes_invalidate_nothing() {
    let cache = memory();
    offer(&cache, &TestRequest::page(), FRESH, "body");
    for method in [Method::GET, Method::HEAD, Method::OPTIONS] {
        write(&cache, method, 200, "");
    }
    for status in [400, 404, 429, 500, 503] {
        write(&cache, Method::POST, status, "");
    }
    assert_eq!(fresh(&cache, &TestRequest::page(), 1).as_deref(), Some(&b"body"[..]));
}

#[test]
fn a_write_invalidates_the_locations_its_response_names_at_its_origin() {
    let near = TestRequest::get("https://api.example.com/orders/7");
    let far = TestRequest::get("https://other.example.com/orders/7");
    let cache = memory();
    offer(&cache, &near, FRESH, "near");
    offer(&cache, &far, FRESH, "far");
    write(
        &cache,
        Method::POST,
        201,
        "location: https://other.example.com/orders/7",
    );
    assert_eq!((lookup(&cache, &near, 1), lookup(&cache, &far, 1)), ("fresh", "fresh"));
    write(&cache, Method::POST, 201, "content-location: /orders/7");
    assert_eq!(
        (lookup(&cache, &near, 1), lookup(&cache, &far, 1)),
        ("missing", "fresh")
    );
}

#[test]
fn a_response_for_one_request_is_not_shared_in_flight() {
    let cache = memory();
    let (own, anonymous) = (TestRequest::page(), TestRequest::page().with_credential(None));
    let shared = |request: &TestRequest, lines: &str| cache.may_share(&request.query(), &headers_from(lines), at(0));
    for lines in [
        "set-cookie: a=b",
        "vary: *",
        "vary: traceparent",
        "cache-control: No-Store",
        "cache-control: private",
        "cache-control: private, max-age=60",
        "cache-control: private=\"x-name\"",
        "cache-control: no-cache",
        "cache-control: No-Cache, max-age=60",
        "cache-control: max-age=0",
        "cache-control: max-age=0, must-revalidate",
        "cache-control: max-age=soon",
        "cache-control: max-age=60\nage: 60",
        "cache-control: max-age=60\ndate: Tue, 14 Nov 2023 22:12:20 GMT",
        "expires: 0",
        "expires: Tue, 14 Nov 2023 22:13:20 GMT",
    ] {
        assert!(!shared(&own, lines) && !shared(&anonymous, lines), "{lines}");
    }
    for lines in [
        "",
        "vary: accept",
        "cache-control: max-age=1",
        "cache-control: must-revalidate, max-age=1",
        "expires: Tue, 14 Nov 2023 22:13:21 GMT",
        "etag: \"1\"",
    ] {
        assert!(shared(&own, lines) && shared(&anonymous, lines), "{lines}");
    }
    // Only a shared cache obeys `s-maxage`.
    let lines = "cache-control: max-age=60, s-maxage=0";
    assert!(shared(&own, lines) && !shared(&anonymous, lines));
    // A configured lifetime outweighs the response's.
    let forced = own.clone().mode(CacheMode::Force(Duration::from_mins(1)));
    assert!(shared(&forced, "cache-control: no-cache, max-age=0") && !shared(&forced, "cache-control: private"));
    assert!(!cache.may_share(&own.clone().method(Method::POST).query(), &HeaderMap::new(), at(0)));
}

#[test]
fn requests_share_a_flight_only_if_no_response_could_differ() {
    let cache = memory();
    let key = |request: &TestRequest| cache.flight_key(&request.query());
    let one = TestRequest::page().with("accept", "text/plain");
    assert_eq!(key(&one), key(&one.clone().with("traceparent", "00-1-2-01")));
    assert_ne!(key(&one), key(&TestRequest::page()));
    assert_ne!(key(&one), key(&one.clone().with_credential(None)));
    assert_eq!(key(&one.clone().method(Method::POST)), None);
    assert_eq!(key(&one.clone().with("range", "bytes=0-1")), None);
}
