//! Who may use the keys that are kept here.

use crate::support::{Sidecar, Told, echo};

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
    assert_eq!(sidecar.program.station().turned_away().strangers(), 9);
    let reply = sidecar
        .get("/strict/x", "outflow-token: open sesame\r\n")
        .await;
    assert_eq!((reply.status, reply.echoed("outflow-token")), (200, None));
}

// A page in a browser can send such requests to this machine, and cannot hide that it does.
#[tokio::test]
async fn a_page_of_another_site_may_not_use_the_keys() {
    let (api, server) = echo().await;
    let sidecar = Sidecar::before(&server.url(), Told::default()).await;
    for (site, status) in [
        ("cross-site", 403),
        ("same-site", 403),
        ("same-origin", 200),
        ("none", 200),
    ] {
        let reply = sidecar
            .get("/strict/x", &format!("sec-fetch-site: {site}\r\n"))
            .await;
        assert_eq!(reply.status, status, "{site}");
    }
    assert_eq!(api.audit().count(), 2);
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
