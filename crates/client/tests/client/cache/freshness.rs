//! How long an answer is fresh, and which answers are kept at all.

use std::time::Duration;

use http::{HeaderValue, Method};
use outflow::CacheMode;
use outflow::cache::{BypassReason, CacheLookup, Freshness, NotStored, StoreDecision};
use outflow::core::WallTime;

use super::support::{Ask, answer, at, fresh, memory, offer, said, stale, word};

/// Offered at second 0 by a caller with a key; the last second at which it is fresh, if it ever is.
const LIFETIMES: [(&str, Option<u64>); 19] = [
    ("cache-control: max-age=60", Some(59)),
    ("Cache-Control: MAX-AGE=\"60\"", Some(59)),
    ("cache-control: max-age=0", None),
    ("cache-control: max-age=-1", None),
    ("cache-control: max-age=60, max-age=90", Some(59)),
    // 40 of the 60 seconds had passed elsewhere.
    ("cache-control: max-age=60\nage: 40", Some(19)),
    ("cache-control: max-age=60\nage: 60", None),
    // Its date says that it is 10 seconds old.
    (
        "cache-control: max-age=60\ndate: Tue, 14 Nov 2023 22:13:10 GMT",
        Some(49),
    ),
    (
        "date: Tue, 14 Nov 2023 22:13:20 GMT\nexpires: Tue, 14 Nov 2023 22:14:20 GMT",
        Some(59),
    ),
    // The other two forms of a date.
    (
        "date: Tuesday, 14-Nov-23 22:13:20 GMT\nexpires: Tue Nov 14 22:14:20 2023",
        Some(59),
    ),
    ("expires: Tue, 14 Nov 2023 22:14:20 GMT", Some(59)),
    ("expires: 0", None),
    // What max-age says outweighs it, either way.
    ("expires: 0\ncache-control: max-age=60", Some(59)),
    // A tenth of 1000 seconds without change.
    ("last-modified: Tue, 14 Nov 2023 21:56:40 GMT", Some(99)),
    // A tenth of years would be months: a guess ends after a day.
    ("last-modified: Tue, 14 Nov 2000 22:13:20 GMT", Some(86_399)),
    ("etag: \"1\"", None),
    ("cache-control: max-age=60, no-cache", None),
    (
        "pragma: no-cache\nexpires: Tue, 14 Nov 2023 22:14:20 GMT",
        None,
    ),
    // A caller's own cache is not a shared one.
    ("cache-control: s-maxage=5, max-age=60", Some(59)),
];

#[test]
fn an_answer_is_fresh_as_long_as_it_says_and_not_a_second_longer() {
    for (lines, last) in LIFETIMES {
        let (cache, ask) = (memory(), Ask::page());
        assert_eq!(
            offer(&cache, &ask, lines, "body"),
            StoreDecision::Stored,
            "{lines}"
        );
        let end = last.map_or(0, |last| last + 1);
        if let Some(last) = last {
            assert_eq!(word(&cache, &ask, last), "fresh", "{lines} at {last}");
        }
        assert_eq!(word(&cache, &ask, end), "stale", "{lines} at {end}");
    }
}

/// Offered with a key and without: whether it is kept.
const KEPT: [(&str, bool, bool); 10] = [
    ("cache-control: max-age=60", true, true),
    ("cache-control: no-store, max-age=60", false, false),
    ("cache-control: No-Store", false, false),
    (
        "cache-control: max-age=60\ncache-control: no-store",
        false,
        false,
    ),
    // What is private may be kept for whom it is for, and for nobody if nobody is named.
    ("cache-control: private, max-age=60", true, false),
    (
        "cache-control: Private=\"x-a, x-b\", max-age=60",
        true,
        false,
    ),
    ("cache-control: max-age=60\nset-cookie: a=b", false, false),
    (
        "cache-control: public, max-age=60\nset-cookie: a=b",
        false,
        false,
    ),
    ("cache-control: max-age=60\nvary: *", false, false),
    ("cache-control: max-age=60\nvary: accept, *", false, false),
];

#[test]
fn what_must_not_be_kept_is_not() {
    for (lines, own, shared) in KEPT {
        for (credential, kept) in [(Some(&b"the-key-of-alice"[..]), own), (None, shared)] {
            let (cache, ask) = (memory(), Ask::page().by(credential));
            let stored = offer(&cache, &ask, lines, "body") == StoreDecision::Stored;
            assert_eq!(stored, kept, "{lines}, key {}", credential.is_some());
            assert_eq!(word(&cache, &ask, 0) == "missing", !kept, "{lines}");
        }
    }
}

