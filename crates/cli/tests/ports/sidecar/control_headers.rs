//! Control headers of a caller take effect, and no API sees them.

use std::time::Duration;

use outflow_mock::{MockApi, MockResponse, Script, ScriptMatch, ScriptedFault};
use outflow_testkit::Background;
use tokio::io::AsyncWriteExt;

use super::support::{PATIENCE, RawResponse, TestConfig, TestSidecar, echo, rest};

#[tokio::test]
async fn the_sidecar_removes_control_headers() {
    let (_, server) = echo().await;
    let config = TestConfig {
        api: "limits = [\"100000/s\"]\n[apis.strict.groups.orders]\nlimits = [\"1000/s\"]",
        ..TestConfig::default()
    };
    let sidecar = TestSidecar::for_api(&server.url(), config).await;
    let all = "Outflow-Cost: 3\r\nOutflow-Priority: high\r\nOutflow-Deadline: 5s\r\n\
               Outflow-Timeout: 4s\r\nOutflow-Max-Wait: 1s\r\nOutflow-Group: orders\r\n\
               Outflow-Idempotent: true\r\nOutflow-Cache: bypass\r\nOutflow-Mode: reject\r\n\
               Outflow-Token: unused\r\n";
    let reply = sidecar.get("/strict/x", all).await;
    assert_eq!(reply.status, 200, "{reply:?}");
    assert!(!reply.body.contains("[\"outflow-"), "{reply:?}");
}

#[tokio::test]
async fn the_sidecar_refuses_invalid_control_headers_with_advice() {
    let (api, server) = echo().await;
    let sidecar = TestSidecar::for_api(&server.url(), TestConfig::default()).await;
    for (header, advice) in [
        ("Outflow-Cost: many", "whole number"),
        ("Outflow-Priority: 1", "high or normal or low"),
        ("Outflow-Deadline: 5", "5s"),
        ("Outflow-Mode: queue", "wait or reject"),
        ("Outflow-Cache: never", "default or bypass or only"),
        ("Outflow-Idempotent: 1", "true or false"),
        ("Outflow-Speed: high", "Outflow-Priority"),
    ] {
        let reply = sidecar.get("/strict/x", &format!("{header}\r\n")).await;
        assert_eq!(reply.status, 400, "{header}");
        let problem = reply.problem();
        let given = problem["advice"].as_str().expect("advice");
        assert!(given.contains(advice), "{header}: {given}");
        let name = header.split(':').next().expect("a name").to_ascii_lowercase();
        assert_eq!(problem["header"], name);
    }
    let group = sidecar.get("/strict/x", "Outflow-Group: unknown\r\n").await;
    assert_eq!((group.status, &group.problem()["group"]), (400, &"unknown".into()));
    assert_eq!(api.audit().count(), 0);
}

// 10/h: a call of six leaves too little for another, one of four fits, and one of eleven never does.
#[tokio::test]
async fn a_cost_header_counts_its_units() {
    let (_, server) = echo().await;
    let config = TestConfig {
        api: "limits = [\"10/h\"]\nrate_limit_mode = \"reject\"",
        ..TestConfig::default()
    };
    let sidecar = TestSidecar::for_api(&server.url(), config).await;
    for (cost, status) in [("11", 422), ("6", 200), ("6", 429), ("4", 200), ("1", 429), ("0", 200)] {
        let reply = sidecar.get("/strict/x", &format!("outflow-cost: {cost}\r\n")).await;
        assert_eq!(reply.status, status, "{cost}: {reply:?}");
    }
}

