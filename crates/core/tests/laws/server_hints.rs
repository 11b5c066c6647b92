//! Every dialect as its provider sends it, and the treatment of malformed headers.

use std::time::Duration;

use outflow_core::{Dialect, Dialects, Hint, HintUnit, Hints, ResponseTime, WallTime};

/// Tue, 14 Nov 2023 22:13:20 GMT.
const NOW: WallTime = WallTime::from_unix_secs(1_700_000_000);

fn read(headers: &[(&str, &str)]) -> Hints {
    read_as(headers, Dialects::ALL)
}

fn read_as(headers: &[(&str, &str)], dialects: Dialects) -> Hints {
    let pairs = headers.iter().map(|(name, value)| (*name, value.as_bytes()));
    let response_time = ResponseTime { date: None, wall: NOW };
    Hints::read(pairs, dialects, response_time)
}

/// Formats a hint as one line for a readable table; missing parts are left out.
fn line(hint: &Hint) -> String {
    let number = |name: &str, value: Option<u64>| value.map(|n| format!(" {name}={n}"));
    let span = |name: &str, value: Option<Duration>| value.map(|d| format!(" {name}={d:?}"));
    let parts = [
        number("limit", hint.limit),
        number("remaining", hint.remaining),
        number("used", hint.used),
        span("window", hint.window),
        span("resets", hint.resets_in),
        hint.group.map(|group| format!(" group={group}")),
    ];
    let said: String = parts.into_iter().flatten().collect();
    format!("{:?} {:?}{said}", hint.dialect, hint.unit)
}

fn lines(hints: &Hints) -> Vec<String> {
    hints.iter().map(line).collect()
}