// A byte that is no text stands beside `max-age`: what else it may have said cannot be known.
#[test]
fn an_answer_whose_orders_cannot_be_read_is_not_kept() {
    let (cache, ask) = (memory(), Ask::page());
    let mut lines = said("");
    let orders = HeaderValue::from_bytes(b"max-age=60, x=\xff").expect("a value");
    lines.insert("cache-control", orders);
    let kept = cache.offer(&ask.query(), answer(200, &lines, "body"), at(0));
    assert_eq!(kept, StoreDecision::Not(NotStored::Forbidden));
}

// RFC 9111, 3.5: with `Authorization`, and a cache for one caller alone, the answer may be kept.
#[test]
fn an_authorized_answer_is_kept_for_that_authorization_alone() {
    let cache = memory();
    let anybody = Ask::page().by(None);
    let alice = anybody.clone().with("authorization", "Bearer alice-alice");
    assert_eq!(
        offer(&cache, &alice, "cache-control: max-age=60", "hers"),
        StoreDecision::Stored
    );
    assert_eq!(fresh(&cache, &alice, 1).as_deref(), Some(&b"hers"[..]));
    let bob = anybody.clone().with("authorization", "Bearer bob-bob-bob");
    assert_eq!(word(&cache, &bob, 1), "missing");
    assert_eq!(word(&cache, &anybody, 1), "missing");
}

// Without a name in the request the cache is shared, and `s-maxage` is for those.
#[test]
fn a_cache_that_is_nobodys_own_follows_the_rules_for_shared_ones() {
    let (cache, ask) = (memory(), Ask::page().by(None));
    offer(
        &cache,
        &ask,
        "cache-control: s-maxage=5, max-age=60",
        "body",
    );
    assert_eq!(
        (word(&cache, &ask, 4), word(&cache, &ask, 5)),
        ("fresh", "stale")
    );
}

#[test]
fn only_whole_answers_that_speak_of_the_resource_are_kept() {
    let lines = said("cache-control: max-age=60");
    let kept = [200, 203, 300, 301, 308, 404, 410];
    for status in (100..600).filter(|status| *status != 200) {
        let (cache, ask) = (memory(), Ask::page());
        let stored = cache.offer(&ask.query(), answer(status, &lines, "body"), at(0));
        assert_eq!(
            stored == StoreDecision::Stored,
            kept.contains(&status),
            "{status}: {stored:?}"
        );
    }
    let (cache, ask) = (memory(), Ask::page());
    for cut in [
        "content-length: 5",
        "content-length: x",
        "content-range: bytes 0-3/9",
    ] {
        let lines = format!("cache-control: max-age=60\n{cut}");
        let refused = StoreDecision::Not(NotStored::Incomplete);
        assert_eq!(offer(&cache, &ask, &lines, "body"), refused, "{cut}");
    }
    let whole = "cache-control: max-age=60\ncontent-length: 4";
    assert_eq!(offer(&cache, &ask, whole, "body"), StoreDecision::Stored);
}

#[test]
fn a_request_that_is_special_is_not_for_the_cache() {
    let special = [
        Ask::page().with("range", "bytes=0-1"),
        Ask::page().with("if-none-match", "\"1\""),
        Ask::page().with("if-modified-since", "Tue, 14 Nov 2023 22:13:20 GMT"),
        Ask::page().with("if-match", "\"1\""),
        Ask::page().with("cache-control", "No-Store"),
        Ask::page().with("content-length", "3"),
    ];
    let cache = memory();
    offer(&cache, &Ask::page(), "cache-control: max-age=60", "body");
    for ask in special {
        assert_eq!(word(&cache, &ask, 1), "not cacheable", "{:?}", ask.headers);
        let refused = StoreDecision::Not(NotStored::Bypassed(BypassReason::Request));
        assert_eq!(
            offer(&cache, &ask, "cache-control: max-age=60", "part"),
            refused
        );
    }
    for method in [Method::POST, Method::PUT, Method::DELETE, Method::OPTIONS] {
        assert_eq!(
            word(&cache, &Ask::page().method(method), 1),
            "not cacheable"
        );
    }
    assert_eq!(
        word(&cache, &Ask::page().mode(CacheMode::Off), 1),
        "not cacheable"
    );
    assert_eq!(
        fresh(&cache, &Ask::page(), 1).as_deref(),
        Some(&b"body"[..])
    );
}

