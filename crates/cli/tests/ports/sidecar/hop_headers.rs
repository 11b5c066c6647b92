//! The sidecar removes hop-by-hop headers in both directions and forwards all others.

use outflow_mock::{MockApi, MockResponse};

use super::support::{TestConfig, TestSidecar, echo};

#[tokio::test]
async fn the_sidecar_removes_hop_headers_of_requests() {
    let (_, server) = echo().await;
    let sidecar = TestSidecar::for_api(&server.url(), TestConfig::default()).await;
    for (header, value, reaches) in [
        ("keep-alive", "timeout=5", false),
        ("proxy-connection", "keep-alive", false),
        ("proxy-authorization", "Basic eA==", false),
        ("te", "gzip", false),
        ("trailer", "x-sum", false),
        ("x-listed", "1", false),
        ("authorization", "Bearer key", true),
        ("cookie", "a=b", true),
        ("idempotency-key", "k", true),
        ("x-forwarded-for", "10.0.0.1", true),
        ("accept-encoding", "gzip", true),
        ("user-agent", "test", true),
    ] {
        let headers =
            format!("{header}: {value}\r\nconnection: x-listed, authorization, cookie, idempotency-key, host\r\n");
        let reply = sidecar.get("/strict/x", &headers).await;
        let echoed = reply.echoed(header);
        assert_eq!(echoed.as_deref() == Some(value), reaches, "{header}: {echoed:?}");
    }
}

#[tokio::test]
async fn the_sidecar_removes_hop_headers_of_responses() {
    let answer = MockResponse::ok("{}")
        .header("connection", "x-listed")
        .header("x-listed", "1")
        .header("keep-alive", "timeout=5")
        .header("proxy-authenticate", "Basic")
        .header("x-own", "1")
        .header("via", "1.1 other")
        .header("set-cookie", "a=b")
        .header("set-cookie", "c=d");
    let api = MockApi::builder().answer("/**", answer).build().expect("valid");
    let server = api.listen().await.expect("a port");
    let sidecar = TestSidecar::for_api(&server.url(), TestConfig::default()).await;
    let reply = sidecar.get("/strict/x", "").await;
    for gone in ["x-listed", "keep-alive", "proxy-authenticate"] {
        assert_eq!(reply.header(gone), None, "{gone}: {reply:?}");
    }
    assert_eq!(reply.header("x-own"), Some("1"));
    assert_eq!(reply.headers["via"], ["1.1 other", "1.1 outflow"]);
    assert_eq!(reply.headers["set-cookie"], ["a=b", "c=d"]);
}

// The host is the API's, independent of the caller's `Host`.
#[tokio::test]
async fn the_sidecar_sets_the_host_and_keeps_the_path() {
    let (_, server) = echo().await;
    let sidecar = TestSidecar::for_api(&server.url(), TestConfig::default()).await;
    let reply = sidecar
        .get("/strict/a/b;c=1/%C3%A9?sig=a%2Bb+c&x=%2F..%2F&y=a//b", "")
        .await;
    let seen = reply.json();
    assert_eq!(seen["path"], "/a/b;c=1/%C3%A9");
    assert_eq!(seen["query"], "sig=a%2Bb+c&x=%2F..%2F&y=a//b");
    assert_eq!(reply.echoed("host"), Some(server.address().to_string()));
    assert_eq!(seen["version"], "HTTP/1.1");
}

// The API's own limit headers are more exact than ours.
#[tokio::test]
async fn the_sidecar_keeps_limit_headers_of_the_api() {
    let own = MockResponse::ok("{}").header("ratelimit", "\"theirs\";r=7");
    let api = MockApi::builder().answer("/own", own).build().expect("valid");
    let server = api.listen().await.expect("a port");
    let ten = TestConfig {
        api: "limits = [\"10/h\"]",
        ..TestConfig::default()
    };
    let sidecar = TestSidecar::for_api(&server.url(), ten).await;
    let theirs = sidecar.get("/strict/own", "").await;
    assert_eq!(theirs.headers["ratelimit"], ["\"theirs\";r=7"]);
    assert_eq!(theirs.header("ratelimit-policy"), None);
    let ours = sidecar.get("/strict/other", "").await;
    assert_eq!(ours.header("ratelimit-policy"), Some("\"10/h\";q=10;w=3600"));
    let stand = ours.header("ratelimit").expect("ours");
    assert!(stand.starts_with("\"10/h\";r="), "{stand}");
    assert_eq!(ours.header("outflow-state"), Some("Normal"));
    assert_eq!(ours.header("outflow-attempts"), Some("1"));
    assert_eq!(ours.header("outflow-wait"), Some("0"));
}

// Callers rely on these headers, so only the sidecar may set them.
#[tokio::test]
async fn the_sidecar_removes_forged_headers_of_the_api() {
    let forged = MockResponse::ok("{}")
        .header("outflow-state", "Sleep")
        .header("outflow-attempts", "99")
        .header("outflow-made-up", "1")
        .header("proxy-status", "theirs; error=dns_error");
    let api = MockApi::builder().answer("/**", forged).build().expect("valid");
    let server = api.listen().await.expect("a port");
    let sidecar = TestSidecar::for_api(&server.url(), TestConfig::default()).await;
    let reply = sidecar.get("/strict/x", "").await;
    assert_eq!(reply.headers["outflow-state"], ["Normal"]);
    assert_eq!(reply.headers["outflow-attempts"], ["1"]);
    assert_eq!(reply.header("outflow-made-up"), None);
    assert_eq!(
        reply.headers["proxy-status"],
        ["theirs; error=dns_error", "outflow; received-status=200"]
    );
}

// Only the configured key arrives, however a caller spells another one.
#[tokio::test]
async fn the_sidecar_replaces_keys_in_the_query() {
    let (_, server) = echo().await;
    let keyed = TestConfig {
        api: "api_key_env = \"SIDECAR_TOKEN\"\nkey = { query = \"key\" }",
        ..TestConfig::default()
    };
    let sidecar = TestSidecar::for_api(&server.url(), keyed).await;
    let reply = sidecar.get("/strict/x?key=mine&a=1&%6bey=mine", "").await;
    assert_eq!(reply.json()["query"], "a=1&key=open%20sesame%2C%20please");
}
