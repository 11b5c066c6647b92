//! Calls without a response of the API, as their caller sees them: status, headers and problem.

use outflow::core::{HealthOverride, HealthState};
use outflow_mock::{Content, Fault, MockApi, MockResponse, Script, ScriptMatch};
use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;
use tokio::time::timeout;

use super::support::{PATIENCE, RawResponse, TestConfig, TestSidecar, echo};

fn mark(reply: &RawResponse) -> &str {
    let mark = reply.header("proxy-status").expect("a mark");
    mark.strip_prefix("outflow; error=").expect("ours")
}

#[tokio::test]
async fn a_limit_refusal_states_its_rate_and_retry_time() {
    let (_, server) = echo().await;
    let config = TestConfig {
        api: "limits = [\"1/h\"]\nrate_limit_mode = \"reject\"",
        ..TestConfig::default()
    };
    let sidecar = TestSidecar::for_api(&server.url(), config).await;
    assert_eq!(sidecar.get("/strict/x", "").await.status, 200);
    let reply = sidecar.get("/strict/x?key=CANARY", "authorization: CANARY\r\n").await;
    assert_eq!(reply.status, 429);
    let problem = reply.problem();
    assert_eq!(problem["type"], "urn:outflow:problem:busy");
    assert_eq!(
        (&problem["limit"], &problem["waits_for"]),
        (&json!("1/h"), &json!("limit"))
    );
    assert_eq!(problem["api"], "strict");
    let seconds = problem["retry_after"].as_f64().expect("a number");
    assert!((3_500.0..=3_610.0).contains(&seconds), "{seconds}");
    let header: f64 = reply
        .header("retry-after")
        .expect("a header")
        .parse()
        .expect("a number");
    assert!(header >= seconds && header < seconds + 1.0, "{header} {seconds}");
    assert!(problem["advice"].is_string() && problem["detail"].is_string());
    let message = format!("Outflow: {}", problem["detail"].as_str().expect("text"));
    let error = json!({ "message": message, "type": "rate_limit_error", "code": "busy" });
    assert_eq!(problem["error"], error);
    assert_eq!(reply.header("x-should-retry"), Some("false"), "an hour is too long");
    assert_eq!(mark(&reply), "http_request_denied");
    assert_eq!(reply.header("cache-control"), Some("no-store"));
    assert_eq!(reply.header("via"), Some("1.1 outflow"));
    assert!(!format!("{reply:?}").contains("CANARY"), "{reply:?}");
}

#[tokio::test]
async fn a_health_refusal_states_its_state() {
    let (api, server) = echo().await;
    let sidecar = TestSidecar::for_api(&server.url(), TestConfig::default()).await;
    let client = sidecar.program.state().client();
    for (hold, state) in [
        (HealthOverride::CacheOnly, HealthState::CacheOnly),
        (HealthOverride::Sleep, HealthState::Sleep),
    ] {
        client.upstream("strict").expect("known").force_health(None, hold);
        let reply = sidecar.get("/strict/x", "").await;
        assert_eq!(reply.status, 503, "{reply:?}");
        let problem = reply.problem();
        assert_eq!(problem["state"], state.name());
        assert_eq!(problem["type"], "urn:outflow:problem:blocked");
        assert_eq!(mark(&reply), "http_request_denied");
    }
    assert_eq!(api.audit().count(), 0);
}

