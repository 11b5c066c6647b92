//! Sidecars whose APIs are sidecars: a chain is one call, a circle is refused.

use super::support::{Sidecar, Told, echo};

/// What is tried again would only be refused again, later.
const ONCE: Told<'_> = Told {
    server: "",
    api: "retry_count = 0",
    rest: "",
};

async fn before(sidecar: &Sidecar) -> Sidecar {
    Sidecar::before(&format!("http://{}/strict", sidecar.address), ONCE).await
}

fn lead_to(sidecar: &Sidecar, next: &Sidecar) {
    let url = format!("http://{}/strict", next.address);
    let changes = sidecar.program.state().set("strict", "base_url", &url);
    changes.expect("a URL");
}

#[tokio::test]
async fn a_chain_of_sidecars_hands_a_call_on() {
    let (api, server) = echo().await;
    let last = Sidecar::before(&server.url(), ONCE).await;
    let first = before(&last).await;
    let reply = first.get("/strict/x", "via: 1.0 fred\r\n").await;
    assert_eq!((reply.status, api.audit().count()), (200, 1));
    let via = reply.echoed("via").expect("a way");
    assert_eq!(via, "1.0 fred", "{reply:?}");
}

// One that is its own API, and two that are each other's.
#[tokio::test]
async fn a_call_that_comes_round_is_refused_at_once() {
    let (api, server) = echo().await;
    let alone = Sidecar::before(&server.url(), ONCE).await;
    lead_to(&alone, &alone);
    let one = Sidecar::before(&server.url(), ONCE).await;
    let other = before(&one).await;
    lead_to(&one, &other);
    for sidecar in [&alone, &one, &other] {
        let reply = sidecar.get("/strict/x", "").await;
        assert_eq!(reply.status, 508, "{reply:?}");
        assert_eq!(reply.problem()["type"], "urn:outflow:problem:circle");
        let mark = reply.header("proxy-status").expect("a mark");
        assert!(mark.contains("proxy_loop_detected"), "{mark}");
    }
    assert_eq!(api.audit().count(), 0);
}
