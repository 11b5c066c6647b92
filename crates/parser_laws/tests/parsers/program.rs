//! Inputs for the parsers of the program and its sidecar.

use outflow_parser_laws::{program, sidecar};
use outflow_testkit::fuzz_seeds::seeds_keep;
use outflow_testkit::laws::{CASES, STRESS_CASES, law};
use outflow_testkit::parser_inputs::{arbitrary, made_of};
use proptest::prelude::*;

/// Lines and pieces of connections, honest and not.
const BYTES: &[&str] = &[
    "GET /stock/x HTTP/1.1\r\nhost: localhost\r\n",
    "POST /stock/orders HTTP/1.1\r\nHost: 127.0.0.1\r\n",
    "GET /stock/../../x HTTP/1.1\r\nhost: localhost\r\n",
    "GET //other.example/x HTTP/1.0\r\nhost: localhost\r\n",
    "CONNECT localhost:80 HTTP/1.1\r\nhost: localhost:80\r\n",
    "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "content-length: 3\r\n",
    "content-length: 0\r\n",
    "content-length: +3\r\n",
    "transfer-encoding: chunked\r\n",
    "transfer-encoding: identity\r\n",
    "connection: close\r\n",
    "expect: 100-continue\r\n",
    "upgrade: h2c\r\n",
    "authorization: Bearer another\r\n",
    "outflow-cost: 2\r\n",
    "outflow-cache: only\r\n",
    "outflow-refused: bare_lf\r\n",
    " folded\r\n",
    "\r\n",
    "\n",
    "\r",
    "abc",
    "3\r\nabc\r\n",
    "3;x=1\r\nabc\r\n",
    "0\r\n\r\n",
    "0\r\nsum: 1\r\n\r\n",
    "\0",
    "é",
];

/// Pieces of targets.
const TARGETS: &[&str] = &[
    "/",
    "//",
    "stock",
    "other",
    "http://",
    "localhost:80",
    "user@",
    "..",
    ".",
    "%2e%2e",
    "%2f",
    "%5c",
    "\\",
    "?",
    "q=1",
    "#",
    ";a=b",
    "*",
    "é",
    "%00",
];

/// Control header lines.
const HEADERS: &[&str] = &[
    "outflow-cost:3",
    "outflow-cost:18446744073709551616",
    "outflow-priority:low",
    "outflow-deadline:2s",
    "outflow-timeout:584942417355d",
    "outflow-max-wait:0s",
    "outflow-group:orders",
    "outflow-idempotent:true",
    "outflow-cache:bypass",
    "outflow-mode:reject",
    "outflow-token:x",
    "outflow-:",
    "accept:*/*",
    "cookie:a",
];

/// Requests of operators.
const OPERATIONS: &[&str] = &[
    "POST /v1/acquire\n{\"api\":\"stock\",\"wait\":false}",
    "POST /v1/acquire\n{\"api\":\"stock\",\"path\":\"/orders/1\",\"method\":\"POST\",\"lease_ms\":1}",
    "POST /v1/acquire\n{\"api\":\"stock\",\"max_wait_ms\":18446744073709551615,\"cost\":4}",
    "POST /v1/settle\n{\"permit\":\"PERMIT\",\"status\":503,\"headers\":{\"retry-after\":\"9\"}}",
    "POST /v1/settle\n{\"permit\":\"PERMIT\",\"fault\":\"dns\"}",
    "POST /v1/refund\n{\"permit\":\"PERMIT\"}",
    "POST /v1/check\n{\"api\":\"stock\",\"group\":\"trading\"}",
    "POST /v1/apis/stock/health\n{\"state\":\"cache_only\"}",
    "POST /v1/apis/stock/health\n{\"state\":\"half_open\",\"group\":\"orders\"}",
    "DELETE /v1/apis/stock/health?group=orders",
    "PATCH /v1/apis/stock/variables\n{\"variable\":\"p_throttle\",\"value\":1}",
    "PATCH /v1/apis/stock/variables\n{\"variable\":\"limits\",\"value\":\"[]\"}",
    "POST /v1/reload\n{}",
    "GET /v1/explain?api=stock&path=%2Forders&cost=1",
    "GET /v1/events?snapshot_ms=100",
    "GET /v1/apis/%FF/limits",
    "GET /v1/snapshot",
    "GET /metrics",
    "PUT /v1/apis",
];

