//! Every way in which a call brings no answer, as its caller is told: status, headers and problem.

use outflow::core::{HealthOverride, HealthState};
use outflow_mock::{Content, Fault, MockApi, MockResponse, Script, ScriptMatch};
use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;
use tokio::time::timeout;

use super::support::{PATIENCE, Reply, Sidecar, Told, echo};

fn mark(reply: &Reply) -> &str {
    let mark = reply.header("proxy-status").expect("a mark");
    mark.strip_prefix("outflow; error=").expect("ours")
}

#[tokio::test]
async fn a_limit_is_told_with_its_rate_and_the_time_to_come_back() {
    let (_, server) = echo().await;
    let told = Told {
        api: "limits = [\"1/h\"]\nrate_limit_mode = \"reject\"",
        ..Told::default()
    };
    let sidecar = Sidecar::before(&server.url(), told).await;
    assert_eq!(sidecar.get("/strict/x", "").await.status, 200);
    let reply = sidecar
        .get("/strict/x?key=CANARY", "authorization: CANARY\r\n")
        .await;
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
        .expect("told")
        .parse()
        .expect("a number");
    assert!(
        header >= seconds && header < seconds + 1.0,
        "{header} {seconds}"
    );
    assert!(problem["advice"].is_string() && problem["detail"].is_string());
    assert_eq!(mark(&reply), "http_request_denied");
    assert_eq!(reply.header("cache-control"), Some("no-store"));
    assert_eq!(reply.header("via"), Some("1.1 outflow"));
    assert!(!format!("{reply:?}").contains("CANARY"), "{reply:?}");
}

#[tokio::test]
async fn a_state_that_lets_nothing_go_is_told_as_such() {
    let (api, server) = echo().await;
    let sidecar = Sidecar::before(&server.url(), Told::default()).await;
    let client = sidecar.program.state().client();
    for (hold, state) in [
        (HealthOverride::CacheOnly, HealthState::CacheOnly),
        (HealthOverride::Sleep, HealthState::Sleep),
    ] {
        client
            .upstream("strict")
            .expect("known")
            .force_health(None, hold);
        let reply = sidecar.get("/strict/x", "").await;
        assert_eq!(reply.status, 503, "{reply:?}");
        let problem = reply.problem();
        assert_eq!(problem["state"], state.name());
        assert_eq!(problem["type"], "urn:outflow:problem:blocked");
        assert_eq!(mark(&reply), "http_request_denied");
    }
    assert_eq!(api.audit().count(), 0);
}

// One place in the line, and it is taken: by a call that waits for an hour to pass.
#[tokio::test]
async fn a_full_line_is_told_as_such() {
    let (_, server) = echo().await;
    let told = Told {
        api: "limits = [\"1/h\"]\nmax_wait = \"9h\"\nqueue = 1",
        ..Told::default()
    };
    let sidecar = Sidecar::before(&server.url(), told).await;
    assert_eq!(sidecar.get("/strict/x", "").await.status, 200);
    let mut waits = sidecar.connect().await;
    let request = sidecar.request("GET", "/strict/x", "");
    waits.write_all(request.as_bytes()).await.expect("written");
    let client = sidecar.program.state().client();
    let in_line = async {
        while client.upstream("strict").expect("known").report().waiting == 0 {
            tokio::task::yield_now().await;
        }
    };
    timeout(PATIENCE, in_line).await.expect("it waits");
    let reply = sidecar.get("/strict/x", "").await;
    assert_eq!(reply.status, 503);
    assert_eq!(reply.problem()["type"], "urn:outflow:problem:queue_full");
    assert!(reply.header("retry-after").is_some(), "{reply:?}");
}

#[tokio::test]
async fn what_can_never_go_is_told_without_a_time() {
    let (_, server) = echo().await;
    let told = Told {
        api: "limits = [\"10/h\"]",
        ..Told::default()
    };
    let sidecar = Sidecar::before(&server.url(), told).await;
    let reply = sidecar.get("/strict/x", "outflow-cost: 11\r\n").await;
    assert_eq!(reply.status, 422);
    assert_eq!(
        (&reply.problem()["limit"], reply.header("retry-after")),
        (&json!("10/h"), None)
    );
}

#[tokio::test]
async fn nobody_listening_is_a_bad_gateway() {
    let nobody = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = nobody.local_addr().expect("an address");
    drop(nobody);
    let told = Told {
        api: "retry_count = 0",
        ..Told::default()
    };
    let sidecar = Sidecar::before(&format!("http://{address}"), told).await;
    let reply = sidecar.get("/strict/x", "").await;
    assert_eq!((reply.status, mark(&reply)), (502, "connection_refused"));
    assert_eq!(reply.problem()["type"], "urn:outflow:problem:connect");
}