// The queue has one slot, and a call that waits for an hour holds it.
#[tokio::test]
async fn a_full_queue_has_its_own_refusal() {
    let (_, server) = echo().await;
    let config = TestConfig {
        api: "limits = [\"1/h\"]\nmax_wait = \"9h\"\nqueue = 1",
        ..TestConfig::default()
    };
    let sidecar = TestSidecar::for_api(&server.url(), config).await;
    assert_eq!(sidecar.get("/strict/x", "").await.status, 200);
    let mut waits = sidecar.connect().await;
    let request = sidecar.request("GET", "/strict/x", "");
    waits.write_all(request.as_bytes()).await.expect("written");
    let client = sidecar.program.state().client();
    let queued = async {
        while client.upstream("strict").expect("known").report().waiting == 0 {
            tokio::task::yield_now().await;
        }
    };
    timeout(PATIENCE, queued).await.expect("it waits");
    let reply = sidecar.get("/strict/x", "").await;
    assert_eq!(reply.status, 503);
    assert_eq!(reply.problem()["type"], "urn:outflow:problem:queue_full");
    assert_eq!(reply.problem()["error"]["type"], "overloaded_error");
    assert_eq!(
        reply.header("x-should-retry"),
        Some("false"),
        "the next permit is an hour away"
    );
    assert!(reply.header("retry-after").is_some(), "{reply:?}");
}

#[tokio::test]
async fn an_impossible_cost_is_refused_without_a_retry_time() {
    let (_, server) = echo().await;
    let config = TestConfig {
        api: "limits = [\"10/h\"]",
        ..TestConfig::default()
    };
    let sidecar = TestSidecar::for_api(&server.url(), config).await;
    let reply = sidecar.get("/strict/x", "outflow-cost: 11\r\n").await;
    assert_eq!(reply.status, 422);
    assert_eq!(
        (&reply.problem()["limit"], reply.header("retry-after")),
        (&json!("10/h"), None)
    );
}

#[tokio::test]
async fn a_refused_connection_is_a_bad_gateway() {
    let closed = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = closed.local_addr().expect("an address");
    drop(closed);
    let config = TestConfig {
        api: "retry_count = 0",
        ..TestConfig::default()
    };
    let sidecar = TestSidecar::for_api(&format!("http://{address}"), config).await;
    let reply = sidecar.get("/strict/x", "").await;
    assert_eq!((reply.status, mark(&reply)), (502, "connection_refused"));
    assert_eq!(reply.problem()["type"], "urn:outflow:problem:connect");
    assert_eq!(reply.problem()["error"]["code"], "connect");
    // The call was sent, so the library decides as it would without Outflow.
    assert_eq!(reply.header("x-should-retry"), Some("false"), "its attempts are made");
}

#[tokio::test]
async fn a_broken_api_is_a_bad_gateway_and_a_slow_one_a_timeout() {
    for (fault, status, error) in [
        (Fault::ResetBeforeHead, 502, "connection_terminated"),
        (Fault::CloseBeforeHead, 502, "connection_terminated"),
        (Fault::Garbage, 502, "http_protocol_error"),
        (Fault::Unasked101, 502, "http_protocol_error"),
        (Fault::Hang, 504, "http_response_timeout"),
    ] {
        let script = Script::new().rule(ScriptMatch::always(), fault.clone());
        let api = MockApi::builder().script(script).build().expect("valid");
        let server = api.listen().await.expect("a port");
        let config = TestConfig {
            api: "retry_count = 0\ntimeout = \"500ms\"",
            ..TestConfig::default()
        };
        let sidecar = TestSidecar::for_api(&server.url(), config).await;
        let reply = sidecar.get("/strict/x?key=CANARY", "").await;
        assert_eq!((reply.status, mark(&reply)), (status, error), "{fault:?}");
        assert_eq!(reply.problem()["attempts"], 1);
        assert!(!format!("{reply:?}").contains("CANARY"), "{reply:?}");
    }
}

// RFC 6761 guarantees that this name never resolves.
#[tokio::test]
async fn a_name_without_an_address_is_a_bad_gateway() {
    let config = TestConfig {
        api: "retry_count = 0",
        ..TestConfig::default()
    };
    let sidecar = TestSidecar::for_api("http://nowhere.invalid", config).await;
    let reply = sidecar.get("/strict/x", "").await;
    assert_eq!((reply.status, mark(&reply)), (502, "dns_error"));
}

