//! Sidecars whose APIs are sidecars: a chain is one call, a loop is refused.

use super::support::{TestConfig, TestSidecar, echo};

/// No retries: a retry would only be refused later.
const ONCE: TestConfig<'_> = TestConfig {
    server: "",
    api: "retry_count = 0",
    rest: "",
};

async fn chain_to(sidecar: &TestSidecar) -> TestSidecar {
    TestSidecar::for_api(&format!("http://{}/strict", sidecar.address), ONCE).await
}

fn lead_to(sidecar: &TestSidecar, next: &TestSidecar) {
    let url = format!("http://{}/strict", next.address);
    let changes = sidecar.program.state().set("strict", "base_url", &url);
    changes.expect("a URL");
}

#[tokio::test]
async fn a_chain_of_sidecars_forwards_a_call() {
    let (api, server) = echo().await;
    let last = TestSidecar::for_api(&server.url(), ONCE).await;
    let first = chain_to(&last).await;
    let reply = first.get("/strict/x", "via: 1.0 fred\r\n").await;
    assert_eq!((reply.status, api.audit().count()), (200, 1));
    let via = reply.echoed("via").expect("a way");
    assert_eq!(via, "1.0 fred", "{reply:?}");
}

// One sidecar that is its own API, and two that are each other's.
#[tokio::test]
async fn the_sidecar_refuses_a_looping_call() {
    let (api, server) = echo().await;
    let alone = TestSidecar::for_api(&server.url(), ONCE).await;
    lead_to(&alone, &alone);
    let one = TestSidecar::for_api(&server.url(), ONCE).await;
    let other = chain_to(&one).await;
    lead_to(&one, &other);
    for sidecar in [&alone, &one, &other] {
        let reply = sidecar.get("/strict/x", "").await;
        assert_eq!(reply.status, 508, "{reply:?}");
        assert_eq!(reply.problem()["type"], "urn:outflow:problem:loop");
        let mark = reply.header("proxy-status").expect("a mark");
        assert!(mark.contains("proxy_loop_detected"), "{mark}");
    }
    assert_eq!(api.audit().count(), 0);
}