/// Headers of a response, and the resulting hints.
type Row = (&'static [(&'static str, &'static str)], &'static [&'static str]);

/// One row per dialect and generation, with the numbers of the providers' own examples.
const ROWS: [Row; 19] = [
    (
        &[
            ("RateLimit-Policy", "\"default\";q=100;w=60"),
            ("RateLimit", "\"default\";r=50;t=30"),
        ],
        &["Ietf Requests limit=100 remaining=50 window=60s resets=30s group=default"],
    ),
    (
        &[
            ("ratelimit", "\"hour\";r=90;t=200, \"burst\";r=5;t=1"),
            ("ratelimit-policy", "\"burst\";q=10;w=1,\"hour\";q=100;w=3600;pk=:cHN0:"),
        ],
        &[
            "Ietf Requests limit=100 remaining=90 window=3600s resets=200s group=hour",
            "Ietf Requests limit=10 remaining=5 window=1s resets=1s group=burst",
        ],
    ),
    (
        &[("RateLimit-Policy", "\"b\";q=65535;qu=\"content-bytes\";w=10")],
        &["Ietf Bytes limit=65535 window=10s group=b"],
    ),
    (
        &[("RateLimit-Policy", "\"c\";q=5;qu=\"concurrent-requests\"")],
        &["Ietf Concurrent limit=5 group=c"],
    ),
    (
        &[
            ("RateLimit", "limit=100, remaining=50, reset=5"),
            ("RateLimit-Policy", "100;w=60, 1000;w=3600"),
        ],
        &[
            "Ietf Requests limit=100 remaining=50 window=60s resets=5s",
            "Ietf Requests limit=1000 window=3600s",
        ],
    ),
    (
        &[
            ("RateLimit-Limit", "10, 10;w=1, 50;w=60"),
            ("RateLimit-Remaining", "9"),
            ("RateLimit-Reset", "1"),
        ],
        &[
            "Ietf Requests limit=10 remaining=9 window=1s resets=1s",
            "Ietf Requests limit=50 window=60s",
        ],
    ),
    (
        &[
            ("X-RateLimit-Limit", "60"),
            ("X-RateLimit-Remaining", " 12 "),
            ("X-RateLimit-Reset", "30"),
        ],
        &["XRateLimit Requests limit=60 remaining=12 resets=30s"],
    ),
    (
        &[
            ("x-ratelimit-limit", "5000"),
            ("x-ratelimit-remaining", "4987"),
            ("x-ratelimit-used", "13"),
            ("x-ratelimit-resource", "core"),
            ("x-ratelimit-reset", "1700000600"),
        ],
        &["XRateLimit Requests limit=5000 remaining=4987 used=13 resets=600s group=core"],
    ),
    (
        &[("X-RateLimit-Reset", "1700000600500")],
        &["XRateLimit Requests resets=600.5s"],
    ),
    (
        &[("X-RateLimit-Reset", "2023-11-14T22:14:20Z")],
        &["XRateLimit Requests resets=60s"],
    ),
    (&[("X-RateLimit-Reset", "6m0s")], &["XRateLimit Requests resets=360s"]),
    (
        &[("x-rate-limit-limit", "900"), ("x-rate-limit-reset", "1699999999")],
        &["XRateLimit Requests limit=900 resets=0ns"],
    ),
    (
        &[
            ("X-RateLimit-Limit-Second", "5"),
            ("X-RateLimit-Limit-Hour", "100"),
            ("X-RateLimit-Remaining-Hour", "99"),
            ("X-RateLimit-Remaining-Second", "4"),
        ],
        &[
            "XRateLimit Requests limit=5 remaining=4 window=1s",
            "XRateLimit Requests limit=100 remaining=99 window=3600s",
        ],
    ),
    (
        &[
            ("x-ratelimit-limit-requests", "60"),
            ("x-ratelimit-limit-tokens", "150000"),
            ("x-ratelimit-remaining-requests", "59"),
            ("x-ratelimit-remaining-tokens", "149984"),
            ("x-ratelimit-reset-requests", "1s"),
            ("x-ratelimit-reset-tokens", "6m0s"),
        ],
        &[
            "OpenAi Requests limit=60 remaining=59 resets=1s",
            "OpenAi Tokens limit=150000 remaining=149984 resets=360s",
        ],
    ),
    (
        &[
            ("anthropic-ratelimit-requests-limit", "50"),
            ("anthropic-ratelimit-requests-remaining", "49"),
            ("anthropic-ratelimit-requests-reset", "2023-11-14T22:13:21Z"),
            ("anthropic-ratelimit-tokens-remaining", "7"),
            ("anthropic-ratelimit-input-tokens-limit", "40000"),
            ("anthropic-ratelimit-output-tokens-limit", "8000"),
        ],
        &[
            "Anthropic Requests limit=50 remaining=49 window=60s resets=1s",
            "Anthropic Tokens remaining=7 window=60s",
            "Anthropic InputTokens limit=40000 window=60s",
            "Anthropic OutputTokens limit=8000 window=60s",
        ],
    ),
    (
        &[("Remaining-Req", "group=default; min=1800; sec=29")],
        &["Upbit Requests remaining=29 window=1s group=default"],
    ),
    (
        &[
            ("X-MBX-USED-WEIGHT-1M", "30"),
            ("x-mbx-used-weight-1s", "3"),
            ("X-MBX-ORDER-COUNT-10S", "2"),
            ("X-MBX-ORDER-COUNT-1D", "30"),
            ("X-SAPI-USED-UID-WEIGHT-1M", "9"),
        ],
        &[
            "Binance Weight used=30 window=60s",
            "Binance Weight used=3 window=1s",
            "Binance Orders used=2 window=10s",
            "Binance Orders used=30 window=86400s",
            "Binance Weight used=9 window=60s group=uid",
        ],
    ),
    (
        &[("X-Shopify-Shop-Api-Call-Limit", "32/40")],
        &["Shopify Requests limit=40 remaining=8 used=32"],
    ),
    (
        &[
            ("Content-Type", "text/plain"),
            ("ETag", "1"),
            ("X-MBX-USED-WEIGHT", "30"),
            ("", ""),
        ],
        &[],
    ),
];

#[test]
fn every_dialect_becomes_the_same_kind_of_hint() {
    for (headers, expected) in ROWS {
        let hints = read(headers);
        assert_eq!(lines(&hints), expected, "{headers:?}");
        assert_eq!((hints.malformed(), hints.left_out()), (0, 0), "{headers:?}");
    }
}

#[test]
fn a_name_or_a_window_alone_is_no_hint() {
    for header in [
        ("X-RateLimit-Resource", "core"),
        ("RateLimit", "\"default\""),
        ("RateLimit", "policy=7"),
        ("RateLimit-Policy", "\"default\";w=60"),
    ] {
        let hints = read(&[header]);
        assert_eq!((hints.iter().count(), hints.malformed()), (0, 0), "{header:?}");
    }
}

#[test]
fn names_are_read_in_any_case() {
    for name in ["REMAINING-REQ", "remaining-req", "Remaining-Req"] {
        assert_eq!(read(&[(name, "group=a; sec=1")]).iter().count(), 1, "{name}");
    }
}

// A valid header stands next to each malformed one: it must survive.
#[test]
fn malformed_headers_are_counted_and_harm_no_others() {
    let good = ("X-RateLimit-Limit", "60");
    for (name, value) in [
        ("X-RateLimit-Remaining", "-1"),
        ("X-RateLimit-Remaining", "+1"),
        ("X-RateLimit-Remaining", "many"),
        ("X-RateLimit-Remaining", "1.5"),
        ("X-RateLimit-Remaining", "18446744073709551616"),
        ("X-RateLimit-Remaining", ""),
        ("X-RateLimit-Remaining", "١"),
        ("X-RateLimit-Limit", "60 requests"),
        ("X-RateLimit-Reset", "tomorrow"),
        ("X-RateLimit-Resource", "a\nb"),
        ("RateLimit", "\"default\";r=-5"),
        ("RateLimit", "\"default\";r=5,"),
        ("RateLimit", "\"default\";r=\"5\""),
        ("RateLimit", "limit=many"),
        ("RateLimit-Policy", "\"a\";q=1;w=1, \"b\";q=x y"),
        ("RateLimit-Policy", "\"a\";q=1;qu=\"apples\""),
        ("RateLimit-Policy", "\"a b\";q=1"),
        ("RateLimit-Limit", "ten"),
        ("Remaining-Req", "group=default; min=1800"),
        ("Remaining-Req", "sec=3"),
        ("Remaining-Req", "group=default; min=x; sec=3"),
        ("Remaining-Req", "group=default sec=29"),
        ("X-MBX-USED-WEIGHT-1M", "lots"),
        ("X-Shopify-Shop-Api-Call-Limit", "32"),
        ("X-Shopify-Shop-Api-Call-Limit", "32/40/50"),
        ("anthropic-ratelimit-tokens-reset", "later"),
    ] {
        let hints = read(&[(name, value), good]);
        assert_eq!(hints.malformed(), 1, "{name}: {value}");
        assert_eq!(lines(&hints), ["XRateLimit Requests limit=60"], "{name}: {value}");
    }
}

#[test]
fn only_selected_dialects_are_read() {
    let headers = [
        ("RateLimit", "\"a\";r=1"),
        ("X-RateLimit-Limit", "1"),
        ("X-RateLimit-Limit-Tokens", "1"),
        ("Anthropic-RateLimit-Tokens-Limit", "1"),
        ("Remaining-Req", "group=a; sec=1"),
        ("X-MBX-USED-WEIGHT-1M", "1"),
        ("X-Shopify-Shop-Api-Call-Limit", "1/2"),
    ];
    let dialects = [
        Dialect::Ietf,
        Dialect::XRateLimit,
        Dialect::OpenAi,
        Dialect::Anthropic,
        Dialect::Upbit,
        Dialect::Binance,
        Dialect::Shopify,
    ];
    for dialect in dialects {
        let hints = read_as(&headers, Dialects::NONE.with(dialect));
        let heard: Vec<_> = hints.iter().map(|hint| hint.dialect).collect();
        assert_eq!(heard, [dialect]);
    }
    let each = dialects.into_iter().fold(Dialects::NONE, Dialects::with);
    assert_eq!(each, Dialects::ALL);
    assert_eq!(read_as(&headers, Dialects::NONE).iter().count(), 0);
    assert_eq!(read_as(&headers, Dialects::ALL).iter().count(), 7);
}

// Headers of unselected dialects are not judged, so they are not malformed either.
#[test]
fn unselected_dialects_are_not_malformed() {
    let hints = read_as(&[("X-RateLimit-Limit", "?")], Dialects::NONE);
    assert_eq!(hints.malformed(), 0);
}

// The server's clock is a day ahead; its reset is 90 s ahead of its own clock, not of ours.
#[test]
fn resets_use_the_servers_clock() {
    let response_time = ResponseTime {
        date: Some(b"Wed, 15 Nov 2023 22:13:20 GMT"),
        wall: NOW,
    };
    for value in ["1700086490", "1700086490000", "2023-11-15T22:14:50Z", "90", "1m30s"] {
        let headers = [("X-RateLimit-Reset", value.as_bytes())];
        let hints = Hints::read(headers, Dialects::ALL, response_time);
        let resets_in = hints.iter().next().and_then(|hint| hint.resets_in);
        assert_eq!(resets_in, Some(Duration::from_secs(90)), "{value}");
    }
}

// Ten thousand headers, each another window: eight are kept.
#[test]
fn a_flood_of_headers_is_bounded() {
    let names: Vec<String> = (1..=10_000).map(|n| format!("X-MBX-USED-WEIGHT-{n}S")).collect();
    let headers = names.iter().map(|name| (name.as_str(), &b"1"[..]));
    let response_time = ResponseTime { date: None, wall: NOW };
    let hints = Hints::read(headers, Dialects::ALL, response_time);
    assert_eq!((hints.iter().count(), hints.left_out()), (8, 9_992));
}

#[test]
fn usage_is_read_or_computed_from_remaining() {
    let used = |headers| read(headers).iter().next().and_then(Hint::server_used);
    assert_eq!(used(&[("X-MBX-USED-WEIGHT-1M", "30")]), Some(30));
    assert_eq!(
        used(&[("X-RateLimit-Limit", "60"), ("X-RateLimit-Remaining", "12")]),
        Some(48)
    );
    assert_eq!(
        used(&[("X-RateLimit-Limit", "60"), ("X-RateLimit-Remaining", "70")]),
        Some(0),
        "more than all of it remains"
    );
    assert_eq!(used(&[("X-RateLimit-Limit", "60")]), None);
}

#[test]
fn each_dialect_counts_what_it_says() {
    let units: Vec<HintUnit> = read(&[
        ("x-ratelimit-remaining-tokens", "1"),
        ("anthropic-ratelimit-output-tokens-limit", "1"),
        ("x-mbx-order-count-1d", "1"),
    ])
    .iter()
    .map(|hint| hint.unit)
    .collect();
    assert_eq!(units, [HintUnit::Tokens, HintUnit::OutputTokens, HintUnit::Orders]);
}
