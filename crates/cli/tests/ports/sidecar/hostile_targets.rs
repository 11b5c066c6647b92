//! Two hundred targets that aim at another host or outside of the configured base path. None of them reaches
//! anything else.

use outflow_mock::{MockApi, MockResponse};

use super::support::{TestConfig, TestSidecar};

/// Prefixes of a foreign host. Every browser and server reads some of them as `//`.
const LEADS: [&str; 12] = [
    "/", "//", "///", "/\\", "\\\\", "/%2f", "/%2F%2F", "/%5c", "/%09/", "/;/", "/@", "@",
];

/// A foreign host in spellings that evade filters. `PORT` is where it listens.
const HOSTS: [&str; 10] = [
    "127.0.0.1:PORT",
    "user:pw@127.0.0.1:PORT",
    "127.0.0.1:PORT%23@127.0.0.1",
    "127.1:PORT",
    "2130706433:PORT",
    "0x7f000001:PORT",
    "0177.0.0.1:PORT",
    "[::ffff:127.0.0.1]:PORT",
    "%E2%91%A0%E2%91%A1%E2%91%A6.0.0.1:PORT",
    "127%E3%80%820%E3%80%820%E3%80%821:PORT",
];

/// One directory up, in the spellings that servers decode.
const DOTS: [&str; 14] = [
    "..",
    "%2e%2e",
    ".%2e",
    "%2E.",
    "..;",
    "..;a=b",
    "%252e%252e",
    "%25252e%25252e",
    "..%00",
    "%c0%ae%c0%ae",
    "%ef%bc%8e%ef%bc%8e",
    "..%20",
    "..%5c..",
    "%2e%2e%2f%2e%2e",
];

/// Positions of the dots in a path.
const PLACES: [&str; 5] = [
    "/strict/DOTS/secret",
    "/strict/DOTS",
    "/strict/a/DOTS/DOTS/secret",
    "/strict/a/DOTS%2fsecret",
    "/DOTS/strict/DOTS/secret",
];

/// Targets that are invalid by themselves.
const WHOLE: [&str; 22] = [
    "http://127.0.0.1:PORT/strict/x",
    "https://127.0.0.1:PORT/strict/x",
    "ftp://127.0.0.1:PORT/strict/x",
    "file:///etc/passwd",
    "javascript:alert(1)",
    "127.0.0.1:PORT",
    "*",
    "strict/x",
    "?strict/x",
    "/strict:PORT/x",
    "/strict@127.0.0.1:PORT/x",
    "/strict%40127.0.0.1:PORT/x",
    "/strict.127.0.0.1:PORT/x",
    "/strict%2f..%2f..%2fx",
    "/%73trict/x",
    "/STRICT/x",
    "/strict%00/x",
    "/strict;/x",
    "/strict\\..\\x",
    "/./strict/x",
    "/strict/x#@127.0.0.1:PORT/",
    "/strict/x%0d%0aHost:%20127.0.0.1:PORT",
];

fn targets(port: u16) -> Vec<String> {
    let hosts = LEADS
        .iter()
        .flat_map(|lead| HOSTS.map(move |host| format!("/strict{lead}{host}/x")));
    let dots = DOTS
        .iter()
        .flat_map(|dots| PLACES.map(|place| place.replace("DOTS", dots)));
    let whole = WHOLE.map(str::to_owned);
    let all = hosts.chain(dots).chain(whole);
    all.map(|target| target.replace("PORT", &port.to_string())).collect()
}

#[tokio::test]
async fn every_target_stays_below_the_base_path() {
    let open = || MockApi::builder().answer("/**", MockResponse::echo()).build();
    let (ours, other) = (open().expect("valid"), open().expect("valid"));
    let (server, elsewhere) = (ours.listen().await, other.listen().await);
    let (server, elsewhere) = (server.expect("a port"), elsewhere.expect("a port"));
    let base = format!("{}/v1/public", server.url());
    let sidecar = TestSidecar::for_api(&base, TestConfig::default()).await;
    let targets = targets(elsewhere.address().port());
    assert!(targets.len() >= 200, "{}", targets.len());
    for target in &targets {
        let reply = sidecar.get(target, "").await;
        assert!([200, 400, 404].contains(&reply.status), "{target}: {reply:?}");
        assert_eq!(other.audit().count(), 0, "{target} went elsewhere");
    }
    for arrival in ours.audit().arrivals() {
        let below = arrival.path.strip_prefix("/v1/public");
        let below = below.unwrap_or_else(|| panic!("{} is above its base", arrival.path));
        let plain = below.to_ascii_lowercase();
        assert!(below.is_empty() || below.starts_with('/'), "{below}");
        for sign in ["..", "%2e", "\\", "%5c", "%00", "%0d"] {
            assert!(!plain.contains(sign), "{below}");
        }
        assert!(!below.starts_with("//"), "{below}");
    }
    // Some targets are harmless, which shows that the sidecar does not refuse everything.
    assert!(ours.audit().count() > 0);
}
