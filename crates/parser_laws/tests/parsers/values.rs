//! Inputs for the parsers of the core.

use outflow_parser_laws::values;
use outflow_testkit::fuzz_seeds::seeds_keep;
use outflow_testkit::laws::{CASES, STRESS_CASES, law};
use proptest::prelude::*;
use proptest::sample::{Index, select};

/// Pieces of every grammar: inputs made of them get past the first byte of a parser.
const PIECES: &[&str] = &[
    "0",
    "1",
    "5",
    "10",
    "60",
    "94",
    "100",
    "1994",
    "2023",
    "9999",
    "86400",
    "999999999",
    "1700000090",
    "1700000090000",
    "18446744073709551615",
    "18446744073709551616",
    "-",
    "+",
    ".",
    ",",
    ", ",
    ";",
    "; ",
    ":",
    "=",
    "/",
    " per ",
    " ",
    "\t",
    "_",
    "\"",
    "\\",
    "?1",
    "e",
    "s",
    "ms",
    "m",
    "min",
    "h",
    "d",
    "day",
    "ns",
    "Z",
    "T",
    "Sun, ",
    "Sunday, ",
    "Tue ",
    "Nov",
    " Nov ",
    "-Feb-",
    "06",
    "29",
    " 6",
    "08:49:37",
    "23:59:60",
    " GMT",
    " UTC",
    "+09:00",
    "\n",
    "Date",
    "RateLimit",
    "RateLimit-Policy",
    "RateLimit-Limit",
    "X-RateLimit-",
    "Limit",
    "Remaining",
    "Reset",
    "Used",
    "Resource",
    "-Tokens",
    "-Requests",
    "-Hour",
    "anthropic-ratelimit-",
    "input-tokens",
    "-limit",
    "-reset",
    "Remaining-Req",
    "group=default",
    "sec=",
    "min=",
    "X-MBX-USED-WEIGHT-",
    "1M",
    "10S",
    "X-Shopify-Shop-Api-Call-Limit",
    "32/40",
    "\"burst\"",
    ";q=100",
    ";w=60",
    ";r=",
    ";t=",
    "limit=",
    "remaining=",
    "reset=",
    "pk=:YQ==:",
    "é",
    "²",
];

/// Whole values that a parser accepts, to be damaged.
const WHOLES: &[&str] = &[
    "10/s",
    "5000/1h",
    "1 per 2s",
    "0.35/s",
    "1/2857142858ns",
    "1/18446744073709551615ns",
    "1_000 / day",
    "120",
    "1.5",
    "Sun, 06 Nov 1994 08:49:37 GMT",
    "Sunday, 06-Nov-94 08:49:37 GMT",
    "Sun Nov  6 08:49:37 1994",
    "Fri, 31 Dec 9999 23:59:60 GMT",
    "RateLimit-Policy:\"default\";q=100;w=60\nRateLimit:\"default\";r=50;t=30",
    "X-RateLimit-Limit:60\nX-RateLimit-Remaining:12\nX-RateLimit-Reset:2023-11-14T22:14:20Z",
    "Remaining-Req:group=default; min=1800; sec=29",
];

fn clock() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), Just(1_700_000_000), Just(u64::MAX), any::<u64>()]
}

fn text() -> impl Strategy<Value = Vec<u8>> {
    let pieces = prop::collection::vec(select(PIECES), 0..12).prop_map(|p| p.concat().into_bytes());
    let arbitrary = prop::collection::vec(any::<u8>(), 0..64);
    prop_oneof![arbitrary, pieces, damaged()]
}

/// A whole value with up to two bytes changed.
fn damaged() -> impl Strategy<Value = Vec<u8>> {
    let wounds = prop::collection::vec((any::<Index>(), any::<u8>()), 0..3);
    (select(WHOLES), wounds).prop_map(|(whole, wounds)| {
        let mut bytes = whole.as_bytes().to_vec();
        for (place, byte) in wounds {
            *place.get_mut(&mut bytes) = byte;
        }
        bytes
    })
}

fn with_clock() -> impl Strategy<Value = Vec<u8>> {
    (clock(), prop::option::of(Just(b'\n')), text()).prop_map(|(clock, line, text)| {
        let mut input = clock.to_le_bytes().to_vec();
        input.extend(line);
        input.extend(text);
        input
    })
}

/// Runs all the laws, each on its own inputs.
fn laws_hold(cases: u32) {
    let run = |checked: fn(&[u8]), input: BoxedStrategy<Vec<u8>>| {
        law(cases, input, |input| {
            checked(&input);
            Ok(())
        });
    };
    run(values::rate, text().boxed());
    run(values::retry_after, with_clock().boxed());
    run(values::http_date, with_clock().boxed());
    run(values::server_hints, with_clock().boxed());
}

#[test]
fn any_bytes_keep_the_laws_of_every_parser() {
    laws_hold(CASES);
}

#[test]
#[ignore = "long run: cargo xtask test --stress"]
fn stress_any_bytes_keep_the_laws_of_every_parser() {
    laws_hold(STRESS_CASES);
}

// The fuzzer's seeds: they are accepted forms and must stay so.
#[test]
fn the_fuzzers_seeds_keep_the_laws() {
    seeds_keep("rate", values::rate);
    seeds_keep("retry_after", values::retry_after);
    seeds_keep("http_date", values::http_date);
    seeds_keep("server_hints", values::server_hints);
}
