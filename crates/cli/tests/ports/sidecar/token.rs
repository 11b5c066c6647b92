//! Checks of the token and of cross-site requests.

use super::support::{TestConfig, TestSidecar, echo};

const WITH_TOKEN: TestConfig<'static> = TestConfig {
    server: "token_env = \"SIDECAR_TOKEN\"",
    api: "",
    rest: "",
};

#[tokio::test]
async fn the_sidecar_requires_a_configured_token() {
    let (api, server) = echo().await;
    let sidecar = TestSidecar::for_api(&server.url(), WITH_TOKEN).await;
    for headers in [
        "",
        "outflow-token: open\r\n",
        "outflow-token: open sesame, please!\r\n",
        "outflow-token: open sesame, please\r\noutflow-token: open\r\n",
    ] {
        for path in ["/strict/x", "/unknown/x", "/"] {
            let reply = sidecar.get(path, headers).await;
            assert_eq!(reply.status, 401, "{path} {headers}");
            let problem = reply.problem();
            assert!(problem["advice"].as_str().expect("advice").contains("Outflow-Token"));
            assert!(!reply.body.contains("sesame"), "{reply:?}");
        }
    }
    assert_eq!(api.audit().count(), 0);
    assert_eq!(sidecar.program.state().rejections().unauthorized(), 12);
    let reply = sidecar.get("/strict/x", "outflow-token: open sesame, please\r\n").await;
    assert_eq!((reply.status, reply.echoed("outflow-token")), (200, None));
}

// A browser page can send such requests to this machine, but cannot hide its origin. Chrome before 76,
// Firefox before 90 and Safari before 16.4 send only `Origin`. If both headers are present, `Sec-Fetch-Site`
// counts, because a TLS-terminating proxy changes the scheme of `Origin`.
#[tokio::test]
async fn the_sidecar_refuses_cross_site_requests() {
    let (api, server) = echo().await;
    let sidecar = TestSidecar::for_api(&server.url(), TestConfig::default()).await;
    let own = format!("origin: http://{}\r\n", sidecar.address);
    for (headers, status) in [
        ("", 200),
        ("sec-fetch-site: same-origin\r\n", 200),
        ("sec-fetch-site: none\r\n", 200),
        (&own, 200),
        (&format!("sec-fetch-site: same-origin\r\n{own}"), 200),
        ("sec-fetch-site: same-origin\r\norigin: https://here\r\n", 200),
        ("sec-fetch-site: cross-site\r\n", 403),
        ("sec-fetch-site: same-site\r\n", 403),
        ("sec-fetch-site: unknown\r\n", 403),
        ("sec-fetch-site: none\r\nsec-fetch-site: cross-site\r\n", 403),
        (&format!("sec-fetch-site: cross-site\r\n{own}"), 403),
        ("origin: http://evil.example\r\n", 403),
        ("origin: http://127.0.0.1:1\r\n", 403),
        ("origin: null\r\n", 403),
        (&own.replace("http:", "https:"), 403),
        (&format!("{own}origin: http://evil.example\r\n"), 403),
    ] {
        let reply = sidecar.get("/strict/x", headers).await;
        assert_eq!(reply.status, status, "{headers:?}");
        if status == 403 {
            assert_eq!(reply.problem()["type"], "urn:outflow:problem:cross_site");
        }
    }
    assert_eq!(api.audit().count(), 6);
}

// A call with the token may come from any origin: no page of another site knows the token.
#[tokio::test]
async fn the_sidecar_accepts_cross_site_requests_with_the_token() {
    let (api, server) = echo().await;
    let sidecar = TestSidecar::for_api(&server.url(), WITH_TOKEN).await;
    let headers = "outflow-token: open sesame, please\r\norigin: http://app.example\r\n";
    assert_eq!(sidecar.get("/strict/x", headers).await.status, 200);
    assert_eq!(api.audit().count(), 1);
}

#[tokio::test]
async fn an_unknown_api_is_refused_with_the_known_names() {
    let (api, server) = echo().await;
    let sidecar = TestSidecar::for_api(&server.url(), TestConfig::default()).await;
    let reply = sidecar.get("/strikt/x?key=CANARY", "").await;
    assert_eq!(reply.status, 404);
    let problem = reply.problem();
    assert_eq!(problem["known"], serde_json::json!(["strict"]));
    assert!(!reply.body.contains("CANARY"), "{reply:?}");
    let help = sidecar.get("/", "").await;
    assert_eq!(help.status, 200);
    assert!(help.body.contains("/strict/..."), "{help:?}");
    assert_eq!(api.audit().count(), 0);
}