/// Of an answer that is fresh for 60 seconds, at second 30 and at 70: what the request makes of it.
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
fn a_request_may_ask_for_more_or_for_less() {
    for (directive, at_30, at_70) in DIRECTIVES {
        let cache = memory();
        offer(&cache, &Ask::page(), "cache-control: max-age=60", "body");
        let ask = Ask::page().with("cache-control", directive);
        let found = (word(&cache, &ask, 30), word(&cache, &ask, 70));
        assert_eq!(found, (at_30, at_70), "{directive}");
    }
    let cache = memory();
    offer(&cache, &Ask::page(), "cache-control: max-age=60", "body");
    let ask = Ask::page().with("pragma", "no-cache");
    assert_eq!(word(&cache, &ask, 30), "stale");
}

// `max-stale` is the request's wish; these are the answer's orders.
#[test]
fn no_request_outweighs_an_answer_that_must_be_confirmed() {
    for order in [
        "max-age=60, must-revalidate",
        "no-cache",
        "max-age=60, no-cache=\"x\"",
    ] {
        let cache = memory();
        offer(
            &cache,
            &Ask::page(),
            &format!("cache-control: {order}"),
            "body",
        );
        let ask = Ask::page().with("cache-control", "max-stale");
        assert_eq!(word(&cache, &ask, 70), "stale", "{order}");
    }
}

#[test]
fn variants_are_told_apart_by_the_headers_that_the_answer_names() {
    let cache = memory();
    let (english, korean) = (
        Ask::page().with("accept-language", "en"),
        Ask::page().with("accept-language", "ko"),
    );
    let lines = "cache-control: max-age=60\nvary: Accept-Language";
    offer(&cache, &english, lines, "hello");
    assert_eq!(word(&cache, &korean, 1), "missing");
    assert_eq!(
        word(&cache, &Ask::page(), 1),
        "missing",
        "no header is a value too"
    );
    offer(&cache, &korean, lines, "annyeong");
    assert_eq!(fresh(&cache, &english, 1).as_deref(), Some(&b"hello"[..]));
    assert_eq!(fresh(&cache, &korean, 1).as_deref(), Some(&b"annyeong"[..]));
    // What it does not name makes no difference.
    let traced = english.with("x-request-id", "7");
    assert_eq!(fresh(&cache, &traced, 1).as_deref(), Some(&b"hello"[..]));
}

// Two values of one header are not the first of them.
#[test]
fn all_values_of_a_header_select_the_variant() {
    let cache = memory();
    let one = Ask::page().with("accept", "text/plain");
    offer(
        &cache,
        &one,
        "cache-control: max-age=60\nvary: accept",
        "plain",
    );
    let two = one.clone().with("accept", "text/html");
    assert_eq!(
        (word(&cache, &one, 1), word(&cache, &two, 1)),
        ("fresh", "missing")
    );
}

// Nine variants of one page: the first has gone, the last eight are there.
#[test]
fn a_page_of_many_variants_keeps_the_latest() {
    let cache = memory();
    let lines = "cache-control: max-age=60\nvary: accept";
    let asks: Vec<_> = (0..9)
        .map(|n| Ask::page().with("accept", &format!("text/{n}")))
        .collect();
    for ask in &asks {
        offer(&cache, ask, lines, "body");
    }
    let words: Vec<_> = asks.iter().map(|ask| word(&cache, ask, 1)).collect();
    assert_eq!(words[0], "missing");
    assert_eq!(words[1..], ["fresh"; 8]);
}

