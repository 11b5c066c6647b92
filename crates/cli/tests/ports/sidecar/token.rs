//! Who may use the keys that are kept here.

use super::support::{Sidecar, Told, echo};

const WITH_TOKEN: Told<'static> = Told {
    server: "token_env = \"SIDECAR_TOKEN\"",
    api: "",
    rest: "",
};

#[tokio::test]
async fn without_the_token_nothing_is_answered() {
    let (api, server) = echo().await;
    let sidecar = Sidecar::before(&server.url(), WITH_TOKEN).await;
    for headers in [
        "",
        "outflow-token: open\r\n",
        "outflow-token: open sesame!\r\n",
        "outflow-token: open sesame\r\noutflow-token: open\r\n",
    ] {
        for path in ["/strict/x", "/nobody/x", "/"] {
            let reply = sidecar.get(path, headers).await;
            assert_eq!(reply.status, 401, "{path} {headers}");
            let problem = reply.problem();
            assert!(
                problem["advice"]
                    .as_str()
                    .expect("advice")
                    .contains("Outflow-Token")
            );
            assert!(!reply.body.contains("sesame"), "{reply:?}");
        }
    }
    assert_eq!(api.audit().count(), 0);
    assert_eq!(sidecar.program.state().rejections().strangers(), 12);
    let reply = sidecar
        .get("/strict/x", "outflow-token: open sesame\r\n")
        .await;
    assert_eq!((reply.status, reply.echoed("outflow-token")), (200, None));
}

// A page in a browser can send such requests to this machine, and cannot hide that it does. Chrome
// before 76, Firefox before 90 and Safari before 16.4 name the page and not how near it is; where both are
// told the newer word counts, because a proxy that ends TLS changes the scheme of the older.
#[tokio::test]
async fn a_page_of_another_site_may_not_use_the_keys() {
    let (api, server) = echo().await;
    let sidecar = Sidecar::before(&server.url(), Told::default()).await;
    let own = format!("origin: http://{}\r\n", sidecar.address);
    for (headers, status) in [
        ("", 200),
        ("sec-fetch-site: same-origin\r\n", 200),
        ("sec-fetch-site: none\r\n", 200),
        (&own, 200),
        (&format!("sec-fetch-site: same-origin\r\n{own}"), 200),
        (
            "sec-fetch-site: same-origin\r\norigin: https://here\r\n",
            200,
        ),
        ("sec-fetch-site: cross-site\r\n", 403),
        ("sec-fetch-site: same-site\r\n", 403),
        ("sec-fetch-site: whatever\r\n", 403),
        (
            "sec-fetch-site: none\r\nsec-fetch-site: cross-site\r\n",
            403,
        ),
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
            assert_eq!(reply.problem()["type"], "urn:outflow:problem:page");
        }
    }
    assert_eq!(api.audit().count(), 6);
}

// With the token it does not matter where a call comes from: no page of another site knows it.
#[tokio::test]
async fn whoever_shows_the_token_may_be_a_page() {
    let (api, server) = echo().await;
    let sidecar = Sidecar::before(&server.url(), WITH_TOKEN).await;
    let headers = "outflow-token: open sesame\r\norigin: http://app.example\r\n";
    assert_eq!(sidecar.get("/strict/x", headers).await.status, 200);
    assert_eq!(api.audit().count(), 1);
}

#[tokio::test]
async fn an_unknown_api_is_told_with_those_that_are_known() {
    let (api, server) = echo().await;
    let sidecar = Sidecar::before(&server.url(), Told::default()).await;
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