// The head is already sent, so the caller sees a broken connection.
#[tokio::test]
async fn a_cut_body_breaks_the_connection() {
    let script = Script::new().rule(ScriptMatch::always(), Fault::CutChunk);
    let api = MockApi::builder().script(script).build().expect("valid");
    let server = api.listen().await.expect("a port");
    let sidecar = TestSidecar::for_api(&server.url(), TestConfig::default()).await;
    let raw = sidecar.raw(sidecar.request("GET", "/strict/x", "").as_bytes()).await;
    let text = String::from_utf8_lossy(&raw);
    assert!(text.starts_with("HTTP/1.1 200"), "{text}");
    assert!(!text.ends_with("0\r\n\r\n"), "{text}");
}

#[tokio::test]
async fn a_forbidden_method_is_refused_without_a_call() {
    let (api, server) = echo().await;
    let config = TestConfig {
        api: "methods = [\"GET\"]",
        ..TestConfig::default()
    };
    let sidecar = TestSidecar::for_api(&server.url(), config).await;
    let request = sidecar.request("DELETE", "/strict/x", "");
    let reply = sidecar.exchange(request).await;
    assert_eq!(
        (reply.status, &reply.problem()["type"]),
        (405, &json!("urn:outflow:problem:method"))
    );
    assert_eq!(api.audit().count(), 0);
}

// The advice names what this caller can change: its own header, or nothing but the time.
#[tokio::test]
async fn the_advice_of_a_cache_miss_fits_its_cause() {
    let (_, server) = echo().await;
    let config = TestConfig {
        api: "cache = \"standard\"",
        ..TestConfig::default()
    };
    let sidecar = TestSidecar::for_api(&server.url(), config).await;
    let client = sidecar.program.state().client();
    let advice = async |header: &str| {
        let reply = sidecar.get("/strict/x", header).await;
        let problem = reply.problem();
        assert_eq!(
            (reply.status, &problem["type"]),
            (504, &json!("urn:outflow:problem:cache_miss"))
        );
        problem["advice"].as_str().expect("a text").to_owned()
    };
    assert_eq!(
        advice("outflow-cache: only\r\n").await,
        "call without Outflow-Cache: only"
    );
    assert_eq!(
        advice("cache-control: only-if-cached\r\n").await,
        "call without Cache-Control: only-if-cached"
    );
    let upstream = client.upstream("strict").expect("known");
    upstream.force_health(None, HealthOverride::CacheOnly);
    assert_eq!(advice("").await, "call again when the API is available");
}

// A cached API reads whole responses, so one that is too large is an error and not cut.
#[tokio::test]
async fn a_response_too_large_to_cache_is_a_bad_gateway() {
    let huge = MockResponse::status(200).content(Content::Zeros(100_000));
    let api = MockApi::builder().answer("/**", huge).build().expect("valid");
    let server = api.listen().await.expect("a port");
    let config = TestConfig {
        api: "cache = \"standard\"\nmax_body = \"64KiB\"",
        ..TestConfig::default()
    };
    let sidecar = TestSidecar::for_api(&server.url(), config).await;
    let reply = sidecar.get("/strict/x", "").await;
    assert_eq!((reply.status, mark(&reply)), (502, "http_response_body_size"));
    let around = sidecar.get("/strict/x", "outflow-cache: bypass\r\n").await;
    assert_eq!((around.status, around.body.len()), (200, 100_000));
}

// The caller's error says nothing about the API, whose health stays normal.
#[tokio::test]
async fn an_oversized_body_does_not_count_against_the_api() {
    let (_, server) = echo().await;
    let config = TestConfig {
        server: "max_body = \"100KiB\"",
        ..TestConfig::default()
    };
    let sidecar = TestSidecar::for_api(&server.url(), config).await;
    for _ in 0..30 {
        let request = sidecar.request("POST", "/strict/x", "transfer-encoding: chunked\r\n");
        let piece = format!("{:x}\r\n{}\r\n", 60_000, "x".repeat(60_000));
        let reply = sidecar.exchange(request + &piece + &piece + "0\r\n\r\n").await;
        assert_eq!(reply.status, 413, "{reply:?}");
    }
    let reply = sidecar.get("/strict/x", "").await;
    assert_eq!((reply.status, reply.header("outflow-state")), (200, Some("Normal")));
}