// One call an hour: a caller that waits at most a minute is refused at once.
#[tokio::test]
async fn control_headers_bound_the_wait() {
    let (_, server) = echo().await;
    let config = TestConfig {
        api: "limits = [\"1/h\"]\nmax_wait = \"2h\"",
        ..TestConfig::default()
    };
    let sidecar = TestSidecar::for_api(&server.url(), config).await;
    assert_eq!(sidecar.get("/strict/x", "").await.status, 200);
    for (header, cause) in [
        ("outflow-max-wait: 1m\r\n", "too_late"),
        ("outflow-deadline: 1m\r\n", "too_late"),
        ("outflow-timeout: 1m\r\n", "too_late"),
        ("outflow-mode: reject\r\n", "busy"),
    ] {
        let reply = sidecar.get("/strict/x", header).await;
        assert_eq!(reply.status, 429, "{header}");
        let wanted = format!("urn:outflow:problem:{cause}");
        assert_eq!(reply.problem()["type"], wanted, "{header}");
    }
}

// A deadline of half a second in front of an API that takes a minute.
#[tokio::test]
async fn a_deadline_ends_a_call_in_flight() {
    let late = ScriptedFault::Late(Duration::from_mins(1));
    let api = MockApi::builder()
        .script(Script::new().rule(ScriptMatch::always(), late))
        .build()
        .expect("valid");
    let server = api.listen().await.expect("a port");
    let sidecar = TestSidecar::for_api(&server.url(), TestConfig::default()).await;
    let reply = sidecar.get("/strict/x", "outflow-deadline: 500ms\r\n").await;
    assert_eq!(reply.status, 504);
    assert_eq!(
        reply.header("proxy-status"),
        Some("outflow; error=http_response_timeout")
    );
}

// One call at a time. Of two waiters the one with the higher priority goes first, although it came last.
#[tokio::test]
async fn a_higher_priority_goes_first() {
    let slow = ScriptedFault::Late(Duration::from_millis(300));
    let api = MockApi::builder()
        .script(Script::new().rule(ScriptMatch::path("/slow"), slow))
        .answer("/**", MockResponse::ok("{}"))
        .build()
        .expect("valid");
    let server = api.listen().await.expect("a port");
    let config = TestConfig {
        api: "limits = [\"1000/s\"]\nconcurrency = 1",
        ..TestConfig::default()
    };
    let sidecar = TestSidecar::for_api(&server.url(), config).await;
    let client = sidecar.program.state().client();
    let state = || {
        let report = client.upstream("strict").expect("known").report();
        (report.health[0].in_flight, report.waiting)
    };
    let mut responses = Vec::new();
    for (path, priority, reached) in [
        ("/strict/slow", "normal", (1, 0)),
        ("/strict/low", "low", (1, 1)),
        ("/strict/high", "high", (1, 2)),
    ] {
        let mut stream = sidecar.connect().await;
        let request = sidecar.request("GET", path, &format!("outflow-priority: {priority}\r\n"));
        stream.write_all(request.as_bytes()).await.expect("written");
        responses.push(Background::start(async move { rest(&mut stream).await }));
        let comes = async {
            while state() != reached {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(PATIENCE, comes).await.expect("queued");
    }
    for work in responses {
        let reply = RawResponse::parse(&work.join().await);
        assert_eq!(reply.status, 200);
    }
    let order: Vec<_> = api.audit().arrivals().iter().map(|a| a.path.to_string()).collect();
    assert_eq!(order, ["/slow", "/high", "/low"]);
}

// The named group counts, and not the group of the route.
#[tokio::test]
async fn a_group_header_selects_the_group() {
    let (_, server) = echo().await;
    let config = TestConfig {
        api: "limits = [\"1000/s\"]\nrate_limit_mode = \"reject\"\n\
              [apis.strict.groups.rare]\nlimits = [\"1/h\"]",
        ..TestConfig::default()
    };
    let sidecar = TestSidecar::for_api(&server.url(), config).await;
    for (header, status) in [
        ("outflow-group: rare\r\n", 200),
        ("outflow-group: rare\r\n", 429),
        ("", 200),
    ] {
        assert_eq!(sidecar.get("/strict/x", header).await.status, status, "{header}");
    }
}