#[tokio::test]
async fn a_broken_api_is_a_bad_gateway_and_a_slow_one_a_timeout() {
    for (fault, status, error) in [
        (Fault::ResetBeforeHead, 502, "connection_terminated"),
        (Fault::CloseBeforeHead, 502, "connection_terminated"),
        (Fault::Garbage, 502, "connection_terminated"),
        (Fault::Unasked101, 502, "connection_terminated"),
        (Fault::Hang, 504, "http_response_timeout"),
    ] {
        let script = Script::new().rule(ScriptMatch::always(), fault.clone());
        let api = MockApi::builder().script(script).build().expect("valid");
        let server = api.listen().await.expect("a port");
        let told = Told {
            api: "retry_count = 0\ntimeout = \"500ms\"",
            ..Told::default()
        };
        let sidecar = Sidecar::before(&server.url(), told).await;
        let reply = sidecar.get("/strict/x?key=CANARY", "").await;
        assert_eq!((reply.status, mark(&reply)), (status, error), "{fault:?}");
        assert_eq!(reply.problem()["attempts"], 1);
        assert!(!format!("{reply:?}").contains("CANARY"), "{reply:?}");
    }
}

// A name that RFC 6761 promises never to resolve.
#[tokio::test]
async fn a_name_without_an_address_is_a_bad_gateway() {
    let told = Told {
        api: "retry_count = 0",
        ..Told::default()
    };
    let sidecar = Sidecar::before("http://nowhere.invalid", told).await;
    let reply = sidecar.get("/strict/x", "").await;
    assert_eq!((reply.status, mark(&reply)), (502, "dns_error"));
}

// The body breaks off in the middle: the head has gone out, so the caller sees the connection break.
#[tokio::test]
async fn a_body_that_breaks_off_is_never_made_whole() {
    let script = Script::new().rule(ScriptMatch::always(), Fault::CutChunk);
    let api = MockApi::builder().script(script).build().expect("valid");
    let server = api.listen().await.expect("a port");
    let sidecar = Sidecar::before(&server.url(), Told::default()).await;
    let raw = sidecar
        .raw(sidecar.request("GET", "/strict/x", "").as_bytes())
        .await;
    let text = String::from_utf8_lossy(&raw);
    assert!(text.starts_with("HTTP/1.1 200"), "{text}");
    assert!(!text.ends_with("0\r\n\r\n"), "{text}");
}

#[tokio::test]
async fn what_the_api_does_not_allow_is_told_before_it_is_asked() {
    let (api, server) = echo().await;
    let told = Told {
        api: "methods = [\"GET\"]",
        ..Told::default()
    };
    let sidecar = Sidecar::before(&server.url(), told).await;
    let request = sidecar.request("DELETE", "/strict/x", "");
    let reply = sidecar.exchange(request).await;
    assert_eq!(
        (reply.status, &reply.problem()["type"]),
        (405, &json!("urn:outflow:problem:method"))
    );
    assert_eq!(api.audit().count(), 0);
}

// A kept API reads answers whole, so one that is too large is told instead of cut.
#[tokio::test]
async fn an_answer_too_large_to_keep_is_a_bad_gateway() {
    let huge = MockResponse::status(200).content(Content::Zeros(100_000));
    let api = MockApi::builder()
        .answer("/**", huge)
        .build()
        .expect("valid");
    let server = api.listen().await.expect("a port");
    let told = Told {
        api: "cache = \"standard\"\nmax_body = \"64KiB\"",
        ..Told::default()
    };
    let sidecar = Sidecar::before(&server.url(), told).await;
    let reply = sidecar.get("/strict/x", "").await;
    assert_eq!(
        (reply.status, mark(&reply)),
        (502, "http_response_body_size")
    );
    let around = sidecar.get("/strict/x", "outflow-cache: bypass\r\n").await;
    assert_eq!((around.status, around.body.len()), (200, 100_000));
}

// The caller's own mistake says nothing about the API, which stays as healthy as it was.
#[tokio::test]
async fn a_caller_who_breaks_off_is_not_the_apis_fault() {
    let (_, server) = echo().await;
    let told = Told {
        server: "max_body = \"100KiB\"",
        ..Told::default()
    };
    let sidecar = Sidecar::before(&server.url(), told).await;
    for _ in 0..30 {
        let request = sidecar.request("POST", "/strict/x", "transfer-encoding: chunked\r\n");
        let piece = format!("{:x}\r\n{}\r\n", 60_000, "x".repeat(60_000));
        let reply = sidecar
            .exchange(request + &piece + &piece + "0\r\n\r\n")
            .await;
        assert_eq!(reply.status, 413, "{reply:?}");
    }
    let reply = sidecar.get("/strict/x", "").await;
    assert_eq!(
        (reply.status, reply.header("outflow-state")),
        (200, Some("Normal"))
    );
}