/// Lines of access logs.
const LOG: &[&str] = &[
    "10.0.0.7 - - [10/Oct/2026:13:15:36 +0000] \"POST /orders/1?a=b HTTP/1.1\" 200 5 \"-\" \"curl\"",
    "::1 - bob [31/Dec/2500:23:59:60 -1200] \"GET / HTTP/2.0\" 200 1",
    "{\"ts\": 1791638136, \"method\": \"POST\", \"path\": \"/orders/1\", \"tenant\": \"a\"}",
    "{\"ts\": 1791638136.25, \"path\": \"/x\"}",
    "{\"ts\": \"2026-10-10T22:15:36.250+09:00\", \"path\": \"/x?y\"}",
    "{\"ts\": 99999999999999, \"path\": \"/a\", \"method\": \"FROB\"}",
    "# a comment",
];

/// Overrides of a file.
const OVERRIDES: &[&str] = &[
    "env OUTFLOW_APIS__STOCK__TIMEOUT=5s",
    "env OUTFLOW_APIS__OTHER__BASE_URL=https://other.example",
    "env OUTFLOW_RATE_BASE=9",
    "set timeout=3s",
    "set p_throttle=0.2",
    "set SLEEP_MIN=2.5",
    "set groups.orders.limits=[\"5/s\"]",
    "set groups.new.limits=[\"5/s\"]",
    "set base_url=https://elsewhere.example",
    "set limits=[[[[",
    "set a\"b.c=1",
    "set =",
    "[apis.other]\nbase_url = \"https://other.example\"",
];

/// Mostly texts made of these pieces, and sometimes any bytes.
fn looks_like(pieces: &'static [&'static str], between: &'static str) -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![1 => arbitrary(), 4 => made_of(pieces, between)]
}

/// Two selector bytes, and a connection.
fn cut() -> impl Strategy<Value = Vec<u8>> {
    let choice = any::<[u8; 2]>();
    (choice, looks_like(BYTES, "")).prop_map(|(choice, bytes)| [&choice[..], &bytes].concat())
}

/// Runs a law on its own inputs.
fn holds(cases: u32, checked: fn(&[u8]), input: impl Strategy<Value = Vec<u8>>) {
    law(cases, input, |input| {
        checked(&input);
        Ok(())
    });
}

fn laws_hold(cases: u32) {
    holds(cases, sidecar::route, looks_like(TARGETS, ""));
    holds(cases, sidecar::control_headers, looks_like(HEADERS, "\n"));
    // Each of these has its own connection, program or configuration.
    let fewer = cases / 10;
    holds(fewer, sidecar::framing, cut());
    holds(fewer, sidecar::request, looks_like(BYTES, ""));
    holds(fewer, program::admin, looks_like(OPERATIONS, "\n\n"));
    holds(fewer, program::replay, looks_like(LOG, "\n"));
    holds(fewer, program::overrides, looks_like(OVERRIDES, "\n"));
}

#[test]
fn any_bytes_keep_the_laws_of_the_program() {
    laws_hold(CASES);
}

#[test]
#[ignore = "long run: cargo xtask test --stress"]
fn stress_any_bytes_keep_the_laws_of_the_program() {
    laws_hold(STRESS_CASES);
}

// The fuzzer's seeds, valid forms and known attacks.
#[test]
fn the_program_fuzzers_seeds_keep_the_laws() {
    seeds_keep("framing", sidecar::framing);
    seeds_keep("request", sidecar::request);
    seeds_keep("route", sidecar::route);
    seeds_keep("control_headers", sidecar::control_headers);
    seeds_keep("admin", program::admin);
    seeds_keep("replay", program::replay);
    seeds_keep("overrides", program::overrides);
}
