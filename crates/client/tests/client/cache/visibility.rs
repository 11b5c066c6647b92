//! Who sees whose answers, and what a write makes obsolete.

use http::{HeaderMap, Method, StatusCode};
use outflow::CacheMode;
use outflow::cache::{Cache, CacheQuery};

use super::support::{Ask, fresh, memory, offer, said, word};

const FRESH: &str = "cache-control: max-age=60";

// Every way in which two requests to one address may be of two callers, or to two addresses.
#[test]
fn callers_who_differ_in_anything_that_names_them_never_mix() {
    let plain = Ask::page().by(None);
    let asks = [
        plain.clone(),
        Ask::page(),
        plain.clone().by(Some(b"the-key-of-bob")),
        plain.clone().by(Some(b"")),
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
        Ask::get("https://alice:pass@api.example.com/page").by(None),
        Ask::get("http://api.example.com/page").by(None),
        Ask::get("https://api.example.com:8443/page").by(None),
        Ask::get("https://api2.example.com/page").by(None),
        Ask::get("https://api.example.com/Page").by(None),
        Ask::get("https://api.example.com/page?").by(None),
        Ask::get("https://api.example.com/page?token=alice").by(None),
    ];
    for (index, one) in asks.iter().enumerate() {
        let cache = memory();
        offer(&cache, one, FRESH, "mine");
        for (other_index, other) in asks.iter().enumerate() {
            let expected = if index == other_index {
                "fresh"
            } else {
                "missing"
            };
            assert_eq!(
                word(&cache, other, 1),
                expected,
                "{index} and {other_index}"
            );
        }
    }
}

// A value that is marked as secret names its caller, whatever its header is called.
#[test]
fn a_header_marked_as_sensitive_is_part_of_the_key() {
    let cache = memory();
    let marked = |text: &str| {
        let mut ask = Ask::page().by(None).with("x-plain", text);
        let value = ask.headers.get_mut("x-plain").expect("just put there");
        value.set_sensitive(true);
        ask
    };
    offer(&cache, &marked("alice"), FRESH, "hers");
    assert_eq!(word(&cache, &marked("alice"), 1), "fresh");
    assert_eq!(word(&cache, &marked("bob"), 1), "missing");
}

#[test]
fn two_apis_share_nothing_even_at_one_address() {
    let (cache, ask) = (memory(), Ask::page());
    offer(&cache, &ask, FRESH, "body");
    let other = CacheQuery {
        api: "other",
        ..ask.query()
    };
    let found = cache.lookup(&other, super::support::at(1));
    assert!(matches!(found, outflow::cache::CacheLookup::Missing));
}

fn write(cache: &Cache, method: Method, status: u16, lines: &str) {
    let ask = Ask::page().method(method).mode(CacheMode::Standard);
    let status = StatusCode::from_u16(status).expect("a status");
    cache.invalidate(&ask.query(), status, &said(lines));
}

// Alice and Bob have read the page; Alice writes to it.
#[test]
fn a_write_makes_everybodys_copies_obsolete() {
    let (alice, bob) = (Ask::page(), Ask::page().by(Some(b"the-key-of-bob")));
    for method in [Method::POST, Method::PUT, Method::PATCH, Method::DELETE] {
        let cache = memory();
        offer(&cache, &alice, FRESH, "a");
        offer(&cache, &bob, FRESH, "b");
        offer(&cache, &alice.clone().method(Method::HEAD), FRESH, "");
        let elsewhere = Ask::get("https://api.example.com/page2");
        offer(&cache, &elsewhere, FRESH, "c");
        write(&cache, method, 204, "");
        assert_eq!(word(&cache, &alice, 1), "missing");
        assert_eq!(word(&cache, &bob, 1), "missing");
        assert_eq!(
            word(&cache, &alice.clone().method(Method::HEAD), 1),
            "missing"
        );
        assert_eq!(word(&cache, &elsewhere, 1), "fresh");
    }
}

#[test]
fn reads_and_failed_writes_make_nothing_obsolete() {
    let cache = memory();
    offer(&cache, &Ask::page(), FRESH, "body");
    for method in [Method::GET, Method::HEAD, Method::OPTIONS] {
        write(&cache, method, 200, "");
    }
    for status in [400, 404, 429, 500, 503] {
        write(&cache, Method::POST, status, "");
    }
    assert_eq!(
        fresh(&cache, &Ask::page(), 1).as_deref(),
        Some(&b"body"[..])
    );
}

#[test]
fn a_write_takes_along_what_its_answer_names_at_the_same_origin() {
    let near = Ask::get("https://api.example.com/orders/7");
    let far = Ask::get("https://other.example.com/orders/7");
    let cache = memory();
    offer(&cache, &near, FRESH, "near");
    offer(&cache, &far, FRESH, "far");
    write(
        &cache,
        Method::POST,
        201,
        "location: https://other.example.com/orders/7",
    );
    assert_eq!(
        (word(&cache, &near, 1), word(&cache, &far, 1)),
        ("fresh", "fresh")
    );
    write(&cache, Method::POST, 201, "content-location: /orders/7");
    assert_eq!(
        (word(&cache, &near, 1), word(&cache, &far, 1)),
        ("missing", "fresh")
    );
}

#[test]
fn an_answer_that_is_somebodys_own_is_not_shared_in_flight() {
    let cache = memory();
    let (own, nobody) = (Ask::page(), Ask::page().by(None));
    let shared = |ask: &Ask, lines: &str| cache.may_share(&ask.query(), &said(lines));
    assert!(shared(&own, "") && shared(&nobody, ""));
    assert!(shared(&own, "cache-control: private") && !shared(&nobody, "cache-control: private"));
    for lines in [
        "set-cookie: a=b",
        "cache-control: No-Store",
        "vary: *",
        "vary: traceparent",
    ] {
        assert!(!shared(&own, lines), "{lines}");
    }
    assert!(
        shared(&own, "vary: accept"),
        "equal requests accept the same"
    );
    assert!(!cache.may_share(&own.clone().method(Method::POST).query(), &HeaderMap::new()));
}

#[test]
fn equal_requests_are_those_that_no_answer_could_tell_apart() {
    let cache = memory();
    let key = |ask: &Ask| cache.flight_key(&ask.query());
    let one = Ask::page().with("accept", "text/plain");
    assert_eq!(
        key(&one),
        key(&one.clone().with("traceparent", "00-1-2-01"))
    );
    assert_ne!(key(&one), key(&Ask::page()));
    assert_ne!(key(&one), key(&one.clone().by(None)));
    assert_eq!(key(&one.clone().method(Method::POST)), None);
    assert_eq!(key(&one.clone().with("range", "bytes=0-1")), None);
}
