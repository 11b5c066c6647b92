//! Inputs for the parsers of the client.

use outflow_parser_laws::{client, response};
use outflow_testkit::fuzz_seeds::seeds_keep;
use outflow_testkit::laws::{CASES, STRESS_CASES, law};
use outflow_testkit::parser_inputs::{arbitrary, made_of};
use proptest::prelude::*;
use proptest::sample::select;

/// Lines of a configuration: a text made of them gets past its syntax.
const LINES: &[&str] = &[
    "[apis.stock]",
    "[apis.stock.health]",
    "[apis.stock.retry.budget]",
    "[apis.stock.groups.orders]",
    "[log]",
    "[metrics]",
    "[cache]",
    "base_url = \"https://stock.example/v1\"",
    "preset = \"upbit\"",
    "limits = [\"10/s\", { rate = \"5/s\", kind = \"bucket\", burst = 9 }]",
    "limits = [\"18446744073709551615/ns\"]",
    "rate_base = 35",
    "rate_share = \"1/3\"",
    "timeout = \"8s\"",
    "timeout = \"584942417355d\"",
    "max_wait = \"0s\"",
    "concurrency = 4294967295",
    "queue = 0",
    "cache = { force = \"5m\" }",
    "stale_if_error = \"1h\"",
    "routes = [{ path = \"/a/**\", group = \"orders\", cost = 18446744073709551615 }]",
    "policy = { 401 = \"failed\", \"5xx\" = \"neutral\" }",
    "profile = \"breaker\"",
    "sleep_min = \"5m\"",
    "sleep_max = \"1ns\"",
    "p_throttle = \"0%\"",
    "probe_rate = \"1/1d\"",
    "ramp_factor = 1e308",
    "share = 1.5",
    "size = \"1B\"",
    "interval = \"1ns\"",
    "level = \"off\"",
    "api_key_env = \"KEY\"",
    "key = { query = \"k\" }",
    "env KEY=k3y",
    "env OUTFLOW_APIS__STOCK__TIMEOUT=5s",
    "env OUTFLOW_APIS__STOCK__LIMITS=[\"1/s\"]",
    "env OUTFLOW_RATE_BASE=9",
    "env OUTFLOW_APIS__=",
];

/// Pieces of addresses, honest and not.
const PIECES: &[&str] = &[
    "http://",
    "https://",
    "HTTP://",
    "//",
    "/",
    "api.example.com",
    "API.example.com",
    "other.example",
    "user:pw@",
    "[::1]",
    "127.0.0.1",
    ":80",
    ":8080",
    ":99999",
    ":",
    "v1",
    "from",
    ".",
    "..",
    "..;a=b",
    "%2e%2e",
    "%252e",
    "%2f",
    "%5c",
    "%00",
    "\\",
    "?",
    "q=1&r=2",
    "#top",
    "@",
    "\n",
    "\t",
    " ",
    "é",
];

/// First lines of responses.
const STATUS_LINES: &[&str] = &[
    "HTTP/1.1 200 OK\r\n",
    "HTTP/1.0 200 OK\r\n",
    "HTTP/1.1 200 OK\n",
    "HTTP/1.1 204 No Content\r\n",
    "HTTP/1.1 304 Not Modified\r\n",
    "HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\n",
];

/// Lines of heads, of which few are sound together.
const FIELDS: &[&str] = &[
    "Content-Length: 2\r\n",
    "Content-Length: 5\r\n",
    "content-length: 2, 2\r\n",
    "Content-Length: +2\r\n",
    "Transfer-Encoding: chunked\r\n",
    "Transfer-Encoding: gzip, chunked\r\n",
    "Connection: keep-alive\r\n",
    "Retry-After: 7\r\n",
    " folded\r\n",
    "X: a\rb\r\n",
    "X: a\n",
];

/// Bodies of responses, and pieces of them.
const BODIES: &[&str] = &[
    "ab",
    "2\r\nab\r\n",
    "2;a=b\r\nab\r\n",
    "5\r\n",
    "0\r\n\r\n",
    "0\r\nsum: 1\r\n\r\n",
    "HTTP/1.1 200 OK\r\n\r\n",
];

/// A choice of the call, and a response.
fn responses() -> impl Strategy<Value = Vec<u8>> {
    let few_fields = prop::collection::vec(select(FIELDS), 0..3).prop_map(|fields| fields.concat().into_bytes());
    let fields = prop_oneof![few_fields, made_of(FIELDS, "")];
    let made = (select(STATUS_LINES), fields, made_of(BODIES, ""))
        .prop_map(|(line, fields, body)| [line.as_bytes(), &fields, b"\r\n", &body].concat());
    let bytes = prop_oneof![arbitrary(), made];
    (any::<[u8; 2]>(), bytes).prop_map(|(choice, bytes)| [&choice[..], &bytes].concat())
}

/// A valid base, and any text after it.
fn joined() -> impl Strategy<Value = Vec<u8>> {
    let base = select(&["https://api.example.com/v1\n/", "http://[::1]:80\n"][..]);
    let path = prop_oneof![arbitrary(), made_of(PIECES, "")];
    (base, path).prop_map(|(base, path)| [base.as_bytes(), &path].concat())
}

fn addresses() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![arbitrary(), made_of(PIECES, "")]
}

/// Runs a law on its own inputs.
fn holds(cases: u32, checked: fn(&[u8]), input: impl Strategy<Value = Vec<u8>>) {
    law(cases, input, |input| {
        checked(&input);
        Ok(())
    });
}

fn laws_hold(cases: u32) {
    let texts = prop_oneof![arbitrary(), made_of(LINES, "\n")];
    holds(cases, client::config, texts);
    holds(cases, client::base_url, prop_oneof![addresses(), joined()]);
    holds(cases, client::cache_file, arbitrary());
    // Each of these is a call to its own server.
    holds(cases / 10, client::redirect, addresses());
    holds(cases, response::response, responses());
}

#[test]
fn any_bytes_keep_the_laws_of_the_client() {
    laws_hold(CASES);
}

#[test]
#[ignore = "long run: cargo xtask test --stress"]
fn stress_any_bytes_keep_the_laws_of_the_client() {
    laws_hold(STRESS_CASES);
}

// The fuzzer's seeds, valid forms and known attacks.
#[test]
fn the_client_fuzzers_seeds_keep_the_laws() {
    seeds_keep("config", client::config);
    seeds_keep("base_url", client::base_url);
    seeds_keep("cache_file", client::cache_file);
    seeds_keep("redirect", client::redirect);
    seeds_keep("response", response::response);
}