#[test]
fn an_answer_tells_its_age_and_keeps_its_headers() {
    let (cache, ask) = (memory(), Ask::page());
    let lines =
        "cache-control: max-age=60\nage: 5\nlink: <a>\nlink: <b>\nconnection: x-hop\nx-hop: 1
        keep-alive: 5\ndate: Tue, 14 Nov 2023 22:13:20 GMT";
    offer(&cache, &ask, lines, "body");
    let CacheLookup::Fresh(stored) = cache.lookup(&ask.query(), at(20)) else {
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

// The answer may have been made right after the request went out, 8 seconds before it came in.
#[test]
fn the_time_waited_for_an_answer_counts_as_its_age() {
    let (cache, ask) = (memory(), Ask::page());
    let lines = said("cache-control: max-age=60\nage: 2");
    let mut slow = answer(200, &lines, "body");
    slow.delay = Duration::from_secs(8);
    cache.offer(&ask.query(), slow, at(0));
    assert_eq!(
        (word(&cache, &ask, 49), word(&cache, &ask, 50)),
        ("fresh", "stale")
    );
}

#[test]
fn a_clock_that_steps_back_makes_nothing_fresh() {
    let (cache, ask) = (memory(), Ask::page());
    let lines = said("cache-control: max-age=60");
    cache.offer(&ask.query(), answer(200, &lines, "body"), at(1000));
    assert_eq!(word(&cache, &ask, 1000), "fresh");
    assert_eq!(word(&cache, &ask, 999), "stale");
}

// Times at both ends of the scale, and ages that overflow when they are added to.
#[test]
fn no_time_and_no_number_is_too_large() {
    let ask = Ask::page();
    let texts = [
        "0",
        "1",
        "2147483648",
        "18446744073709551615",
        "99999999999999999999",
        "-1",
    ];
    // The third is in the year 14645, which no date can tell.
    let times = [
        WallTime::EPOCH,
        at(0),
        WallTime::from_unix_secs(400_000_000_000),
        WallTime::since_epoch(Duration::MAX),
    ];
    for text in texts {
        let lines = said(&format!(
            "cache-control: max-age={text}, stale-if-error={text}, s-maxage={text}
             age: {text}\nexpires: Fri, 31 Dec 9999 23:59:59 GMT"
        ));
        for (stored, asked) in times
            .iter()
            .flat_map(|one| times.map(|other| (*one, other)))
        {
            let cache = memory();
            cache.offer(&ask.query(), answer(200, &lines, "body"), stored);
            let found = cache.lookup(&ask.query(), asked);
            assert!(!matches!(found, CacheLookup::Missing), "{text}");
            assert!(cache.lookup_any(&ask.query(), asked).is_some(), "{text}");
        }
    }
}

#[test]
fn a_forced_answer_is_kept_as_long_as_we_say() {
    let ask = Ask::page().mode(CacheMode::Force(Duration::from_secs(30)));
    for lines in [
        "",
        "cache-control: no-cache",
        "cache-control: max-age=0",
        "expires: 0",
        "age: 99",
    ] {
        let cache = memory();
        assert_eq!(
            offer(&cache, &ask, lines, "body"),
            StoreDecision::Stored,
            "{lines}"
        );
        let found = (word(&cache, &ask, 29), word(&cache, &ask, 30));
        assert_eq!(found, ("fresh", "stale"), "{lines}");
    }
    // What is somebody's own, or not to be kept, is not ours to force.
    for lines in ["cache-control: no-store", "set-cookie: a=b", "vary: *"] {
        assert_ne!(
            offer(&memory(), &ask, lines, "body"),
            StoreDecision::Stored,
            "{lines}"
        );
    }
    let nobody = ask.clone().by(None);
    assert_ne!(
        offer(&memory(), &nobody, "cache-control: private", "body"),
        StoreDecision::Stored
    );
    // Only good answers are forced: for a 404 its own word counts.
    let cache = memory();
    cache.offer(
        &ask.query(),
        answer(404, &said("cache-control: max-age=5"), ""),
        at(0),
    );
    assert_eq!(
        (word(&cache, &ask, 4), word(&cache, &ask, 5)),
        ("fresh", "stale")
    );
}

#[test]
fn a_good_answer_that_may_not_be_kept_takes_the_old_one_away() {
    let (cache, ask) = (memory(), Ask::page());
    offer(&cache, &ask, "cache-control: max-age=60", "old");
    // A failure says nothing about the resource.
    cache.offer(&ask.query(), answer(503, &said(""), "busy"), at(1));
    assert_eq!(word(&cache, &ask, 1), "fresh");
    offer(&cache, &ask, "cache-control: no-store", "new");
    assert_eq!(word(&cache, &ask, 1), "missing");
}

#[test]
fn head_and_get_are_kept_apart() {
    let (cache, head) = (memory(), Ask::page().method(Method::HEAD));
    let lines = "cache-control: max-age=60\ncontent-length: 4";
    assert_eq!(offer(&cache, &head, lines, ""), StoreDecision::Stored);
    assert_eq!(
        word(&cache, &Ask::page(), 1),
        "missing",
        "its body is not known"
    );
    assert!(stale(&cache, &head, 61).is_some());
}
